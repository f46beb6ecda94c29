package eventpb_test

import (
	"bytes"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/threadlog/eventpb"
)

// A piece of output that is put together from bytes is what it would be as a
// message, and has the bytes of its artifact as they are.
func TestAPieceOfOutputIsStoredAsItsMessageWouldBe(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		body := bodies["ArtifactAppended"](t).(mesh.ArtifactAppended)
		if body.Artifact != nil && rapid.Bool().Draw(t, "wire") {
			body.Wire = mesh.WireOf(body.Artifact)
		}
		e := event(t, body)
		got, err := eventpb.Append([]byte("before"), e)
		if err != nil {
			t.Fatal(err)
		}
		stored, ok := bytes.CutPrefix(got, []byte("before"))
		p := new(meshv1.Event)
		if err := proto.Unmarshal(stored, p); !ok || err != nil || len(p.ProtoReflect().GetUnknown()) > 0 {
			t.Fatalf("%x is no event: %v", got, err)
		}
		if want := eventpb.EventToProto(e); !proto.Equal(p, want) {
			t.Fatalf("stored as %v\nwant %v", p, want)
		}
		again, err := eventpb.Decode(stored)
		if err != nil {
			t.Fatal(err)
		}
		wire, ok := again.Body.(mesh.ArtifactAppended).Bytes()
		if ok != (body.Artifact != nil) || ok && !bytes.Contains(stored, wire) {
			t.Fatalf("the artifact's bytes are %x, of %x", wire, stored)
		}
		if given, ok := body.Bytes(); ok && !bytes.Equal(wire, given) {
			t.Fatalf("the artifact's bytes became %x, and were %x", wire, given)
		}
	})
}

// What cannot be stored as a message cannot be put together either.
func TestAPieceOfOutputThatIsNoMessageIsRefused(t *testing.T) {
	fine := mesh.ArtifactAppended{Artifact: &a2apb.Artifact{ArtifactId: "out"}}
	for name, e := range map[string]*mesh.Event{
		"id":        {ID: "\xff", Body: fine},
		"actor":     {Actor: "\xff", Body: fine},
		"execution": {Execution: "\xff", Body: fine},
		"artifact":  {Body: mesh.ArtifactAppended{Artifact: &a2apb.Artifact{Name: "\xff"}}},
		"too early": {Time: time.Date(0, 12, 31, 0, 0, 0, 0, time.UTC), Body: fine},
		"too late":  {Time: time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC), Body: fine},
	} {
		if b, err := eventpb.Append([]byte("before"), e); !mesh.IsCode(err, mesh.Invalid) || string(b) != "before" {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
}
