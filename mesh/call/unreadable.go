package call

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/reflect/protoreflect"

	"agentmesh/mesh"
)

// maxExcerpt is how much of what cannot be read is shown, in bytes.
const maxExcerpt = 80

// An unreadable is what an agent sent and nobody can read: where it is, and what should
// be there.
type unreadable struct {
	path    []string // of fields and indexes; none for the whole
	offset  int64    // in what was sent as one, in bytes; -1 where it is not known
	excerpt string
	want    string
	cause   error
}

func (u *unreadable) Error() string {
	said := fmt.Sprintf("unreadable at %q, byte %d, where %s belongs: %q", u.where(), u.offset, u.want, u.excerpt)
	if u.cause != nil {
		said += ": " + u.cause.Error()
	}
	return said
}

func (u *unreadable) Unwrap() error { return u.cause }

func (u *unreadable) where() string { return strings.Join(u.path, ".") }

// misread is the error of a value that is something else than it should be.
func misread(v any, want string) *unreadable {
	shown, err := json.Marshal(v)
	if err != nil {
		shown = fmt.Append(nil, v)
	}
	return &unreadable{offset: -1, excerpt: clip(shown), want: want}
}

// below adds the name of what err is in.
func below(name string, err error) error {
	if u := (*unreadable)(nil); errors.As(err, &u) {
		u.path = append([]string{name}, u.path...)
	}
	return err
}

// clip is the beginning of what cannot be read, fit for a line of a log.
func clip(b []byte) string { return clipTo(b, maxExcerpt) }

func clipTo(b []byte, most int) string {
	return mesh.Clip(strings.ToValidUTF8(string(b[:min(len(b), most+utf8.UTFMax)]), "\uFFFD"), most)
}

// misreadError is the unreadable as an error of a call.
func misreadError(u *unreadable) error { return &mesh.Error{Code: mesh.Unknown, Op: "call", Err: u} }

// notJSON is the error of an answer that does not parse.
func notJSON(raw []byte, err error) error {
	u := &unreadable{offset: int64(len(raw)), want: "JSON", cause: err}
	if syntax := (*json.SyntaxError)(nil); errors.As(err, &syntax) {
		u.offset = max(0, syntax.Offset-1)
	}
	u.excerpt = clip(raw[min(int(u.offset), len(raw)):])
	if u.excerpt == "" {
		u.excerpt = clip(raw)
	}
	return misreadError(u)
}

// locate finds where in the JSON the value at the path is, or the last that is there.
func locate(raw []byte, path []string) int64 {
	dec := json.NewDecoder(bytes.NewReader(raw))
	at := int64(0)
	for _, name := range path {
		begin, err := dec.Token()
		if err != nil {
			return at
		}
		if !stepTo(dec, begin, name) {
			return at
		}
		at = dec.InputOffset()
		for at < int64(len(raw)) && strings.IndexByte(": \t\r\n,", raw[at]) >= 0 {
			at++
		}
	}
	return at
}

// stepTo goes to the member of that name, or index, of what has begun.
func stepTo(dec *json.Decoder, begin json.Token, name string) bool {
	for i := 0; dec.More(); i++ {
		key := strconv.Itoa(i)
		switch begin {
		case json.Delim('{'):
			t, err := dec.Token()
			if key, _ = t.(string); err != nil {
				return false
			}
		case json.Delim('['):
		default:
			return false
		}
		if key == name {
			return true
		}
		var other json.RawMessage
		if dec.Decode(&other) != nil {
			return false
		}
	}
	return false
}

// misreadWire is the error of bytes that are not the message, with the first place that
// cannot be read.
func misreadWire(wire []byte, d protoreflect.MessageDescriptor, cause error) error {
	u := &unreadable{want: "protobuf", cause: cause}
	u.offset = int64(u.inWire(wire, d))
	u.excerpt = fmt.Sprintf("%x", wire[min(int(u.offset), len(wire)):min(int(u.offset)+maxExcerpt/2, len(wire))])
	return misreadError(u)
}

// inWire returns the offset of the first field that cannot be read, and notes its path;
// the length if all can.
func (u *unreadable) inWire(wire []byte, d protoreflect.MessageDescriptor) int {
	for at := 0; at < len(wire); {
		number, kind, n := protowire.ConsumeTag(wire[at:])
		if n < 0 {
			return at
		}
		fd := d.Fields().ByNumber(number)
		size := protowire.ConsumeFieldValue(number, kind, wire[at+n:])
		if size < 0 {
			u.note(fd)
			return at + n
		}
		if fd != nil && kind == protowire.BytesType {
			val, prefix := protowire.ConsumeBytes(wire[at+n:])
			prefix -= len(val)
			if fd.Kind() == protoreflect.StringKind && !utf8.Valid(val) {
				u.note(fd)
				u.want = "UTF-8"
				return at + n + prefix
			}
			if fd.Kind() == protoreflect.MessageKind {
				u.note(fd)
				if off := u.inWire(val, fd.Message()); off < len(val) {
					return at + n + prefix + off
				}
				u.path = u.path[:len(u.path)-1]
			}
		}
		at += n + size
	}
	return len(wire)
}

func (u *unreadable) note(fd protoreflect.FieldDescriptor) {
	if fd != nil {
		u.path = append(u.path, fd.JSONName())
	}
}
