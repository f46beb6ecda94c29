package rest

import (
	"bytes"
	"encoding/json"
	"math"
	"testing"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// sameAsProtojson checks that m looks as protojson writes it, or has no form for
// both. What protojson says has blanks at random.
func sameAsProtojson(t rapid.TB, m proto.Message) {
	t.Helper()
	const before = `{"result":`
	got, err := appendJSON([]byte(before), m)
	want, wantErr := protojson.Marshal(m)
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("%v: error %v, want %v", m, err, wantErr)
	}
	if err != nil {
		return
	}
	var compact bytes.Buffer
	if err := json.Compact(&compact, want); err != nil {
		t.Fatal(err)
	}
	if string(got) != before+compact.String() {
		t.Fatalf("%s\nwant %s%s", got, before, &compact)
	}
}

// written are the messages that appendJSON writes itself.
var written = []proto.Message{&a2apb.StreamResponse{}, &a2apb.Task{}, &a2apb.SendMessageResponse{}}

// The messages are made from the descriptors, so that a field which A2A adds is in
// them.
func TestJSONIsThatOfProtojson(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.SampledFrom(written).Draw(t, "type").ProtoReflect().New()
		fill(t, m, 0)
		sameAsProtojson(t, m.Interface())
	})
}

// Every field alone, with every value that is special for its type.
func TestJSONOfEveryFieldIsThatOfProtojson(t *testing.T) {
	for _, m := range written {
		sameAsProtojson(t, m)
		alone(m.ProtoReflect().Type(), map[protoreflect.FullName]bool{}, func(m protoreflect.Message) {
			sameAsProtojson(t, m.Interface())
		})
	}
}

// What is nil within a message is as empty as for protojson.
func TestJSONOfWhatIsNilIsThatOfProtojson(t *testing.T) {
	task := func(t *a2apb.Task) proto.Message {
		return &a2apb.SendMessageResponse{Payload: &a2apb.SendMessageResponse_Task{Task: t}}
	}
	for _, m := range []proto.Message{
		(*a2apb.StreamResponse)(nil), (*a2apb.Task)(nil), (*a2apb.SendMessageResponse)(nil), task(nil),
		&a2apb.SendMessageResponse{Payload: &a2apb.SendMessageResponse_Message{}},
		&a2apb.StreamResponse{Payload: &a2apb.StreamResponse_Task{}}, &a2apb.StreamResponse{Payload: &a2apb.StreamResponse_Message{}},
		&a2apb.StreamResponse{Payload: &a2apb.StreamResponse_StatusUpdate{}}, &a2apb.StreamResponse{Payload: &a2apb.StreamResponse_ArtifactUpdate{}},
		task(&a2apb.Task{Artifacts: []*a2apb.Artifact{nil, {Parts: []*a2apb.Part{nil}}}, History: []*a2apb.Message{nil}}),
		task(&a2apb.Task{Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{"a": nil}}}),
		task(&a2apb.Task{Metadata: &structpb.Struct{Fields: map[string]*structpb.Value{"a": {Kind: &structpb.Value_StructValue{}}, "b": {Kind: &structpb.Value_ListValue{}}}}}),
		&a2apb.Task{History: []*a2apb.Message{{Parts: []*a2apb.Part{{Content: &a2apb.Part_Data{}}}}}},
	} {
		sameAsProtojson(t, m)
	}
}

// alone calls check with messages that have one field set, at any depth.
func alone(mt protoreflect.MessageType, above map[protoreflect.FullName]bool, check func(protoreflect.Message)) {
	fields, name := mt.Descriptor().Fields(), mt.Descriptor().FullName()
	if above[name] {
		return
	}
	above[name] = true
	defer delete(above, name)
	for i := range fields.Len() {
		f := fields.Get(i)
		with := func(v protoreflect.Value) {
			m := mt.New()
			switch {
			case f.IsMap():
				m.Mutable(f).Map().Set(protoreflect.ValueOfString("").MapKey(), v)
				m.Mutable(f).Map().Set(protoreflect.ValueOfString("é\n").MapKey(), v)
			case f.IsList():
				m.Mutable(f).List().Append(v)
				m.Mutable(f).List().Append(v)
			default:
				m.Set(f, v)
			}
			check(m)
		}
		kind := f
		if f.IsMap() {
			kind = f.MapValue()
		}
		if kind.Message() == nil {
			for _, v := range special(kind) {
				with(v)
			}
			continue
		}
		inner := elementType(mt, f)
		with(protoreflect.ValueOfMessage(inner.New()))
		alone(inner, above, func(m protoreflect.Message) { with(protoreflect.ValueOfMessage(m)) })
	}
}

// elementType is the type of the messages in the field.
func elementType(mt protoreflect.MessageType, f protoreflect.FieldDescriptor) protoreflect.MessageType {
	m := mt.New()
	switch {
	case f.IsMap():
		return m.NewField(f).Map().NewValue().Message().Type()
	case f.IsList():
		return m.NewField(f).List().NewElement().Message().Type()
	}
	return m.NewField(f).Message().Type()
}

var texts = []string{"", "a", `"\/`, "\x00\b\t\n\v\f\r\x1f\x7f", "<&>\u2028\u2029", "é€😀\ufffd", "\xff", "a\xc3", "\xed\xa0\x80"}

// special are values of the field at which encodings differ.
func special(f protoreflect.FieldDescriptor) (all []protoreflect.Value) {
	switch f.Kind() {
	case protoreflect.StringKind:
		for _, s := range texts {
			all = append(all, protoreflect.ValueOfString(s))
		}
	case protoreflect.BytesKind:
		for _, s := range []string{"", "a", "ab", "abc", "\xff\xfe\xfd"} {
			all = append(all, protoreflect.ValueOfBytes([]byte(s)))
		}
	case protoreflect.BoolKind:
		all = append(all, protoreflect.ValueOfBool(false), protoreflect.ValueOfBool(true))
	case protoreflect.EnumKind:
		for _, n := range []protoreflect.EnumNumber{0, 1, 2, 7, -1, 99} {
			all = append(all, protoreflect.ValueOfEnum(n))
		}
	case protoreflect.DoubleKind:
		for _, n := range []float64{0, math.Copysign(0, -1), 1, -1, 0.1, 1e-6, 9.99e-7, -1e-9, 1e20, 1e21, 123456789012345678, 1<<53 - 1, 1 << 53, -1 << 53, 1 << 63, -1 << 63,
			math.MaxFloat64, math.SmallestNonzeroFloat64, math.NaN(), math.Inf(1), math.Inf(-1)} {
			all = append(all, protoreflect.ValueOfFloat64(n))
		}
	case protoreflect.Int32Kind:
		for _, n := range []int32{0, 1, -1, 1_000, 1_000_000, 999_999_999, 120_000_000, 1_000_000_000, math.MinInt32} {
			all = append(all, protoreflect.ValueOfInt32(n))
		}
	case protoreflect.Int64Kind:
		for _, n := range []int64{0, 1, -1, -62135596800, -62135596801, 253402300799, 253402300800, math.MaxInt64} {
			all = append(all, protoreflect.ValueOfInt64(n))
		}
	default:
		panic("a field of a kind that A2A did not have: " + f.Kind().String())
	}
	return all
}

// fill sets fields of the message at random, also those that it does not know.
func fill(t *rapid.T, m protoreflect.Message, depth int) {
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		if !rapid.Bool().Draw(t, "set") {
			continue
		}
		n := 1
		if f.IsList() || f.IsMap() {
			n = rapid.IntRange(0, 3).Draw(t, "items")
		}
		for range n {
			if f.Message() != nil && depth > 4 {
				break
			}
			switch {
			case f.IsMap():
				m.Mutable(f).Map().Set(protoreflect.ValueOfString(text(t)).MapKey(), value(t, f.MapValue(), m.NewField(f).Map().NewValue(), depth))
			case f.IsList():
				m.Mutable(f).List().Append(value(t, f, m.NewField(f).List().NewElement(), depth))
			default:
				m.Set(f, value(t, f, m.NewField(f), depth))
			}
		}
	}
	if rapid.Bool().Draw(t, "unknown") {
		m.SetUnknown(protoreflect.RawFields("\xfa\x3f\x01x")) // field 1023
	}
}

// text is mostly valid: a message with one wrong text has no form at all.
func text(t *rapid.T) string {
	if rapid.IntRange(0, 60).Draw(t, "wrong") == 0 {
		return rapid.SampledFrom(texts).Draw(t, "text")
	}
	return rapid.String().Draw(t, "text")
}

func value(t *rapid.T, f protoreflect.FieldDescriptor, empty protoreflect.Value, depth int) protoreflect.Value {
	switch f.Kind() {
	case protoreflect.MessageKind:
		m := empty.Message()
		if v, is := m.Interface().(*structpb.Value); is {
			drawValue(t, v, depth+1)
		} else {
			fill(t, m, depth+1)
		}
		return empty
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(text(t))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(rapid.Float64().Draw(t, "number"))
	case protoreflect.Int64Kind: // seconds
		return protoreflect.ValueOfInt64(rapid.Int64Range(-62135596800, 253402300799).Draw(t, "seconds"))
	case protoreflect.Int32Kind: // nanoseconds
		step := rapid.SampledFrom([]int32{1, 1_000, 1_000_000}).Draw(t, "step")
		return protoreflect.ValueOfInt32(rapid.Int32Range(0, 999_999_999/step).Draw(t, "nanos") * step)
	}
	return rapid.SampledFrom(special(f)).Draw(t, "value")
}

// drawValue sets the kind of a value, which has no form without one.
func drawValue(t *rapid.T, v *structpb.Value, depth int) {
	kinds := v.ProtoReflect().Descriptor().Fields()
	most := kinds.Len()
	if depth > 4 {
		most = 4 // no object, no list
	}
	f := kinds.Get(rapid.IntRange(0, most-1).Draw(t, "kind"))
	m := v.ProtoReflect()
	m.Set(f, value(t, f, m.NewField(f), depth))
}

// A piece of an answer, as a client gets most.
func piece() *a2apb.StreamResponse {
	return &a2apb.StreamResponse{Payload: &a2apb.StreamResponse_ArtifactUpdate{ArtifactUpdate: &a2apb.TaskArtifactUpdateEvent{
		TaskId: "550e8400e29b41d4a716446655440000-0123456789abcdef", ContextId: "550e8400-e29b-41d4-a716-446655440000", Append: true,
		Artifact: &a2apb.Artifact{ArtifactId: "answer", Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: "thirty-two bytes of \"text\", so. "}}}},
	}}}
}

func BenchmarkJSON(b *testing.B) {
	for name, write := range map[string]func([]byte, proto.Message) ([]byte, error){
		"appended": appendJSON, "protojson": protojson.MarshalOptions{}.MarshalAppend,
	} {
		b.Run(name, func(b *testing.B) {
			m, buf := piece(), []byte(nil)
			b.ReportAllocs()
			for b.Loop() {
				var err error
				if buf, err = write(buf[:0], m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
