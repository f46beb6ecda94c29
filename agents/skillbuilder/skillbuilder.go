// Package skillbuilder is the agent that builds a skill together with the
// user: a guided conversation in five states, at whose end the mesh has the
// skill.
//
// It listens: only what is plainly an answer is taken into the skill (plain.go). A question for
// the main agent is answered by that in the same stream, another skill is begun only when the
// user said what becomes of this one, and of anything else the user is asked what was meant
// (package session). What is too long to be kept is not taken, and the question says so.
//
// It guarantees that what was said is kept in the thread after every message,
// so that a session survives a restart, a break and a cancellation; that a
// skill is saved only as the user has seen it, and after it was validated; that
// the user can leave at every step; and that control goes back when the session
// ends, whatever came of it.
//
// It keeps no state of its own; invocations run concurrently, those of one
// thread one after the other.
//
// It needs no model: the machine is a pure function of its state and what a message is for.
// Rules tell that, and read short answers; a model, where there is one, tells and reads what
// they cannot, by typed calls; a call that was not offered, or says nothing, is no answer.
package skillbuilder

import (
	"cmp"
	"context"
	"iter"
	"log/slog"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/dispatch"
	"agentmesh/mesh/llm"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// Config is what the agent cannot work without (Card), and what it can choose.
type Config struct {
	Card *a2apb.AgentCard
	// Conns are connections to other agents, a *rpc.Pool, and Dispatch says how the main
	// agent is asked what is for it. Without Conns the user is told that it is not for here.
	Conns    dispatch.Conns
	Dispatch dispatch.Options
	// Worker is the agent that tries new skills without effect, which takes Conns; "" tries
	// none. WorkerThinks says that it has a model, to carry out whole pages; without one those
	// steps are tried that are commands.
	Worker       string
	WorkerThinks bool
	// Main is the main agent. The default is "main".
	Main string
	// Model tells what the user's messages are for, and what answers say, where rules are not
	// certain; nil for rules alone. ModelName is the model to ask for; "" is the provider's
	// default. Fit and Cost are those of llm.Loop.
	Model     llm.Model
	ModelName string
	Fit       func(req *llm.Request, last mesh.Usage) (dropped int)
	Cost      func(model string, u mesh.Usage) mesh.Usage
	// Now tells the day that skills are dated with. The default is time.Now.
	Now func() time.Time
	// Logger is for the operator. The default discards.
	Logger *slog.Logger
}

// New returns the agent. The error is Invalid and names the field.
func New(cfg Config) (agent.Agent, error) {
	if cfg.Card == nil {
		return nil, mesh.InvalidField("skillbuilder.New", "card", "is missing")
	}
	cfg.Main = cmp.Or(cfg.Main, "main")
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
	cfg.Dispatch.SubAgents, cfg.Dispatch.Leaves, cfg.Dispatch.Logger = nil, false, cfg.Logger
	cfg.Dispatch.MaxAgents, cfg.Dispatch.HelpTime = -1, 0 // no model dispatches, nor answers
	return &builder{cfg}, nil
}

type builder struct{ Config }

func (b *builder) Card() *a2apb.AgentCard { return b.Config.Card }

func (b *builder) Run(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
	return func(yield func(agent.Output, error) bool) {
		left := false
		r := &run{builder: b, inv: inv, say: func(o agent.Output) {
			left = left || !yield(o, nil)
		}}
		if err := r.converse(ctx); err != nil && !left {
			yield(nil, mesh.Wrap("skillbuilder.Run", err))
		}
	}
}
