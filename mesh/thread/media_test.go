package thread_test

import (
	"fmt"
	"slices"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
)

// S4-058: what the users sent and were shown is known, wherever in a long thread, and nothing
// that agents showed each other; of an artifact that begins anew only what it has now; and at
// most the last MaxMedia.
func TestTheStateKnowsWhereThePicturesOfTheConversationAre(t *testing.T) {
	const working, input = a2apb.TaskState_TASK_STATE_WORKING, a2apb.TaskState_TASK_STATE_INPUT_REQUIRED
	picture := []*a2apb.Part{{Content: &a2apb.Part_Raw{Raw: []byte{1}}}}
	link := []*a2apb.Part{{Content: &a2apb.Part_Text{Text: "see"}}, {Content: &a2apb.Part_Url{Url: "https://x/y"}}}
	words := []*a2apb.Part{{Content: &a2apb.Part_Text{Text: "see"}}}
	var events []*mesh.Event
	add := func(id mesh.ExecutionID, b mesh.Body) mesh.Seq {
		events = append(events, &mesh.Event{Seq: mesh.Seq(len(events) + 1), Execution: id, Body: b})
		return mesh.Seq(len(events))
	}
	posts := func(parts []*a2apb.Part) mesh.Seq {
		return add("t", mesh.MessagePosted{User: "ann", Message: &a2apb.Message{MessageId: fmt.Sprint(len(events)), Parts: parts}})
	}
	shows := func(id mesh.ExecutionID, artifact string, more bool, parts []*a2apb.Part) mesh.Seq {
		return add(id, mesh.ArtifactAppended{Append: more, Artifact: &a2apb.Artifact{ArtifactId: artifact, Parts: parts}})
	}
	moves := func(id mesh.ExecutionID, state mesh.TaskState, parts []*a2apb.Part) mesh.Seq {
		return add(id, mesh.TaskMoved{State: state, Message: &a2apb.Message{Parts: parts}})
	}
	dispatch := func(parent, id mesh.ExecutionID) {
		add(parent, mesh.DispatchIssued{Child: mesh.Execution{ID: id, Parent: parent, Kind: mesh.KindAgent, Agent: "main"}})
	}
	add("t", mesh.TaskOpened{Execution: mesh.Execution{ID: "t", Kind: mesh.KindTurn, Agent: "main", User: "ann"}})
	want := []mesh.Seq{posts(picture)}
	posts(words)
	dispatch("t", "m")
	dispatch("m", "w")
	shows("w", "its", false, picture) // to main
	moves("w", working, picture)
	want = append(want, shows("m", "kept", false, link), moves("m", working, picture))
	shows("m", "drawn", false, picture)
	want = append(want, shows("m", "kept", true, picture))
	shows("m", "drawn", false, words) // anew, without the picture
	moves("m", input, picture)        // as its turn says
	want = append(want, moves("t", input, picture))
	if got := thread.Fold(events).Media(); !slices.Equal(got, want) {
		t.Fatalf("pictures are at %v, want %v", got, want)
	}
	for range thread.MaxMedia {
		want = append(want, posts(link))
	}
	want = want[len(want)-thread.MaxMedia:]
	if got := thread.Fold(events).Media(); !slices.Equal(got, want) {
		t.Errorf("the last pictures are at %v, want %v", got, want)
	}
	for _, seq := range want {
		if m := thread.MediaOf(events[seq-1]); len(m) != 1 || m[0].GetUrl() == "" {
			t.Errorf("%d has %v", seq, m)
		}
	}
}
