package admission

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"agentmesh/mesh"
	"agentmesh/mesh/limit"
)

// WithDeferral has [Controller.Accept] answer early. It is for a process that alone
// writes to its backend: another one could end an execution before what was accepted
// of it is written. The logger hears of facts that could not be written after all.
func WithDeferral(logger *slog.Logger) Option {
	return func(c *Controller) {
		c.deferral = logger
		c.live, c.close = context.WithCancel(context.Background())
	}
}

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
		a, err := c.keep(context.WithoutCancel(ctx), &request{grant: g, events: events, placed: place, left: left}, placed)
		done <- result{a, err}
	})
	select {
	case <-placed:
		return Admitted{Left: left.Load()}, nil
	case r := <-done:
		return r.Admitted, r.err
	}
}

// Wait returns when what was accepted is written, or lost: what waits for room does so no longer
// then. Nobody calls Accept any more.
func (c *Controller) Wait() {
	if c.deferral != nil {
		c.close()
	}
	c.accepting.Wait()
}

// keep appends the request, and goes on trying where there is no room on the disk for what
// was accepted.
func (c *Controller) keep(ctx context.Context, r *request, placed <-chan struct{}) (Admitted, error) {
	a, err := c.append(ctx, r)
	select {
	case <-placed:
	default: // its writer knows
		return a, err
	}
	if err == nil {
		return a, nil
	}
	err = c.log.HoldFirst(c.live, r.grant.Key(), func() (err error) {
		a, err = c.append(ctx, &request{grant: r.grant, events: r.events, placed: r.placed, left: r.left})
		return err
	})
	if err != nil {
		c.deferral.ErrorContext(ctx, "facts of an agent could not be written", "agent", r.grant.Agent, "execution", r.grant.Execution, "err", err)
	}
	return a, err
}

// weighs reports whether decisions and limits are made on the event, or it is one.
func weighs(e *mesh.Event) bool {
	switch e.Body.(type) {
	case mesh.ModelReplied, mesh.ToolReturned, mesh.SkillReturned, mesh.StateNoted, mesh.ArtifactAppended, mesh.ResultsDelivered:
		return false
	}
	return true
}
