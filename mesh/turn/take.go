package turn

import (
	"context"
	"slices"

	"google.golang.org/protobuf/proto"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
)

// A taking is what somebody wants decided in a thread that had no driver here, by
// the driver that it gets.
type taking struct {
	ctx    context.Context //nolint:containedctx // of the caller, who waits
	decide func(*thread.State) (cache.Decision, error)
	done   chan error // capacity 1
}

// Take appends what f decides, and sees to it that it is worked on, as cache.Decide
// and Wake do. If f opens a turn in a thread at rest, which nobody drives, the turn
// begins in the same append: its user waits for the disk once, and not twice. Where no
// place is free the same append says that it waits, and where too many wait, nothing is
// appended and the error is the trip of limit.TurnsWaiting. What f returns has no claim;
// the other errors are those of cache.Decide.
func (r *Runner) Take(ctx context.Context, key mesh.ThreadKey, f func(*thread.State) (cache.Decision, error)) error {
	r.mu.Lock()
	if r.drivers[key] != nil || r.closing {
		r.mu.Unlock()
		defer r.Wake(key) // also after an error, which may hide what was appended
		return r.States.Decide(ctx, key, f)
	}
	t := &taking{ctx: ctx, decide: f, done: make(chan error, 1)}
	r.drive(key, t)
	r.mu.Unlock()
	return <-t.done
}

// take decides what the driver's first caller wants, and returns the leg with which
// its turn has begun, if it has.
func (d *driver) take() *leg {
	t := d.first
	d.first = nil
	if t == nil {
		return nil
	}
	var l *leg
	var said []*mesh.Event
	err := d.States.Decide(t.ctx, d.key, func(s *thread.State) (cache.Decision, error) {
		l = nil
		dec, err := t.decide(s)
		if err != nil || !atRest(s) {
			return dec, err
		}
		if err := d.queue(s, &dec); err != nil {
			return cache.Decision{}, err
		}
		if !d.inLine {
			l = d.open(s, &dec)
		}
		said = dec.Events
		return dec, nil
	})
	switch {
	case mesh.IsCode(err, mesh.Conflict): // somebody has claimed the thread
		l, err = nil, d.States.Decide(t.ctx, d.key, t.decide)
	case err == nil && l != nil:
		d.epoch, l.from = l.begins.Epoch, l.begins.Seq
		l.logged(said)
	}
	t.done <- err
	if err != nil {
		return nil
	}
	return l
}

// pass has what the driver's first caller wants decided without it, if it is not yet.
func (d *driver) pass() {
	if t := d.first; t != nil {
		d.first = nil
		t.done <- d.States.Decide(t.ctx, d.key, t.decide)
		d.runner.Wake(d.key) // it is looked for once more, as with every message
	}
}

// atRest reports whether no turn of the thread is to be worked on.
func atRest(s *thread.State) bool {
	for _, t := range s.Turns() {
		if !mesh.Terminal(t.State) && !mesh.Interrupted(t.State) {
			return false
		}
	}
	return true
}

// open adds to a decision that opens a turn what begins it: the driver's claim, and
// the turn's first leg, which it returns. So it does with one that has a turn go on
// whose agent waits for the message. Other decisions it leaves as they are.
func (d *driver) open(s *thread.State, dec *cache.Decision) *leg {
	if dec.Epoch != 0 {
		return nil
	}
	turn, posted, opens := thread.Opening(dec.Events)
	if !opens {
		return d.goOn(s, dec)
	}
	l := &leg{turn: turn.ID, user: turn.User, roles: posted.Roles, message: proto.CloneOf(posted.Message)}
	l.start(s, d.key.ID, s.ActiveAgent(d.home(turn.Agent)), legKind(s), 0)
	l.exec.Text = mesh.Clip(mesh.TextOf(l.message), maxText)
	l.exec.Traceparent = d.traceparent(turn.Traceparent, l.exec.ID)
	l.tellParked(d.key, s)
	d.offer(s, l)
	if d.prepare(l); d.waits(l) {
		return nil
	}
	l.begins = d.event(l.turn, "node", mesh.DispatchIssued{Child: l.exec, Message: l.message})
	dec.Epoch = s.Epoch + 1
	dec.Events = append(dec.Events, d.event("", "node", mesh.ThreadClaimed{Epoch: dec.Epoch, Node: d.Node}),
		d.event(l.turn, "node", mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_WORKING}))
	dec.Events = append(append(dec.Events, d.forget(s, l)...), l.begins)
	return l
}

// goOn is open for a turn that goes on.
func (d *driver) goOn(s *thread.State, dec *cache.Decision) *leg {
	t, posted, ok := s.Continuing(dec.Events)
	if !ok || t.Canceled || t.Leg() == nil || len(t.Pending()) > 0 {
		return nil
	}
	x := s.Execution(t.Leg().Execution)
	if mesh.Terminal(x.State) { // who goes on is found out
		return nil
	}
	l := &leg{turn: t.ID, user: t.User, roles: t.Roles, message: proto.CloneOf(posted.Message)}
	if posted.User == t.User {
		l.roles = posted.Roles
	}
	l.resume(x, slices.IndexFunc(t.Legs, func(o thread.Leg) bool { return o.Execution == x.ID }))
	l.exec.Text = mesh.Clip(mesh.TextOf(l.message), maxText)
	l.tellUpdates(s)
	d.offer(s, l)
	if d.prepare(l); d.waits(l) {
		return nil
	}
	l.begins = d.event(x.ID, "node", mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_WORKING, Reason: mesh.ReasonDelivered})
	dec.Epoch = s.Epoch + 1
	dec.Events = append(dec.Events, d.event("", "node", mesh.ThreadClaimed{Epoch: dec.Epoch, Node: d.Node}), l.begins)
	return l
}
