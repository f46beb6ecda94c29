package dispatch

import (
	"context"
	"errors"
	"strings"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/peer"
)

// maxPrior is how much of a dependency's result goes into a prompt, in bytes.
const maxPrior = 16 << 10

// settleTime is how long the end of an agent may take to be logged when the
// execution that dispatched it has ended.
const settleTime = 5 * time.Second

// work runs one job to its end and logs it.
func (d *Dispatcher) work(ctx context.Context, j *job, prior []Result) Result {
	r := j.Result
	to, err := d.choose(ctx, j)
	if err != nil {
		r.Status, r.Result = notAsked(ctx, err)
		return r
	}
	j.exec.Agent, r.Agent = to.GetName(), to.GetName()
	if len(j.exec.Skills) == 0 {
		j.exec.Skills = d.allowed(to)
	}
	if deadline, ok := ctx.Deadline(); ok {
		j.exec.Deadline = deadline.UTC().Truncate(time.Millisecond)
	}
	msg := message(d.inv.Thread.ID, prompt(j.Order, prior, maxPrior), j.Order)
	grants, err := d.inv.Mesh.Record(ctx, &mesh.Event{Body: mesh.DispatchIssued{Child: j.exec, Message: msg}})
	if err != nil {
		r.Status, r.Result = notAsked(ctx, err)
		return r
	}
	last, text := d.ask(ctx, j, to, msg, grants[j.exec.ID])
	r.ToolCalls, r.Status = d.skillCalls(ctx, j.exec.ID), status(ctx, last)
	r.Result = result(r.Status, text, last)
	d.settle(ctx, j, last, r)
	return r
}

// The results of agents that were stopped and had said nothing.
const (
	saidTimeout  = "The agent took too long and was stopped."
	saidCanceled = "The agent was stopped before it was done."
)

// notAsked is how a job ended whose agent was never asked.
func notAsked(ctx context.Context, err error) (status, result string) {
	switch {
	case ctx.Err() == nil:
		return StatusFailed, words(err)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return StatusTimeout, saidTimeout
	}
	return StatusCanceled, saidCanceled
}

// result is what the agent said and, unless it completed, why it did not: its
// question, the failure, or that it was stopped (S0-030, S0-083).
func result(status, text string, last mesh.TaskMoved) string {
	why := textOf(last.Message.GetParts())
	switch status {
	case StatusCompleted:
		if text != "" {
			return text
		}
	case StatusTimeout:
		why = saidTimeout
	case StatusCanceled:
		why = saidCanceled
	}
	if text == "" || why == "" {
		return text + why
	}
	return text + "\n\n" + why
}

// allowed are the skills of an agent that was asked by name alone: all that the
// grant has for the mesh's own agents, and for others those on their card.
func (d *Dispatcher) allowed(to *meshv1.Agent) []string {
	if to.GetBuiltin() {
		return d.inv.Grant.Skills
	}
	var ids []string
	for _, s := range to.GetCard().GetSkills() {
		ids = append(ids, s.GetId())
	}
	return mesh.OwnSkills(ids, d.inv.Grant.Skills)
}

// message is what the agent is told.
func message(threadID, text string, o Order) *a2apb.Message {
	m := peer.Say(text)
	m.Role, m.ContextId = a2apb.Role_ROLE_USER, threadID
	if o.MaxToolCalls > 0 {
		m.Metadata = &structpb.Struct{Fields: map[string]*structpb.Value{
			mesh.ExtensionURI: structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
				"max_tool_calls": structpb.NewNumberValue(float64(o.MaxToolCalls))}})}}
		m.Extensions = []string{mesh.ExtensionURI}
	}
	return m
}

// skillCalls is how many skills the execution called, by the log.
func (d *Dispatcher) skillCalls(ctx context.Context, id mesh.ExecutionID) int {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	resp, err := meshv1.NewThreadServiceClient(d.inv.Mesh.Conn()).GetThread(d.inv.Mesh.Context(ctx), &meshv1.GetThreadRequest{ThreadId: d.inv.Thread.ID})
	if err != nil {
		d.opts.Logger.WarnContext(ctx, "skill calls not counted", "execution", id, "err", err)
	}
	for _, x := range resp.GetThread().GetExecutions() {
		if x.GetExecution().GetId() == string(id) {
			return int(x.GetSkillCalls())
		}
	}
	return 0
}

// ask sends the message and logs what comes back. It returns the agent's last
// word and its text.
func (d *Dispatcher) ask(ctx context.Context, j *job, to *meshv1.Agent, msg *a2apb.Message, token string) (mesh.TaskMoved, string) {
	client, err := d.dialer.Dial(peer.Target{Card: to.GetCard(), Endpoint: to.GetEndpoint(), Tenant: mesh.TenantID(to.GetTenant())})
	if err != nil {
		return mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_FAILED, Reason: mesh.ReasonUnavailable, Message: peer.Say(words(err))}, ""
	}
	call := mesh.Call{
		Principal: mesh.Principal{Tenant: d.inv.Thread.Tenant, User: d.inv.User},
		Thread:    d.inv.Thread.ID, ParentTask: string(d.inv.Execution), Execution: j.exec.ID, Version: "1.0",
	}
	req := peer.Request{Message: msg, Execution: j.exec.ID, Thread: d.inv.Thread.ID, Unary: !to.GetCard().GetCapabilities().GetStreaming()}
	if peer.Speaks(to.GetCard()) {
		call.GrantToken, call.Extensions = token, []string{mesh.ExtensionURI}
	} else {
		msg.ContextId = ""
	}
	s := &stream{dispatcher: d, job: j, task: string(j.exec.ID)}
	called := mesh.WithCall(ctx, call)
	d.opts.Logger.InfoContext(called, "agent called", "agent", to.GetName())
	s.read(called, client, req)
	// It was stopped: the agent must know, whatever its stream does. Its server may
	// see the deadline before our clock does.
	if ctx.Err() != nil || s.last.Reason == mesh.ReasonTimeout {
		stop, cancel := context.WithTimeout(mesh.WithCall(context.WithoutCancel(ctx), call), settleTime)
		defer cancel()
		if err := peer.Cancel(stop, client, s.task); err != nil {
			d.opts.Logger.InfoContext(ctx, "agent did not cancel", "agent", to.GetName(), "err", err)
		}
	}
	return s.last, s.text.String()
}

// stream reads one agent's stream into the log.
type stream struct {
	dispatcher *Dispatcher
	job        *job
	task       string // the agent's id of it
	last       mesh.TaskMoved
	text       strings.Builder
}

// read logs what the agent says, each time all that has come meanwhile. The
// reader of the stream has ended when it returns.
func (s *stream) read(ctx context.Context, client peer.Client, req peer.Request) {
	s.last = mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_CANCELED}
	ctx, cancel := context.WithCancel(ctx)
	bodies := make(chan mesh.Body, 64)
	done := make(chan struct{})
	go func() { // ends with the stream, or with cancel; waited for below
		defer close(done)
		defer close(bodies)
		for b := range peer.Stream(ctx, client, req) {
			select {
			case bodies <- b:
			case <-ctx.Done():
				return
			}
		}
	}()
	defer func() { cancel(); <-done }()
	for b := range bodies {
		batch, bytes := []mesh.Body{b}, weight(b)
		for more := true; more && len(batch) < cap(bodies) && bytes < mesh.MaxEvent; {
			select {
			case next, ok := <-bodies:
				if more = ok; ok {
					batch, bytes = append(batch, next), bytes+weight(next)
				}
			default:
				more = false
			}
		}
		if err := s.record(ctx, batch); err != nil {
			s.last = mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_FAILED, Reason: "LOG_UNAVAILABLE", Message: peer.Say(words(err))}
			return
		}
	}
}

// weight is about how many bytes a body adds to a call, which is bounded.
func weight(b mesh.Body) int {
	if a, ok := b.(mesh.ArtifactAppended); ok {
		return proto.Size(a.Artifact)
	}
	return 0
}

// record logs a batch, without the agent's last word, which settles it.
func (s *stream) record(ctx context.Context, batch []mesh.Body) error {
	var events []*mesh.Event
	for _, b := range batch {
		switch b := b.(type) {
		case mesh.ArtifactAppended:
			s.take(b)
			events = append(events, &mesh.Event{Execution: s.job.exec.ID, Body: b})
		case mesh.TaskMoved:
			if b.RemoteTask != "" {
				s.task = b.RemoteTask
			}
			if mesh.Terminal(b.State) || mesh.Interrupted(b.State) {
				s.last = b
				continue
			}
			events = append(events, &mesh.Event{Execution: s.job.exec.ID, Body: b})
		}
	}
	if len(events) == 0 {
		return nil
	}
	_, err := s.dispatcher.inv.Mesh.Record(ctx, events...)
	return err
}

// take adds the text of a piece of output, up to what a result may have.
func (s *stream) take(b mesh.ArtifactAppended) {
	t := textOf(b.Artifact.GetParts())
	if s.text.Len() > 0 && !b.Append && t != "" {
		t = "\n\n" + t
	}
	if room := mesh.MaxResult - s.text.Len(); len(t) > room {
		t = strings.ToValidUTF8(t[:max(0, room)], "")
	}
	s.text.WriteString(t)
}

// settle logs how the job ended, also when its time is over.
func (d *Dispatcher) settle(ctx context.Context, j *job, last mesh.TaskMoved, r Result) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	state, reason := last.State, last.Reason
	switch r.Status {
	case StatusAwaiting:
		state, reason = a2apb.TaskState_TASK_STATE_CANCELED, "INPUT_REQUIRED"
	case StatusTimeout:
		state, reason = a2apb.TaskState_TASK_STATE_FAILED, mesh.ReasonTimeout
	case StatusCanceled:
		state = a2apb.TaskState_TASK_STATE_CANCELED
	}
	_, err := d.inv.Mesh.Record(ctx, &mesh.Event{Body: mesh.DispatchSettled{Child: j.exec.ID, State: state, Result: mesh.Clip(r.Result, mesh.MaxResult-len("…")), Reason: reason}})
	if err != nil && !mesh.IsCode(err, mesh.Precondition) { // over already: the node settled it
		d.opts.Logger.WarnContext(ctx, "end of dispatch not logged", "execution", j.exec.ID, "err", err)
	}
}

// status is how the model reads the agent's last word.
func status(ctx context.Context, last mesh.TaskMoved) string {
	if err := ctx.Err(); err != nil && last.State != a2apb.TaskState_TASK_STATE_COMPLETED {
		if errors.Is(err, context.DeadlineExceeded) {
			return StatusTimeout
		}
		return StatusCanceled
	}
	switch {
	case last.State == a2apb.TaskState_TASK_STATE_COMPLETED:
		return StatusCompleted
	case last.State == a2apb.TaskState_TASK_STATE_CANCELED:
		return StatusCanceled
	case mesh.Interrupted(last.State):
		return StatusAwaiting
	case last.Reason == mesh.ReasonTimeout:
		return StatusTimeout
	}
	return StatusFailed
}

func words(err error) string {
	if d := mesh.DetailOf(err); d != "" {
		return d
	}
	return "The agent could not be asked."
}

func textOf(parts []*a2apb.Part) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.GetText())
	}
	return b.String()
}

// quote makes another agent's words safe to put into a prompt.
func quote(s string, most int) string {
	return strings.ReplaceAll(mesh.Clip(s, most), "```", "'''")
}
