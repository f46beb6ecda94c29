package thread

import (
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
)

// The statuses of executions, in one word, as models, people and programs read them
// (S0-026, S0-027).
const (
	StatusPending   = "pending" // nobody works on it yet
	StatusRunning   = "running"
	StatusCompleted = "completed"
	StatusFailed    = "failed"
	StatusTimeout   = "timeout"
	StatusCancelled = "cancelled" // its reason says by whom
	StatusSkipped   = "skipped"   // what it depends on did not complete
	StatusAwaiting  = "awaiting"  // it waits for the user, or ended with a question
)

// Statuses are all of them.
func Statuses() []string {
	return []string{StatusPending, StatusRunning, StatusAwaiting, StatusCompleted, StatusFailed, StatusTimeout, StatusCancelled, StatusSkipped}
}

// StatusOf is the status of an execution that is over, for the reason.
func StatusOf(state mesh.TaskState, reason string) string {
	switch state {
	case a2apb.TaskState_TASK_STATE_COMPLETED:
		return StatusCompleted
	case a2apb.TaskState_TASK_STATE_CANCELED:
		if reason == mesh.ReasonAsked {
			return StatusAwaiting
		}
		return StatusCancelled
	case a2apb.TaskState_TASK_STATE_REJECTED:
		if reason == mesh.ReasonDependency {
			return StatusSkipped
		}
	case a2apb.TaskState_TASK_STATE_FAILED:
		if reason == mesh.ReasonTimeout {
			return StatusTimeout
		}
	}
	return StatusFailed
}

// Status is the execution's.
func (x *Execution) Status() string {
	switch {
	case mesh.Terminal(x.State):
		return StatusOf(x.State, x.Reason)
	case mesh.Interrupted(x.State):
		return StatusAwaiting
	case x.Waits(), x.Kind == mesh.KindTurn && x.State == a2apb.TaskState_TASK_STATE_SUBMITTED:
		return StatusPending
	}
	return StatusRunning
}
