package thread_test

import (
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
)

// An event that makes no sense where it stands opens nothing: turns are those
// that say so of themselves, and others are below what there is.
func TestEventsThatMakeNoSenseOpenNothing(t *testing.T) {
	thr := mesh.NewThreadID()
	turn, other := mesh.NewExecutionID(thr), mesh.NewExecutionID(thr)
	opened := &mesh.Event{Seq: 1, Execution: turn, Body: mesh.TaskOpened{Execution: mesh.Execution{ID: turn, Kind: mesh.KindTurn, Agent: "main"}}}
	for name, body := range map[string]mesh.Body{
		"a turn that is an agent":     mesh.TaskOpened{Execution: mesh.Execution{ID: other, Kind: mesh.KindAgent}},
		"a turn of another execution": mesh.TaskOpened{Execution: mesh.Execution{ID: mesh.NewExecutionID(thr), Kind: mesh.KindTurn}},
		"a turn below another":        mesh.TaskOpened{Execution: mesh.Execution{ID: other, Kind: mesh.KindTurn, Parent: turn}},
		"a child that is a turn":      mesh.DispatchIssued{Child: mesh.Execution{ID: turn, Kind: mesh.KindTurn, Parent: other}},
		"a child of another":          mesh.DispatchIssued{Child: mesh.Execution{ID: mesh.NewExecutionID(thr), Kind: mesh.KindAgent, Parent: turn}},
		"a child of nobody":           mesh.DispatchIssued{Child: mesh.Execution{ID: mesh.NewExecutionID(thr), Kind: mesh.KindAgent, Parent: other}},
	} {
		s := thread.Fold([]*mesh.Event{opened, {Seq: 2, Execution: other, Body: body}})
		if len(s.Turns()) != 1 || len(s.Executions()) != 1 {
			t.Errorf("%s: there are %d turns and %d executions", name, len(s.Turns()), len(s.Executions()))
		}
	}
}
