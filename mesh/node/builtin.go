package node

import (
	"log/slog"
	"time"

	"agentmesh/mesh/agent"
	"agentmesh/mesh/alarm"
	"agentmesh/mesh/call"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/rpc"
)

// A Builtin is an agent that the node runs itself, on a listener of its own.
type Builtin struct {
	Name string
	New  func(Env) (agent.Agent, error)
	// Delegates says that the agent has others do its work. The node then takes
	// no call of a skill from it but, with Config.OrchestratorReadSkills, those of
	// skills that only read.
	Delegates bool
	// Orchestrator is what holds for those whom it dispatches, which the node keeps, too; of
	// what is 0 the default. Orchestrates says that MaxBudget is for it: who only asks others
	// has as long as its own time.
	Orchestrator Orchestrator
	Orchestrates bool
	// Time is how long it may take when another agent dispatches it; 0 for what that one has
	// for those whom it dispatches.
	Time time.Duration
	// Inner keeps the agent out of all lists: it is for other agents of the node, which know
	// its name.
	Inner bool
}

// Env is what a builtin agent gets from its node. Everything else of the mesh
// it sees as any agent does: by calls of its services, under a grant.
type Env struct {
	// Conns are connections to other agents.
	Conns *rpc.Pool
	// Dialer calls agents by what their cards say; nil for gRPC alone.
	Dialer *call.Dialer
	// Limits are how long agents may say nothing.
	Limits call.Limits
	// Budgets are what the node lets agents use.
	Budgets limit.Budgets
	// Alarms are those of the node; nil for an agent apart.
	Alarms *alarm.Set
	Logger *slog.Logger
}

// Apart is what an agent gets that has a process of its own: it calls others over gRPC
// alone, and knows how many of its calls each of their processes has.
func Apart(conns *rpc.Pool, logger *slog.Logger) Env {
	return Env{Conns: conns, Dialer: call.NewDialer(conns, call.Options{}), Logger: logger}
}
