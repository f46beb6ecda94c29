package thread_test

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"pgregory.net/rapid"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
)

// at is where the events of these tests begin, a second apart.
var at = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

func of(actor string, id mesh.ExecutionID, b mesh.Body) *mesh.Event {
	return &mesh.Event{Actor: actor, Execution: id, Body: b}
}

func asked(parent, id mesh.ExecutionID, kind mesh.Kind, agent string) *mesh.Event {
	return of("node", parent, mesh.DispatchIssued{Child: mesh.Execution{ID: id, Parent: parent, Kind: kind, Agent: agent, User: "ann"}})
}

func turnIs(s mesh.TaskState) *mesh.Event { return of("node", "t1", mesh.TaskMoved{State: s}) }

func folded(events ...*mesh.Event) *thread.State {
	s := new(thread.State)
	for i, e := range events {
		c := *e
		c.Seq, c.Time = mesh.Seq(i+1), at.Add(time.Duration(i)*time.Second)
		s.Apply(&c)
	}
	return s
}

// given is a thread in which main has handed over to builder, at Seq 4.
func given(more ...*mesh.Event) []*mesh.Event {
	return append([]*mesh.Event{
		of("user:ann", "t1", mesh.TaskOpened{Execution: mesh.Execution{ID: "t1", Kind: mesh.KindTurn, Agent: "main", User: "ann"}}),
		turnIs(a2apb.TaskState_TASK_STATE_WORKING),
		asked("t1", "a1", mesh.KindAgent, "main"),
		of("agent:main", "a1", mesh.HandoffStarted{From: "main", To: "builder", ReturnExpected: true, Session: time.Hour}),
	}, more...)
}

func ended(o mesh.HandoffOutcome) *mesh.Event {
	return of("agent:builder", "b1", mesh.HandoffEnded{Started: 4, Outcome: o, By: "agent:builder"})
}

// Which events move a handoff, and which do not.
func TestAHandoffsStateFollowsFromTheLog(t *testing.T) {
	const asks, working, done = a2apb.TaskState_TASK_STATE_INPUT_REQUIRED, a2apb.TaskState_TASK_STATE_WORKING, a2apb.TaskState_TASK_STATE_COMPLETED
	target, main := asked("t1", "b1", mesh.KindHandoff, "builder"), asked("t1", "a2", mesh.KindAgent, "main")
	says := func(agent string, id mesh.ExecutionID) *mesh.Event {
		return of("agent:"+agent, id, mesh.ArtifactAppended{Artifact: artifact("x", "words")})
	}
	settled := func(id mesh.ExecutionID, s mesh.TaskState) *mesh.Event {
		return of("agent:builder", "t1", mesh.DispatchSettled{Child: id, State: s})
	}
	tests := map[string]struct {
		more []*mesh.Event
		want mesh.HandoffState
	}{
		"decided":                           {nil, mesh.HandoffPending},
		"its target is about to be asked":   {[]*mesh.Event{target}, mesh.HandoffPending},
		"who gave the stream away speaks":   {[]*mesh.Event{target, says("main", "a1")}, mesh.HandoffPending},
		"the node speaks of it":             {[]*mesh.Event{target, of("node", "b1", mesh.TaskMoved{State: working, Reason: mesh.ReasonDelivered})}, mesh.HandoffPending},
		"its target could not be reached":   {[]*mesh.Event{target, settled("b1", a2apb.TaskState_TASK_STATE_FAILED)}, mesh.HandoffPending},
		"a helper of its name speaks":       {[]*mesh.Event{target, asked("b1", "x1", mesh.KindAgent, "builder"), says("builder", "x1")}, mesh.HandoffPending},
		"its target speaks":                 {[]*mesh.Event{target, says("builder", "b1")}, mesh.HandoffActive},
		"its target asks":                   {[]*mesh.Event{target, of("agent:builder", "b1", mesh.TaskMoved{State: asks})}, mesh.HandoffActive},
		"its target works in silence":       {[]*mesh.Event{target, of("agent:builder", "b1", mesh.SkillCalled{Call: "c", Skill: "s"})}, mesh.HandoffActive},
		"its target is done without a word": {[]*mesh.Event{target, settled("b1", done)}, mesh.HandoffActive},
		"it ends before its target spoke":   {[]*mesh.Event{target, of("user:ann", "t1", mesh.HandoffEnded{Started: 4, Outcome: mesh.HandoffCancelled})}, mesh.HandoffReturning},
		"it ends":                           {[]*mesh.Event{target, says("builder", "b1"), ended(mesh.HandoffCompleted)}, mesh.HandoffReturning},
		"main is about to be told":          {[]*mesh.Event{target, says("builder", "b1"), ended(mesh.HandoffCompleted), main}, mesh.HandoffReturning},
		"its target goes on speaking":       {[]*mesh.Event{target, ended(mesh.HandoffCompleted), main, says("builder", "b1")}, mesh.HandoffReturning},
		"main speaks":                       {[]*mesh.Event{target, ended(mesh.HandoffCompleted), main, says("main", "a2")}, "completed"},
		"main speaks after a failure":       {[]*mesh.Event{target, ended(mesh.HandoffError), main, says("main", "a2")}, "error"},
		"the turn ends without main":        {[]*mesh.Event{target, ended(mesh.HandoffCancelled), turnIs(a2apb.TaskState_TASK_STATE_CANCELED)}, "cancelled"},
		"it ends while the user is asked":   {[]*mesh.Event{target, turnIs(asks), of("user:ann", "t1", mesh.HandoffEnded{Started: 4, Outcome: mesh.HandoffCancelled})}, "cancelled"},
		"it ends after its turn":            {[]*mesh.Event{target, turnIs(done), of("user:ann", "t1", mesh.HandoffEnded{Started: 4, Outcome: mesh.HandoffCompleted})}, "completed"},
		"another one is ended":              {[]*mesh.Event{target, of("node", "b1", mesh.HandoffEnded{Started: 3, Outcome: mesh.HandoffError})}, mesh.HandoffPending},
		"it is parked":                      {[]*mesh.Event{target, turnIs(asks), of("node", "t1", mesh.HandoffEnded{Started: 4, Outcome: mesh.HandoffParked})}, mesh.HandoffState(mesh.HandoffParked)},
		"main speaks after it is parked":    {[]*mesh.Event{target, turnIs(asks), of("node", "t1", mesh.HandoffEnded{Started: 4, Outcome: mesh.HandoffParked}), main, says("main", "a2")}, mesh.HandoffState(mesh.HandoffParked)},
		"it is done and stays": {[]*mesh.Event{target, says("builder", "b1"),
			of("agent:builder", "b1", mesh.HandoffEnded{Started: 4, Outcome: mesh.HandoffCompleted, Stays: true})}, mesh.HandoffActive},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := folded(given(tt.more...)...)
			if s.Handoff.State != tt.want {
				t.Errorf("it is %s, want %s", s.Handoff.State, tt.want)
			}
			if stands := tt.want == mesh.HandoffPending || tt.want == mesh.HandoffActive; s.Handoff.Active() != stands || (s.ActiveAgent("main") == "builder") != stands {
				t.Errorf("it stands: %v; the next message is for %s", s.Handoff.Active(), s.ActiveAgent("main"))
			}
		})
	}
}

// Whatever a log has, a handoff goes forward only, and ends once.
func TestAHandoffMovesAsItMay(t *testing.T) {
	outcome := []mesh.HandoffState{"completed", "cancelled", "error", mesh.HandoffState(mesh.HandoffParked)}
	may := map[mesh.HandoffState][]mesh.HandoffState{
		mesh.HandoffPending:   append([]mesh.HandoffState{mesh.HandoffPending, mesh.HandoffActive, mesh.HandoffReturning}, outcome...),
		mesh.HandoffActive:    append([]mesh.HandoffState{mesh.HandoffActive, mesh.HandoffReturning}, outcome...),
		mesh.HandoffReturning: append([]mesh.HandoffState{mesh.HandoffReturning}, outcome[:3]...),
	}
	for _, o := range outcome {
		may[o] = []mesh.HandoffState{o}
	}
	seen := map[mesh.HandoffState]int{}
	check := func(t rapid.TB, log []*mesh.Event) {
		s := new(thread.State)
		var was *thread.Handoff
		for _, e := range log {
			s.Apply(e)
			h := s.Handoff
			switch {
			case h == nil:
				continue
			case was == nil || was.Seq != h.Seq:
				if h.State != mesh.HandoffPending || h.Seq != e.Seq {
					t.Fatalf("at %d a handoff begins as %s", e.Seq, h.State)
				}
			case !slices.Contains(may[was.State], h.State):
				t.Fatalf("at %d (%T) it went from %s to %s", e.Seq, e.Body, was.State, h.State)
			case was.Ended != 0 && (was.Ended != h.Ended || was.Outcome != h.Outcome):
				t.Fatalf("at %d it ended again: %+v, then %+v", e.Seq, was, h)
			}
			if stands := h.State == mesh.HandoffPending || h.State == mesh.HandoffActive; stands != h.Active() {
				t.Fatalf("at %d it is %s, and ended at %d", e.Seq, h.State, h.Ended)
			}
			if h.State != mesh.HandoffReturning && !h.Active() && h.State != mesh.HandoffState(h.Outcome) {
				t.Fatalf("at %d it is %s, and its outcome %s", e.Seq, h.State, h.Outcome)
			}
			was = h
			seen[h.State]++
		}
	}
	rapid.Check(t, func(t *rapid.T) { check(t, aLog(t)) })
	random := rand.New(rand.NewPCG(1, 2)) // #nosec G404 -- the same logs each time
	for range 2000 {
		picks := make([]byte, 400)
		for i := range picks {
			picks[i] = byte(random.Uint32())
		}
		check(t, aTeller(picks).tell(60))
	}
	for s := range may {
		if seen[s] == 0 {
			t.Errorf("no log had one that is %s", s)
		}
	}
}

// A session is over an hour after the user's last word, or after the last work of its agent,
// when nobody is at work.
func TestASessionIsOverdueSinceTheUsersLastWord(t *testing.T) {
	asks := turnIs(a2apb.TaskState_TASK_STATE_INPUT_REQUIRED)
	word := of("user:ann", "t1", posted("ann", "slack"))
	tests := map[string]struct {
		more  []*mesh.Event
		parks time.Duration // after at; 0 is never
	}{
		"since it began":             {[]*mesh.Event{asks}, time.Hour + 3*time.Second},
		"since the last word":        {[]*mesh.Event{asks, word, asks}, time.Hour + 5*time.Second},
		"not while somebody works":   {[]*mesh.Event{asked("t1", "b1", mesh.KindHandoff, "builder")}, 0},
		"not when it ended":          {[]*mesh.Event{ended(mesh.HandoffCompleted), asks}, 0},
		"since its agent asked":      {[]*mesh.Event{word, asked("t1", "b1", mesh.KindHandoff, "builder"), asks}, time.Hour + 6*time.Second},
		"since its agent was done":   {[]*mesh.Event{asked("t1", "b1", mesh.KindHandoff, "builder"), turnIs(a2apb.TaskState_TASK_STATE_COMPLETED)}, time.Hour + 5*time.Second},
		"what agents say is no word": {[]*mesh.Event{of("agent:builder", "t1", mesh.ArtifactAppended{}), asks}, time.Hour + 3*time.Second},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			s := folded(given(tt.more...)...)
			state := s.Handoff.State
			if before := s.HandoffAt(at.Add(tt.parks - time.Nanosecond)); before.State != state {
				t.Errorf("it is %s before", before.State)
			}
			after := s.HandoffAt(at.Add(max(tt.parks, 100*time.Hour)))
			if over := after.State == mesh.HandoffState(mesh.HandoffParked); over != (tt.parks != 0) || s.Overdue(at.Add(tt.parks)) != over && tt.parks != 0 {
				t.Errorf("it is %s afterwards", after.State)
			} else if session, _ := s.Session(at.Add(max(tt.parks, 100*time.Hour))); session.Left != over {
				t.Errorf("afterwards, the session is %+v", session)
			}
			if session, _ := s.Session(at.Add(tt.parks - time.Nanosecond)); session.Left {
				t.Error("it was left before")
			}
			if s.Handoff.State != state {
				t.Error("the fold changed by looking at it")
			}
		})
	}
}
