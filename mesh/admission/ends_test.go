package admission

import (
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
)

// An execution that has an end gets no other one, and does not go on: its agent would begin
// again. What comes with a second end is added all the same.
func TestWhatIsOverStaysOver(t *testing.T) {
	l := newLibrary(t)
	g := l.run(t, l.post(t), "orchestrator", "*")
	x := mesh.Execution{ID: mesh.NewExecutionID(l.key.ID), Parent: g.Execution, Kind: mesh.KindAgent, Agent: "worker", User: g.User}
	event := func(of mesh.ExecutionID, b mesh.Body) *mesh.Event { return &mesh.Event{Execution: of, Body: b} }
	if _, err := l.add(t.Context(), g, event(g.Execution, mesh.DispatchIssued{Child: x})); err != nil {
		t.Fatal(err)
	}
	if err := l.decide(t.Context(), &mesh.Event{Execution: g.Execution, Actor: "user:ann", Body: mesh.DispatchSettled{Child: x.ID, State: a2apb.TaskState_TASK_STATE_CANCELED}}); err != nil {
		t.Fatal(err)
	}
	for _, reason := range []string{mesh.ReasonContinued, mesh.ReasonDelivered} {
		_, err := l.add(t.Context(), g, event(x.ID, mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_WORKING, Reason: reason}))
		wantCode(t, err, mesh.Precondition, "is over")
	}
	_, err := l.add(t.Context(), g, event(g.Execution, mesh.DispatchSettled{Child: x.ID, State: a2apb.TaskState_TASK_STATE_COMPLETED}),
		event(g.Execution, mesh.ResultsDelivered{Executions: []mesh.ExecutionID{x.ID}, Text: "canceled"}))
	if err != nil {
		t.Fatal(err)
	}
	events, err := l.log.Read(t.Context(), l.key, 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	ends := 0
	for _, e := range events {
		if _, ok := e.Body.(mesh.DispatchSettled); ok {
			ends++
		}
	}
	if _, told := events[len(events)-1].Body.(mesh.ResultsDelivered); ends != 1 || !told {
		t.Errorf("%d ends, and last %+v", ends, events[len(events)-1])
	}
}

// What somebody wants to end, or what it works for, does not go on after it was cut off: an
// agent that lost it would begin again.
func TestWhatIsBeingCanceledDoesNotGoOn(t *testing.T) {
	l := newLibrary(t)
	g := l.run(t, l.post(t), "orchestrator", "*")
	x := mesh.Execution{ID: mesh.NewExecutionID(l.key.ID), Parent: g.Execution, Kind: mesh.KindAgent, Agent: "worker", User: g.User}
	if _, err := l.add(t.Context(), g, &mesh.Event{Execution: g.Execution, Body: mesh.DispatchIssued{Child: x}}); err != nil {
		t.Fatal(err)
	}
	goesOn := func() error {
		_, err := l.add(t.Context(), g, &mesh.Event{Execution: x.ID, Body: mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_WORKING, Reason: mesh.ReasonContinued}})
		return err
	}
	if err := goesOn(); err != nil {
		t.Fatal(err)
	}
	if err := l.decide(t.Context(), &mesh.Event{Execution: x.ID, Actor: "user:ann", Body: mesh.CancelRequested{By: "ann"}}); err != nil {
		t.Fatal(err)
	}
	wantCode(t, goesOn(), mesh.Canceled, "does not go on")
}
