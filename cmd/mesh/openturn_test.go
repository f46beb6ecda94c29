package main

import (
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

// Whoever comes to a thread hears the turn that runs, and stops that one with
// Ctrl-C, not one that somebody else has waiting behind it.
func TestAChatPicksUpTheTurnThatRuns(t *testing.T) {
	const (
		done    = a2apb.TaskState_TASK_STATE_COMPLETED
		waiting = a2apb.TaskState_TASK_STATE_INPUT_REQUIRED
		running = a2apb.TaskState_TASK_STATE_WORKING
		queued  = a2apb.TaskState_TASK_STATE_SUBMITTED
	)
	for name, tt := range map[string]struct {
		states []mesh.TaskState
		want   string
	}{
		"nothing was said":                  {nil, ""},
		"all is said":                       {[]mesh.TaskState{done, done}, ""},
		"the one that runs, not the queued": {[]mesh.TaskState{done, running, queued, queued}, "1"},
		"the one that waits":                {[]mesh.TaskState{done, waiting}, "1"},
		"not one that was left":             {[]mesh.TaskState{waiting, done}, ""},
		"the one that runs after it":        {[]mesh.TaskState{waiting, running}, "1"},
	} {
		t.Run(name, func(t *testing.T) {
			th := &meshv1.Thread{}
			for i, s := range tt.states {
				th.Executions = append(th.Executions,
					&meshv1.ExecutionState{State: s, Execution: &meshv1.Execution{Id: string(rune('0' + i)), Kind: string(mesh.KindTurn)}},
					&meshv1.ExecutionState{State: running, Execution: &meshv1.Execution{Id: "agent", Kind: string(mesh.KindAgent)}})
			}
			if got := openTurn(th).GetExecution().GetId(); got != tt.want {
				t.Errorf("turn %q, want %q", got, tt.want)
			}
		})
	}
}
