package admission

import (
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/thread"
)

// bound is a library whose agents have others work under the terms.
func bound(t *testing.T, terms Terms) (*library, *clock) {
	t.Helper()
	l, c := timed(t, limit.Budgets{TurnAgents: limit.Unlimited})
	l.terms = func(_ mesh.TenantID, by, agent string) Terms {
		if by != "orchestrator" || agent == "" && terms.Time == 0 {
			return Terms{}
		}
		return terms
	}
	return l, c
}

// issue has the grant's execution dispatch a worker that has until then.
func issue(g *mesh.Grant, until time.Time) *mesh.Event {
	return &mesh.Event{Execution: g.Execution, Body: mesh.DispatchIssued{Child: mesh.Execution{
		ID: mesh.NewExecutionID(g.Thread), Parent: g.Execution, Kind: mesh.KindAgent, Agent: "worker", User: g.User, Deadline: until}}}
}

// childOf is the execution that the event dispatches.
func childOf(e *mesh.Event) mesh.ExecutionID { return e.Body.(mesh.DispatchIssued).Child.ID }

// S1-036: the node lets so many agents of one execution work at once, whatever that keeps
// itself: one more waits, which is no limit of the turn, until one is done or out of time, or
// ends with the same request.
func TestSoManyAgentsOfOneWorkAtOnce(t *testing.T) {
	l, c := bound(t, Terms{Concurrent: 2})
	top := l.run(t, l.post(t), "orchestrator", "*")
	ends := func(e *mesh.Event) *mesh.Event {
		return &mesh.Event{Execution: top.Execution, Body: mesh.DispatchSettled{Child: childOf(e), State: a2apb.TaskState_TASK_STATE_COMPLETED}}
	}
	first, second := issue(top, time.Time{}), issue(top, l.now().Add(time.Minute))
	for _, e := range []*mesh.Event{first, second, first} { // and again
		if _, err := l.add(t.Context(), top, e); err != nil {
			t.Fatal(err)
		}
	}
	_, err := l.add(t.Context(), top, issue(top, time.Time{}))
	wantTrip(t, err, limit.OrchestratorAgents, 2, 2)
	if free := limit.TripOf(err).Free; free.IsZero() || l.tripped(t) != "" {
		t.Errorf("there is room at %v, and the log has %q", free, l.tripped(t))
	}
	_, err = l.add(t.Context(), top, ends(first), issue(top, time.Time{}), issue(top, time.Time{}))
	wantTrip(t, err, limit.OrchestratorAgents, 2, 2)
	if _, err := l.add(t.Context(), top, ends(first), issue(top, time.Time{})); err != nil {
		t.Errorf("one ended: %v", err)
	}
	_, err = l.add(t.Context(), top, issue(top, time.Time{}))
	wantTrip(t, err, limit.OrchestratorAgents, 2, 2)
	c.pass(time.Minute)
	if _, err := l.add(t.Context(), top, issue(top, time.Time{})); err != nil {
		t.Errorf("one is out of time: %v", err)
	}
}

// S1-037: an agent has until its timeout is over, in the log and by its grant, whatever who
// dispatches it says; less is as it was said.
func TestAnAgentHasAsLongAsItsTimeoutSays(t *testing.T) {
	l, _ := bound(t, Terms{Timeout: 5 * time.Minute})
	top := l.run(t, l.post(t), "orchestrator", "*")
	for said, want := range map[time.Duration]time.Duration{0: 5 * time.Minute, time.Hour: 5 * time.Minute, time.Minute: time.Minute} {
		until := time.Time{}
		if said > 0 {
			until = l.now().Add(said)
		}
		e := issue(top, until)
		for range 2 {
			got, err := l.add(t.Context(), top, e)
			if err != nil {
				t.Fatal(err)
			}
			if g := issued(t, got, childOf(e)); g.Expires != l.now().Add(want).Unix() {
				t.Errorf("%v: the grant ends after %v", said, time.Unix(g.Expires, 0).Sub(l.now()))
			}
		}
		if err := l.states.With(t.Context(), l.key, func(s *thread.State) error {
			if at := s.Execution(childOf(e)).Deadline; !at.Equal(l.now().Add(want)) {
				t.Errorf("%v: the log has %v", said, at.Sub(l.now()))
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// S1-038: what an execution dispatches ends when its time to have others work is over, and
// then the node takes outcomes only; with the user's next message all of it is there again.
func TestWhenItsTimeToHaveOthersWorkIsOverOutcomesAloneAreTaken(t *testing.T) {
	l, c := bound(t, Terms{Time: 10 * time.Minute, Timeout: 5 * time.Minute})
	turn := l.post(t)
	top := l.run(t, turn, "orchestrator", "*")
	c.pass(8 * time.Minute)
	e := issue(top, time.Time{})
	got, err := l.add(t.Context(), top, e)
	if err != nil {
		t.Fatal(err)
	}
	if left := time.Unix(issued(t, got, childOf(e)).Expires, 0).Sub(l.now()); left > 2*time.Minute+time.Second {
		t.Errorf("after 8 of 10 minutes an agent has %v", left)
	}
	c.pass(3 * time.Minute)
	_, err = l.add(t.Context(), top, issue(top, time.Time{}))
	if trip := limit.TripOf(err); trip == nil || trip.Limit != limit.OrchestratorTime || trip.Most != 600 {
		t.Fatalf("after 11 minutes: %v", err)
	}
	accepts := &mesh.Event{Execution: top.Execution, Body: mesh.DispatchAccepted{Wave: 1, Child: mesh.Execution{
		ID: mesh.NewExecutionID(l.key.ID), Parent: top.Execution, Kind: mesh.KindAgent, Agent: "worker", User: "ann", Label: "x"}}}
	if _, err := l.add(t.Context(), top, accepts); limit.TripOf(err) == nil {
		t.Errorf("an order after 11 minutes: %v", err)
	}
	outcome := &mesh.Event{Execution: top.Execution, Body: mesh.DispatchSettled{Child: childOf(e), State: a2apb.TaskState_TASK_STATE_COMPLETED}}
	if _, err := l.add(t.Context(), top, outcome, replied(top, 5, 0)); err != nil {
		t.Errorf("outcomes: %v", err)
	}
	l.says(t, turn, "yes")
	for _, b := range []mesh.TaskMoved{{State: a2apb.TaskState_TASK_STATE_INPUT_REQUIRED}, {State: a2apb.TaskState_TASK_STATE_WORKING, Reason: mesh.ReasonDelivered}} {
		if err := l.decide(t.Context(), &mesh.Event{Time: l.now(), Execution: top.Execution, Body: b}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := l.add(t.Context(), top, issue(top, time.Time{})); err != nil {
		t.Errorf("after the user's word: %v", err)
	}
}
