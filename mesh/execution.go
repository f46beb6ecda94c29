package mesh

import (
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// A Kind says what an execution runs.
type Kind string

// The kinds. A turn is the user's task; an agent serves a turn or another
// agent; a handoff is an agent that has the user's stream.
const (
	KindTurn    Kind = "turn"
	KindAgent   Kind = "agent"
	KindHandoff Kind = "handoff"
)

// An Execution is the one record of work: a turn, or an agent at work on one.
// An agent's A2A task is an execution; the tree of executions is the audit
// chain of a thread.
type Execution struct {
	ID     ExecutionID
	Parent ExecutionID // "" for turns
	Kind   Kind
	Agent  string // who does it; for turns, who is asked first
	User   string
	// Label is the name that the dispatching agent chose (its agent_id).
	Label     string
	Text      string // the task in words
	Skills    []string
	DependsOn []ExecutionID
	// MaxToolCalls limits the agent's skill calls; 0 is the agent's default.
	MaxToolCalls int
	// Deadline is when it is cut off; zero for none.
	Deadline time.Time
	// Budget is what it may use with all below it, and never more than is left of that of
	// its parent.
	Budget Budget
	// Context is, for turns, the A2A context id by which the user named the thread; "" where
	// that is its id.
	Context string
	// Traceparent is the W3C trace context with which whoever does it was called: of a
	// turn, that of its client's call, or one of its own where the client sent none. "" is
	// for work that nobody traces.
	Traceparent string
	// Dry says that nothing that it does has an effect: calls of skills that would have one
	// are recorded and not made, and it dispatches nobody.
	Dry bool
}

// Terminal reports whether no state follows s (A2A v1.0 §4.1.3).
func Terminal(s TaskState) bool {
	switch s {
	case a2apb.TaskState_TASK_STATE_COMPLETED, a2apb.TaskState_TASK_STATE_FAILED,
		a2apb.TaskState_TASK_STATE_CANCELED, a2apb.TaskState_TASK_STATE_REJECTED:
		return true
	}
	return false
}

// Interrupted reports whether the task waits for its user.
func Interrupted(s TaskState) bool {
	return s == a2apb.TaskState_TASK_STATE_INPUT_REQUIRED || s == a2apb.TaskState_TASK_STATE_AUTH_REQUIRED
}
