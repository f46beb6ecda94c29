package turn

import (
	"context"
	"slices"
	"sync"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/call"
	"agentmesh/mesh/lease"
	"agentmesh/mesh/text"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
)

// A driver works on the turns of one thread, one after the other. It lives
// while there are any.
type driver struct {
	Config
	runner *Runner
	key    mesh.ThreadKey
	woken  bool          // guarded by Runner.mu: look once more before leaving
	coming bool          // guarded by Runner.mu: it counts as one that is not under way
	wake   chan struct{} // capacity 1: told with woken
	pulse  pulse
	// stopped are the executions whose agents were told to end them. One watch at a time
	// uses it.
	stopped map[mesh.ExecutionID]bool
	first   *taking       // what it begins with; nil afterwards
	given   chan *taking  // of who has the stream and gives it away
	gone    chan struct{} // closed when nobody takes from given any more

	// drains are closed when the streams have ended of agents that lost the user's.
	drains []chan struct{}
	epoch  mesh.Epoch // of its claim; 0 before there is one
	came   uint64     // when, for the line of those that wait for a place; 0 for now
	inLine bool       // its thread waits for a place; written by the driver alone
	worked bool       // on a turn, since it was admitted
	// Of a thread that was left over: ahead is closed when the one before it has entered the
	// line, and inside when it has itself. Both are guarded by Runner.mu, and nil afterwards.
	ahead, inside chan struct{}
	// The thread, by its first event, and its Seq when there was no turn to work on.
	begins mesh.Pos
	seen   mesh.Seq

	mu    sync.Mutex
	lease lease.Lease
	lost  context.CancelCauseFunc // stops the driver; nil while it has no lease
}

// run drives the thread for as long as there is something to do: under one lease
// after the other, for a message that another node takes is found by who releases
// the lease, who looks once more, or by that node, who tries to get it.
func (d *driver) run(ctx context.Context) {
	defer close(d.gone)
	defer d.runner.underway(d)
	about := mesh.Call{Principal: mesh.Principal{Tenant: d.key.Tenant}, Thread: d.key.ID} // for the log lines
	ctx = mesh.WithCall(ctx, about)
	for {
		l, err := d.Leases.Acquire(ctx, d.key, d.Node, leaseTTL)
		if err != nil {
			d.Logger.InfoContext(ctx, "thread is driven elsewhere", "err", err)
			d.pass()
			d.runner.leave(d, false)
			return
		}
		err = d.hold(ctx, l)
		if mesh.IsCode(err, mesh.NotFound) { // the thread was deleted, and may have begun anew
			err = nil
		}
		if err != nil && ctx.Err() == nil {
			d.Logger.ErrorContext(ctx, "thread not driven to its end", "err", err)
		}
		if (err != nil || d.inLine || !d.more(ctx)) && d.runner.leave(d, err == nil) {
			return
		}
	}
}

// more looks once more, when the lease is released, for what others left to do.
func (d *driver) more(ctx context.Context) bool {
	info, _, err := d.Log.Info(ctx, d.key)
	return err == nil && info.Open != 0 && ctx.Err() == nil
}

// hold drives the thread under the lease until nothing is left to do, and
// releases it.
func (d *driver) hold(ctx context.Context, l lease.Lease) error {
	ctx, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	d.mu.Lock()
	d.lease, d.lost, d.epoch = l, lost, 0
	d.mu.Unlock()
	defer func() {
		d.mu.Lock()
		d.lost = nil
		d.mu.Unlock()
		if err := d.Leases.Release(context.WithoutCancel(ctx), l); err != nil {
			d.Logger.WarnContext(ctx, "lease not released", "err", err)
		}
	}()
	defer d.drained()
	first := d.take()
	if first == nil { // else nothing was left of before
		which := exhausted
		if d.Interrupt {
			which = begun
		}
		if _, err := d.interrupt(ctx, text.MeshRestarted(), which); err != nil {
			return err
		}
	}
	for {
		turn, err := d.next(ctx, first)
		d.inLine = false
		if err == nil && turn != nil {
			if first == nil && !d.admitted(ctx, turn) {
				return nil
			}
			about, _ := mesh.CallFrom(ctx)
			about.Execution = turn.id
			err = d.drive(mesh.WithCall(ctx, about), turn.id, first)
			first, d.worked = nil, true
		}
		if err != nil && d.runner.turns.Err() != nil && !mesh.IsCode(err, mesh.Conflict) {
			return d.park(ctx)
		}
		if err != nil || turn == nil && !d.interrupted(ctx) {
			return err
		}
	}
}

// park leaves what runs in the thread when the node stops, or settles it.
func (d *driver) park(ctx context.Context) error {
	if !d.Interrupt {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.CancelGrace)
	defer cancel()
	_, err := d.interrupt(ctx, text.MeshStopped(), begun)
	return err
}

// renew keeps the lease, or stops the driver when it is lost.
func (d *driver) renew(ctx context.Context) {
	d.mu.Lock()
	l, lost := d.lease, d.lost
	d.mu.Unlock()
	if lost == nil { // it has none
		return
	}
	if err := d.Leases.Renew(ctx, l); mesh.IsCode(err, mesh.Conflict) {
		lost(mesh.Wrap("turn.renew", err))
	}
}

// upcoming is a turn that is to be worked on.
type upcoming struct {
	id       mesh.ExecutionID
	user     string
	canceled bool
}

// next returns the turn that is to be worked on, that of a leg which has begun if
// there is one, or nil. Then nothing is left to do.
func (d *driver) next(ctx context.Context, first *leg) (turn *upcoming, err error) {
	if first != nil {
		return &upcoming{id: first.turn, user: first.user}, nil
	}
	if err := ctx.Err(); err != nil {
		return nil, mesh.Wrap("turn.next", err)
	}
	info, _, err := d.Log.Info(ctx, d.key) // first: the state may be that of a later thread, and not of an earlier one
	if err != nil {
		return nil, err
	}
	err = d.States.With(ctx, d.key, func(s *thread.State) error {
		d.begins, d.seen = s.First, s.Seq
		if t := s.NextTurn(); t != nil {
			turn = &upcoming{t.ID, t.User, t.Canceled}
		}
		return nil
	})
	if err != nil || turn != nil {
		return turn, err
	}
	if info.Open != 0 && info.Open <= d.seen {
		err = d.Log.Settle(ctx, d.key, info.FirstPos, d.seen)
	}
	return nil, err
}

// drive works on a turn until it is over or waits for its user, from the leg on that
// has begun, if there is one. When it returns, nothing that it started is left but
// drains.
func (d *driver) drive(ctx context.Context, turn mesh.ExecutionID, next *leg) error {
	w, err := d.watch(ctx, turn, next)
	if err != nil {
		return err
	}
	defer w.stop()
	if next == nil {
		next, err = d.begin(ctx, turn)
	}
	for err == nil && next != nil {
		out := d.runLeg(ctx, next, w)
		if e := d.spoken(ctx, next, out); e != nil {
			out.unsaved = append(out.unsaved, e)
		}
		next, err = d.follow(ctx, turn, next, out)
	}
	return err
}

const (
	reasonHops = "TOO_MANY_HANDOFFS"
	reasonLong = "MESSAGE_TOO_LONG"
)

// begin returns the turn's first leg from here on: that of the agent that
// waited for the user's message, or of the thread's active agent.
func (d *driver) begin(ctx context.Context, turn mesh.ExecutionID) (*leg, error) {
	var l *leg
	var pending []mesh.Seq
	err := d.States.With(ctx, d.key, func(s *thread.State) error {
		t, err := turnIn(s, turn)
		if err != nil {
			return err
		}
		pending = append(pending, t.Pending()...)
		l = &leg{turn: turn, user: t.User}
		if at := t.Leg(); at != nil {
			if x := s.Execution(at.Execution); !mesh.Terminal(x.State) {
				l.resume(x, slices.IndexFunc(t.Legs, func(o thread.Leg) bool { return o.Execution == x.ID }))
				if l.adopted = !mesh.Interrupted(x.State); l.adopted {
					l.hops = len(t.Legs) - 1
				}
				return nil
			}
		}
		if n := len(t.Legs); len(pending) == 0 && d.taken(s, t, l, lastLeg(t)) {
			l.hops = n
			return nil
		}
		l.start(s, d.key.ID, s.ActiveAgent(d.home(t.Agent)), legKind(s), len(t.Legs))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return l, d.address(ctx, l, pending)
}

// lastLeg is the Seq with which the turn's last leg began, or it was opened.
func lastLeg(t *thread.Execution) mesh.Seq {
	if n := len(t.Legs); n > 0 {
		return t.Legs[n-1].From
	}
	return t.Opened
}

// turnIn returns the turn, or NotFound if the thread was deleted.
func turnIn(s *thread.State, turn mesh.ExecutionID) (*thread.Execution, error) {
	t := s.Turn(turn)
	if t == nil {
		return nil, mesh.ThreadNotFound("turn.turnIn")
	}
	return t, nil
}

// follow settles a leg and says what comes next; nil when the turn rests.
func (d *driver) follow(ctx context.Context, turn mesh.ExecutionID, l *leg, out outcome) (*leg, error) {
	if out.next != nil {
		return out.next, nil
	}
	if ctx.Err() != nil && !d.Interrupt && (out.kind != legOver || failedIn(out.last.State)) {
		return nil, mesh.Wrap("turn.follow", context.Cause(ctx)) // who drives the thread next goes on with it
	}
	if ctx.Err() != nil { // the node stops, or lost the thread: say what is so, if we still may
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), d.CancelGrace)
		defer cancel()
		if out.kind != legOver || failedIn(out.last.State) {
			out = outcome{kind: legOver, last: call.Failure(mesh.ReasonInterrupted, text.SendAgain(text.MeshStopped())), unsaved: out.unsaved, cut: text.MeshStopped()}
		}
	}
	var next *leg
	var pending []mesh.Seq
	err := d.decideEnd(ctx, func(s *thread.State, dec *cache.Decision, called calls) error {
		next, pending = nil, nil
		t, err := turnIn(s, turn)
		if err != nil {
			return err
		}
		dec.Events = append(dec.Events, out.unsaved...)
		if mesh.Terminal(t.State) { // its handoff was ended with it
			return nil
		}
		var words mesh.TaskMoved
		if next, words = d.nextLeg(s, t, l, &out); out.cut != "" && next == nil && !t.Canceled {
			if words, err = called.cutOff(s, turn, out.cut, out.last.Reason); err != nil {
				return err
			}
		}
		if next != nil && next.adopted { // its execution is not over
			return nil
		}
		if out.kind == legOver && !(next == nil && mesh.Terminal(words.State)) && !isOver(s, l.exec.ID) {
			dec.Events = append(dec.Events, d.settle(l, out.last, next))
		}
		if next == nil {
			dec.Events = append(dec.Events, d.finish(s, t, l, words)...)
			dec.Settled = settledBy(s, t, words)
			return nil
		}
		if next.returned != nil && next.endHandoff {
			end := mesh.HandoffEnded{Started: s.Handoff.Seq, Outcome: next.returned.Outcome, Summary: next.returned.Result, By: "node"}
			if !s.Handoff.PreserveState {
				end.Dropped = s.Handoff.To
			}
			dec.Events = append(dec.Events, d.event(turn, "node", end))
		}
		pending = append(pending, t.Pending()...)
		return nil
	})
	if err != nil && len(out.unsaved) > 0 && !mesh.IsCode(err, mesh.Conflict) {
		d.Logger.ErrorContext(ctx, "agent's output not logged", "agent", l.exec.Agent, "err", err)
		return d.follow(ctx, turn, l, outcome{kind: legOver, last: unlogged()})
	}
	if err != nil || next == nil {
		return nil, err
	}
	return next, d.address(ctx, next, pending)
}

// settledBy is up to where nothing is left to do in the thread once the turn has
// moved so, or 0 if another one is to be worked on.
func settledBy(s *thread.State, t *thread.Execution, words mesh.TaskMoved) mesh.Seq {
	if !mesh.Terminal(words.State) && !mesh.Interrupted(words.State) {
		return 0
	}
	for _, o := range s.Turns() {
		if o != t && !mesh.Terminal(o.State) && !mesh.Interrupted(o.State) {
			return 0
		}
	}
	return s.Seq
}

// isOver reports whether the execution is, or is unknown: who left it while it waited, with
// its call still open, settled it.
func isOver(s *thread.State, id mesh.ExecutionID) bool {
	x := s.Execution(id)
	return x == nil || mesh.Terminal(x.State)
}

// settle is the event with which a leg's execution ends or waits. One that
// waits for a user who is with another agent now waits for nothing.
func (d *driver) settle(l *leg, last mesh.TaskMoved, next *leg) *mesh.Event {
	left := next != nil && (next.handoff != nil || next.returned != nil)
	if mesh.Interrupted(last.State) && !left {
		return d.event(l.exec.ID, "agent:"+l.exec.Agent, last)
	}
	settled := mesh.DispatchSettled{Child: l.exec.ID, State: last.State, Reason: last.Why()}
	if mesh.Interrupted(last.State) {
		settled.State = a2apb.TaskState_TASK_STATE_CANCELED
	}
	if left && last.Reason == "" {
		settled.Reason = mesh.ReasonHandedOff
	}
	return d.event(l.turn, "agent:"+l.exec.Agent, settled)
}

// finish are the events with which the turn comes to rest. With a turn that is
// over, everything below it is.
func (d *driver) finish(s *thread.State, t *thread.Execution, l *leg, words mesh.TaskMoved) []*mesh.Event {
	var events []*mesh.Event
	if mesh.Interrupted(words.State) && words.State == t.State { // it was said when it began to wait
		return nil
	}
	if mesh.Terminal(words.State) {
		for _, x := range s.Unfinished(l.turn) {
			settled := mesh.DispatchSettled{Child: x.ID, State: words.State, Reason: words.Why()}
			if x.ID != l.exec.ID && words.Reason != mesh.ReasonInterrupted { // who dispatched it is over
				settled.State, settled.Reason = a2apb.TaskState_TASK_STATE_CANCELED, mesh.ReasonDismissed
			}
			events = append(events, d.event(x.Parent, "node", settled))
		}
	}
	return append(events, d.event(l.turn, "node", d.wayOut(l, words)))
}
