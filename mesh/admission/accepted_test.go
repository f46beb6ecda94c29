package admission

import (
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache/cachetest"
)

// finding O8, S0-057: an accepted order is an execution that waits, without a grant, until
// it is dispatched just so; and what it came to is delivered once, when it is over, by who
// dispatched it (C6.4). What is sent again adds nothing.
func TestOrdersAreAcceptedDispatchedAndDeliveredOnce(t *testing.T) {
	l := over(&cachetest.Store{Backend: mem.Open()})
	g := l.run(t, l.post(t), "orchestrator", "*")
	x := mesh.Execution{ID: mesh.NewExecutionID(l.key.ID), Parent: g.Execution, Kind: mesh.KindAgent, User: g.User, Label: "a", Text: "find it", Skills: []string{"tasks.search"}}
	y := x
	y.ID, y.Label, y.DependsOn = mesh.NewExecutionID(l.key.ID), "b", []mesh.ExecutionID{x.ID}
	event := func(b mesh.Body) *mesh.Event {
		return &mesh.Event{ID: mesh.NewEventID(), Execution: g.Execution, Body: b}
	}
	add := func(events ...*mesh.Event) (Admitted, error) { return l.add(t.Context(), g, events...) }
	state := func(id mesh.ExecutionID) (x thread.Execution) {
		t.Helper()
		if err := l.states.With(t.Context(), l.key, func(s *thread.State) error { x = *s.Execution(id); return nil }); err != nil {
			t.Fatal(err)
		}
		return x
	}
	deliver := func(id mesh.ExecutionID) *mesh.Event {
		return event(mesh.ResultsDelivered{Executions: []mesh.ExecutionID{id}, Text: "done"})
	}

	// All of a batch, or nothing: one depends on what nobody dispatched.
	foreign := y
	foreign.DependsOn = []mesh.ExecutionID{"elsewhere"}
	_, err := add(event(mesh.DispatchAccepted{Child: x, Wave: 1}), event(mesh.DispatchAccepted{Child: foreign, Wave: 2}))
	wantCode(t, err, mesh.Invalid, "depends_on", "elsewhere")
	batch := []*mesh.Event{event(mesh.DispatchAccepted{Child: x, Wave: 1, Call: "1"}), event(mesh.DispatchAccepted{Child: y, Wave: 2, Call: "2"})}
	for range 2 {
		got, err := add(batch...)
		if err != nil || len(got.Grants) > 0 {
			t.Fatalf("accepted with %v, %v", got.Grants, err)
		}
	}
	if s := state(x.ID); s.State != a2apb.TaskState_TASK_STATE_SUBMITTED || !s.Waits() || s.Accepted.Wave != 1 {
		t.Errorf("accepted as %+v", s)
	}
	_, err = add(deliver(x.ID))
	wantCode(t, err, mesh.Denied, "is not over")

	// It is dispatched as it was accepted, and not as something else.
	for what, change := range map[string]func(*mesh.Execution){
		"other skills": func(o *mesh.Execution) { o.Skills = []string{"mail.send"} },
		"another task": func(o *mesh.Execution) { o.Text = "delete it" },
	} {
		other := x
		other.Agent = "worker"
		change(&other)
		if _, err := add(event(mesh.DispatchIssued{Child: other, Message: mesh.Say("go")})); !mesh.IsCode(err, mesh.Invalid) {
			t.Errorf("%s: %v", what, err)
		}
	}
	x.Agent = "worker"
	got, err := add(event(mesh.DispatchIssued{Child: x, Message: mesh.Say("go")}))
	if err != nil || got.Grants[x.ID].Execution != x.ID {
		t.Fatalf("dispatched with %v, %v", got.Grants, err)
	}
	if s := state(x.ID); s.State != a2apb.TaskState_TASK_STATE_WORKING || s.Waits() || s.Agent != "worker" {
		t.Errorf("dispatched as %+v", s)
	}

	// Ends, of one that never began too, and deliveries.
	skipped := event(mesh.DispatchSettled{Child: y.ID, State: a2apb.TaskState_TASK_STATE_REJECTED, Reason: mesh.ReasonDependency})
	failed := event(mesh.DispatchSettled{Child: x.ID, State: a2apb.TaskState_TASK_STATE_FAILED, Result: "no luck"})
	first := deliver(x.ID)
	for range 2 { // with the end in one request, and again
		if _, err := add(failed, skipped, first); err != nil {
			t.Fatal(err)
		}
	}
	if s := state(y.ID); thread.StatusOf(s.State, s.Reason) != thread.StatusSkipped || s.Delivery != "" {
		t.Errorf("skipped as %+v", s)
	}
	_, err = add(deliver(x.ID))
	wantCode(t, err, mesh.Precondition, "was delivered before")
	_, err = add(event(mesh.ToolReturned{Call: "3", Name: "get_agent_results", Delivered: []mesh.ExecutionID{x.ID}}))
	wantCode(t, err, mesh.Precondition, "was delivered before")
	if _, err = add(event(mesh.ToolReturned{Call: "3", Name: "get_agent_results", Delivered: []mesh.ExecutionID{y.ID}})); err != nil {
		t.Fatal(err)
	}
	_, err = add(deliver(y.ID))
	wantCode(t, err, mesh.Precondition, "was delivered before")
	other := l.run(t, l.post(t), "other", "*")
	_, err = l.add(t.Context(), other, &mesh.Event{ID: mesh.NewEventID(), Execution: other.Execution, Body: mesh.ResultsDelivered{Executions: []mesh.ExecutionID{x.ID}, Text: "mine"}})
	wantCode(t, err, mesh.Denied, "only what came of executions")

	// B2: who is above is not dispatched again.
	again := x
	again.ID, again.Agent = mesh.NewExecutionID(l.key.ID), "orchestrator"
	if _, err := add(event(mesh.DispatchAccepted{Child: again})); err == nil {
		t.Error("an agent is accepted below itself")
	}
}
