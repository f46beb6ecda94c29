package thread_test

import (
	"fmt"
	"slices"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/types/known/structpb"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
)

// S1-073, S1-081, S1-108: who asks for it is told what agents say which others dispatched, marked
// with their execution and parent, and from every cursor the same, of what is no text that it
// is there; nobody else is, and it is no output of the task.
func TestWhatSubAgentsSayIsForThoseWhoAsk(t *testing.T) {
	picture := mesh.ArtifactAppended{Artifact: &a2apb.Artifact{ArtifactId: "chart", Parts: []*a2apb.Part{{Content: &a2apb.Part_Raw{Raw: []byte{1}}}, {Content: &a2apb.Part_Url{Url: "https://x/y"}}}}}
	said := func(words string) mesh.ArtifactAppended {
		return mesh.ArtifactAppended{Artifact: &a2apb.Artifact{ArtifactId: "out", Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: words}}}}, Append: words != "one"}
	}
	wish := func(detail bool) *a2apb.Message {
		md, err := structpb.NewStruct(map[string]any{mesh.ExtensionURI: map[string]any{"detail": detail}})
		if err != nil {
			t.Fatal(err)
		}
		return &a2apb.Message{MessageId: "m", Role: a2apb.Role_ROLE_USER, Metadata: md}
	}
	dispatch := func(parent, id mesh.ExecutionID, agent string) *mesh.Event {
		return &mesh.Event{Execution: parent, Body: mesh.DispatchIssued{Child: mesh.Execution{ID: id, Parent: parent, Kind: mesh.KindAgent, Agent: agent, Label: agent + "-1"}}}
	}
	log := func(detail bool) []*mesh.Event {
		events := []*mesh.Event{
			{Execution: "t", Body: mesh.TaskOpened{Execution: mesh.Execution{ID: "t", Kind: mesh.KindTurn, Agent: "main", User: "ann"}}},
			{Execution: "t", Body: mesh.MessagePosted{Message: wish(detail), User: "ann"}},
			dispatch("t", "m", "main"), dispatch("m", "x", "worker"),
			{Execution: "x", Body: said("one")}, {Execution: "m", Body: said("mine")}, {Execution: "x", Body: said("two")},
			{Execution: "x", Body: picture}, {Execution: "x", Body: said("")},
		}
		for i, e := range events {
			e.Seq = mesh.Seq(i + 1)
		}
		return events
	}
	told := func(events []*mesh.Event, after mesh.Seq, extended bool) (out []string) {
		v := thread.Fold(events[:max(after, 1)]).View("c", "t", after, thread.Mode{Extended: extended})
		for _, e := range events[after:] {
			r := v.Apply(e)
			if a := r.GetArtifactUpdate(); a != nil {
				out = append(out, fmt.Sprint(e.Seq, " output ", a.GetArtifact().GetParts()[0].GetText()))
			}
			x := r.GetStatusUpdate().GetMetadata().GetFields()[mesh.ExtensionURI].GetStructValue().GetFields()["execution"].GetStructValue().GetFields()
			if x["state"].GetStringValue() == "output" {
				out = append(out, fmt.Sprint(e.Seq, " ", x["id"].GetStringValue(), " of ", x["parent"].GetStringValue(), " ", x["text"].GetStringValue(), " ", x["append"].GetBoolValue(), " ", x["artifact"].GetStringValue(), "+", x["other_parts"].GetNumberValue()))
			}
		}
		return out
	}
	want := []string{"5 x of m one false out+0", "6 output mine", "7 x of m two true out+0", "8 x of m  false chart+2"}
	for after := range mesh.Seq(8) {
		if got := told(log(true), max(after, 1), true); !slices.Equal(got, want[max(0, int(after)-4):]) {
			t.Errorf("after %d: %q", after, got)
		}
	}
	if got := told(log(false), 1, true); !slices.Equal(got, want[1:2]) {
		t.Errorf("who did not ask is told %q", got)
	}
	if got := told(log(true), 1, false); !slices.Equal(got, want[1:2]) {
		t.Errorf("who does not know the extension is told %q", got)
	}
}
