package call

import (
	"encoding/base64"
	"math"
	"strconv"
	"strings"
	"sync"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
	"google.golang.org/protobuf/types/known/timestamppb"
)

// maxDepth bounds how deep the JSON of an agent may be nested: what is logged has to be
// read by protobuf again, of which each level takes three of at most 10,000.
const maxDepth = 500

// A lenient reads JSON into messages of A2A, by their descriptors, whichever version of
// A2A it was meant as: what can be understood is taken, what is not known is passed
// over, and what cannot be read is an [unreadable]. It changes what it is given.
type lenient struct {
	v03Proto bool // it is the protobuf of v0.3 as JSON, in which data is in data
}

// message reads an object into m.
func (l lenient) message(v any, m protoreflect.Message) error {
	obj, err := l.bend(v, m.Descriptor().FullName().Name())
	if err != nil {
		return err
	}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		fd := fields.Get(i)
		key := fd.JSONName()
		val := obj[key]
		if val == nil {
			key = string(fd.Name())
			if val = obj[key]; val == nil {
				continue
			}
		}
		// Some servers write all members of a oneof, those empty that are not meant.
		if one := fd.ContainingOneof(); one != nil && m.WhichOneof(one) != nil && empty(val) {
			continue
		}
		if err := l.field(val, m, fd); err != nil {
			return below(key, err)
		}
	}
	return nil
}

func empty(v any) bool {
	switch v := v.(type) {
	case string:
		return v == ""
	case map[string]any:
		return len(v) == 0
	}
	return false
}

// field reads a value, which is not null, into a field of m.
func (l lenient) field(v any, m protoreflect.Message, fd protoreflect.FieldDescriptor) error {
	if !fd.IsList() {
		val, ok, err := l.value(v, fd, func() protoreflect.Value { return m.NewField(fd) })
		if ok {
			m.Set(fd, val)
		}
		return err
	}
	items, ok := v.([]any)
	if !ok {
		items = []any{v} // one alone
	}
	list := m.Mutable(fd).List()
	for i, item := range items {
		if item == nil {
			continue
		}
		val, ok, err := l.value(item, fd, list.NewElement)
		if err != nil {
			return below(strconv.Itoa(i), err)
		}
		if ok {
			list.Append(val)
		}
	}
	return nil
}

// value reads a value of the field's type; false if it is nothing that matters.
func (l lenient) value(v any, fd protoreflect.FieldDescriptor, fresh func() protoreflect.Value) (protoreflect.Value, bool, error) {
	var none protoreflect.Value
	switch fd.Kind() {
	case protoreflect.StringKind:
		s, ok := words(v)
		if !ok {
			return none, false, misread(v, "a text")
		}
		return protoreflect.ValueOfString(s), true, nil
	case protoreflect.BoolKind:
		s, _ := words(v)
		b, err := strconv.ParseBool(s)
		if err != nil {
			return none, false, misread(v, "true or false")
		}
		return protoreflect.ValueOfBool(b), true, nil
	case protoreflect.BytesKind:
		b, ok := decode64(v)
		if !ok {
			return none, false, misread(v, "base64")
		}
		return protoreflect.ValueOfBytes(b), true, nil
	case protoreflect.EnumKind:
		n, ok := enumOf(v, fd.Enum())
		if !ok && fd.Enum().Name() == "TaskState" {
			return none, false, misread(v, "a state of a task")
		}
		return protoreflect.ValueOfEnum(n), ok, nil
	case protoreflect.MessageKind:
		val := fresh()
		ok, err := l.nested(v, val.Message())
		return val, ok, err
	}
	return none, false, nil // A2A has no others here
}

// nested reads a message within another one; false if it is left out.
func (l lenient) nested(v any, m protoreflect.Message) (bool, error) {
	switch into := m.Interface().(type) {
	case *timestamppb.Timestamp:
		t, ok := moment(v) // without one the mesh's own time counts
		if ok {
			into.Seconds, into.Nanos = t.Unix(), int32(t.Nanosecond()) // below 1e9
		}
		return ok, nil
	case *structpb.Struct:
		obj, ok := v.(map[string]any)
		if !ok { // an empty list, as some languages write an empty map, or nothing that has keys
			return false, nil
		}
		s, err := structpb.NewStruct(obj)
		if err != nil || !shallow(v, maxDepth) {
			return false, misread(v, "metadata")
		}
		into.Fields = s.Fields
		return true, nil
	case *structpb.Value:
		if v == jsonNull {
			into.Kind = structpb.NewNullValue().Kind
			return true, nil
		}
		val, err := structpb.NewValue(v)
		if err != nil || !shallow(v, maxDepth) {
			return false, misread(v, "data")
		}
		into.Kind = val.Kind
		return true, nil
	case *a2apb.Part:
		err := l.message(v, m)
		return err == nil && into.Content != nil, err // of a kind that is not known
	}
	return true, l.message(v, m)
}

// jsonNull stands for data that is null, which is a value too.
var jsonNull any = structpb.NullValue_NULL_VALUE

// shallow reports whether the value has no more than so many levels.
func shallow(v any, levels int) bool {
	if levels == 0 {
		return false
	}
	switch v := v.(type) {
	case map[string]any:
		for _, in := range v {
			if !shallow(in, levels-1) {
				return false
			}
		}
	case []any:
		for _, in := range v {
			if !shallow(in, levels-1) {
				return false
			}
		}
	}
	return true
}

// words is a scalar as text.
func words(v any) (string, bool) {
	switch v := v.(type) {
	case string:
		return v, true
	case bool:
		return strconv.FormatBool(v), true
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64), true
	}
	return "", false
}

// decode64 reads base64 of either alphabet, padded or not, in one line or more.
func decode64(v any) ([]byte, bool) {
	s, ok := v.(string)
	if !ok {
		return nil, false
	}
	s = strings.NewReplacer("-", "+", "_", "/", "=", "", "\n", "", "\r", "", " ", "").Replace(s)
	b, err := base64.RawStdEncoding.DecodeString(s)
	return b, err == nil
}

// spellings has the values of the enums of A2A by their names without prefix, case and
// separators.
var spellings = sync.OnceValue(func() map[protoreflect.Name]map[string]protoreflect.EnumNumber {
	all := map[protoreflect.Name]map[string]protoreflect.EnumNumber{}
	for prefix, e := range map[string]protoreflect.EnumDescriptor{
		"TASK_STATE_": a2apb.TaskState(0).Descriptor(), "ROLE_": a2apb.Role(0).Descriptor(),
	} {
		names := map[string]protoreflect.EnumNumber{}
		for i := range e.Values().Len() {
			v := e.Values().Get(i)
			names[letters(string(v.Name()))] = v.Number()
			names[letters(strings.TrimPrefix(string(v.Name()), prefix))] = v.Number()
		}
		all[e.Name()] = names
	}
	states, roles := all["TaskState"], all["Role"]
	states["cancelled"] = states["canceled"]
	states["taskstatecancelled"] = states["canceled"]
	states["unknown"] = states["unspecified"] // of v0.3
	states["taskstateunknown"] = states["unspecified"]
	roles["assistant"] = roles["agent"]
	return all
})

// letters is a name with nothing but small letters.
func letters(name string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return -1
	}, name)
}

func enumOf(v any, e protoreflect.EnumDescriptor) (protoreflect.EnumNumber, bool) {
	switch v := v.(type) {
	case string:
		if d := e.Values().ByName(protoreflect.Name(v)); d != nil {
			return d.Number(), true
		}
		n, ok := spellings()[e.Name()][letters(v)]
		return n, ok
	case float64:
		n := protoreflect.EnumNumber(v)
		return n, float64(n) == v && e.Values().ByNumber(n) != nil
	}
	return 0, false
}

// layouts are how times are written; what has no zone is in UTC.
var layouts = []string{
	time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02T15:04:05Z0700", "2006-01-02T15:04:05Z07",
	"2006-01-02T15:04Z07:00", "2006-01-02T15:04", "20060102T150405Z0700", "20060102T150405", time.DateOnly,
}

// moment reads a point in time: ISO 8601 as it is usual, or seconds or milliseconds
// since 1970.
func moment(v any) (time.Time, bool) {
	switch v := v.(type) {
	case string:
		s := strings.ToUpper(strings.TrimSpace(v))
		if len(s) > 10 && s[10] == ' ' {
			s = s[:10] + "T" + s[11:]
		}
		s = strings.TrimSuffix(s, " UTC")
		s = strings.ReplaceAll(s, " ", "")
		for _, layout := range layouts {
			if t, err := time.Parse(layout, s); err == nil {
				return t.UTC(), timestamppb.New(t).IsValid()
			}
		}
		n, err := strconv.ParseFloat(s, 64)
		return unix(n, err == nil)
	case float64:
		return unix(v, true)
	}
	return time.Time{}, false
}

func unix(n float64, ok bool) (time.Time, bool) {
	if !ok || math.IsNaN(n) || n < 0 || n > 1e14 {
		return time.Time{}, false
	}
	if n > 1e11 { // the year 5138, or milliseconds
		return time.UnixMilli(int64(n)).UTC(), true
	}
	return time.UnixMicro(int64(n * 1e6)).UTC(), true
}
