package thread

import (
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"

	"agentmesh/mesh"
)

// The bytes of an update are those of what a view returns, in every mode, whatever
// the agent put into it; and views in the same mode share them.
func TestTheBytesOfAnUpdateAreTheUpdate(t *testing.T) {
	text := rapid.StringN(0, 20, -1)
	rapid.Check(t, func(t *rapid.T) {
		body := mesh.ArtifactAppended{Append: rapid.Bool().Draw(t, "append"), LastChunk: rapid.Bool().Draw(t, "last"),
			Artifact: &a2apb.Artifact{ArtifactId: text.Draw(t, "id"), Parts: []*a2apb.Part{
				{Content: &a2apb.Part_Text{Text: rapid.StringN(0, rapid.SampledFrom([]int{1, 100, 20000}).Draw(t, "length"), -1).Draw(t, "text")}}}}}
		body.Wire = mesh.WireOf(body.Artifact)
		if rapid.Bool().Draw(t, "metadata") {
			progress := &structpb.Struct{Fields: map[string]*structpb.Value{"step": structpb.NewNumberValue(2)}}
			body.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{
				text.Draw(t, "key"): structpb.NewStringValue(text.Draw(t, "value")), mesh.ExtensionURI: structpb.NewStructValue(progress)}}
		}
		e := &mesh.Event{Seq: mesh.Seq(rapid.Int64Range(1, 1<<50).Draw(t, "seq")), Execution: "x", Body: body}
		seen := map[*byte]bool{}
		for _, mode := range []Mode{{}, {Extended: true}, {Seq: true}, {Extended: true, Seq: true}} {
			v := View{stream: stream{turn: mesh.ExecutionID(text.Draw(t, "turn")), has: "x", agent: text.Draw(t, "agent")}, ctx: text.Draw(t, "thread"), mode: mode}
			want := v.Apply(e)
			wire := v.Wire(e, want)
			got := new(a2apb.StreamResponse)
			if err := proto.Unmarshal(wire, got); err != nil || !proto.Equal(got, want) {
				t.Fatalf("%+v: the bytes are those of %v (%v), want %v", mode, got, err, want)
			}
			if again := v.Wire(e, want); &again[0] != &wire[0] || seen[&wire[0]] {
				t.Fatalf("%+v: made again, or shared with another mode", mode)
			}
			seen[&wire[0]] = true
		}
		body.Wire = nil
		v := View{stream: stream{has: "x"}}
		if e.Body = body; v.Wire(e, v.Apply(e)) != nil {
			t.Fatal("bytes of what has none")
		}
	})
}
