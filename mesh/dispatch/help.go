package dispatch

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/structpb"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/skill/command"
	"agentmesh/mesh/text"
	"agentmesh/mesh/thread"
)

// DefaultHelpTime is how long agents wait that ask who dispatched them for help.
const DefaultHelpTime = 5 * time.Minute

// What Answer says of an agent that does not wait for an answer.
const (
	answered  = "answered"
	notFound  = "not_found"
	notAsking = "not_asking"
)

// needed is what an agent waits for that asks for help.
type needed struct {
	mesh.Help
	reason   string
	question string // what the user is asked for it; "" for the reason
}

// asksForHelp reports whether the agent waits for an answer that the model here can give.
func (d *Dispatcher) asksForHelp(last mesh.TaskMoved) bool {
	return d.opts.HelpTime > 0 && last.State == a2apb.TaskState_TASK_STATE_INPUT_REQUIRED && reason(last) == mesh.ReasonHelp && mesh.TextOf(last.Message) != ""
}

// needs is what such an agent asks.
func needs(last mesh.TaskMoved) *awaited {
	help, _ := mesh.HelpOf(last.Metadata)
	return &awaited{help: &needed{Help: help, reason: mesh.Clip(mesh.TextOf(last.Message), mesh.MaxHelp-len("…"))}}
}

// asks has the job wait for an answer, of which the model is told unless it was told
// before. d.mu is held.
func (d *Dispatcher) asks(j *job, told bool) {
	if j.Status = StatusAsks; !told {
		d.helps = append(d.helps, j)
	}
	if !slices.Contains(d.asking, j) {
		d.asking = append(d.asking, j)
	}
	if d.late != nil { // nobody goes on any more
		d.giveUp(j)
		return
	}
	wants := j.wants
	j.clock = time.AfterFunc(d.opts.HelpTime, func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.ctx.Err() == nil && j.wants == wants {
			d.giveUp(j)
		}
	})
}

// giveUp ends a job that nobody has answered, with what it has. d.mu is held.
func (d *Dispatcher) giveUp(j *job) {
	if j.Status != StatusAsks {
		return
	}
	help := j.wants.help
	d.end(j, StatusFailed, text.AgentUnanswered(help.reason, help.Partial), mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_FAILED, Reason: mesh.ReasonHelp})
}

// untold are the jobs that wait for an answer and of which the model was not told. d.mu is
// held.
func (d *Dispatcher) untold() []*job {
	d.helps = slices.DeleteFunc(d.helps, func(j *job) bool { return j.Status != StatusAsks })
	return d.helps
}

// asked reports whether there are some.
func (d *Dispatcher) asked() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.untold()) > 0
}

// takeAsks returns those, and counts them as told: who takes them tells the model. After
// Close there is nothing.
func (d *Dispatcher) takeAsks() (out []Result) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx.Err() != nil {
		return nil
	}
	for _, j := range d.untold() {
		out = append(out, j.Result)
	}
	d.helps = nil
	return out
}

// Answer gives an agent that asks for help an answer, and has it go on: "answered", also
// for a call of the model that did so before, or "not_found", "already_completed", or
// "not_asking" for one that works or waits for something else. call is the id of the
// model's.
func (d *Dispatcher) Answer(ctx context.Context, id, call, words string) (string, error) {
	if outcome := d.answerable(id, call); outcome != "" {
		return outcome, nil
	}
	did, err := d.inv.Mesh.Actions(ctx)
	if err != nil {
		return "", err
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	j := d.jobs[id]
	x := did.Execution(j.exec.ID)
	switch {
	case x != nil && mesh.Terminal(x.State) && j.Status == StatusAsks: // somebody else ended it
		j.Status, j.Result.Result = thread.StatusOf(x.State, x.Reason), cmp.Or(x.Result, text.AgentCanceled())
		j.clock.Stop()
		d.over(j)
		d.wake()
		return alreadyCompleted, nil
	case x == nil || j.Status != StatusAsks || d.ctx.Err() != nil: // it was given up meanwhile
		return alreadyCompleted, nil
	}
	d.proceed(j, x, did, d.helpAnswer(j, call, mesh.Say(words).GetParts(), call))
	d.start()
	d.wake()
	return answered, nil
}

// answerable says why nobody can answer the job; "" if one can.
func (d *Dispatcher) answerable(id, by string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	j := d.jobs[id]
	switch {
	case j == nil:
		return notFound
	case j.Status == StatusAsks && d.ctx.Err() == nil:
		return ""
	case j.answered.By != "" && j.answered.By == by:
		return answered
	case j.Terminal() || d.ctx.Err() != nil:
		return alreadyCompleted
	}
	return notAsking
}

// proceed has a job that asked go on with the answer. d.mu is held.
func (d *Dispatcher) proceed(j *job, x *thread.Execution, did *thread.Actions, reply *a2apb.Message) {
	if j.clock != nil {
		j.clock.Stop()
	}
	j.goOn(x, did, false)
	j.reply = reply
	j.answered, _ = mesh.HelpAnswerOf(reply.GetMetadata())
	j.Status, j.wants, j.left = StatusPending, nil, 0
	j.queued = false
	d.queue(j)
}

// helpAnswer is the message with which an agent goes on that asked: the same each time
// for the same answer.
func (d *Dispatcher) helpAnswer(j *job, by string, parts []*a2apb.Part, id string) *a2apb.Message {
	m := message(d.inv.Thread.ID, "", j.Order)
	name, v := mesh.HelpAnswer{Call: j.wants.help.Call, By: by}.Value()
	m.MessageId, m.Parts, m.Extensions = id+"-"+string(j.exec.ID), parts, []string{mesh.ExtensionURI}
	m.Metadata = a2a.SetExtension(m.Metadata, map[string]*structpb.Value{name: v})
	return m
}

// restoreAsk has a job that asked before wait again, or go on with what the user said, if
// that was asked for it. d.mu is held.
func (d *Dispatcher) restoreAsk(j *job, x *thread.Execution, did *thread.Actions) {
	help, reason := did.Help(x.ID)
	j.Result.Result, j.wants = reason, &awaited{help: &needed{Help: *help, reason: reason}}
	if !d.inv.Resumed || !did.PassedOn(x.ID) {
		d.asks(j, x.HelpTold != "")
		return
	}
	m := proto.CloneOf(d.inv.Message)
	d.proceed(j, x, did, d.helpAnswer(j, mesh.ByUser, m.GetParts(), m.GetMessageId()))
}

// helpReport is the message with what an agent asks. It is data of another agent, like a
// result.
func helpReport(r Result) string {
	help := r.wants.help
	partial := ""
	if help.Partial != "" {
		partial = shortened(help.Partial, maxTold/2, text.AskForLess)
	}
	quoted := command.Quote(text.SubAgentHas(shortened(help.reason, maxTold/2, text.AskForLess), partial))
	return text.SubAgentNeedsHelp(nameOf(r), string(r.ExecutionID), quoted, ToolAnswer)
}

// forUser is the question to the user for the sake of an agent that asks for help.
func (n *needed) forUser(r Result) mesh.Question {
	return mesh.Question{Execution: r.ExecutionID, Call: n.Call, Text: text.AgentAsksUser(nameOf(r), cmp.Or(n.question, n.reason))}
}

// answer is answer_agent, before the other calls of its reply: who waits for results in it
// waits for the agent that goes on. ask has the id of an agent that the user has to answer.
func (o *Orchestration) answer(ctx context.Context, use mesh.ToolUse) (r llm.ToolResult, ask string) {
	const op = "dispatch.answer"
	var a struct {
		AgentID     string `json:"agent_id"`
		ExecutionID string `json:"execution_id"`
		Message     string `json:"message"`
		AskUser     bool   `json:"ask_user"`
	}
	if err := llm.Arguments(op, use, &a); err != nil {
		return failure(err), ""
	}
	id, err := o.which(op, a.AgentID, a.ExecutionID)
	switch {
	case err != nil:
		return failure(err), ""
	case len(a.Message) > mesh.MaxHelp:
		return failure(mesh.InvalidField(op, "message", "has %d bytes; shorten it to at most %d", len(a.Message), mesh.MaxHelp)), ""
	case !a.AskUser && strings.TrimSpace(a.Message) == "":
		return failure(mesh.InvalidField(op, "message", "is missing; give the agent what it asks for, or set ask_user")), ""
	}
	var outcome string
	if a.AskUser {
		if outcome = o.d.passOn(id, a.Message); outcome == "" {
			return llm.ToolResult{}, id
		}
	} else if outcome, err = o.d.Answer(ctx, id, use.ID, a.Message); err != nil {
		return failure(err), ""
	}
	out := o.about(id, outcome)
	if a.AskUser && outcome == answered {
		out["note"] = text.HelpPassedOn()
	}
	return answer(out), ""
}

// passOn has the user asked for a job: the question, or what the agent asks. It returns why
// not, or "".
func (d *Dispatcher) passOn(id, question string) string {
	if outcome := d.answerable(id, mesh.ByUser); outcome != "" {
		return outcome
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.paused = true
	help := *d.jobs[id].wants.help
	help.question = question
	d.jobs[id].wants.help = &help
	d.helps = slices.DeleteFunc(d.helps, func(j *job) bool { return j == d.jobs[id] })
	return ""
}

// askUser is the result of a call by which the user is asked for an agent, and for all
// others that wait for the user, once nothing is at work.
func (o *Orchestration) askUser(ctx context.Context, use mesh.ToolUse, id string) llm.ToolResult {
	all, err := o.d.await(ctx, nil, ModeAll, false)
	if err != nil {
		return failure(err)
	}
	waiting := []string{id}
	for _, r := range all {
		if r.Status == StatusWaiting {
			waiting = append(waiting, r.AgentID)
		}
	}
	return o.ask(ctx, use.ID, waiting)
}
