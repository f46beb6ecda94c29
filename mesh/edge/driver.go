package edge

import (
	"context"
	"slices"
	"sync"
	"time"

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
	*Edge
	key   mesh.ThreadKey
	again bool // guarded by Edge.mu: look once more before leaving

	// drains end the streams of agents that lost the user's; run waits for them.
	drains sync.WaitGroup

	mu    sync.Mutex
	lease lease.Lease
	lost  context.CancelCauseFunc // stops the driver
}

func (d *driver) run(ctx context.Context) {
	ctx, lost := context.WithCancelCause(ctx)
	defer lost(nil)
	defer d.drains.Wait()
	about := mesh.Call{Principal: mesh.Principal{Tenant: d.key.Tenant}, Thread: d.key.ID} // for the log lines
	ctx = mesh.WithCall(ctx, about)
	l, err := d.Leases.Acquire(ctx, d.key, d.Node, leaseTTL)
	if err != nil {
		d.Logger.WarnContext(ctx, "thread is driven elsewhere", "err", err)
		d.leave(d, false)
		return
	}
	d.mu.Lock()
	d.lease, d.lost = l, lost
	d.mu.Unlock()
	defer func() {
		if err := d.Leases.Release(context.WithoutCancel(ctx), l); err != nil {
			d.Logger.WarnContext(ctx, "lease not released", "err", err)
		}
	}()
	for {
		turn, err := d.next(ctx)
		if err == nil && turn != "" {
			about.Execution = turn
			err = d.drive(mesh.WithCall(ctx, about), turn)
		}
		if err != nil && d.turns.Err() != nil && !mesh.IsCode(err, mesh.Conflict) {
			err = d.park(ctx)
		}
		if err != nil {
			d.Logger.ErrorContext(ctx, "turn not finished", "execution", turn, "err", err)
		}
		if (turn == "" || err != nil) && d.leave(d, err == nil) {
			return
		}
	}
}

// park settles what is left in the thread when the node stops.
func (d *driver) park(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), d.CancelGrace)
	defer cancel()
	_, err := d.interrupt(ctx, d.key, text.MeshStopped())
	return err
}

// renew keeps the lease, or stops the driver when it is lost.
func (d *driver) renew(ctx context.Context) {
	d.mu.Lock()
	l, lost := d.lease, d.lost
	d.mu.Unlock()
	if lost == nil { // it has none yet
		return
	}
	if err := d.Leases.Renew(ctx, l); mesh.IsCode(err, mesh.Conflict) {
		lost(mesh.Wrap("edge.renew", err))
	}
}

func (d *driver) next(ctx context.Context) (mesh.ExecutionID, error) {
	if err := ctx.Err(); err != nil {
		return "", mesh.Wrap("edge.next", err)
	}
	var id mesh.ExecutionID
	err := d.States.With(ctx, d.key, func(s *thread.State) error {
		if t := s.NextTurn(); t != nil {
			id = t.ID
		}
		return nil
	})
	return id, err
}

// drive works on a turn until it is over or waits for its user. When it
// returns, nothing that it started is left but drains.
func (d *driver) drive(ctx context.Context, turn mesh.ExecutionID) error {
	w, err := d.watch(ctx, turn)
	if err != nil {
		return err
	}
	defer w.stop()
	next, err := d.begin(ctx, turn)
	for err == nil && next != nil {
		next, err = d.follow(ctx, turn, next, d.runLeg(ctx, next, w))
	}
	return err
}

// maxHops bounds how often the stream may change hands within a turn: back from
// the specialist that had it before, and to handoff.MaxHandoffsInTurn and back.
const maxHops = 9

const (
	reasonHops = "TOO_MANY_HANDOFFS"
	reasonLog  = "LOG_UNAVAILABLE"
	reasonLong = "MESSAGE_TOO_LONG"
)

func failure(reason, words string) mesh.TaskMoved {
	return mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_FAILED, Reason: reason, Message: call.Say(words)}
}

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
				l.orphan = !mesh.Interrupted(x.State)
				return nil
			}
		}
		l.start(d.key.ID, s.ActiveAgent(d.home(t.Agent)), legKind(s), len(t.Legs))
		return nil
	})
	if err != nil {
		return nil, err
	}
	return l, d.address(ctx, l, pending)
}

// turnIn returns the turn, or NotFound if the thread was deleted.
func turnIn(s *thread.State, turn mesh.ExecutionID) (*thread.Execution, error) {
	t := s.Turn(turn)
	if t == nil {
		return nil, mesh.ThreadNotFound("edge.turnIn")
	}
	return t, nil
}

// follow settles a leg and says what comes next; nil when the turn rests.
func (d *driver) follow(ctx context.Context, turn mesh.ExecutionID, l *leg, out outcome) (*leg, error) {
	stopped := false
	if ctx.Err() != nil { // the node stops, or lost the thread: say what is so, if we still may
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(context.WithoutCancel(ctx), d.CancelGrace)
		defer cancel()
		if out.kind != legOver || failedIn(out.last.State) {
			out = outcome{kind: legOver, last: failure(mesh.ReasonInterrupted, text.SendAgain(text.MeshStopped())), unsaved: out.unsaved}
			stopped = true
		}
	}
	var next *leg
	var pending []mesh.Seq
	err := d.States.Decide(ctx, d.key, func(s *thread.State) (cache.Decision, error) {
		next, pending = nil, nil
		t, err := turnIn(s, turn)
		if err != nil {
			return cache.Decision{}, err
		}
		dec := d.claim(s)
		if l.epoch != 0 && dec.Epoch != l.epoch {
			return cache.Decision{}, mesh.Errorf(mesh.Conflict, "edge.follow", "another node drives the conversation now")
		}
		dec.Events = append(dec.Events, out.unsaved...)
		if mesh.Terminal(t.State) { // its handoff was ended with it
			return stamped(dec, len(out.unsaved)), nil
		}
		var words mesh.TaskMoved
		if next, words = d.whither(s, t, l, out); stopped && next == nil {
			if words, err = d.cutOff(ctx, d.key, s, turn, text.MeshStopped()); err != nil {
				return cache.Decision{}, err
			}
		}
		if out.kind == legOver && !(next == nil && mesh.Terminal(words.State)) {
			dec.Events = append(dec.Events, d.settle(l, out.last, next))
		}
		if next == nil {
			dec.Events = append(dec.Events, d.finish(s, t, l, words)...)
		} else if next.returned != nil && next.endHandoff {
			dec.Events = append(dec.Events, d.maker(turn, "node")(mesh.HandoffEnded{Started: s.Handoff.Seq, Outcome: mesh.HandoffError, Summary: next.returned.Result, By: "node"}))
		}
		if next != nil {
			pending = append(pending, t.Pending()...)
		}
		return stamped(dec, len(dec.Events)), nil
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

// stamped gives the events of a driver's decision its epoch. Of a decision that
// has nothing to say but a claim, nothing is left.
func stamped(d cache.Decision, says int) cache.Decision {
	if says == 0 {
		return cache.Decision{}
	}
	for _, ev := range d.Events {
		ev.Epoch = d.Epoch
	}
	return d
}

// settle is the event with which a leg's execution ends or waits. One that
// waits for a user who is with another agent now waits for nothing.
func (d *driver) settle(l *leg, last mesh.TaskMoved, next *leg) *mesh.Event {
	left := next != nil && (next.handoff != nil || next.returned != nil)
	if mesh.Interrupted(last.State) && !left {
		return d.maker(l.exec.ID, "agent:"+l.exec.Agent)(last)
	}
	settled := mesh.DispatchSettled{Child: l.exec.ID, State: last.State, Reason: last.Reason}
	if mesh.Interrupted(last.State) {
		settled.State = a2apb.TaskState_TASK_STATE_CANCELED
	}
	if left && last.Reason == "" {
		settled.Reason = mesh.ReasonHandedOff
	}
	return d.maker(l.turn, "agent:"+l.exec.Agent)(settled)
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
			settled := mesh.DispatchSettled{Child: x.ID, State: words.State, Reason: words.Reason}
			if x.ID != l.exec.ID && settled.State == a2apb.TaskState_TASK_STATE_COMPLETED {
				settled.State = a2apb.TaskState_TASK_STATE_CANCELED
			}
			events = append(events, d.maker(x.Parent, "node")(settled))
		}
	}
	return append(events, d.maker(l.turn, "node")(words))
}

// whither decides what follows a leg: another leg, or how the turn moves.
func (d *driver) whither(s *thread.State, t *thread.Execution, l *leg, out outcome) (*leg, mesh.TaskMoved) {
	h := s.Handoff
	next := &leg{turn: t.ID, user: t.User, hops: l.hops}
	switch {
	case t.Canceled:
		return nil, mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_CANCELED, Message: call.Say(text.Canceled())}
	case out.kind == legOver && (out.last.Reason == mesh.ReasonInterrupted || l.from == 0):
		// A leg that could not even be logged will not be when it is tried again.
		return nil, out.last
	case h != nil && (h.Seq > l.from || h.Ended > l.from) && l.hops >= maxHops:
		return nil, failure(reasonHops, text.TooManyHandoffs())
	case h != nil && h.Turn == t.ID && h.Seq > l.from && h.Active():
		next.hops++
		next.start(d.key.ID, h.To, mesh.KindHandoff, len(t.Legs))
		next.handoff = h
		return next, mesh.TaskMoved{}
	case h != nil && h.Ended > l.from:
		next.hops++
		next.start(d.key.ID, d.home(t.Agent), mesh.KindAgent, len(t.Legs))
		next.returned = h
		return next, mesh.TaskMoved{}
	case mesh.Interrupted(out.last.State) && len(t.Pending()) > 0:
		next.resumeLeg(l)
		return next, mesh.TaskMoved{}
	case failedIn(out.last.State) && h.Active() && h.To == l.exec.Agent && l.exec.Agent != d.home(t.Agent):
		next.hops++
		next.start(d.key.ID, d.home(t.Agent), mesh.KindAgent, len(t.Legs))
		ended := *h
		ended.Outcome, ended.Result = mesh.HandoffError, reasonWords(l.exec.Agent, out.last)
		next.returned, next.endHandoff = &ended, true
		return next, mesh.TaskMoved{}
	case mesh.Terminal(out.last.State) && len(t.Pending()) > 0:
		next.start(d.key.ID, s.ActiveAgent(d.home(t.Agent)), legKind(s), len(t.Legs))
		return next, mesh.TaskMoved{}
	case out.kind == legLost:
		return nil, failure(mesh.ReasonIllegal, text.LostTrack())
	}
	return nil, mesh.TaskMoved{State: out.last.State, Message: out.last.Message, Reason: out.last.Reason, Metadata: out.last.Metadata}
}

// legKind is the kind of an execution of the thread's active agent.
func legKind(s *thread.State) mesh.Kind {
	if s.Handoff.Active() {
		return mesh.KindHandoff
	}
	return mesh.KindAgent
}

func failedIn(s mesh.TaskState) bool {
	return s == a2apb.TaskState_TASK_STATE_FAILED || s == a2apb.TaskState_TASK_STATE_REJECTED
}

func reasonWords(agent string, m mesh.TaskMoved) string {
	for _, p := range m.Message.GetParts() {
		if t := p.GetText(); t != "" {
			return text.CouldNotGoOn(agent, t)
		}
	}
	return text.CouldNotGoOn(agent, "")
}

// A watch tells the driver of decisions that others make about its turn.
type watch struct {
	signals chan *mesh.Event
	stop    func()
}

// watch follows the thread, keeps its state caught up on the way, and passes
// on what a running leg must react to.
func (d *driver) watch(ctx context.Context, turn mesh.ExecutionID) (*watch, error) {
	var from mesh.Seq
	err := d.States.With(ctx, d.key, func(s *thread.State) error { from = s.Seq; return nil })
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	w := &watch{signals: make(chan *mesh.Event, 16)}
	cur := d.Log.Cursor(d.key, from)
	var done sync.WaitGroup
	done.Go(func() {
		defer cur.Close()
		for {
			events, err := cur.Next(ctx)
			if err != nil {
				return
			}
			d.States.Feed(d.key, events)
			for _, ev := range events {
				if !concerns(ev, turn) {
					continue
				}
				select {
				case w.signals <- ev:
				case <-ctx.Done():
					return
				}
			}
		}
	})
	w.stop = func() { cancel(); done.Wait() }
	return w, nil
}

func concerns(ev *mesh.Event, turn mesh.ExecutionID) bool {
	switch ev.Body.(type) {
	case mesh.HandoffStarted, mesh.HandoffEnded:
		return true
	case mesh.CancelRequested:
		return ev.Execution == turn
	}
	return false
}

// timeout is the deadline of a leg, from now.
func (d *driver) timeout() time.Time { return d.Now().Add(d.TurnTimeout) }
