package admission

import (
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache/cachetest"
)

// What an agent that waits asks of who dispatched it is delivered once each time that it
// asks, and leaves what it came to, which is delivered once too, also in one request. One
// that waits for its user has nothing to deliver.
func TestWhatAnAgentAsksIsDeliveredOnce(t *testing.T) {
	l := over(&cachetest.Store{Backend: mem.Open()})
	g := l.run(t, l.post(t), "orchestrator", "*")
	x := mesh.Execution{ID: mesh.NewExecutionID(l.key.ID), Parent: g.Execution, Kind: mesh.KindAgent, Agent: "worker", User: g.User, Label: "a", Text: "find it", Skills: []string{"tasks.search"}}
	event := func(of mesh.ExecutionID, b mesh.Body) *mesh.Event {
		return &mesh.Event{ID: mesh.NewEventID(), Execution: of, Body: b}
	}
	add := func(events ...*mesh.Event) error { _, err := l.add(t.Context(), g, events...); return err }
	deliver := func() *mesh.Event {
		return event(g.Execution, mesh.ResultsDelivered{Executions: []mesh.ExecutionID{x.ID}, Text: "it asks"})
	}
	waits := func(reason string) *mesh.Event {
		return event(x.ID, mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_INPUT_REQUIRED, Reason: reason, Message: mesh.Say("Which?")})
	}
	goesOn := func() *mesh.Event {
		return event(x.ID, mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_WORKING, Reason: mesh.ReasonDelivered, Message: mesh.Say("Blue.")})
	}
	must := func(events ...*mesh.Event) {
		t.Helper()
		if err := add(events...); err != nil {
			t.Fatal(err)
		}
	}
	must(event(g.Execution, mesh.DispatchIssued{Child: x, Message: mesh.Say("go")}))
	wantCode(t, add(deliver()), mesh.Denied, "is not over")
	must(waits(mesh.ReasonApproval))
	wantCode(t, add(deliver()), mesh.Denied, "is not over")
	for range 2 { // it asks, is answered, and asks again
		must(waits(mesh.ReasonHelp))
		first := deliver()
		must(first)
		must(first) // sent again
		wantCode(t, add(deliver()), mesh.Precondition, "was delivered before")
		got, err := l.add(t.Context(), g, goesOn())
		if err != nil || got.Grants[x.ID].Execution != x.ID {
			t.Fatalf("it goes on with %v, %v", got.Grants, err)
		}
		wantCode(t, add(deliver()), mesh.Denied, "is not over")
	}
	must(waits(mesh.ReasonHelp))
	must(deliver(), event(g.Execution, mesh.DispatchSettled{Child: x.ID, State: a2apb.TaskState_TASK_STATE_FAILED, Reason: mesh.ReasonHelp}), deliver())
	wantCode(t, add(deliver()), mesh.Precondition, "was delivered before")
	err := l.states.With(t.Context(), l.key, func(s *thread.State) error {
		if x := s.Execution(x.ID); x.Delivery == "" || x.HelpTold != "" || x.Status() != thread.StatusFailed {
			t.Errorf("it is %+v", x)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
