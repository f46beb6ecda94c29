package thread_test

import (
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

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

// A thread is called what its user said first, in one line that is not too long.
func TestATitleIsOneShortLine(t *testing.T) {
	for said, want := range map[string]string{
		"plan\n  my trip ":             "plan my trip",
		strings.Repeat("é", 60):        strings.Repeat("é", 60),
		strings.Repeat("é", 61):        strings.Repeat("é", 59) + "…",
		strings.Repeat("x", 100) + "y": strings.Repeat("x", 59) + "…",
	} {
		s := thread.Fold([]*mesh.Event{
			{Seq: 1, Execution: "t", Body: mesh.TaskOpened{Execution: mesh.Execution{ID: "t", Kind: mesh.KindTurn}}},
			{Seq: 2, Execution: "t", Body: mesh.MessagePosted{Message: &a2apb.Message{Parts: []*a2apb.Part{
				{Content: &a2apb.Part_Text{Text: " "}}, {Content: &a2apb.Part_Text{Text: said}}, {Content: &a2apb.Part_Text{Text: "more"}}}}}},
		})
		if s.Title != want {
			t.Errorf("%q is called %q, want %q", said, s.Title, want)
		}
	}
}
