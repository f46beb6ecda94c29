package admission

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/limit"
)

// WithDeferral has [Controller.Accept] answer early. It is for a process that alone
// writes to its backend: another one could end an execution before what was accepted
// of it is written. The logger hears of facts that could not be written after all.
func WithDeferral(logger *slog.Logger) Option {
	return func(c *Controller) { c.deferral = logger }
}

// A write that failed is tried again so often, waiting longer each time: as long as
// an agent would.
const (
	deferredTries = 7
	deferredWait  = 50 * time.Millisecond
)

// Accept is Append for facts on which nothing rests yet. It returns when they have
// been admitted and have their place: whatever is appended to the thread from then on
// comes after them, and they go to the disk with it, or soon. For all other events it
// is Append.
func (c *Controller) Accept(ctx context.Context, g *mesh.Grant, events []*mesh.Event) (Admitted, error) {
	if c.deferral == nil || slices.ContainsFunc(events, weighs) {
		return c.Append(ctx, g, events)
	}
	type result struct {
		Admitted
		err error
	}
	placed, done := make(chan struct{}), make(chan result, 1)
	place := sync.OnceFunc(func() { close(placed) })
	left := new(atomic.Pointer[limit.Left])
	c.accepting.Go(func() {
		a, err := c.keepTrying(context.WithoutCancel(ctx), g, events, left, place, placed)
		done <- result{a, err}
	})
	select {
	case <-placed:
		return Admitted{Left: left.Load()}, nil
	case r := <-done:
		return r.Admitted, r.err
	}
}

// Wait returns when what was accepted is written, or lost. Nobody calls Accept any
// more.
func (c *Controller) Wait() { c.accepting.Wait() }

// keepTrying appends events also when the disk fails for a while after they were
// accepted.
func (c *Controller) keepTrying(ctx context.Context, g *mesh.Grant, events []*mesh.Event, left *atomic.Pointer[limit.Left], place func(), placed <-chan struct{}) (Admitted, error) {
	wait := deferredWait
	for try := 1; ; try++ {
		a, err := c.append(ctx, &request{grant: g, events: events, placed: place, left: left})
		if err == nil {
			return a, nil
		}
		select {
		case <-placed:
		default: // its writer knows
			return a, err
		}
		over := mesh.IsCode(err, mesh.Precondition) || mesh.IsCode(err, mesh.NotFound)
		if try == deferredTries || over { // else what it follows may come again too
			c.deferral.ErrorContext(ctx, "facts of an agent could not be written", "agent", g.Agent, "execution", g.Execution, "err", err)
			return a, err
		}
		time.Sleep(wait)
		wait *= 2
	}
}

// weighs reports whether decisions and limits are made on the event, or it is one.
func weighs(e *mesh.Event) bool {
	switch e.Body.(type) {
	case mesh.ModelReplied, mesh.ToolReturned, mesh.SkillReturned, mesh.StateNoted, mesh.ArtifactAppended, mesh.ResultsDelivered:
		return false
	}
	return true
}
