package thread_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/testing/protocmp"
	"pgregory.net/rapid"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
)

// aTalk is a thread in which agents talk much: two turns, each with an agent that has the
// stream and one that it dispatched, and stretches of output of any length.
func aTalk(t *rapid.T) []*mesh.Event {
	var log []*mesh.Event
	add := func(x mesh.ExecutionID, b mesh.Body) {
		log = append(log, &mesh.Event{Seq: mesh.Seq(len(log) + 1), Time: time.Unix(int64(len(log)), 0).UTC(), Execution: x, Actor: "agent:a", Body: b})
	}
	var talkers []mesh.ExecutionID
	for _, turn := range []mesh.ExecutionID{"t1", "t2"} {
		add(turn, mesh.TaskOpened{Execution: mesh.Execution{ID: turn, Kind: mesh.KindTurn, Agent: "a", User: "u"}})
		add(turn, mesh.DispatchIssued{Child: mesh.Execution{ID: turn + "a", Parent: turn, Kind: mesh.KindAgent, Agent: "a"}})
		add(turn+"a", mesh.DispatchIssued{Child: mesh.Execution{ID: turn + "b", Parent: turn + "a", Kind: mesh.KindAgent, Agent: "b"}})
		talkers = append(talkers, turn+"a", turn+"b")
	}
	for i := range rapid.IntRange(1, 8).Draw(t, "stretches") {
		who := rapid.SliceOfNDistinct(rapid.SampledFrom(talkers), 1, 2, rapid.ID).Draw(t, "who")
		size := rapid.SampledFrom([]int{0, 3, 40, 200, 5000}).Draw(t, "size")
		for j := range rapid.SampledFrom([]int{1, 60, 127, 128, 129, 300, 700}).Draw(t, "length") {
			a := artifact("p", strings.Repeat("x", size))
			a.Parts = append(a.Parts, &a2apb.Part{Content: &a2apb.Part_Text{Text: fmt.Sprintf("%d.%d ", i, j)}})
			add(who[j%len(who)], mesh.ArtifactAppended{Append: j > 0, Artifact: a})
		}
		switch rapid.IntRange(0, 3).Draw(t, "between") {
		case 0:
			add(who[0], mesh.ModelReplied{Text: "said"})
		case 1:
			a := artifact("q", "")
			a.Parts = append(a.Parts, &a2apb.Part{Content: &a2apb.Part_Raw{Raw: []byte("picture")}})
			add(who[0], mesh.ArtifactAppended{Artifact: a})
		case 2:
			add(who[0], mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_WORKING, Message: message(a2apb.Role_ROLE_AGENT, "words")})
		}
	}
	return log
}

// within are the events of the spans, which must be in order and in the range.
func within(t *rapid.T, log []*mesh.Event, spans []thread.Span, after, last mesh.Seq) (in []*mesh.Event) {
	at := after
	for _, s := range spans {
		if s.From <= at || s.To < s.From || s.To > last {
			t.Fatalf("after %d comes %v; the range ends at %d", at, s, last)
		}
		in = append(in, log[s.From-1:s.To]...)
		at = s.To
	}
	return in
}

// textsOf are the bytes of text in the events.
func textsOf(log []*mesh.Event) (n int) {
	for _, e := range log {
		n += len(partsText(e.Body.(mesh.ArtifactAppended).Artifact.GetParts()))
	}
	return n
}

// finding C6: what is left out of a thread for who need not read it is output alone, in long
// stretches; and of a stretch the end is there, of agents dispatched in the reader's turn all.
func TestOutputAloneIsLeftOutAndItsEndIsThere(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := aTalk(t)
		s := thread.Fold(log)
		after := mesh.Seq(rapid.IntRange(0, len(log)-1).Draw(t, "after"))
		last := mesh.Seq(rapid.IntRange(int(after)+1, len(log)).Draw(t, "last"))
		g := &mesh.Grant{Turn: "t2", Execution: "t2a", Agent: "a", Capabilities: []mesh.Capability{mesh.CapReadThread}}
		beside, brief := within(t, log, s.BesideOutput(after, last), after, last), within(t, log, s.Part(g).Brief(after, last), after, last)
		hole := false
		for _, e := range log[after:last] {
			if !isText(e) && !slices.Contains(beside, e) {
				t.Fatalf("%d, a %T, is left out", e.Seq, e.Body)
			}
			if !slices.Contains(brief, e) {
				if hole = true; !isText(e) || e.Execution == "t2b" {
					t.Fatalf("%d of %s, a %T, is left out for who is brief", e.Seq, e.Execution, e.Body)
				}
				continue
			}
			end := e.Seq - 1 // of what this stretch still has
			for hole && end < mesh.Seq(len(log)) && isText(log[end]) && s.TurnOf(log[end].Execution) == s.TurnOf(e.Execution) {
				end++
			}
			if n := textsOf(log[e.Seq-1 : max(end, e.Seq-1)]); hole && n < 8<<10 {
				t.Fatalf("of the stretch until %d no more than %d bytes are there", end, n)
			}
			hole = false
		}
	})
}

func isText(e *mesh.Event) bool {
	b, ok := e.Body.(mesh.ArtifactAppended)
	return ok && !slices.ContainsFunc(b.Artifact.GetParts(), func(p *a2apb.Part) bool { return p.GetRaw() != nil })
}

// finding C5: a task without its artifacts is the same whether output was read or not.
func TestATaskWithoutArtifactsNeedsNoOutput(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := aTalk(t)
		s := thread.Fold(log)
		last := mesh.Seq(rapid.IntRange(5, len(log)).Draw(t, "last"))
		for _, turn := range s.Turns() {
			whole, bare := thread.NewSnapshot("c", turn.ID), thread.NewSnapshot("c", turn.ID)
			for _, e := range log[turn.Opened-1 : last] {
				whole.Apply(e)
			}
			for _, e := range within(t, log, s.BesideOutput(turn.Opened-1, last), turn.Opened-1, last) {
				bare.Apply(e)
			}
			want, _ := whole.Task()
			got, _ := bare.Task()
			want.Artifacts, got.Artifacts = nil, nil
			if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
				t.Fatal(diff)
			}
		}
	})
}

// A transcript says where something of a text is not there, and only there.
func TestATranscriptSaysWhereOutputWasLeftOut(t *testing.T) {
	log := []*mesh.Event{
		{Execution: "t", Body: mesh.TaskOpened{Execution: mesh.Execution{ID: "t", Kind: mesh.KindTurn}}},
		{Execution: "t", Body: mesh.DispatchIssued{Child: mesh.Execution{ID: "x", Parent: "t", Agent: "a"}}},
		{Execution: "x", Body: mesh.ArtifactAppended{Artifact: artifact("p", "one ")}},
		{Execution: "x", Body: mesh.ArtifactAppended{Artifact: artifact("p", "two "), Append: true}},
		{Execution: "x", Body: mesh.ArtifactAppended{Artifact: artifact("p", "three "), Append: true}},
		{Execution: "x", Body: mesh.ArtifactAppended{Artifact: artifact("p", "four"), Append: true}},
	}
	var whole, cut thread.Transcript
	for i, e := range log {
		e.Seq = mesh.Seq(i + 1)
		whole.Apply(e)
		if i == 4 {
			cut.LeaveOut()
		}
		if i != 3 {
			cut.Apply(e)
		}
	}
	if got := whole.Said(); len(got) != 1 || got[0].Text != "one two three four" {
		t.Errorf("the whole is %q", got)
	}
	got := cut.Said()
	if len(got) != 1 {
		t.Fatalf("it says %q", got)
	}
	rest, begins := strings.CutPrefix(got[0].Text, "one ")
	if between, ends := strings.CutSuffix(rest, "three four"); !begins || !ends || strings.TrimSpace(between) == "" {
		t.Errorf("it says %q", got[0].Text)
	}
}
