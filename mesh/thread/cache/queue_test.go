package cache

import (
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
)

// A decision that lost is on its way no more: one that came before it, and wants the
// same now, does not wait for it while it waits for that one.
func TestWhatLostIsNotOnItsWay(t *testing.T) {
	e := newEntry()
	moves := func(id string) func(*thread.State, Reserved) (Decision, error) {
		return func(*thread.State, Reserved) (Decision, error) {
			return Decision{Events: []*mesh.Event{{ID: "of " + id, Execution: mesh.ExecutionID(id), Body: mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_WORKING}}}}, nil
		}
	}
	decide := func(of *ticket, id string) (d Decision, waits bool) {
		t.Helper()
		d, _, first, err := e.decide(of, moves(id))
		if err != nil {
			t.Fatal(err)
		}
		return d, first != nil
	}
	lost := mesh.Errorf(mesh.Conflict, "test", "another came between")
	a, b := new(ticket), new(ticket)
	da, waits := decide(a, "x")
	db, waitsToo := decide(b, "y")
	if waits || waitsToo {
		t.Fatal("decisions about different tasks wait for each other")
	}
	e.land(a, da, lost)
	if _, waits := decide(new(ticket), "x"); !waits {
		t.Error("one that lost has lost its place")
	}
	if _, waits := decide(a, "y"); !waits {
		t.Error("it does not wait for what is on its way")
	}
	e.land(b, db, lost)
	if len(e.reserved) != 0 {
		t.Errorf("reserved are %v", e.reserved)
	}
	if _, waits := decide(b, "y"); !waits {
		t.Error("it overtakes the one that came before")
	}
	if _, waits := decide(a, "y"); waits {
		t.Error("it waits for one that waits for it")
	}
}
