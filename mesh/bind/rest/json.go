package rest

import (
	"encoding/base64"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// appendJSON appends m as ProtoJSON, without blanks. Tasks and their updates, of
// which there are many, are written here, and everything else by protojson: also
// those that have no such form, for its error.
func appendJSON(b []byte, m proto.Message) ([]byte, error) {
	e := encoder{b: b}
	switch m := m.(type) {
	case *a2apb.StreamResponse:
		e.update(m)
	case *a2apb.Task:
		e.task(m)
	case *a2apb.SendMessageResponse:
		e.response(m)
	default:
		e.formless = true
	}
	if e.formless {
		return protojson.MarshalOptions{}.MarshalAppend(b, m)
	}
	return e.b, nil
}

// An encoder appends JSON.
type encoder struct {
	b        []byte
	formless bool // something has no JSON form, and b is useless
}

func (e *encoder) open() { e.b = append(e.b, '{') }
func (e *encoder) end()  { e.b = append(e.b, '}') }

// next parts a member or item from the one before it.
func (e *encoder) next() {
	if last := e.b[len(e.b)-1]; last != '{' && last != '[' {
		e.b = append(e.b, ',')
	}
}

// member begins the member with the name, which has nothing to escape.
func (e *encoder) member(name string) {
	e.next()
	e.b = append(e.b, '"')
	e.b = append(e.b, name...)
	e.b = append(e.b, '"', ':')
}

// Members that are left out when they have their default.

func (e *encoder) text(name, s string) {
	if s != "" {
		e.member(name)
		e.string(s)
	}
}

func (e *encoder) flag(name string, set bool) {
	if set {
		e.member(name)
		e.b = append(e.b, "true"...)
	}
}

func (e *encoder) enum(name string, n int32, names map[int32]string) {
	if n == 0 {
		return
	}
	e.member(name)
	if s, ok := names[n]; ok {
		e.string(s)
	} else {
		e.b = strconv.AppendInt(e.b, int64(n), 10)
	}
}

func one[T any](e *encoder, name string, m *T, write func(*encoder, *T)) {
	if m != nil {
		e.member(name)
		write(e, m)
	}
}

func all[T any](e *encoder, name string, items []T, write func(*encoder, T)) {
	if len(items) > 0 {
		e.member(name)
		array(e, items, write)
	}
}

func array[T any](e *encoder, items []T, write func(*encoder, T)) {
	e.b = append(e.b, '[')
	for _, m := range items {
		e.next()
		write(e, m)
	}
	e.b = append(e.b, ']')
}

func (e *encoder) update(r *a2apb.StreamResponse) {
	e.open()
	switch p := r.GetPayload().(type) {
	case *a2apb.StreamResponse_Task:
		e.member("task")
		e.task(p.Task)
	case *a2apb.StreamResponse_Message:
		e.member("message")
		e.message(p.Message)
	case *a2apb.StreamResponse_StatusUpdate:
		e.member("statusUpdate")
		e.statusUpdate(p.StatusUpdate)
	case *a2apb.StreamResponse_ArtifactUpdate:
		e.member("artifactUpdate")
		e.artifactUpdate(p.ArtifactUpdate)
	}
	e.end()
}

func (e *encoder) response(r *a2apb.SendMessageResponse) {
	e.open()
	switch p := r.GetPayload().(type) {
	case *a2apb.SendMessageResponse_Task:
		e.member("task")
		e.task(p.Task)
	case *a2apb.SendMessageResponse_Message:
		e.member("message")
		e.message(p.Message)
	}
	e.end()
}

func (e *encoder) statusUpdate(u *a2apb.TaskStatusUpdateEvent) {
	e.open()
	e.text("taskId", u.GetTaskId())
	e.text("contextId", u.GetContextId())
	one(e, "status", u.GetStatus(), (*encoder).status)
	one(e, "metadata", u.GetMetadata(), (*encoder).object)
	e.end()
}

func (e *encoder) artifactUpdate(u *a2apb.TaskArtifactUpdateEvent) {
	e.open()
	e.text("taskId", u.GetTaskId())
	e.text("contextId", u.GetContextId())
	one(e, "artifact", u.GetArtifact(), (*encoder).artifact)
	e.flag("append", u.GetAppend())
	e.flag("lastChunk", u.GetLastChunk())
	one(e, "metadata", u.GetMetadata(), (*encoder).object)
	e.end()
}

func (e *encoder) task(t *a2apb.Task) {
	e.open()
	e.text("id", t.GetId())
	e.text("contextId", t.GetContextId())
	one(e, "status", t.GetStatus(), (*encoder).status)
	all(e, "artifacts", t.GetArtifacts(), (*encoder).artifact)
	all(e, "history", t.GetHistory(), (*encoder).message)
	one(e, "metadata", t.GetMetadata(), (*encoder).object)
	e.end()
}

func (e *encoder) status(s *a2apb.TaskStatus) {
	e.open()
	e.enum("state", int32(s.GetState()), a2apb.TaskState_name)
	one(e, "message", s.GetMessage(), (*encoder).message)
	one(e, "timestamp", s.GetTimestamp(), (*encoder).time)
	e.end()
}

func (e *encoder) message(m *a2apb.Message) {
	e.open()
	e.text("messageId", m.GetMessageId())
	e.text("contextId", m.GetContextId())
	e.text("taskId", m.GetTaskId())
	e.enum("role", int32(m.GetRole()), a2apb.Role_name)
	all(e, "parts", m.GetParts(), (*encoder).part)
	one(e, "metadata", m.GetMetadata(), (*encoder).object)
	all(e, "extensions", m.GetExtensions(), (*encoder).string)
	all(e, "referenceTaskIds", m.GetReferenceTaskIds(), (*encoder).string)
	e.end()
}

func (e *encoder) artifact(a *a2apb.Artifact) {
	e.open()
	e.text("artifactId", a.GetArtifactId())
	e.text("name", a.GetName())
	e.text("description", a.GetDescription())
	all(e, "parts", a.GetParts(), (*encoder).part)
	one(e, "metadata", a.GetMetadata(), (*encoder).object)
	all(e, "extensions", a.GetExtensions(), (*encoder).string)
	e.end()
}

func (e *encoder) part(p *a2apb.Part) {
	e.open()
	switch c := p.GetContent().(type) {
	case *a2apb.Part_Text:
		e.member("text")
		e.string(c.Text)
	case *a2apb.Part_Raw:
		e.member("raw")
		e.b = append(e.b, '"')
		e.b = base64.StdEncoding.AppendEncode(e.b, c.Raw)
		e.b = append(e.b, '"')
	case *a2apb.Part_Url:
		e.member("url")
		e.string(c.Url)
	case *a2apb.Part_Data:
		e.member("data")
		e.value(c.Data)
	}
	one(e, "metadata", p.GetMetadata(), (*encoder).object)
	e.text("filename", p.GetFilename())
	e.text("mediaType", p.GetMediaType())
	e.end()
}

func (e *encoder) object(s *structpb.Struct) {
	var room [8]string
	keys := room[:0]
	for key := range s.GetFields() {
		keys = append(keys, key)
	}
	slices.Sort(keys)
	e.open()
	for _, key := range keys {
		e.next()
		e.string(key)
		e.b = append(e.b, ':')
		e.value(s.GetFields()[key])
	}
	e.end()
}

func (e *encoder) value(v *structpb.Value) {
	switch k := v.GetKind().(type) {
	case *structpb.Value_NullValue:
		e.b = append(e.b, "null"...)
	case *structpb.Value_NumberValue:
		e.number(k.NumberValue)
	case *structpb.Value_StringValue:
		e.string(k.StringValue)
	case *structpb.Value_BoolValue:
		e.b = strconv.AppendBool(e.b, k.BoolValue)
	case *structpb.Value_StructValue:
		e.object(k.StructValue)
	case *structpb.Value_ListValue:
		array(e, k.ListValue.GetValues(), (*encoder).value)
	default:
		e.formless = true
	}
}

func (e *encoder) number(f float64) {
	const exact = 1 << 53
	if n := int64(f); float64(n) == f && -exact < n && n < exact && (n != 0 || !math.Signbit(f)) {
		e.b = strconv.AppendInt(e.b, n, 10)
		return
	}
	b, err := json.Marshal(f)
	e.formless = e.formless || err != nil // NaN, and the infinite
	e.b = append(e.b, b...)
}

func (e *encoder) time(t *timestamppb.Timestamp) {
	if t.CheckValid() != nil {
		e.formless = true
		return
	}
	e.b = t.AsTime().AppendFormat(append(e.b, '"'), "2006-01-02T15:04:05")
	if nanos := t.GetNanos(); nanos != 0 { // in threes of digits
		digits := strconv.Itoa(1e9 + int(nanos))[1:]
		for strings.HasSuffix(digits, "000") {
			digits = digits[:len(digits)-3]
		}
		e.b = append(append(e.b, '.'), digits...)
	}
	e.b = append(e.b, 'Z', '"')
}

func (e *encoder) string(s string) {
	const hex, control, letters = "0123456789abcdef", "\b\t\n\f\r", "btnfr"
	e.formless = e.formless || !utf8.ValidString(s)
	e.b = append(e.b, '"')
	done := 0
	for i := range len(s) {
		c := s[i]
		if c >= ' ' && c != '"' && c != '\\' {
			continue
		}
		e.b = append(append(e.b, s[done:i]...), '\\')
		done = i + 1
		if short := strings.IndexByte(control, c); short >= 0 {
			e.b = append(e.b, letters[short])
		} else if c < ' ' {
			e.b = append(e.b, 'u', '0', '0', hex[c>>4], hex[c&15])
		} else {
			e.b = append(e.b, c)
		}
	}
	e.b = append(append(e.b, s[done:]...), '"')
}
