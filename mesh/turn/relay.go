package turn

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/call"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/registry"
	"agentmesh/mesh/text"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
)

// outcome says how a leg ended.
type outcome struct {
	kind outcomeKind
	last mesh.TaskMoved // of legOver
	// unsaved is what the agent said with its last word, to be logged in one
	// batch with what follows from that.
	unsaved []*mesh.Event
	// next has begun already, of legLost.
	next *leg
	// lost says that the agent, which speaks our extension, or its task was lost: it can
	// have the message again.
	lost bool
	// cut says, in a clause for the user, what cut the turn off if it ends so; or is "".
	cut string
}

type outcomeKind uint8

const (
	legOver outcomeKind = iota // the agent is done, or asks, or failed
	legLost                    // the stream went to somebody else, by handoff
)

// runLeg logs the leg, if it has not begun, opens the agent's stream and logs what
// comes back.
func (d *driver) runLeg(ctx context.Context, l *leg, w *watch) outcome {
	if n := l.size(); n > maxLeg {
		return outcome{last: call.Failure(reasonLong, text.MessagesTooLong(n, maxLeg))}
	}
	if l.from == 0 {
		d.await(ctx, l, w)
		if refused := l.refused(); refused != nil {
			return outcome{last: *refused}
		}
		switch canceled, err := d.announce(ctx, l); {
		case ctx.Err() != nil && !d.Interrupt:
			return outcome{kind: legLost} // nothing was begun
		case errors.Is(err, errTaken):
			return outcome{kind: legLost}
		case err != nil:
			d.Logger.ErrorContext(ctx, "leg not logged", "agent", l.exec.Agent, "err", err)
			return outcome{last: unlogged()}
		case canceled && l.adopted && l.unreachable == nil: // it may be at work
			d.runner.EndTasks(ctx, d.key, []thread.Execution{{Execution: l.exec, RemoteTask: l.remote, Instance: l.instance}})
			fallthrough
		case canceled:
			return outcome{last: mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_CANCELED}}
		}
	}
	if why := mesh.Unheard(l.message); why != "" { // no agent is asked
		return outcome{last: mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_INPUT_REQUIRED, Reason: why, Message: mesh.Say(text.NotHeard(why))}}
	}
	if l.unreachable != nil && l.adopted {
		return outcome{last: call.Failure(mesh.ReasonUnavailable, ""), cut: text.AgentLost(l.exec.Agent)}
	}
	if l.unreachable != nil {
		words := text.AgentNotAvailable(l.exec.Agent)
		if detail := mesh.DetailOf(l.unreachable); detail != "" {
			words = detail
		}
		return outcome{last: call.Failure(mesh.ReasonUnavailable, words)}
	}
	req, err := d.request(ctx, l)
	if err != nil {
		d.Logger.ErrorContext(ctx, "leg not called", "agent", l.exec.Agent, "err", err)
		return outcome{last: unlogged()}
	}
	left := l.exec.Deadline.Sub(d.Now())
	stream, cancel := context.WithTimeoutCause(ctx, left, mesh.Errorf(mesh.Timeout, "turn.runLeg", "the agent took too long"))
	stream = d.identify(stream, d.key, l.exec, l.entry, l.roles, left)
	d.Logger.InfoContext(stream, "agent called", "agent", l.exec.Agent)
	r := &relay{driver: d, leg: l, entry: l.entry, stream: stream, cancel: cancel,
		journal: &journal{log: d.Log, states: d.States, key: d.key, epoch: d.epoch, execution: l.exec.ID, most: d.Output.For(l.exec.Agent), has: l.has, room: d.Room}}
	req.Agent, req.Silence, req.Logger = l.exec.Agent, d.Limits.For(l.exec.Agent).Silence, d.Logger
	r.agent = call.Open(stream, l.client, req, r.journal, func(b mesh.Body) *mesh.Event {
		return d.event(l.exec.ID, "agent:"+l.exec.Agent, b)
	})
	d.runner.underway(d)
	d.pulse.begin(l, d.epoch, d.Now())
	defer d.pulse.end()
	return r.run(ctx, w)
}

func unlogged() mesh.TaskMoved {
	return call.Failure(call.ReasonLog, text.NotLogged())
}

// prepare finds the leg's agent and says what it may do, and for how long.
func (d *driver) prepare(l *leg) {
	l.entry, l.client, l.unreachable = d.find(d.key.Tenant, l.exec.Agent, l.instance)
	if !l.resumed && l.unreachable == nil { // the operator chose main, and the mesh's own agents
		l.exec.Skills = callee(l.entry).Skills(l.entry.Builtin || l.entry.Name == d.Main, []string{"*"})
		if !l.entry.Trusted && l.entry.Name != d.Main {
			l.exec.Skills = nil
		}
	}
	if l.adopted {
		return
	}
	l.exec.Deadline = d.Now().Add(d.Limits.For(l.exec.Agent).Time)
}

// announce logs the leg before it starts, unless the user wants the turn to
// end: then it returns true.
func (d *driver) announce(ctx context.Context, l *leg) (canceled bool, err error) {
	err = d.decide(ctx, func(s *thread.State, dec *cache.Decision) error {
		t, err := turnIn(s, l.turn)
		if err != nil {
			return err
		}
		if canceled = t.Canceled; canceled {
			return nil
		}
		if l.adopted {
			return d.adopt(s, t, dec, l)
		}
		if t.State == a2apb.TaskState_TASK_STATE_SUBMITTED || awaited(t) {
			dec.Events = append(dec.Events, d.event(l.turn, "node", mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_WORKING}))
		}
		if l.resumed {
			l.begins = d.event(l.exec.ID, "node", mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_WORKING, Reason: mesh.ReasonDelivered})
		} else {
			l.exec.Traceparent = d.traceparent(t.Traceparent, l.exec.ID)
			dec.Events = append(dec.Events, d.forget(s, l)...)
			l.begins = d.event(l.turn, "node", mesh.DispatchIssued{Child: l.exec, Message: l.message})
		}
		dec.Events = append(dec.Events, l.begins)
		return nil
	})
	if err != nil || canceled {
		return canceled, err
	}
	l.from = l.begins.Seq
	l.logged(nil)
	return false, nil
}

// A relay has one agent's stream reach the log.
type relay struct {
	driver  *driver
	leg     *leg
	entry   registry.Entry
	agent   *call.Relay
	journal *journal
	stream  context.Context //nolint:containedctx // of the call
	cancel  context.CancelFunc
	waits   *mesh.TaskMoved // the agent waits for credentials, and so does the turn
}

// run relays until the leg is over or lost. A lost stream is drained in the
// background.
func (r *relay) run(ctx context.Context, w *watch) outcome {
	var giveUp <-chan time.Time // when a canceled agent has had its time
	begun := false              // the agent said something
	for {
		select {
		case b, ok := <-r.agent.Bodies():
			if !ok {
				return r.over(ctx, r.silent(), nil)
			}
			if !begun && giveUp != nil { // it may not have known the task when it was told
				r.stop(ctx)
			}
			begun = true
			if last, unsaved := r.log(ctx, b); last != nil {
				if giveUp == nil {
					*last = r.expired(*last)
				}
				return r.over(ctx, *last, unsaved)
			}
		case t := <-r.driver.given:
			if next := r.driver.handOver(t, r.leg); next != nil {
				r.drain(ctx)
				return outcome{kind: legLost, next: next}
			}
		case ev := <-w.signals:
			if _, cancels := ev.Body.(mesh.CancelRequested); cancels {
				if giveUp == nil { // two nodes may each have taken a request
					r.stop(ctx)
					giveUp = time.After(r.driver.CancelGrace)
				}
				continue
			}
			if ev.Seq <= r.leg.from || !r.driver.loses(ctx, r.leg, ev) {
				continue
			}
			r.drain(ctx)
			return outcome{kind: legLost}
		case <-giveUp:
			return r.over(ctx, mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_CANCELED}, nil)
		case <-ctx.Done():
			if !r.driver.Interrupt { // who goes on with the turn finds the agent at work
				r.close()
				return outcome{kind: legLost}
			}
			return r.over(ctx, call.Failure(mesh.ReasonInterrupted, text.SendAgain(text.MeshStopped())), nil)
		}
	}
}

// silent is how a leg ended whose agent's stream ended without a last word.
func (r *relay) silent() mesh.TaskMoved {
	switch {
	case mesh.IsCode(context.Cause(r.stream), mesh.Timeout):
		return call.Failure(mesh.ReasonTimeout, text.AgentTookTooLong())
	case r.stream.Err() == nil && r.waits != nil: // it will go on when the user says so
		return *r.waits
	}
	return call.Failure(mesh.ReasonInterrupted, text.CutOff())
}

// expired is the agent's last word; of one that cancels its task because its time is over,
// which it was told with the call, that it took too long.
func (r *relay) expired(last mesh.TaskMoved) mesh.TaskMoved {
	const ahead = 50 * time.Millisecond // of our clock that of the call may be
	if last.State != a2apb.TaskState_TASK_STATE_CANCELED || r.driver.Now().Before(r.leg.exec.Deadline.Add(-ahead)) {
		return last
	}
	return call.Failure(mesh.ReasonTimeout, text.AgentTookTooLong())
}

// over ends the call. An agent that took too long, or said too much, may not have noticed,
// nor one whose call was cut off with the turn: its stream may have ended before that was seen.
func (r *relay) over(ctx context.Context, last mesh.TaskMoved, unsaved []*mesh.Event) outcome {
	r.close()
	cut := ctx.Err() != nil && r.driver.Interrupt && failedIn(last.State)
	if cut || last.Reason == mesh.ReasonTimeout || last.Reason == mesh.ReasonOutput {
		r.stop(ctx)
	}
	out := outcome{kind: legOver, last: last, unsaved: unsaved}
	switch lost := r.agent.Lost() && failedIn(last.State); {
	case call.Speaks(r.entry.Card) && (lost || last.Reason == mesh.ReasonUnavailable && !r.leg.handedOver()):
		out.lost = true // before its first word, too
	case lost && r.leg.adopted:
		out.last, out.cut = call.Failure(mesh.ReasonUnknown, ""), text.AgentLost(r.leg.exec.Agent)
	}
	return out
}

// close ends the call and waits for its reader.
func (r *relay) close() {
	r.agent.Close()
	r.cancel()
}

// stop asks the agent in the background to end its task; the driver waits.
func (r *relay) stop(ctx context.Context) {
	r.driver.drain(func() { r.ask(context.WithoutCancel(ctx)) })
}

// ask asks the agent to end its task.
func (r *relay) ask(ctx context.Context) {
	d := r.driver
	ctx = d.identify(ctx, d.key, r.leg.exec, r.entry, nil, time.Minute)
	if err := r.agent.Stop(ctx, d.CancelGrace); err != nil {
		d.Logger.InfoContext(ctx, "agent did not cancel", "agent", r.leg.exec.Agent, "err", err)
	}
}

// drain logs, for the record, what the agent still says that gave the stream
// away; then it settles its execution.
func (r *relay) drain(ctx context.Context) {
	ctx = context.WithoutCancel(ctx)
	d := r.driver
	d.drain(func() {
		last := r.lastWords(ctx)
		r.close()
		if !mesh.Terminal(last.State) {
			last.State = a2apb.TaskState_TASK_STATE_CANCELED
		}
		err := d.decide(ctx, func(s *thread.State, dec *cache.Decision) error {
			if !isOver(s, r.leg.exec.ID) { // else it ended with the turn
				dec.Events = append(dec.Events, d.event(r.leg.turn, "agent:"+r.leg.exec.Agent,
					mesh.DispatchSettled{Child: r.leg.exec.ID, State: last.State, Reason: mesh.ReasonHandedOff}))
			}
			return nil
		})
		if err != nil {
			d.Logger.WarnContext(ctx, "agent that gave the stream away not settled", "agent", r.leg.exec.Agent, "err", err)
		}
	})
}

// lastWords logs what the agent says until it has ended or its grace is over.
func (r *relay) lastWords(ctx context.Context) mesh.TaskMoved {
	canceled := mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_CANCELED}
	grace := time.NewTimer(r.driver.HandoffGrace)
	defer grace.Stop()
	for {
		select {
		case b, ok := <-r.agent.Bodies():
			if !ok { // we end the call, or it waits for credentials
				r.ask(ctx)
				return canceled
			}
			if last, unsaved := r.log(ctx, b); last != nil {
				if err := r.journal.Append(ctx, unsaved); err != nil {
					r.driver.Logger.WarnContext(ctx, "last words not logged", "agent", r.leg.exec.Agent, "err", err)
				}
				if last.Reason == mesh.ReasonOutput {
					r.ask(ctx)
				}
				return *last
			}
		case <-grace.C:
			r.ask(ctx)
			return canceled
		}
	}
}

// log logs what the agent said. Its last word, if that is among it, is for follow to
// log, together with what came before it.
func (r *relay) log(ctx context.Context, b mesh.Body) (last *mesh.TaskMoved, unsaved []*mesh.Event) {
	said, err := r.agent.Log(ctx, b, r.change)
	if trip := limit.TripOf(err); trip != nil {
		last := call.TooMuch(trip.Limit, trip.Most)
		return &last, nil
	}
	if err != nil {
		r.driver.Logger.ErrorContext(ctx, "agent's output not logged", "agent", r.leg.exec.Agent, "err", err)
		failed := unlogged()
		return &failed, nil
	}
	if said.Last == nil {
		return nil, nil
	}
	if said.Last.Reason == mesh.ReasonUnavailable && len(r.entry.Instances) == 0 { // of several, the dialer tells which
		r.driver.Directory.ReportDown(r.entry, mesh.Errorf(mesh.Unavailable, "turn.relay", "its stream broke"))
	}
	return said.Last, said.Events
}

// change makes what the agent said part of the turn.
func (r *relay) change(b mesh.Body) (mesh.Body, []*mesh.Event) {
	switch b := b.(type) {
	case mesh.ArtifactAppended:
		if a := namespaced(b.Artifact, r.leg.ordinal); a != b.Artifact {
			b.Artifact, b.Wire = a, mesh.WireOf(a)
		}
		return b, nil
	case mesh.TaskMoved:
		return b, r.authorize(b)
	}
	return b, nil
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
	return []*mesh.Event{r.driver.event(r.leg.turn, "agent:"+r.leg.exec.Agent, r.driver.wayOut(r.leg, mesh.TaskMoved{State: b.State, Message: b.Message}))}
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
