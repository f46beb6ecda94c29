package cards

import (
	"encoding/json"
	"slices"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/gowebpki/jcs"
	"google.golang.org/genproto/googleapis/api/annotations"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/known/structpb"

	"agentmesh/mesh"
)

// Canonical returns the bytes that a signature of the card is about: its JSON
// by RFC 8785 with the presence rules of A2A v1.0 §8.4.1. Required fields are
// there also when they are empty; optional ones when they are set, also to
// their default; all others when they are not empty. The signatures are left
// out. It returns an Invalid error for a card that JSON cannot hold, as one
// with an infinite number in the parameters of an extension.
func Canonical(card *a2apb.AgentCard) ([]byte, error) {
	return encode(tree(card))
}

// members is a JSON object.
type members = map[string]any

// tree returns the card as the JSON object that its canonical form encodes.
func tree(card *a2apb.AgentCard) members {
	t := object(card.ProtoReflect())
	delete(t, "signatures")
	return t
}

// encode returns the RFC 8785 form of the object.
func encode(t members) ([]byte, error) {
	const op = "cards.Canonical"
	raw, err := json.Marshal(t)
	if err == nil {
		raw, err = jcs.Transform(raw)
	}
	if err != nil {
		return nil, &mesh.Error{Code: mesh.Invalid, Op: op, Field: "card", Err: err,
			Detail: "cannot be written as canonical JSON; remove numbers that JSON cannot hold and nesting that is very deep"}
	}
	return raw, nil
}

// object returns the members of m that have to be there.
func object(m protoreflect.Message) members {
	out := members{}
	fields := m.Descriptor().Fields()
	for i := range fields.Len() {
		f := fields.Get(i)
		// A field with presence is there when it is set; of the others, Has
		// says whether they are other than their default.
		if !m.Has(f) && (!required(f) || f.Message() != nil && !f.IsList() && !f.IsMap()) {
			continue
		}
		out[f.JSONName()] = field(f, m.Get(f))
	}
	return out
}

func required(f protoreflect.FieldDescriptor) bool {
	behaviors, _ := proto.GetExtension(f.Options(), annotations.E_FieldBehavior).([]annotations.FieldBehavior)
	return slices.Contains(behaviors, annotations.FieldBehavior_REQUIRED)
}

func field(f protoreflect.FieldDescriptor, v protoreflect.Value) any {
	switch {
	case f.IsList():
		list := make([]any, v.List().Len())
		for i := range list {
			list[i] = one(f, v.List().Get(i))
		}
		return list
	case f.IsMap():
		entries := members{}
		v.Map().Range(func(k protoreflect.MapKey, v protoreflect.Value) bool {
			entries[k.String()] = one(f.MapValue(), v)
			return true
		})
		return entries
	}
	return one(f, v)
}

// one returns a single value. Cards hold strings, booleans and messages, and
// any JSON object as the parameters of an extension.
func one(f protoreflect.FieldDescriptor, v protoreflect.Value) any {
	if f.Message() == nil {
		return v.Interface()
	}
	if s, ok := v.Message().Interface().(*structpb.Struct); ok {
		return free(s)
	}
	return object(v.Message())
}

// free returns a free-form object. A number that JSON cannot hold stays one,
// and is refused, where AsMap would make it the same as its name.
func free(s *structpb.Struct) members {
	out := members{}
	for name, v := range s.GetFields() {
		out[name] = anything(v)
	}
	return out
}

func anything(v *structpb.Value) any {
	switch k := v.GetKind().(type) {
	case *structpb.Value_NumberValue:
		return k.NumberValue
	case *structpb.Value_StructValue:
		return free(k.StructValue)
	case *structpb.Value_ListValue:
		list := make([]any, len(k.ListValue.GetValues()))
		for i, v := range k.ListValue.GetValues() {
			list[i] = anything(v)
		}
		return list
	}
	return v.AsInterface()
}
