package edge

import (
	"context"
	"strconv"
	"strings"
	"sync"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"

	"agentmesh/mesh"
	"agentmesh/mesh/call"
	"agentmesh/mesh/text"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
	"agentmesh/mesh/threadlog"
)

// outcome says how a leg ended.
type outcome struct {
	kind outcomeKind
	last mesh.TaskMoved // of legOver
	// unsaved is what the agent said with its last word, to be logged in one
	// batch with what follows from that.
	unsaved []*mesh.Event
}

type outcomeKind uint8

const (
	legOver outcomeKind = iota // the agent is done, or asks, or failed
	legLost                    // the stream went to somebody else, by handoff
)

// relayQueue bounds how far an agent may be ahead of the log, in updates.
const relayQueue = 256

// runLeg logs the leg, opens the agent's stream and logs what comes back.
func (d *driver) runLeg(ctx context.Context, l *leg, w *watch) outcome {
	if l.orphan {
		return outcome{last: failure(mesh.ReasonInterrupted, text.CutOffAgain())}
	}
	if n := proto.Size(l.message); n > maxLeg {
		return outcome{last: failure(reasonLong, text.MessagesTooLong(n, maxLeg))}
	}
	to, unreachable := d.connect(d.key.Tenant, l.exec.Agent)
	if !l.resumed && unreachable == nil {
		l.exec.Skills = d.granted(to.entry)
	}
	switch canceled, err := d.announce(ctx, l); {
	case err != nil:
		d.Logger.ErrorContext(ctx, "leg not logged", "agent", l.exec.Agent, "err", err)
		return outcome{last: unlogged()}
	case canceled:
		return outcome{last: mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_CANCELED}}
	}
	if unreachable != nil {
		words := text.AgentNotAvailable(l.exec.Agent)
		if detail := mesh.DetailOf(unreachable); detail != "" {
			words = detail
		}
		return outcome{last: failure(mesh.ReasonUnavailable, words)}
	}
	stream, cancel := context.WithTimeoutCause(ctx, l.exec.Deadline.Sub(d.Now()), mesh.Errorf(mesh.Timeout, "edge.runLeg", "the agent took too long"))
	stream = d.identify(stream, d.key, l.exec, to.entry, l.perms, l.exec.Deadline.Sub(d.Now()))
	d.Logger.InfoContext(stream, "agent called", "agent", l.exec.Agent)
	r := &relay{driver: d, leg: l, line: to, bodies: make(chan mesh.Body, relayQueue), cancel: cancel}
	r.reading.Go(func() {
		defer close(r.bodies)
		for b := range call.Stream(stream, to.client, l.request(d.key, to.entry)) {
			select {
			case r.bodies <- b:
			case <-stream.Done():
				return
			}
		}
	})
	return r.run(ctx, stream, w)
}

func unlogged() mesh.TaskMoved {
	return failure(reasonLog, text.NotLogged())
}

// announce logs the leg before it starts, unless the user wants the turn to
// end: then it returns true.
func (d *driver) announce(ctx context.Context, l *leg) (canceled bool, err error) {
	if l.exec.Deadline.IsZero() || l.resumed {
		l.exec.Deadline = d.timeout()
	}
	var events []*mesh.Event
	err = d.States.Decide(ctx, d.key, func(s *thread.State) (cache.Decision, error) {
		t, err := turnIn(s, l.turn)
		if err != nil {
			return cache.Decision{}, err
		}
		if canceled = t.Canceled; canceled {
			return cache.Decision{}, nil
		}
		dec := d.claim(s)
		if t.State == a2apb.TaskState_TASK_STATE_SUBMITTED {
			dec.Events = append(dec.Events, d.maker(l.turn, "node")(mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_WORKING}))
		}
		if l.resumed {
			dec.Events = append(dec.Events, d.maker(l.exec.ID, "node")(mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_WORKING, Reason: mesh.ReasonDelivered}))
		} else {
			dec.Events = append(dec.Events, d.maker(l.turn, "node")(mesh.DispatchIssued{Child: l.exec, Message: l.message}))
		}
		for _, ev := range dec.Events {
			ev.Epoch = dec.Epoch
		}
		l.epoch, events = dec.Epoch, dec.Events
		return dec, nil
	})
	if err != nil || canceled {
		return canceled, err
	}
	l.from = events[len(events)-1].Seq
	return false, nil
}

// A relay moves one agent's stream into the log.
type relay struct {
	*driver
	leg     *leg
	line    line
	bodies  chan mesh.Body
	cancel  context.CancelFunc
	reading sync.WaitGroup
	waits   *mesh.TaskMoved // the agent waits for credentials, and so does the turn
	unsaved []*mesh.Event   // what came with the agent's last word
}

// run relays until the leg is over or lost. A lost stream is drained in the
// background. stream is the context of the call.
func (r *relay) run(ctx, stream context.Context, w *watch) outcome {
	var giveUp <-chan time.Time // when a canceled agent has had its time
	begun := false              // the agent said something
	for {
		select {
		case b, ok := <-r.bodies:
			if !ok {
				return r.over(ctx, r.silent(stream))
			}
			if !begun && giveUp != nil { // it may not have known the task when it was told
				r.tell(ctx)
			}
			begun = true
			if last, over := r.append(ctx, r.collect(b)); over {
				return r.over(ctx, last)
			}
		case ev := <-w.signals:
			if ev.Seq <= r.leg.from {
				continue
			}
			if _, cancels := ev.Body.(mesh.CancelRequested); cancels {
				r.tell(ctx)
				giveUp = time.After(r.CancelGrace)
				continue
			}
			r.drains.Go(func() { r.drain(context.WithoutCancel(ctx)) })
			return outcome{kind: legLost}
		case <-giveUp:
			return r.over(ctx, mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_CANCELED})
		case <-ctx.Done():
			r.tell(ctx)
			return r.over(ctx, failure(mesh.ReasonInterrupted, text.SendAgain(text.MeshStopped())))
		}
	}
}

// silent is how a leg ended whose agent's stream ended without a last word.
func (r *relay) silent(stream context.Context) mesh.TaskMoved {
	switch {
	case mesh.IsCode(context.Cause(stream), mesh.Timeout):
		return failure(mesh.ReasonTimeout, text.AgentTookTooLong())
	case stream.Err() == nil && r.waits != nil: // it will go on when the user says so
		return *r.waits
	}
	return failure(mesh.ReasonInterrupted, text.CutOff())
}

// over ends the call and waits for its reader. An agent that took too long may
// not have noticed.
func (r *relay) over(ctx context.Context, last mesh.TaskMoved) outcome {
	r.cancel()
	r.reading.Wait()
	if last.Reason == mesh.ReasonTimeout {
		r.tell(ctx)
	}
	return outcome{kind: legOver, last: last, unsaved: r.unsaved}
}

// tell asks the agent in the background to end its task.
func (r *relay) tell(ctx context.Context) {
	x := r.state()
	r.drains.Go(func() { r.tellCanceled(context.WithoutCancel(ctx), r.key, x) }) // the driver waits
}

// state is the leg's execution as tellCanceled needs it.
func (r *relay) state() *thread.Execution {
	return &thread.Execution{Execution: r.leg.exec, RemoteTask: r.leg.remoteTask}
}

// drain logs, for the record, what the agent still says that gave the stream
// away; then it settles its execution.
func (r *relay) drain(ctx context.Context) {
	last := mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_CANCELED}
	grace := time.NewTimer(r.HandoffGrace)
	defer grace.Stop()
	for open := true; open; {
		select {
		case b, ok := <-r.bodies:
			if !ok { // we end the call, or it waits for credentials
				r.tellCanceled(ctx, r.key, r.state())
				open = false
				break
			}
			moved, over := r.append(ctx, r.collect(b))
			if over {
				last, open = moved, false
				r.write(ctx, r.unsaved)
			}
		case <-grace.C:
			r.tellCanceled(ctx, r.key, r.state())
			open = false
		}
	}
	r.over(ctx, last)
	if !mesh.Terminal(last.State) {
		last.State = a2apb.TaskState_TASK_STATE_CANCELED
	}
	err := r.States.Decide(ctx, r.key, func(s *thread.State) (cache.Decision, error) {
		if x := s.Execution(r.leg.exec.ID); x == nil || mesh.Terminal(x.State) { // ended with the turn
			return cache.Decision{}, nil
		}
		ev := r.maker(r.leg.turn, "agent:"+r.leg.exec.Agent)(mesh.DispatchSettled{Child: r.leg.exec.ID, State: last.State, Reason: mesh.ReasonHandedOff})
		ev.Epoch = r.leg.epoch
		return cache.Decision{Events: []*mesh.Event{ev}, Epoch: r.leg.epoch}, nil
	})
	if err != nil {
		r.Logger.WarnContext(ctx, "agent that gave the stream away not settled", "agent", r.leg.exec.Agent, "err", err)
	}
}

// collect takes what else the agent has said already, so that it is committed
// together.
func (r *relay) collect(first mesh.Body) []mesh.Body {
	batch := []mesh.Body{first}
	for len(batch) < relayQueue {
		select {
		case b, ok := <-r.bodies:
			if !ok {
				return batch
			}
			batch = append(batch, b)
		default:
			return batch
		}
	}
	return batch
}

// append logs a batch. It reports the agent's last word, which is for follow to
// log, and with it what came in the same batch.
func (r *relay) append(ctx context.Context, batch []mesh.Body) (mesh.TaskMoved, bool) {
	event := r.maker(r.leg.exec.ID, "agent:"+r.leg.exec.Agent)
	events := make([]*mesh.Event, 0, len(batch))
	var last mesh.TaskMoved
	over := false
	for _, b := range batch {
		switch b := b.(type) {
		case mesh.ArtifactAppended:
			b.Artifact = namespaced(b.Artifact, r.leg.ordinal)
			events = append(events, event(b))
		case mesh.TaskMoved:
			if b.RemoteTask != "" {
				r.leg.remoteTask = b.RemoteTask
			}
			if b.RemoteContext != "" {
				r.leg.remoteContext = b.RemoteContext
			}
			if mesh.Terminal(b.State) || b.State == a2apb.TaskState_TASK_STATE_INPUT_REQUIRED {
				last, over = b, true
				break
			}
			events = append(events, event(b))
			events = append(events, r.authorize(b)...)
		}
	}
	if over {
		r.unsaved = events
	} else if !r.write(ctx, events) {
		return unlogged(), true
	}
	if over && last.Reason == mesh.ReasonUnavailable {
		r.Directory.ReportDown(r.line.entry, mesh.Errorf(mesh.Unavailable, "edge.relay", "its stream broke"))
	}
	return last, over
}

// authorize moves the turn with an agent that waits for credentials, which it
// gets out of band (A2A v1.0 §7.6), or that has got them.
func (r *relay) authorize(b mesh.TaskMoved) []*mesh.Event {
	waits := b.State == a2apb.TaskState_TASK_STATE_AUTH_REQUIRED
	if waits == (r.waits != nil) {
		return nil
	}
	if r.waits = nil; waits {
		r.waits = &b
	}
	return []*mesh.Event{r.maker(r.leg.turn, "agent:"+r.leg.exec.Agent)(mesh.TaskMoved{State: b.State, Message: b.Message})}
}

func (r *relay) write(ctx context.Context, events []*mesh.Event) bool {
	if len(events) == 0 {
		return true
	}
	for _, ev := range events {
		ev.Epoch = r.leg.epoch
	}
	_, err := r.Log.Append(ctx, r.key, events, threadlog.AppendOptions{Epoch: r.leg.epoch})
	if err != nil {
		r.Logger.ErrorContext(ctx, "agent's output not logged", "agent", r.leg.exec.Agent, "err", err)
		return false
	}
	r.saw(events[len(events)-1].Pos)
	return true
}

// namespaced keeps apart the artifacts of the agents that have the stream one
// after the other: those of the first keep their ids, later ones get a number.
func namespaced(a *a2apb.Artifact, ordinal int) *a2apb.Artifact {
	prefix := strconv.Itoa(ordinal) + "."
	if ordinal == 1 && !strings.HasPrefix(strings.TrimLeft(a.GetArtifactId(), "0123456789"), ".") {
		return a
	}
	out := &a2apb.Artifact{
		ArtifactId: prefix + a.GetArtifactId(), Name: a.GetName(), Description: a.GetDescription(),
		Parts: a.GetParts(), Metadata: a.GetMetadata(), Extensions: a.GetExtensions(),
	}
	out.ProtoReflect().SetUnknown(a.ProtoReflect().GetUnknown())
	return out
}
