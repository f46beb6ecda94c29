package dispatch

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/call"
	"agentmesh/mesh/text"
)

// maxPrior is how much of a dependency's result goes into a prompt, in bytes.
const maxPrior = 16 << 10

// settleTime is how long the end of an agent may take to be logged when the
// execution that dispatched it has ended.
const settleTime = 5 * time.Second

// work runs one job, of which r is known, until it is done or waits for the
// user, and logs it.
func (d *Dispatcher) work(ctx context.Context, j *job, r Result, prior []Result) Result {
	to, err := d.choose(ctx, j)
	var a *assignment
	if err == nil {
		r.Agent = to.GetName()
		a, err = d.assign(ctx, j, to, prior)
	}
	if err != nil {
		r.Status, r.Result = notAsked(ctx, err)
		if j.again != nil {
			d.settle(ctx, j, mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_FAILED, Reason: mesh.ReasonUnavailable}, r)
		}
		return r
	}
	last, text := d.ask(ctx, j, a)
	r.Status = status(ctx, last)
	if r.Status == StatusWaiting {
		if err = d.park(ctx, j, last); err != nil {
			last = unlogged(err)
			r.Status = status(ctx, last) // its time may have ended meanwhile
			j.stop(ctx)
		}
	}
	r.Result, r.wants = result(r.Status, text, last), wanted(r.Status, last)
	if r.Status != StatusWaiting {
		r.Result = d.open(ctx, j, r)
		d.settle(ctx, j, last, r)
	}
	return r
}

// An assignment is what an agent is about to be told.
type assignment struct {
	to    *meshv1.Agent
	msg   *a2apb.Message
	token string // the grant
}

// assign logs that the agent is about to be asked, or to go on.
func (d *Dispatcher) assign(ctx context.Context, j *job, to *meshv1.Agent, prior []Result) (*assignment, error) {
	a := &assignment{to: to}
	var event *mesh.Event
	if j.again != nil {
		a.msg = message(d.inv.Thread.ID, "", j.Order)
		a.msg.Parts = d.inv.Message.GetParts()
		event = &mesh.Event{Execution: j.exec.ID, Body: mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_WORKING, Reason: mesh.ReasonDelivered}}
	} else {
		j.exec.Agent = to.GetName()
		if len(j.exec.Skills) == 0 {
			j.exec.Skills = d.allowed(to)
		}
		if deadline, ok := ctx.Deadline(); ok {
			j.exec.Deadline = deadline.UTC().Truncate(time.Millisecond)
		}
		a.msg = message(d.inv.Thread.ID, prompt(j.Order, prior, maxPrior), j.Order)
		event = &mesh.Event{Body: mesh.DispatchIssued{Child: j.exec, Message: a.msg}}
	}
	grants, err := d.inv.Mesh.Record(ctx, event)
	if err != nil {
		return nil, err
	}
	j.issued, a.token = true, grants[j.exec.ID]
	return a, nil
}

// park logs that the job waits for the user.
func (d *Dispatcher) park(ctx context.Context, j *job, last mesh.TaskMoved) error {
	_, err := d.inv.Mesh.Record(ctx, &mesh.Event{Execution: j.exec.ID, Body: mesh.TaskMoved{
		State: last.State, Reason: reason(last), Message: last.Message, Metadata: last.Metadata}})
	return err
}

// reasonAwaiting is why an agent was ended that asked something.
const reasonAwaiting = "INPUT_REQUIRED"

// notAsked is how a job ended whose agent was never asked.
func notAsked(ctx context.Context, err error) (status, result string) {
	switch {
	case ctx.Err() == nil:
		return StatusFailed, words(err)
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return StatusTimeout, text.AgentTookTooLong()
	}
	return StatusCanceled, text.AgentCanceled()
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
func message(threadID, words string, o Order) *a2apb.Message {
	m := call.Say(words)
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
// word and its text.
func (d *Dispatcher) ask(ctx context.Context, j *job, a *assignment) (mesh.TaskMoved, string) {
	to := a.to
	client, err := d.dialer.Dial(call.Target{Card: to.GetCard(), Endpoint: to.GetEndpoint(), Tenant: mesh.TenantID(to.GetTenant())})
	if err != nil {
		return mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_FAILED, Reason: mesh.ReasonUnavailable, Message: call.Say(words(err))}, ""
	}
	as := mesh.Call{
		Principal: mesh.Principal{Tenant: d.inv.Thread.Tenant, User: d.inv.User},
		Thread:    d.inv.Thread.ID, ParentTask: string(d.inv.Execution), Execution: j.exec.ID, Version: "1.0",
	}
	req := call.Request{Message: a.msg, Execution: j.exec.ID, Thread: d.inv.Thread.ID, Unary: !to.GetCard().GetCapabilities().GetStreaming()}
	if call.Speaks(to.GetCard()) {
		as.GrantToken, as.Extensions = a.token, []string{mesh.ExtensionURI}
	} else {
		req.Message.ContextId = ""
	}
	s := &stream{dispatcher: d, job: j, task: string(j.exec.ID)}
	if j.again != nil {
		s.goOn(&req, j.again)
	}
	called := mesh.WithCall(ctx, as)
	j.stop = func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(mesh.WithCall(context.WithoutCancel(ctx), as), settleTime)
		defer cancel()
		if err := call.Cancel(ctx, client, s.task); err != nil {
			d.opts.Logger.InfoContext(ctx, "agent did not cancel", "agent", to.GetName(), "err", err)
		}
	}
	d.opts.Logger.InfoContext(called, "agent called", "agent", to.GetName())
	s.read(called, client, req)
	// It was stopped: the agent must know, whatever its stream does. Its server may
	// see the deadline before our clock does.
	if ctx.Err() != nil || s.last.Reason == mesh.ReasonTimeout {
		j.stop(ctx)
	}
	return s.last, s.text.result()
}

// stream reads one agent's stream into the log.
type stream struct {
	dispatcher *Dispatcher
	job        *job
	task       string // the agent's id of it
	last       mesh.TaskMoved
	text       transcript
}

// goOn makes the request and the stream those of a task that waited.
func (s *stream) goOn(req *call.Request, a *again) {
	s.task = cmp.Or(a.task, s.task)
	s.text.WriteString(a.said)
	req.RemoteTask, req.Message.TaskId = s.task, s.task
	req.Message.ContextId = cmp.Or(req.Message.ContextId, a.context)
}

// read logs what the agent says, each time all that has come meanwhile. The
// reader of the stream has ended when it returns.
func (s *stream) read(ctx context.Context, client call.Client, req call.Request) {
	s.last = mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_CANCELED}
	ctx, cancel := context.WithCancel(ctx)
	bodies := make(chan mesh.Body, 64)
	done := make(chan struct{})
	go func() { // ends with the stream, or with cancel; waited for below
		defer close(done)
		defer close(bodies)
		for b := range call.Stream(ctx, client, req) {
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
			s.last = unlogged(err)
			return
		}
	}
}

// unlogged is how a job ends that cannot be written to the log.
func unlogged(err error) mesh.TaskMoved {
	return mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_FAILED, Reason: "LOG_UNAVAILABLE", Message: call.Say(words(err))}
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
			s.text.take(b.Artifact, b.Append)
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

// settle logs how the job ended, also when its time is over.
func (d *Dispatcher) settle(ctx context.Context, j *job, last mesh.TaskMoved, r Result) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	state, reason := last.State, last.Reason
	switch r.Status {
	case StatusAwaiting:
		state, reason = a2apb.TaskState_TASK_STATE_CANCELED, reasonAwaiting
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
	case waits(last):
		return StatusWaiting
	case mesh.Interrupted(last.State):
		return StatusAwaiting
	case last.Reason == mesh.ReasonTimeout:
		return StatusTimeout
	}
	return StatusFailed
}

// waits reports whether the agent waits for the user's word, on a call or on
// going on after a limit, and says so.
func waits(last mesh.TaskMoved) bool {
	return last.State == a2apb.TaskState_TASK_STATE_INPUT_REQUIRED && forUser(reason(last)) && textOf(last.Message.GetParts()) != ""
}

// forUser reports whether no agent can give what is waited for with the reason.
func forUser(reason string) bool { return reason == mesh.ReasonApproval || reason == mesh.ReasonLimit }

// reason is why the agent is in that state, as far as it says.
func reason(last mesh.TaskMoved) string {
	return mesh.ReasonOf(last.Reason, last.Metadata)
}

// wanted is what an agent of that status waits for. One that does not say what
// it asks about asks in its own words.
func wanted(status string, last mesh.TaskMoved) *wants {
	if status != StatusWaiting {
		return nil
	}
	report := agent.ReportOf(last.Metadata)
	questions, told := mesh.Asks(last.Metadata)
	if report == nil && !told {
		questions = []mesh.Question{{Text: textOf(last.Message.GetParts())}}
	}
	return &wants{questions, report}
}

func words(err error) string {
	if d := mesh.DetailOf(err); d != "" {
		return d
	}
	return text.AgentNotAsked()
}

func textOf(parts []*a2apb.Part) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.GetText())
	}
	return b.String()
}
