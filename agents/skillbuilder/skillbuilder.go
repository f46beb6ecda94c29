// Package skillbuilder is the agent that builds a skill together with the
// user: a guided conversation in five states, at whose end the mesh has the
// skill.
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
// It needs no model: the machine is a pure function of its state and what the
// user said, and it understands short answers only.
package skillbuilder

import (
	"context"
	"iter"
	"log/slog"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/agent"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// Config is what the agent cannot work without (Card), and what it can choose.
type Config struct {
	Card *a2apb.AgentCard
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
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.DiscardHandler)
	}
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
