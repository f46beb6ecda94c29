package rest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

const (
	mimeJSON = "application/json"
	mimeA2A  = "application/a2a+json"
	mimeSSE  = "text/event-stream"
)

// maxDepth is how deep JSON may be nested. A level of JSON is up to three of
// protobuf, of which the node's decoder accepts 10,000.
const maxDepth = 1000

// codec is the only marshaler of the router: ProtoJSON as A2A wants it
// (A2A v1.0 §5.5 to §5.7). It reads camelCase and snake_case and ignores
// unknown fields (see Decode for those of ours); it writes camelCase and omits what is unset.
type codec struct{ contentType string }

var _ runtime.Marshaler = codec{}

func (c codec) ContentType(any) string { return c.contentType }

func (c codec) Marshal(v any) ([]byte, error) {
	m, ok := v.(proto.Message)
	if !ok {
		return nil, fmt.Errorf("gateway: cannot write %T as ProtoJSON", v)
	}
	return appendMessage(nil, m)
}

func (c codec) Unmarshal(b []byte, v any) error {
	m, ok := v.(proto.Message)
	if !ok {
		return fmt.Errorf("gateway: cannot read ProtoJSON into %T", v)
	}
	return protojson.UnmarshalOptions{DiscardUnknown: true, RecursionLimit: maxDepth}.Unmarshal(b, m)
}

// NewDecoder returns a decoder of the one value in r. An empty body is io.EOF,
// which the generated handlers take for an empty message.
func (c codec) NewDecoder(r io.Reader) runtime.Decoder {
	return runtime.DecoderFunc(func(v any) error {
		b, ok := r.(*body)
		if !ok {
			return fmt.Errorf("gateway: the request was not admitted")
		}
		if len(bytes.TrimSpace(b.raw)) == 0 {
			return io.EOF
		}
		m, ok := v.(proto.Message)
		if !ok {
			return c.Unmarshal(b.raw, v)
		}
		b.fault = Decode(b.raw, m)
		return b.fault.Err()
	})
}

func (c codec) NewEncoder(w io.Writer) runtime.Encoder {
	return runtime.EncoderFunc(func(v any) error {
		b, err := c.Marshal(v)
		if err != nil {
			return err
		}
		_, err = w.Write(b)
		return err
	})
}

// appendMessage appends m as ProtoJSON. The response of a List method has its
// lists and scalars also when they are empty: readers rely on them, and A2A
// requires those of ListTasks (A2A v1.0 §3.1.4). Messages within omit theirs,
// because there an empty list means something else than none.
func appendMessage(b []byte, m proto.Message) ([]byte, error) {
	start := len(b)
	b, err := appendJSON(b, m)
	if err != nil {
		return nil, err
	}
	r := m.ProtoReflect()
	if name := string(r.Descriptor().Name()); !strings.HasPrefix(name, "List") || !strings.HasSuffix(name, "Response") {
		return b, nil
	}
	empty := bytes.TrimSpace(b[start:])
	first := bytes.Equal(empty, []byte("{}"))
	b = b[:len(b)-1] // the closing brace
	fields := r.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		text, ok := emptyValue(f)
		if !ok || r.Has(f) {
			continue
		}
		if !first {
			b = append(b, ',')
		}
		first = false
		b = strconv.AppendQuote(b, f.JSONName())
		b = append(append(b, ':'), text...)
	}
	return append(b, '}'), nil
}

// emptyValue returns the JSON of the field's default value; false for fields
// whose absence is meant.
func emptyValue(f protoreflect.FieldDescriptor) (string, bool) {
	switch {
	case f.IsList():
		return "[]", true
	case f.IsMap():
		return "{}", true
	case f.HasPresence():
		return "", false
	}
	switch f.Kind() {
	case protoreflect.StringKind, protoreflect.BytesKind:
		return `""`, true
	case protoreflect.BoolKind:
		return "false", true
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Uint32Kind,
		protoreflect.Fixed32Kind, protoreflect.Sfixed32Kind,
		protoreflect.FloatKind, protoreflect.DoubleKind:
		return "0", true
	case protoreflect.Int64Kind, protoreflect.Sint64Kind, protoreflect.Uint64Kind,
		protoreflect.Fixed64Kind, protoreflect.Sfixed64Kind:
		return `"0"`, true
	case protoreflect.EnumKind:
		return strconv.Quote(string(f.DefaultEnumValue().Name())), true
	}
	return "", false
}

// protojsonError is the text of protojson's errors: the place and what is
// wrong. The blank after the first colon is not always the same.
var protojsonError = regexp.MustCompile(`^proto:\W+(syntax error )?\(line (\d+):(\d+)\): (.*)$`)

// parseFault says which field of raw is wrong, and where.
func parseFault(raw []byte, err error) *status.Status {
	if strings.HasSuffix(err.Error(), io.ErrUnexpectedEOF.Error()) { // which it does not wrap
		return invalid(at(raw, len(raw)), "is not JSON: the body ends before its value does; send all of it")
	}
	if strings.HasSuffix(err.Error(), "exceeded max recursion depth") {
		return invalid("body", "is nested deeper than %d levels; send flatter data", maxDepth)
	}
	m := protojsonError.FindStringSubmatch(err.Error())
	if m == nil {
		return invalid("body", "is not valid: %s", clip(strings.TrimSpace(strings.TrimPrefix(err.Error(), "proto:"))))
	}
	line, _ := strconv.Atoi(m[2]) // the pattern has digits only
	column, _ := strconv.Atoi(m[3])
	field := at(raw, offsetOf(raw, line, column))
	what := clip(m[4])
	if m[1] != "" {
		what = "is not JSON: " + what
	}
	return invalid(field, "%s (line %d, column %d)", what, line, column)
}

// at returns the path of what is at the offset, "body" at the top.
func at(raw []byte, offset int) string {
	if field := fieldAt(raw, offset); field != "" {
		return field
	}
	return "body"
}

// offsetOf returns the byte at a line and column, which count from 1; columns
// are characters.
func offsetOf(raw []byte, line, column int) int {
	at := 0
	for ; line > 1; line-- {
		n := bytes.IndexByte(raw[at:], '\n')
		if n < 0 {
			break
		}
		at += n + 1
	}
	for ; column > 1 && at < len(raw); column-- {
		_, n := utf8.DecodeRune(raw[at:])
		at += n
	}
	return at
}

// level is an object or array on the way to a value.
type level struct {
	array bool
	index int
	key   string
	value bool // the object's next token is the value of key
}

// fieldAt returns the path of the value or key at the offset, as
// "message.parts[0].text", as far as raw is JSON; "" at the top.
func fieldAt(raw []byte, offset int) string {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var path []level
	for {
		tok, err := dec.Token()
		if err != nil {
			return render(path)
		}
		var top *level
		if len(path) > 0 {
			top = &path[len(path)-1]
		}
		key, isKey := "", false
		if top != nil && !top.array && !top.value {
			key, isKey = tok.(string)
		}
		if isKey {
			top.key = key
		}
		if dec.InputOffset() > int64(offset) {
			return render(path)
		}
		switch d, isDelim := tok.(json.Delim); {
		case isKey:
			top.value = true
		case isDelim && (d == '{' || d == '['):
			path = append(path, level{array: d == '['})
		default:
			if isDelim {
				path = path[:len(path)-1]
			}
			settle(path)
		}
	}
}

// settle notes that the innermost level has its value.
func settle(path []level) {
	if len(path) == 0 {
		return
	}
	top := &path[len(path)-1]
	if top.array {
		top.index++
	}
	top.value = false
}

func render(path []level) string {
	const most = 8 // deeper ones would not help a reader
	var b strings.Builder
	for i, l := range path {
		if i == most {
			b.WriteString("…")
			break
		}
		switch {
		case l.array:
			fmt.Fprintf(&b, "[%d]", l.index)
		case l.key != "":
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(clip(l.key))
		}
	}
	return b.String()
}
