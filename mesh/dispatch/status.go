package dispatch

import (
	"context"
	"errors"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/agent"
)

// A Result is an order and what became of it.
type Result struct {
	AgentID     string           `json:"agent_id"`
	ExecutionID mesh.ExecutionID `json:"execution_id"`
	Agent       string           `json:"agent"`
	Status      string           `json:"status"`
	Result      string           `json:"result"`
	ToolCalls   int              `json:"tool_calls_used"`
	DurationMS  int64            `json:"duration_ms"`
	// Delivered says that the model was told the result before.
	Delivered bool `json:"delivered,omitempty"`
	// Mission is what was asked for.
	Mission string `json:"-"`

	wants   *awaited // of one that is waiting
	limited bool     // the mesh did not take it because of a limit
}

// awaited is what an agent waits for.
type awaited struct {
	questions []mesh.Question // about calls
	report    *agent.Report   // of a limit, or nil
	help      *needed         // of who dispatched it, or nil
}

// Terminal reports whether the order is done with.
func (r Result) Terminal() bool {
	return r.Status != StatusPending && r.Status != StatusRunning && r.Status != StatusWaiting && r.Status != StatusAsks
}

// status is how the model reads the agent's last word.
func status(ctx context.Context, last mesh.TaskMoved) string {
	if err := ctx.Err(); err != nil && last.State != a2apb.TaskState_TASK_STATE_COMPLETED {
		if errors.Is(err, context.DeadlineExceeded) {
			return StatusTimeout
		}
		return StatusCanceled
	}
	switch {
	case last.State == a2apb.TaskState_TASK_STATE_COMPLETED:
		return StatusCompleted
	case last.State == a2apb.TaskState_TASK_STATE_CANCELED:
		return StatusCanceled
	case waits(last):
		return StatusWaiting
	case mesh.Interrupted(last.State):
		return StatusAwaiting
	case last.Reason == mesh.ReasonTimeout:
		return StatusTimeout
	}
	return StatusFailed
}

// waits reports whether the agent waits for the user's word, on a call or on
// going on after a limit, and says so.
func waits(last mesh.TaskMoved) bool {
	return last.State == a2apb.TaskState_TASK_STATE_INPUT_REQUIRED && forUser(reason(last)) && mesh.TextOf(last.Message) != ""
}

// forUser reports whether no agent can give what is waited for with the reason.
func forUser(reason string) bool { return reason == mesh.ReasonApproval || reason == mesh.ReasonLimit }

// reason is why the agent is in that state, as far as it says.
func reason(last mesh.TaskMoved) string {
	return mesh.ReasonOf(last.Reason, last.Metadata)
}

// wanted is what an agent waits for. One that does not say what it asks about asks in
// its own words.
func wanted(last mesh.TaskMoved) *awaited {
	report := agent.ReportOf(last.Metadata)
	questions, told := mesh.Asks(last.Metadata)
	if report == nil && !told {
		questions = []mesh.Question{{Text: mesh.TextOf(last.Message)}}
	}
	return &awaited{questions: questions, report: report}
}
