package dispatch

import (
	"context"
	"errors"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/types/known/structpb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/agent/meshclient"
	"agentmesh/mesh/agent/modelrun"
	"agentmesh/mesh/call"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/text"
)

// maxPrior is how much of a dependency's result goes into a prompt, in bytes.
const maxPrior = 16 << 10

// settleTime is how long the end of an agent may take to be logged when the
// execution that dispatched it has ended.
const settleTime = 5 * time.Second

// work runs one job, of which r is known, until it is done or waits for the
// user, and logs it.
func (d *Dispatcher) work(ctx context.Context, j *job, r Result) Result {
	to, err := d.find(ctx, j)
	var a *assignment
	if err == nil {
		r.Agent = to.GetName()
		a, err = d.assign(ctx, j, to)
	}
	if err != nil {
		r.Status, r.Result = notAsked(ctx, err)
		r.limited = d.refused(err)
		if d.leaves() {
			return r
		}
		if j.resume != nil && r.Status != StatusFailed { // its agent may be at work all the same
			d.dismiss(context.WithoutCancel(ctx), j)
		}
		var ending bool
		if j.cutOff() {
			ending = d.conclude(ctx, &r, new(transcript), unknown(), true)
		} else {
			ending = d.heed(ctx, &r)
		}
		return d.closed(ctx, j, mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_FAILED, Reason: notBegun(err)}, r, ending)
	}
	last, said, lost := d.ask(ctx, j, a)
	r.Status = status(ctx, last)
	switch {
	case d.leaves():
		r.Status, r.Result = StatusCanceled, ""
		return r
	case (lost || ctx.Err() == nil && last.Reason == mesh.ReasonUnavailable && d.patient()) && call.Speaks(to.GetCard()) && d.readopt(ctx, j):
		return d.work(ctx, j, r)
	case lost && j.cutOff() && !call.Speaks(to.GetCard()):
		last, r.Status = unknown(), StatusFailed
	case lost && call.Speaks(to.GetCard()): // again and again
		last, r.Status = call.Failure(mesh.ReasonInterrupted, text.AgentInterrupted()), StatusFailed
	}
	if d.asksForHelp(last) && r.Status == StatusAwaiting {
		r.Status = StatusAsks
	}
	if r.Status == StatusWaiting || r.Status == StatusAsks {
		if err = d.park(ctx, j, last); err != nil {
			last = unlogged(err)
			r.Status = status(ctx, last) // its time may have ended meanwhile
			j.stop(ctx)
		}
	}
	switch r.Status {
	case StatusWaiting:
		r.Result, r.wants = result(r.Status, "", last), wanted(last)
		return r
	case StatusAsks:
		r.wants = needs(last)
		r.Result = r.wants.help.reason
		return r
	}
	ending := d.conclude(ctx, &r, said, last, call.Speaks(to.GetCard()))
	return d.closed(ctx, j, last, r, ending)
}

// closed logs how the job ended, and returns what came of it. Where somebody asked for its
// end, others may end it at the same time: then it is as the log has it.
func (d *Dispatcher) closed(ctx context.Context, j *job, last mesh.TaskMoved, r Result, ending bool) Result {
	d.settle(ctx, j, last, r)
	if ending {
		d.heedLast(ctx, &r)
	}
	return r
}

// An assignment is what an agent is about to be told.
type assignment struct {
	to  *meshv1.Agent
	msg *a2apb.Message
	meshclient.Issued
}

// assign logs that the agent is about to be asked, or to go on.
func (d *Dispatcher) assign(ctx context.Context, j *job, to *meshv1.Agent) (*assignment, error) {
	a := &assignment{to: to}
	var event *mesh.Event
	if j.cutOff() {
		a.msg, event = d.continued(j)
	} else if j.resume != nil {
		a.msg = d.answer(j)
		event = &mesh.Event{Execution: j.exec.ID, Body: mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_WORKING, Reason: mesh.ReasonDelivered, Message: j.reply}}
	} else {
		if j.exec.Dry && !call.Speaks(to.GetCard()) {
			return nil, mesh.Errorf(mesh.Unsupported, "dispatch.assign", "The agent %s knows nothing of dry runs, and would do what it is asked", to.GetName())
		}
		j.exec.Agent = to.GetName()
		j.exec.Budget = j.exec.Budget.Within(d.opts.Terms[to.GetName()].Budget)
		if len(j.exec.Skills) == 0 {
			j.exec.Skills = callee(to).Skills(to.GetBuiltin(), d.inv.Grant.Skills)
		}
		if deadline, ok := ctx.Deadline(); ok {
			j.exec.Deadline = deadline.UTC().Truncate(time.Millisecond)
		}
		prior := j.prior()
		a.msg = message(d.inv.Thread.ID, prompt(j.Order, prior, maxPrior), j.Order)
		a.msg.Metadata = a2a.SetExtension(a.msg.Metadata, modelrun.MissionData(d.mission(j.Order, prior)))
		if j.SkillCall != nil {
			md, err := j.SkillCall.Metadata()
			if err != nil {
				return nil, err
			}
			a.msg.Metadata = a2a.SetExtension(a.msg.Metadata, a2a.Extension(md).GetFields())
		}
		a.msg.Extensions = []string{mesh.ExtensionURI}
		under, _ := mesh.CallFrom(ctx)
		j.exec.Traceparent = mesh.Below(under.Traceparent, d.inv.Execution, j.exec.ID)
		event = &mesh.Event{Body: mesh.DispatchIssued{Child: j.exec, Message: a.msg}}
	}
	issued, err := d.issue(ctx, j, event)
	if err != nil {
		return nil, err
	}
	a.Issued = issued[j.exec.ID]
	return a, nil
}

// How long an order waits that found the node busy, until it asks again.
const (
	leastBusy = 50 * time.Millisecond
	mostBusy  = time.Second
)

// issue logs that an agent begins, as soon as the node has room for it. While it waits, the
// log says so, its time runs, and it can be ended.
func (d *Dispatcher) issue(ctx context.Context, j *job, event *mesh.Event) (map[mesh.ExecutionID]meshclient.Issued, error) {
	for wait := leastBusy; ; wait = min(2*wait, mostBusy) {
		issued, err := d.inv.Mesh.Record(ctx, event)
		if trip := limit.TripOf(err); trip == nil || !limit.Waits(trip.Limit) {
			return issued, err
		}
		if wait == leastBusy {
			queued := mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_SUBMITTED, Reason: mesh.ReasonQueued}
			if err := d.inv.Mesh.Keep(ctx, &mesh.Event{Execution: j.exec.ID, Body: queued}); err != nil {
				return nil, err
			}
		}
		select {
		case <-time.After(wait):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
		event.Time = time.Time{} // it begins when it does
	}
}

// park logs that the job waits for the user.
func (d *Dispatcher) park(ctx context.Context, j *job, last mesh.TaskMoved) error {
	_, err := d.inv.Mesh.Record(ctx, &mesh.Event{Execution: j.exec.ID, Body: mesh.TaskMoved{
		State: last.State, Reason: reason(last), Message: last.Message, Metadata: last.Metadata}})
	return err
}

// notAsked is how a job ended whose agent was never asked.
func notAsked(ctx context.Context, err error) (status, result string) {
	switch {
	case ctx.Err() == nil && mesh.IsCode(err, mesh.Canceled): // somebody wants its end
		return StatusCanceled, text.AgentCanceled()
	case ctx.Err() == nil:
		return StatusFailed, words(err)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return StatusTimeout, text.AgentTookTooLong()
	}
	return StatusCanceled, text.AgentCanceled()
}

// notBegun is why a job failed whose agent was never asked, for programs; "" where nothing
// but its result says so, as of an agent that there is not.
func notBegun(err error) string {
	var e *mesh.Error
	if !errors.As(err, &e) {
		return ""
	}
	switch {
	case limit.TripOf(err) != nil:
		return mesh.ReasonLimit
	case e.Reason == mesh.ReasonPermission, e.Reason == mesh.ReasonPolicy:
		return e.Reason
	case e.Code == mesh.Unavailable:
		return mesh.ReasonUnavailable
	}
	return ""
}

// message is what the agent is told.
func message(threadID, words string, o Order) *a2apb.Message {
	m := mesh.Say(words)
	m.Role, m.ContextId = a2apb.Role_ROLE_USER, threadID
	if o.MaxToolCalls > 0 {
		m.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{
			mesh.ExtensionURI: structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
				"max_tool_calls": structpb.NewNumberValue(float64(o.MaxToolCalls))}})}}
		m.Extensions = []string{mesh.ExtensionURI}
	}
	return m
}

// ask sends the message and logs what comes back. It returns the agent's last
// word and its text, and whether the agent, or its task, was lost.
func (d *Dispatcher) ask(ctx context.Context, j *job, a *assignment) (last mesh.TaskMoved, said *transcript, lost bool) {
	to := callee(a.to)
	if j.resume != nil {
		to.Target = to.Holder(j.resume.instance)
	}
	client, err := d.dialer.Dial(to.Target)
	if err != nil {
		return call.Failure(mesh.ReasonUnavailable, words(err)), new(transcript), false
	}
	as := to.As(d.inv.Thread, j.exec, d.inv.Mesh.Tickets(j.exec.ID, a.Ticket))
	remote := call.Remote{Context: a.Context, Recall: func(ctx context.Context) (string, error) { return d.inv.Mesh.Recollection(ctx, j.exec) }}
	text := new(transcript)
	if j.resume != nil {
		remote.Task, remote.GoesOn = j.resume.task, true
		text.hear(j.resume.said)
		if j.resume.continued {
			remote.Attach = &call.Attach{Had: j.resume.said, Answers: j.resume.answers}
		}
	}
	called := mesh.WithCall(ctx, as)
	log := journal{d.inv.Mesh}
	req := to.Request(d.inv.Thread, j.exec.ID, a.msg, remote)
	req.Agent, req.Silence, req.Logger = to.Name, d.opts.Limits.For(to.Name).Silence, d.opts.Logger
	relay := call.Open(called, client, req, log, func(b mesh.Body) *mesh.Event {
		return &mesh.Event{Execution: j.exec.ID, Body: b}
	})
	defer relay.Close()
	j.stop = func(ctx context.Context) {
		ctx = mesh.WithCall(context.WithoutCancel(ctx), as)
		if err := relay.Stop(ctx, settleTime); err != nil {
			d.opts.Logger.InfoContext(ctx, "agent did not cancel", "agent", to.Name, "err", err)
		}
	}
	d.opts.Logger.InfoContext(called, "agent called", "agent", to.Name)
	last = hear(called, relay, log, text)
	// It was stopped: the agent must know, whatever its stream does. Its server may
	// see the deadline before our clock does.
	if (ctx.Err() != nil || last.Reason == mesh.ReasonTimeout || last.Reason == mesh.ReasonOutput) && !d.leaves() {
		j.stop(ctx)
	}
	return last, text, ctx.Err() == nil && mesh.Terminal(last.State) && relay.Lost()
}

// callee is the agent as package call has it.
func callee(a *meshv1.Agent) call.Agent {
	t := call.Target{Name: a.GetName(), Card: a.GetCard(), Endpoint: a.GetEndpoint(), Tenant: mesh.TenantID(a.GetTenant())}
	for _, i := range a.GetInstances() {
		t.Instances = append(t.Instances, call.Instance{ID: i.GetId(), Endpoint: i.GetEndpoint(), Interfaces: i.GetInterfaces(), Live: i.GetLive()})
	}
	return call.Agent{Target: t, Builtin: a.GetBuiltin()}
}

// A journal is the thread as the mesh offers it to the execution that dispatches.
type journal struct{ mesh *meshclient.Client }

// Append implements [call.Journal].
func (j journal) Append(ctx context.Context, events []*mesh.Event) error {
	if len(events) == 0 {
		return nil
	}
	return j.mesh.Keep(ctx, events...)
}

// hear logs what the agent says until its stream has ended, and takes its text. It
// returns the agent's last word, which settles the job and is logged then.
func hear(ctx context.Context, relay *call.Relay, log call.Journal, text *transcript) mesh.TaskMoved {
	last := mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_CANCELED}
	take := func(b mesh.Body) (mesh.Body, []*mesh.Event) {
		switch b := b.(type) {
		case mesh.ArtifactAppended:
			text.take(b.Artifact, b.Append)
		case mesh.TaskMoved:
			if mesh.Interrupted(b.State) { // for credentials; it may go on by itself
				last = b
				return nil, nil
			}
		}
		return b, nil
	}
	for b := range relay.Bodies() {
		said, err := relay.Log(ctx, b, take)
		if err == nil && said.Last != nil {
			last = *said.Last
			err = log.Append(ctx, said.Events)
		}
		if trip := limit.TripOf(err); trip != nil && limit.OfOutput(trip.Limit) {
			return call.TooMuch(trip.Limit, trip.Most)
		}
		if err != nil {
			return unlogged(err)
		}
	}
	return last
}

// unlogged is how a job ends that cannot be written to the log.
func unlogged(err error) mesh.TaskMoved { return call.Failure(call.ReasonLog, words(err)) }

// settle logs how the job ended.
func (d *Dispatcher) settle(ctx context.Context, j *job, last mesh.TaskMoved, r Result) {
	why := context.Cause(ctx) // we gave it up; nil if we did not
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	state, reason := last.State, last.Why()
	switch r.Status {
	case StatusAwaiting:
		state, reason = a2apb.TaskState_TASK_STATE_CANCELED, mesh.ReasonAsked
	case StatusTimeout:
		state, reason = a2apb.TaskState_TASK_STATE_FAILED, mesh.ReasonTimeout
	case StatusCanceled:
		// What its stream and our log said when we gave it up is not why it ended.
		if state != a2apb.TaskState_TASK_STATE_CANCELED || why != nil {
			state, reason = a2apb.TaskState_TASK_STATE_CANCELED, mesh.ReasonDismissed
		}
	}
	err := d.inv.Mesh.Keep(ctx, &mesh.Event{Body: mesh.DispatchSettled{Child: j.exec.ID, State: state, Result: mesh.Clip(r.Result, mesh.MaxResult-len("…")), Reason: reason}})
	if err != nil && !mesh.IsCode(err, mesh.Precondition) { // over already: the node settled it
		d.opts.Logger.WarnContext(ctx, "end of dispatch not logged", "execution", j.exec.ID, "err", err)
	}
}

func words(err error) string {
	if d := mesh.DetailOf(err); d != "" {
		return d
	}
	return text.AgentNotAsked()
}
