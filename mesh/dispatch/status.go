package dispatch

import (
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
