package turn

import (
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/call"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/thread"
)

func opened(id mesh.ExecutionID) *mesh.Event {
	return &mesh.Event{Execution: id, Actor: "user:ann", Body: mesh.TaskOpened{Execution: mesh.Execution{ID: id, Kind: mesh.KindTurn, User: "ann"}}}
}

func posted(id mesh.ExecutionID) *mesh.Event {
	return &mesh.Event{Execution: id, Actor: "user:ann", Body: mesh.MessagePosted{User: "ann", Message: mesh.Say("go")}}
}

func begins(turn, id mesh.ExecutionID, agent string) *mesh.Event {
	return &mesh.Event{Execution: turn, Actor: "node", Body: mesh.DispatchIssued{Child: mesh.Execution{ID: id, Parent: turn, Kind: mesh.KindAgent, Agent: agent, User: "ann"}}}
}

func moved(id mesh.ExecutionID, state mesh.TaskState) *mesh.Event {
	return &mesh.Event{Execution: id, Actor: "node", Body: mesh.TaskMoved{State: state}}
}

func gives(id mesh.ExecutionID, from, to string) *mesh.Event {
	return &mesh.Event{Execution: id, Actor: "agent:" + from, Body: mesh.HandoffStarted{From: from, To: to}}
}

func givesBack(id mesh.ExecutionID, started mesh.Seq) *mesh.Event {
	return &mesh.Event{Execution: id, Body: mesh.HandoffEnded{Started: started, Outcome: mesh.HandoffCompleted, Summary: "done"}}
}

// finding C12: what follows a leg of turn t2, which began with its last DispatchIssued
// before what happened meanwhile.
func TestWhatFollowsALeg(t *testing.T) {
	over := func(state mesh.TaskState) outcome { return outcome{kind: legOver, last: mesh.TaskMoved{State: state}} }
	lost := outcome{kind: legLost}
	before := []*mesh.Event{ // t1 waits for its user, with an agent that could still hand over
		opened("t1"), posted("t1"), begins("t1", "a1", "main"), moved("t1", asks),
		opened("t2"), posted("t2"), begins("t2", "a2", "main"),
	}
	for name, tt := range map[string]struct {
		meanwhile []*mesh.Event
		began     int // how many of these came before the leg
		out       outcome
		hops      int
		next      string // agent and kind of the next leg
		end       string // or state and reason of the turn
	}{
		"it is over":                        {nil, 0, over(completed), 0, "", "COMPLETED"},
		"it asks":                           {nil, 0, over(asks), 0, "", "INPUT_REQUIRED"},
		"it handed over":                    {[]*mesh.Event{gives("a2", "main", "smith")}, 0, lost, 0, "smith handoff", ""},
		"it handed over and is over":        {[]*mesh.Event{gives("a2", "main", "smith")}, 0, over(completed), 0, "smith handoff", ""},
		"another turn's agent handed over":  {[]*mesh.Event{gives("a1", "main", "smith")}, 0, lost, 0, "", "FAILED " + mesh.ReasonIllegal},
		"so it did, and this one is over":   {[]*mesh.Event{gives("a1", "main", "smith")}, 0, over(completed), 0, "", "COMPLETED"},
		"it handed over once too often":     {[]*mesh.Event{gives("a2", "main", "smith")}, 0, lost, maxHops, "", "FAILED " + reasonHops},
		"the handoff has ended already":     {[]*mesh.Event{gives("a2", "main", "smith"), givesBack("t2", 8)}, 0, lost, 0, "main agent", ""},
		"the user canceled":                 {[]*mesh.Event{{Execution: "t2", Body: mesh.CancelRequested{}}, gives("a2", "main", "smith")}, 0, lost, 0, "", "CANCELED"},
		"the user said more and it is over": {[]*mesh.Event{posted("t2")}, 0, over(completed), 0, "main agent", ""},
		"the user said more and it asks":    {[]*mesh.Event{posted("t2")}, 0, over(asks), 0, "main agent", ""},
		"the user said more and it failed":  {[]*mesh.Event{posted("t2")}, 0, over(failed), 0, "main agent", ""},
		"it was interrupted":                {[]*mesh.Event{posted("t2")}, 0, outcome{last: call.Failure(mesh.ReasonInterrupted, "x")}, 0, "", "FAILED " + mesh.ReasonInterrupted},
		"the one that took over is done":    {[]*mesh.Event{gives("a2", "main", "smith"), begins("t2", "b2", "smith")}, 2, over(completed), 0, "", "COMPLETED"},
		"it waits for the user's word":      {[]*mesh.Event{gives("a2", "main", "smith"), begins("t2", "b2", "smith")}, 2, over(asks), 0, "", "INPUT_REQUIRED"},
	} {
		t.Run(name, func(t *testing.T) {
			s := new(thread.State)
			for i, e := range append(before[:len(before):len(before)], tt.meanwhile...) {
				e.Seq = mesh.Seq(i + 1)
				s.Apply(e)
			}
			d := &driver{Config: runner(t, &ledger{Backend: mem.Open()}, &agent{}).Config, key: key}
			l := &leg{turn: "t2", user: "ann", exec: mesh.Execution{ID: "a2", Agent: "main", Kind: mesh.KindAgent}, ordinal: 1, hops: tt.hops, from: mesh.Seq(len(before) + tt.began)}
			next, words := d.nextLeg(s, s.Turn("t2"), l, &tt.out)
			var got string
			if next != nil {
				got = next.exec.Agent + " " + string(next.exec.Kind)
			}
			end := strings.TrimSpace(strings.TrimPrefix(words.State.String(), "TASK_STATE_") + " " + words.Reason)
			if next != nil {
				end = ""
			}
			if got != tt.next || end != tt.end {
				t.Errorf("follows %q, ends %q; want %q, %q", got, end, tt.next, tt.end)
			}
			if next != nil && (next.turn != "t2" || next.user != "ann" || (next.handoff != nil) != strings.HasSuffix(tt.next, "handoff")) {
				t.Errorf("the next leg is %+v", next)
			}
		})
	}
}

// A thread is settled by a turn that rests when all others rest too.
func TestATurnThatRestsSettlesItsThreadIfNoOtherIsLeft(t *testing.T) {
	for name, tt := range map[string]struct {
		others []*mesh.Event
		state  mesh.TaskState
		want   mesh.Seq
	}{
		"it is over":            {nil, completed, 2},
		"it asks":               {nil, asks, 2},
		"it goes on":            {nil, working, 0},
		"another was not begun": {[]*mesh.Event{opened("t2")}, completed, 0},
		"another asks":          {[]*mesh.Event{opened("t2"), moved("t2", asks)}, completed, 4},
		"another is over":       {[]*mesh.Event{opened("t2"), moved("t2", failed)}, asks, 4},
	} {
		s := new(thread.State)
		for i, e := range append([]*mesh.Event{opened("t1"), moved("t1", working)}, tt.others...) {
			e.Seq = mesh.Seq(i + 1)
			s.Apply(e)
		}
		if got := settledBy(s, s.Turn("t1"), mesh.TaskMoved{State: tt.state}); got != tt.want {
			t.Errorf("%s: settled up to %d, want %d", name, got, tt.want)
		}
	}
}

// A leg that has lost the stream is settled as such, unless it says why it ended; one
// that waits with the stream waits on.
func TestHowALegIsSettled(t *testing.T) {
	d := &driver{Config: runner(t, &ledger{Backend: mem.Open()}, &agent{}).Config, key: key}
	l := &leg{turn: "t", exec: mesh.Execution{ID: "x", Agent: "main"}}
	gave, has, more := &leg{handoff: &thread.Handoff{}}, &leg{returned: &thread.Handoff{}}, &leg{}
	for name, tt := range map[string]struct {
		last mesh.TaskMoved
		next *leg
		want mesh.Body
	}{
		"it gave the stream away":  {mesh.TaskMoved{State: completed}, gave, mesh.DispatchSettled{Child: "x", State: completed, Reason: mesh.ReasonHandedOff}},
		"it gave it back":          {mesh.TaskMoved{State: completed}, has, mesh.DispatchSettled{Child: "x", State: completed, Reason: mesh.ReasonHandedOff}},
		"it failed with it":        {mesh.TaskMoved{State: failed, Reason: "R"}, has, mesh.DispatchSettled{Child: "x", State: failed, Reason: "R"}},
		"it asks without it":       {mesh.TaskMoved{State: asks}, gave, mesh.DispatchSettled{Child: "x", State: canceled, Reason: mesh.ReasonHandedOff}},
		"the user said more":       {mesh.TaskMoved{State: completed}, more, mesh.DispatchSettled{Child: "x", State: completed}},
		"it asks":                  {mesh.TaskMoved{State: asks}, nil, mesh.TaskMoved{State: asks}},
		"it asks and is told more": {mesh.TaskMoved{State: asks}, more, mesh.TaskMoved{State: asks}},
	} {
		if diff := cmp.Diff(tt.want, d.settle(l, tt.last, tt.next).Body); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Artifacts of the first agent keep their ids; those of later ones cannot meet them.
func TestArtifactIDsOfLegsDoNotMeet(t *testing.T) {
	for _, tt := range []struct {
		id      string
		ordinal int
		want    string
	}{{"a", 1, "a"}, {"a", 2, "2.a"}, {"2.a", 1, "1.2.a"}, {"2.a", 2, "2.2.a"}, {"v2.a", 1, "v2.a"}, {".a", 1, "1..a"}} {
		if got := namespaced(&a2apb.Artifact{ArtifactId: tt.id}, tt.ordinal).ArtifactId; got != tt.want {
			t.Errorf("%q of leg %d is %q, want %q", tt.id, tt.ordinal, got, tt.want)
		}
	}
}

// The turn waits for credentials with its agent, and is told once that it does and
// once that it does not any more.
func TestATurnWaitsForCredentialsWithItsAgent(t *testing.T) {
	r := &relay{driver: &driver{Config: runner(t, &ledger{Backend: mem.Open()}, &agent{}).Config}, leg: &leg{turn: "t1"}}
	for i, tt := range []struct {
		state mesh.TaskState
		moves bool
	}{{working, false}, {auth, true}, {auth, false}, {working, true}, {working, false}, {auth, true}} {
		events := r.authorize(mesh.TaskMoved{State: tt.state})
		if (len(events) == 1) != tt.moves || tt.moves && (events[0].Execution != "t1" || events[0].Body.(mesh.TaskMoved).State != tt.state) {
			t.Errorf("%d: %v moves the turn by %v", i, tt.state, events)
		}
		if (r.waits != nil) != (tt.state == auth) {
			t.Errorf("%d: waits is %v", i, r.waits)
		}
	}
}
