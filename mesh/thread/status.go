package thread

import (
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
)

// The statuses of what an execution dispatched, as its model reads them (S0-026, S0-027).
const (
	StatusPending   = "pending"
	StatusRunning   = "running"
	StatusCompleted = "completed"
	StatusFailed    = "failed"
	StatusTimeout   = "timeout"
	StatusCancelled = "cancelled"
	StatusSkipped   = "skipped"
	StatusAwaiting  = "awaiting" // it ended with a question
)

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
