package turn

import (
	"context"
	"errors"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/call"
	"agentmesh/mesh/registry"
	"agentmesh/mesh/text"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
)

// maxAdoptions is how often in a row a turn is taken over that does not come on.
const maxAdoptions = 3

// errTaken says that a leg does not have the stream any more which was to go on.
var errTaken = errors.New("the stream went to somebody else")

// exhausted reports whether the turn was taken over so often without coming on that it is
// not once more.
func exhausted(s *thread.State, t *thread.Execution) bool {
	at := t.Leg()
	return at != nil && begun(s, t) && s.Execution(at.Execution).Adoptions >= maxAdoptions
}

// returns reports whether the leg, which is prepared, is to wait for the process that has
// it: agents register again when a node has begun anew, and others of its processes may be
// the first to. Of one that reads in the log what was done, any process can take it up that
// only waited.
func (d *driver) returns(l *leg) bool {
	return d.Now().Before(d.runner.began.Add(d.AdoptTime)) && callee(l.entry).Holder(l.instance).Missing() && (l.adopted || !call.Speaks(l.entry.Card))
}

// overTime is how long a user waits for an agent that is about to take over: whoever
// wanted it to can help otherwise (S4-063).
const overTime = 2 * time.Second

// handedOver reports whether the leg's agent has not begun and is to take over from one that
// had the stream in this turn.
func (l *leg) handedOver() bool { return !l.adopted && l.handoff != nil && l.hops > 0 }

// until is how long a leg, which is prepared, waits for its agent: one that goes on as long
// as agents are given, and one that has not begun for an agent that was there so long ago at
// most. Who is known to be gone is not waited for. An agent that the thread knows and a node
// that has just begun does not may be about to register again.
func (d *driver) until(l *leg) time.Duration {
	switch gone := l.entry.Gone; {
	case l.adopted || l.unreachable == nil:
		return d.AdoptTime
	case !gone.IsZero() && l.handedOver():
		return gone.Add(min(overTime, d.AdoptTime)).Sub(d.Now())
	case mesh.IsCode(l.unreachable, mesh.NotFound) && !l.known:
		return 0
	}
	return d.runner.expected(l.entry, l.unreachable)
}

// expected is how long an agent that could not be resolved may still be about to be live: one
// that was, a moment ago, or that is to register with a node which has just begun.
func (r *Runner) expected(e registry.Entry, err error) time.Duration {
	switch {
	case mesh.IsCode(err, mesh.NotFound):
		return r.began.Add(r.AdoptTime).Sub(r.Now())
	case !e.Gone.IsZero():
		return e.Gone.Add(r.AdoptTime).Sub(r.Now())
	}
	return 0
}

// Expects reports whether a turn that is to begin with an agent waits for it, which could not
// be resolved: the entry and the error are those of the directory. That its name is one that
// there was is for the caller to know.
func (r *Runner) Expects(e registry.Entry, err error) bool { return r.expected(e, err) > 0 }

// waits reports whether the leg, which is prepared, has to wait for its agent.
func (d *driver) waits(l *leg) bool {
	return l.unreachable != nil && d.until(l) > 0 || l.unreachable == nil && d.returns(l)
}

// awaited reports whether the turn's user was told last that its agent is waited for, or a
// place.
func awaited(t *thread.Execution) bool {
	return t.Reason == mesh.ReasonAwaited || t.Reason == mesh.ReasonQueued
}

// noteAfter is how long a turn waits for its agent until its user is told.
const noteAfter = time.Second

// tellAwaited tells the user, once, that the leg's agent is waited for.
func (d *driver) tellAwaited(ctx context.Context, l *leg) {
	err := d.decide(ctx, func(s *thread.State, dec *cache.Decision) error {
		t, err := turnIn(s, l.turn)
		if err == nil && !t.Canceled && !mesh.Terminal(t.State) && t.Reason != mesh.ReasonAwaited {
			dec.Events = append(dec.Events, d.event(l.turn, "node", mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_WORKING,
				Reason: mesh.ReasonAwaited, Message: mesh.Say(text.AgentAwaited(l.exec.Agent))}))
		}
		return err
	})
	if err != nil && ctx.Err() == nil {
		d.Logger.WarnContext(ctx, "that an agent is waited for is not logged", "agent", l.exec.Agent, "err", err)
	}
}

// await prepares a leg: it waits until its agent, and the process that has it, is live, or
// has had its time, or the user wants the turn to end, or wanted it before the watch began.
func (d *driver) await(ctx context.Context, l *leg, w *watch) {
	const least, most = 20 * time.Millisecond, time.Second
	canceled := false
	_ = d.States.With(ctx, d.key, func(s *thread.State) error { // what keeps it from being read keeps the leg from being logged
		t := s.Turn(l.turn)
		canceled = t != nil && t.Canceled
		return nil
	})
	began, told := d.Now(), false
	var over *time.Timer
	for wait := least; ; wait = min(2*wait, most) {
		if d.prepare(l); canceled || l.unreachable == nil && !d.returns(l) {
			return
		}
		if over == nil {
			most := d.until(l)
			if most <= 0 {
				return
			}
			over = time.NewTimer(most)
			defer over.Stop()
		}
		if !told && d.Now().Sub(began) >= noteAfter {
			told = true
			d.tellAwaited(ctx, l)
		}
		d.runner.underway(d)
		again := time.NewTimer(wait)
		select {
		case <-again.C:
			continue
		case ev := <-w.signals:
			if _, cancels := ev.Body.(mesh.CancelRequested); !cancels && !d.takes(ev, l) {
				again.Stop()
				continue
			}
		case <-over.C:
		case <-ctx.Done():
		}
		again.Stop()
		return
	}
}

// takes reports whether the event is a handoff, which takes the stream of the leg away, and
// not the one by which the leg got it.
func (d *driver) takes(ev *mesh.Event, l *leg) bool {
	if b, ends := ev.Body.(mesh.HandoffEnded); ends && l.returned != nil && b.Started == l.returned.Seq || l.handoff != nil && ev.Seq == l.handoff.Seq {
		return false
	}
	return ev.Execution == l.exec.ID || ev.Execution == l.turn
}

// adopt has the log say that the leg goes on, if its agent is there, and gives it the time
// that it had left.
func (d *driver) adopt(s *thread.State, t *thread.Execution, dec *cache.Decision, l *leg) error {
	at, x := t.Leg(), s.Execution(l.exec.ID)
	if at == nil || at.Execution != l.exec.ID {
		return errTaken
	}
	if l.unreachable != nil {
		l.begins = &mesh.Event{Seq: s.Seq}
		return nil //nolint:nilerr // nothing is logged, and the leg ends with that
	}
	l.exec.Deadline = d.Now().Add(x.Left())
	l.begins = d.event(l.exec.ID, "node", mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_WORKING, Reason: mesh.ReasonContinued})
	if awaited(t) {
		dec.Events = append(dec.Events, d.event(l.turn, "node", mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_WORKING}))
	}
	dec.Events = append(dec.Events, l.begins)
	return nil
}

// remember makes the message that the leg's agent had, and reads what the log has of what
// the agent said since the execution began.
func (d *driver) remember(ctx context.Context, l *leg) error {
	var opened, tail mesh.Seq
	err := d.States.With(ctx, d.key, func(s *thread.State) error {
		t, err := turnIn(s, l.turn)
		if err != nil {
			return err
		}
		x := s.Execution(l.exec.ID)
		l.roles, l.remote, l.instance, opened, tail = t.Roles, x.RemoteTask, x.Instance, x.Opened, s.Seq
		if h := s.Handoff; h != nil && h.Turn == l.turn && h.Active() && h.To == l.exec.Agent {
			l.handoff = h
		}
		return nil
	})
	if err != nil {
		return err
	}
	const page = 256
	past := thread.NewPast(l.turn, l.exec.ID)
	for after := opened - 1; after < tail; {
		events, err := d.Log.Read(ctx, d.key, after, page)
		if err != nil {
			return mesh.Wrap("turn.remember", err)
		}
		if len(events) == 0 {
			break
		}
		for _, e := range events {
			past.Apply(e)
			after = e.Seq
		}
	}
	if l.message = proto.CloneOf(past.Message); l.message == nil {
		return mesh.Errorf(mesh.Unknown, "turn.remember", "")
	}
	for _, b := range past.Said {
		if o, ok := b.(mesh.ArtifactAppended); ok {
			if a := unspaced(o.Artifact, l.ordinal); a != o.Artifact {
				o.Artifact, o.Wire = a, nil
				b = o
			}
		}
		l.had = append(l.had, b)
	}
	began := a2a.ContinuesAnswer
	if past.First {
		began = a2a.ContinuesFirst
	}
	l.message.Metadata = a2a.SetExtension(l.message.Metadata, map[string]*structpb.Value{a2a.KeyContinues: structpb.NewStringValue(began)})
	l.exec.Text = mesh.Clip(mesh.TextOf(l.message), maxText)
	return d.States.With(ctx, d.key, func(s *thread.State) error { l.tellUpdates(s); return nil })
}

// unspaced undoes what namespaced does to an artifact's id.
func unspaced(a *a2apb.Artifact, ordinal int) *a2apb.Artifact {
	id := thread.OwnArtifactID(a.GetArtifactId(), ordinal)
	if id == a.GetArtifactId() {
		return a
	}
	out := proto.CloneOf(a)
	out.ArtifactId = id
	return out
}
