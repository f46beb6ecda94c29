package turn

import (
	"context"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
)

// HandOver is cache.Decide for a decision that begins with a HandoffStarted. Where the
// thread is driven here, the target's leg begins in the same append: the user waits
// for the disk once, and not twice. Elsewhere the driver finds the handoff in the log.
func (r *Runner) HandOver(ctx context.Context, key mesh.ThreadKey, f func(*thread.State) (cache.Decision, error)) error {
	refused := r.States.With(ctx, key, func(s *thread.State) error { _, err := f(s); return err })
	if refused != nil { // who does not have the stream does not wait for the driver
		return refused
	}
	r.mu.Lock()
	d := r.drivers[key]
	r.mu.Unlock()
	if d == nil {
		return r.States.Decide(ctx, key, f)
	}
	t := &taking{ctx: ctx, decide: f, done: make(chan error, 1)}
	select {
	case d.given <- t:
		return <-t.done
	case <-d.gone:
		return r.States.Decide(ctx, key, f)
	case <-ctx.Done():
		return mesh.Wrap("turn.HandOver", ctx.Err())
	}
}

// handOver decides that the leg's agent gives the stream away, and returns the leg that
// has begun with it: nil if that is refused, or if what follows is found out as for a
// handoff that somebody else has logged.
func (d *driver) handOver(t *taking, l *leg) *leg {
	next, said, err := d.receiver(t, l)
	if err != nil {
		t.done <- err
		return nil
	}
	var started *mesh.Event
	begins := false
	err = d.decide(t.ctx, func(s *thread.State, dec *cache.Decision) error {
		given, err := t.decide(s)
		if err != nil {
			return err
		}
		started = given.Events[0]
		dec.Events, dec.Scopes = append(dec.Events, given.Events...), given.Scopes
		turn, err := turnIn(s, l.turn)
		if begins = err == nil && next != nil && !turn.Canceled && len(turn.Posts) == said; begins {
			next.begins = d.event(l.turn, "node", mesh.DispatchIssued{Child: next.exec, Message: next.message})
			dec.Events = append(append(dec.Events, d.forget(s, next)...), next.begins)
		}
		return err
	})
	if mesh.IsCode(err, mesh.Conflict) { // somebody has claimed the thread
		begins, err = false, d.States.Decide(t.ctx, d.key, t.decide)
	}
	t.done <- err
	if err != nil || !begins {
		return nil
	}
	next.handoff.Seq, next.from = started.Seq, next.begins.Seq
	return next
}

// receiver returns the leg of the agent that is to have the stream, and how many
// messages the turn has then; nil if that cannot be said yet.
func (d *driver) receiver(t *taking, l *leg) (next *leg, said int, err error) {
	var pending []mesh.Seq
	err = d.States.With(t.ctx, d.key, func(s *thread.State) error {
		given, err := t.decide(s)
		if err != nil {
			return err
		}
		turn, err := turnIn(s, l.turn)
		started, gives := given.Events[0].Body.(mesh.HandoffStarted)
		if err != nil || !gives || l.hops >= maxHops {
			return err
		}
		next = &leg{turn: turn.ID, user: turn.User, hops: l.hops + 1}
		next.start(s, d.key.ID, started.To, mesh.KindHandoff, len(turn.Legs))
		next.exec.Traceparent = d.traceparent(turn.Traceparent, next.exec.ID)
		next.handoff = &thread.Handoff{HandoffStarted: started, Turn: turn.ID, By: turn.User, State: mesh.HandoffPending}
		pending, said = append(pending, turn.Pending()...), len(turn.Posts)
		return nil
	})
	if err != nil || next == nil {
		return nil, 0, err
	}
	if err := d.address(t.ctx, next, pending); err != nil || next.size() > maxLeg {
		return nil, 0, err
	}
	d.prepare(next)
	return next, said, nil
}
