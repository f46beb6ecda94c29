package eventpb_test

import (
	"math"
	"reflect"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/threadlog/eventpb"
)

var (
	text = rapid.StringN(0, 12, 40)
	blob = rapid.SliceOfN(rapid.Byte(), 1, 20)
	num  = rapid.Int64()
	when = rapid.Custom(func(t *rapid.T) time.Time {
		return time.UnixMilli(rapid.Int64Range(-62_135_596_800_000+1, 253_402_300_799_999).Draw(t, "ms")).UTC()
	})
	parts = rapid.Custom(func(t *rapid.T) []*a2apb.Part {
		return []*a2apb.Part{
			{Content: &a2apb.Part_Text{Text: text.Draw(t, "text")}},
			{Content: &a2apb.Part_Raw{Raw: blob.Draw(t, "raw")}, MediaType: "image/png", Metadata: &structpb.Struct{}},
		}
	})
)

// bodies draws a body of each kind that the proto has.
var bodies = func() map[string]func(t *rapid.T) mesh.Body {
	out := map[string]func(t *rapid.T) mesh.Body{}
	fields := new(meshv1.Event).ProtoReflect().Descriptor().Oneofs().ByName("body").Fields()
	for i := range fields.Len() {
		p := new(meshv1.Event)
		p.ProtoReflect().Mutable(fields.Get(i))
		e, err := eventpb.EventFromProto(p)
		if err != nil {
			panic(err)
		}
		kind := reflect.TypeOf(e.Body)
		out[kind.Name()] = func(t *rapid.T) mesh.Body { return draw(t, kind, kind.Name()).Interface().(mesh.Body) }
	}
	return out
}()

// made draws values of the types that have a rule of their own.
var made = map[reflect.Type]func(t *rapid.T) any{
	reflect.TypeFor[time.Time](): func(t *rapid.T) any {
		return rapid.OneOf(when, rapid.Just(time.Time{})).Draw(t, "time")
	},
	reflect.TypeFor[mesh.TaskState](): func(t *rapid.T) any { return mesh.TaskState(rapid.Int32Range(0, 8).Draw(t, "state")) },
	reflect.TypeFor[int](): func(t *rapid.T) any {
		return rapid.IntRange(math.MinInt32, math.MaxInt32).Draw(t, "number") // the wire has 32 bits
	},
	reflect.TypeFor[*structpb.Struct](): func(t *rapid.T) any {
		return &structpb.Struct{Fields: map[string]*structpb.Value{text.Draw(t, "k"): structpb.NewStringValue(text.Draw(t, "v"))}}
	},
	reflect.TypeFor[*a2apb.Message](): func(t *rapid.T) any {
		return &a2apb.Message{MessageId: text.Draw(t, "id"), Parts: parts.Draw(t, "parts"), Role: a2apb.Role_ROLE_USER}
	},
	reflect.TypeFor[*a2apb.Artifact](): func(t *rapid.T) any { return artifacts.Draw(t, "artifact") },
	// Bytes of another artifact than the body's, which nobody may take for its own.
	reflect.TypeFor[*mesh.Wire](): func(t *rapid.T) any { return mesh.WireOf(artifacts.Draw(t, "stale")) },
}

var artifacts = rapid.Custom(func(t *rapid.T) *a2apb.Artifact {
	a := &a2apb.Artifact{ArtifactId: text.Draw(t, "id"), Parts: parts.Draw(t, "parts"), Extensions: []string{text.Draw(t, "ext")}}
	if rapid.Bool().Draw(t, "newer") { // a field that this version does not know
		a.ProtoReflect().SetUnknown(protowire.AppendString(protowire.AppendTag(nil, 999, protowire.BytesType), text.Draw(t, "new")))
	}
	return a
})

// draw draws any value of a type of package mesh, so that a kind or a field that is
// added is drawn too.
func draw(t *rapid.T, of reflect.Type, name string) reflect.Value {
	v := reflect.New(of).Elem()
	if of.Kind() == reflect.Pointer && rapid.IntRange(0, 3).Draw(t, "no "+name) == 0 {
		return v
	}
	if one := made[of]; one != nil {
		return reflect.ValueOf(one(t))
	}
	switch of.Kind() {
	case reflect.String:
		v.SetString(text.Draw(t, name))
	case reflect.Bool:
		v.SetBool(rapid.Bool().Draw(t, name))
	case reflect.Uint8:
		v.SetUint(uint64(rapid.Byte().Draw(t, name)))
	case reflect.Int64:
		v.SetInt(num.Draw(t, name))
	case reflect.Float64:
		v.SetFloat(rapid.Float64Min(0).Draw(t, name))
	case reflect.Slice:
		for range rapid.IntRange(0, 3).Draw(t, name) {
			v = reflect.Append(v, draw(t, of.Elem(), name))
		}
	case reflect.Struct:
		for i := range of.NumField() {
			v.Field(i).Set(draw(t, of.Field(i).Type, name+"."+of.Field(i).Name))
		}
	default:
		t.Fatalf("%s is a %v: say how to draw one", name, of)
	}
	return v
}
