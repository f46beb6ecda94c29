package dispatch

import (
	"cmp"
	"log/slog"
	"time"

	"google.golang.org/grpc"

	"agentmesh/mesh/call"
	"agentmesh/mesh/limit"
)

// Conns hands out warm connections to agents: a *rpc.Pool.
type Conns interface {
	Get(endpoint string) (*grpc.ClientConn, error)
}

// A Dialer makes clients of agents: a *call.Dialer.
type Dialer interface {
	Dial(agent call.Target) (call.Client, error)
}

// Options change the defaults of a Dispatcher.
type Options struct {
	// MaxConcurrent is how many agents work at a time; more wait their turn.
	// Default 5 (S1-036).
	MaxConcurrent int
	// MaxAgents is how many may be dispatched in one run, from one message of the user to
	// the next. The node counts those of all dispatchers; here a batch that would be too
	// many is refused whole, before anything of it begins. Default 8 (S0-067), -1 for as
	// many as the node lets.
	MaxAgents int
	// Timeout is how long an agent may take. Default 300 s (S1-037), and 30 s with
	// ProfileCollect (S0-060); the order's own goes first, and then that which Timeouts has for the agent.
	Timeout  time.Duration
	Timeouts map[string]time.Duration
	// Budget is how long all agents of a run may take together. When it is over, those
	// at work are canceled and the others not begun; what arrived stays. Default 600 s
	// (S1-038), less than 0 for no end.
	Budget time.Duration
	// Orchestrating is how long an agent may take that [Consult] asks and that dispatches
	// others itself: their budget, and the time to conclude. Default 11 min.
	Orchestrating time.Duration
	// HelpTime is how long an agent waits for an answer that asks for help, while the run
	// goes on; then it ends with what it has. Agents are told that they may only if it is more
	// than 0, for runs whose model has the tools of [Orchestration]. Default 0.
	HelpTime time.Duration
	// AdoptTime is how long an agent that was cut off may take to be live again. Default
	// Limits.Return.
	AdoptTime time.Duration
	// ReturnTime is how long after it was live last an agent may be so again that was told
	// nothing yet. Default AdoptTime.
	ReturnTime time.Duration
	// Limits are how long agents may say nothing.
	Limits call.Limits
	// Worker is the agent that is asked when no agent has all skills of an
	// order itself. Default "worker".
	Worker string
	// SubAgents are those that may be dispatched; nil for all. With Leaves, all are those
	// that have a description, do not have others work themselves, and are not among Talkers.
	SubAgents []SubAgent
	Leaves    bool
	// Talkers are agents that only talk with users, by the names by which they are registered.
	Talkers []string
	// Terms are what holds for agents, by the names by which they are registered.
	Terms map[string]Terms
	// Profile says which tools the model gets, and when it is told of results. Default
	// ProfileFull.
	Profile Profile
	// Dialer calls agents. Default one that does so over gRPC alone, on the
	// connections.
	Dialer Dialer
	Logger *slog.Logger
}

// Filled returns the options with their defaults.
func (o *Options) Filled() Options {
	full := *o
	full.fill()
	return full
}

func (o *Options) fill() {
	if o.MaxConcurrent <= 0 {
		o.MaxConcurrent = limit.DefaultConcurrent
	}
	o.MaxAgents = cmp.Or(o.MaxAgents, limit.DefaultTurnAgents)
	if o.Profile == "" {
		o.Profile = ProfileFull
	}
	if o.Timeout <= 0 {
		o.Timeout = limit.DefaultAgentTime
		if o.Profile == ProfileCollect {
			o.Timeout = limit.CollectedAgentTime
		}
	}
	if o.AdoptTime <= 0 {
		o.AdoptTime = o.Limits.For("").Return
	}
	o.ReturnTime = cmp.Or(o.ReturnTime, o.AdoptTime)
	o.Budget = cmp.Or(o.Budget, limit.DefaultDispatching)
	o.Orchestrating = cmp.Or(o.Orchestrating, limit.DefaultDispatching+limit.Concluding)
	if o.Worker == "" {
		o.Worker = "worker"
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
}
