package thread_test

import (
	"fmt"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/structpb"
	"pgregory.net/rapid"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
)

var modes = []thread.Mode{{}, {Seq: true}, {Extended: true}, {Extended: true, Seq: true}}

var outcomes = []mesh.HandoffOutcome{mesh.HandoffCompleted, mesh.HandoffCancelled, mesh.HandoffError, mesh.HandoffParked}

// A teller makes up logs: most events make sense where they stand, some do
// not, and every execution has an id of its own.
type teller struct {
	pick  func(n int) int // 0 to n-1
	state *thread.State
	log   []*mesh.Event
	made  int
}

// aTeller takes what it makes up from bytes, so that rapid and the fuzzer can
// find and shrink logs alike; after the bytes, it picks the first of all.
func aTeller(data []byte) *teller {
	at := 0
	return &teller{pick: func(n int) int {
		if at >= len(data) {
			return 0
		}
		at++
		return int(data[at-1]) % n
	}}
}

// aLog draws a log of 1 to 40 events.
func aLog(t *rapid.T) []*mesh.Event {
	n := rapid.IntRange(1, 40).Draw(t, "events")
	return aTeller(rapid.SliceOfN(rapid.Byte(), 4*n, 8*n).Draw(t, "picks")).tell(n)
}

func (g *teller) tell(n int) []*mesh.Event {
	g.state = new(thread.State)
	g.log = nil
	for range n {
		id := g.any()
		e := &mesh.Event{
			Seq: g.state.Seq + 1, Time: time.Date(2026, 1, 1, 0, 0, len(g.log), 0, time.UTC),
			Execution: id, Actor: []string{"node", "agent:a", "user:u"}[g.pick(3)],
		}
		e.Body = g.body(e)
		g.log = append(g.log, e)
		g.state.Apply(e)
	}
	return g.log
}

// any is an execution: one of the last, any, or none that there is.
func (g *teller) any() mesh.ExecutionID {
	all := g.state.Executions()
	switch n := g.pick(12); {
	case len(all) == 0 || n == 0:
		return mesh.ExecutionID([]string{"", "nobody"}[g.pick(2)])
	case n < 9:
		return all[len(all)-1-g.pick(min(4, len(all)))].ID
	default:
		return all[g.pick(len(all))].ID
	}
}

func (g *teller) fresh() mesh.ExecutionID {
	g.made++
	return mesh.ExecutionID(fmt.Sprintf("x%d", g.made))
}

func (g *teller) anyState() mesh.TaskState { return mesh.TaskState(g.pick(9)) }

func (g *teller) body(e *mesh.Event) mesh.Body {
	if len(g.state.Executions()) == 0 || g.pick(16) == 0 {
		id := g.fresh()
		if g.pick(8) > 0 {
			e.Execution = id
		}
		return mesh.TaskOpened{Execution: mesh.Execution{ID: id, Kind: mesh.KindTurn, Agent: "main", User: "u"}}
	}
	switch g.pick(11) {
	case 0:
		return mesh.MessagePosted{User: "u", Message: message(a2apb.Role_ROLE_USER, fmt.Sprint(len(g.log)))}
	case 1, 2, 3:
		kind := []mesh.Kind{mesh.KindAgent, mesh.KindHandoff, mesh.KindAgent, mesh.KindTurn}[g.pick(4)]
		parent := e.Execution
		if g.pick(8) == 0 {
			parent = g.any()
		}
		return mesh.DispatchIssued{Child: mesh.Execution{ID: g.fresh(), Parent: parent, Kind: kind, Agent: "a"}}
	case 4, 5:
		return mesh.ArtifactAppended{Append: g.pick(2) == 0, Artifact: artifact([]string{"p", "q"}[g.pick(2)], fmt.Sprint(len(g.log)))}
	case 6:
		return mesh.DispatchSettled{Child: g.any(), State: g.anyState(), Result: "r"}
	case 7:
		return mesh.HandoffStarted{From: "a", To: []string{"b", "a"}[g.pick(2)], Reason: "why"}
	case 8:
		started := mesh.Seq(g.pick(5))
		if g.state.Handoff != nil && g.pick(3) > 0 {
			started = g.state.Handoff.Seq
		}
		return mesh.HandoffEnded{Started: started, Outcome: outcomes[g.pick(len(outcomes))], Stays: g.pick(4) == 0}
	case 9:
		m := mesh.TaskMoved{State: g.anyState()}
		if g.pick(2) == 0 {
			m.Message = message(a2apb.Role_ROLE_AGENT, "words")
		}
		if g.pick(4) == 0 {
			m.RemoteContext = fmt.Sprint("c", len(g.log))
		}
		if g.pick(4) == 0 {
			m.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{mesh.ExtensionURI: structpb.NewStringValue("odd"), "own": structpb.NewBoolValue(true)}}
		}
		return m
	}
	return []mesh.Body{
		nil, mesh.Foreign{}, mesh.CancelRequested{}, mesh.SkillCalled{Call: "c", Skill: "s"}, mesh.SkillReturned{Call: "c"},
		mesh.ModelReplied{Usage: mesh.Usage{Prompt: 3}}, mesh.StateNoted{Agent: "a", Data: []byte("{}")}, mesh.LimitTripped{}, mesh.ThreadClaimed{Epoch: 1},
		mesh.MessagePosted{}, mesh.ArtifactAppended{}, mesh.ToolReturned{Call: "c", Name: "get_skill"},
		mesh.ApprovalAsked{Call: "c", Skill: "s"}, mesh.ApprovalSettled{Call: "c", Approved: true},
		mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_WORKING, Reason: mesh.ReasonDelivered},
	}[g.pick(15)]
}

// shown is what a view tells of the events from its cursor on.
func shown(v *thread.View, events []*mesh.Event) []*a2apb.StreamResponse {
	var out []*a2apb.StreamResponse
	for _, e := range events {
		if r := v.Apply(e); r != nil {
			out = append(out, r)
		}
	}
	return out
}

// checkLog checks what must hold of any log: whoever resumes a task after any
// Seq, in any mode, is told exactly the rest of what the reader from the start
// was told; nothing follows the end; and the task put together from the
// updates is the one put together from the events (S4-053, S4-015).
func checkLog(t rapid.TB, log []*mesh.Event) {
	t.Helper()
	state := thread.Fold(log)
	for _, turn := range state.Turns() {
		for _, mode := range modes {
			from := turn.Opened
			told := map[mesh.Seq]*a2apb.StreamResponse{}
			whole := state.View("c", turn.ID, from, mode)
			for _, e := range log[from:] {
				if over := whole.Over(); over != (turn.Ended != 0 && turn.Ended < e.Seq) {
					t.Fatalf("before %d the view of %s is over: %v; it ended at %d", e.Seq, turn.ID, over, turn.Ended)
				}
				if r := whole.Apply(e); r != nil {
					told[e.Seq] = r
					if !mode.Extended && !thread.MayUpdate(e.Body) {
						t.Fatalf("a %T has the update %v", e.Body, r)
					}
				}
			}
			for after := from; after <= state.Seq; after++ {
				v := state.View("c", turn.ID, after, mode)
				for _, e := range log[after:] {
					if r, want := v.Apply(e), told[e.Seq]; !proto.Equal(r, want) {
						t.Fatalf("%s %+v resumed after %d, at %d (%T):\n got %v\nwant %v", turn.ID, mode, after, e.Seq, e.Body, r, want)
					}
				}
			}
		}
		checkSnapshot(t, state, log, turn)
	}
}

// checkSnapshot assembles the task of the turn twice.
func checkSnapshot(t rapid.TB, state *thread.State, log []*mesh.Event, turn *thread.Execution) {
	t.Helper()
	byEvents := thread.NewSnapshot("c", turn.ID)
	for _, e := range log[turn.Opened-1:] {
		byEvents.Apply(e)
	}
	task, seq := byEvents.Task()
	if seq != state.Seq {
		t.Fatalf("the snapshot is as of %d, want %d", seq, state.Seq)
	}
	want := &a2apb.Task{}
	texts, order := map[string]string{}, []string{}
	for _, r := range shown(state.View("c", turn.ID, turn.Opened, thread.Mode{}), log[turn.Opened:]) {
		if s := r.GetStatusUpdate(); s != nil {
			want.Status = s.Status
			continue
		}
		u := r.GetArtifactUpdate()
		id := u.GetArtifact().GetArtifactId()
		if _, known := texts[id]; !known {
			order = append(order, id)
			texts[id] = ""
		}
		if !u.Append {
			texts[id] = ""
		}
		texts[id] += partsText(u.GetArtifact().GetParts())
	}
	if want.Status != nil && task.Status.State != want.Status.State {
		t.Fatalf("%s: snapshot %v, updates %v", turn.ID, task.Status, want.Status)
	}
	got := map[string]string{}
	var gotOrder []string
	for _, a := range task.Artifacts {
		got[a.ArtifactId] = partsText(a.Parts)
		gotOrder = append(gotOrder, a.ArtifactId)
	}
	if diff := cmp.Diff(texts, got); diff != "" {
		t.Fatalf("%s: (-updates +snapshot)\n%s", turn.ID, diff)
	}
	if len(order) > 0 && !cmp.Equal(order, gotOrder) {
		t.Fatalf("%s: order %v, want %v", turn.ID, gotOrder, order)
	}
}

func TestEveryCursorGivesTheRestOfTheSameUpdates(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		checkLog(t, aLog(t))
	})
}

func TestFoldIsTheSameInOneGoAndInSteps(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := aLog(t)
		steps := thread.Fold(log[:len(log)/2])
		for _, e := range log[len(log)/2:] {
			steps.Apply(e)
		}
		once := thread.Fold(log)
		if diff := cmp.Diff(once.Executions(), steps.Executions(), protocmp.Transform()); diff != "" {
			t.Fatalf("(-at once +in steps)\n%s", diff)
		}
		if diff := cmp.Diff(once.Handoff, steps.Handoff); diff != "" {
			t.Fatal(diff)
		}
	})
}

// What is over stays as it was, whatever comes after (A2A v1.0 §4.1.3).
func TestATerminalExecutionNeverChanges(t *testing.T) {
	type end struct {
		State   mesh.TaskState
		Reason  string
		Result  string
		Ended   mesh.Seq
		Message *a2apb.Message
	}
	rapid.Check(t, func(t *rapid.T) {
		log := aLog(t)
		ended := map[mesh.ExecutionID]end{}
		s := new(thread.State)
		for _, e := range log {
			s.Apply(e)
			for _, x := range s.Executions() {
				now := end{x.State, x.Reason, x.Result, x.Ended, x.Message}
				if was, over := ended[x.ID]; over && was != now {
					t.Fatalf("at %d %s changed from %+v to %+v", e.Seq, x.ID, was, now)
				}
				if mesh.Terminal(x.State) {
					ended[x.ID] = now
				}
				if mesh.Terminal(x.State) != (x.Ended != 0) {
					t.Fatalf("at %d %s is %v and ended at %d", e.Seq, x.ID, x.State, x.Ended)
				}
			}
		}
	})
}

// Arbitrary bytes make arbitrary logs, legal or not: nothing panics, and what
// must hold of all logs holds.
func FuzzApply(f *testing.F) {
	f.Add([]byte("a thread of events"))
	f.Add([]byte{1, 200, 30, 4, 0, 0, 0, 9, 77, 6, 8, 7, 6, 5, 4, 3, 2, 1, 0, 255, 254, 3, 2})
	f.Fuzz(func(t *testing.T, data []byte) {
		g := aTeller(data)
		checkLog(t, g.tell(min(48, 2+len(data)/2)))
		checkOneStream(t, g.log)
		_ = thread.SkillCalls(g.log)
	})
}

// Ids that come twice are nobody's rule, but they must not hurt: a log in
// which every event comes twice folds and reads without a panic, and each
// execution is there once.
func TestEventsThatComeTwiceDoNoHarm(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		log := aLog(t)
		var twice []*mesh.Event
		for _, e := range log {
			for range 2 {
				c := *e
				c.Seq = mesh.Seq(len(twice) + 1)
				twice = append(twice, &c)
			}
		}
		s := thread.Fold(twice)
		seen := map[mesh.ExecutionID]bool{}
		for _, x := range s.Executions() {
			if seen[x.ID] {
				t.Fatalf("%s is there twice", x.ID)
			}
			seen[x.ID] = true
		}
		for _, turn := range s.Turns() {
			shown(s.View("c", turn.ID, turn.Opened, thread.Mode{Extended: true}), twice[turn.Opened:])
		}
	})
}
