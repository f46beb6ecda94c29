package thread_test

import (
	"slices"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
)

// What the user answered is in the history of the task, between what they said before
// and the answer; what an agent said as it went on is in its status.
func TestTheHistoryHasTheQuestionBeforeItsAnswer(t *testing.T) {
	const input, working = a2apb.TaskState_TASK_STATE_INPUT_REQUIRED, a2apb.TaskState_TASK_STATE_WORKING
	said := func(id string) *a2apb.Message { return &a2apb.Message{MessageId: id} }
	for name, tt := range map[string]struct {
		moved   mesh.TaskMoved
		history []string
		status  string
	}{
		"a question":           {mesh.TaskMoved{State: input, Message: said("which?")}, []string{"go", "which?", "that one"}, ""},
		"one without words":    {mesh.TaskMoved{State: input}, []string{"go", "that one"}, ""},
		"progress":             {mesh.TaskMoved{State: working, Message: said("half")}, []string{"go", "that one"}, "half"},
		"nothing of its words": {mesh.TaskMoved{State: working}, []string{"go", "that one"}, ""},
	} {
		s := thread.NewSnapshot("c", "t")
		for i, b := range []mesh.Body{
			mesh.TaskOpened{Execution: mesh.Execution{ID: "t", Kind: mesh.KindTurn}},
			mesh.MessagePosted{User: "ann", Message: said("go")}, tt.moved, mesh.MessagePosted{User: "ann", Message: said("that one")},
		} {
			s.Apply(&mesh.Event{Seq: mesh.Seq(i + 1), Execution: "t", Body: b})
		}
		task, _ := s.Task()
		var history []string
		for _, m := range task.History {
			history = append(history, m.GetMessageId())
		}
		if got := task.Status.Message.GetMessageId(); !slices.Equal(history, tt.history) || got != tt.status {
			t.Errorf("%s: history %q, status %q; want %q, %q", name, history, got, tt.history, tt.status)
		}
	}
}

// A snapshot that is bounded is full of what it shows and not of what it was made of, by all events
// as by its digest; and what is not full is whole.
func TestASnapshotIsFullOfWhatItShows(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := aTalk(t)
		room := rapid.SampledFrom([]int{1, 100, 1000, 10_000, 1 << 20}).Draw(t, "room")
		for _, turn := range thread.Fold(log).Turns() {
			whole, d := thread.NewSnapshot("c", turn.ID), thread.NewDigest(turn.ID, "", "")
			for _, e := range log[turn.Opened-1:] {
				whole.Apply(e)
				d.Apply(e)
			}
			want, _ := whole.Task()
			for name, events := range map[string][]*mesh.Event{"events": log[turn.Opened-1:], "digest": d.Take()} {
				s := thread.NewSnapshot("c", turn.ID).Within(room)
				for _, e := range events {
					s.Apply(e)
				}
				got, _ := s.Task()
				size := 0
				for _, a := range got.Artifacts {
					size += proto.Size(a)
				}
				_, marked := got.Metadata.GetFields()[mesh.KeyTruncated]
				if s.Full() != marked || s.Full() && size < room || !s.Full() && !cmp.Equal(want, got, protocmp.Transform()) {
					t.Fatalf("by its %s: of %d bytes that have room %d are shown, full %v, marked %v", name, room, size, s.Full(), marked)
				}
			}
		}
	})
}

// What is replaced gives its room back, and pieces of text take what the text does.
func TestWhatIsNotShownTakesNoRoom(t *testing.T) {
	piece := func(n int, add bool) mesh.ArtifactAppended {
		return mesh.ArtifactAppended{Append: add, Artifact: &a2apb.Artifact{ArtifactId: "an-id-that-is-long-beside-its-text", Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: strings.Repeat("x", n)}}}}}
	}
	for name, tt := range map[string]struct {
		size int
		add  bool
	}{"replaced": {900, false}, "joined": {1, true}} {
		s, given := thread.NewSnapshot("c", "t").Within(1000), thread.NewGiven("a", 1000)
		s.Apply(&mesh.Event{Seq: 1, Execution: "t", Body: mesh.TaskOpened{Execution: mesh.Execution{ID: "t", Kind: mesh.KindTurn}}})
		s.Apply(&mesh.Event{Seq: 2, Execution: "t", Body: mesh.DispatchIssued{Child: mesh.Execution{ID: "a", Parent: "t", Kind: mesh.KindAgent, Agent: "main"}}})
		for i := range 900 {
			e := &mesh.Event{Seq: mesh.Seq(3 + i), Execution: "a", Body: piece(tt.size, tt.add)}
			s.Apply(e)
			given.Apply(e)
		}
		task, _ := s.Task()
		if s.Full() || len(task.Artifacts) != 1 || len(task.Artifacts[0].Parts[0].GetText()) != 900 {
			t.Errorf("%s: it is full %v, with %d bytes", name, s.Full(), proto.Size(task))
		}
		if all, left := given.Artifacts(); left > 0 || !proto.Equal(all[0], task.Artifacts[0]) {
			t.Errorf("%s: %d are left out", name, left)
		}
	}
}

// Of streamed pieces only text that is nothing else is joined.
func TestOnlyPlainTextIsJoined(t *testing.T) {
	text := func(change func(*a2apb.Part)) *a2apb.Part {
		p := &a2apb.Part{Content: &a2apb.Part_Text{Text: "b"}}
		change(p)
		return p
	}
	for name, tt := range map[string]struct {
		part *a2apb.Part
		want int
	}{
		"text":           {text(func(*a2apb.Part) {}), 1},
		"a file":         {text(func(p *a2apb.Part) { p.Filename = "f" }), 3},
		"another kind":   {text(func(p *a2apb.Part) { p.MediaType = "text/html" }), 3},
		"with metadata":  {text(func(p *a2apb.Part) { p.Metadata = &structpb.Struct{} }), 3},
		"of later times": {text(func(p *a2apb.Part) { p.ProtoReflect().SetUnknown([]byte{0xf8, 0x3f, 1}) }), 3},
		"data":           {&a2apb.Part{Content: &a2apb.Part_Data{Data: structpb.NewStringValue("b")}}, 3},
		"raw":            {&a2apb.Part{Content: &a2apb.Part_Raw{Raw: []byte("b")}}, 3},
	} {
		s := thread.NewSnapshot("c", "t")
		s.Apply(&mesh.Event{Seq: 1, Execution: "t", Body: mesh.TaskOpened{Execution: mesh.Execution{ID: "t", Kind: mesh.KindTurn}}})
		s.Apply(&mesh.Event{Seq: 2, Execution: "t", Body: mesh.DispatchIssued{Child: mesh.Execution{ID: "a", Parent: "t", Kind: mesh.KindAgent, Agent: "main"}}})
		for i, p := range []*a2apb.Part{text(func(*a2apb.Part) {}), tt.part, text(func(*a2apb.Part) {})} {
			s.Apply(&mesh.Event{Seq: mesh.Seq(i + 3), Execution: "a", Body: mesh.ArtifactAppended{Append: i > 0, Artifact: &a2apb.Artifact{ArtifactId: "x", Parts: []*a2apb.Part{p}}}})
		}
		task, _ := s.Task()
		if len(task.Artifacts) != 1 || len(task.Artifacts[0].Parts) != tt.want {
			t.Errorf("%s: the task has %v, want %d parts", name, task.Artifacts, tt.want)
		}
	}
}
