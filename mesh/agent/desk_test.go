package agent_test

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/scripted"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/threadlog/eventpb"

	"google.golang.org/protobuf/types/known/structpb"
)

var faces = []agent.Face{agent.FaceCommands, agent.FaceUseSkill, agent.FaceDirect}

// eachFace runs the test once for each face.
func eachFace(t *testing.T, test func(t *testing.T, face agent.Face)) {
	t.Helper()
	for _, face := range faces {
		t.Run(string(face), func(t *testing.T) { test(t, face) })
	}
}

// A desk is an agent that a user talks to, in a thread of a node: what its
// runs say is logged as an edge does.
type desk struct {
	t        *testing.T
	n        *node
	g        *mesh.Grant
	turn     mesh.ExecutionID
	face     agent.Face
	model    *scripted.Model
	options  agent.SkillOptions
	pause    bool
	maxSteps int
	wrap     func(llm.Tools) llm.Tools  // the tools of runs, or nil
	last     string                     // what the user said last
	metadata map[string]*structpb.Value // extension data of the message, or nil

	mu    sync.Mutex
	calls []*skill.Call
	// result is what handlers return; by default what was called.
	result func(c *skill.Call) (*skill.Result, error)
}

// skillFiles are the skills of a desk.
var skillFiles = []string{
	source("mail.send", "Sends an email.", "mail.send", "email, message"),
	"---\nname: mail.purge\ndescription: Deletes all mail.\nhandler: mail.purge\nrequires_approval: true\n" +
		"parameters:\n  - {name: folder, type: string, required: true, description: Which folder}\n---\n# mail.purge\n\nDeletes it.\n",
	"---\nname: mail.forward\ndescription: Forwards mail.\nhandler: mail.forward\nconfirm: Forward this mail to others?\n" +
		"parameters:\n  - {name: to, type: string, required: true, description: To whom}\n---\n# mail.forward\n\nForwards it.\n",
	"---\nname: tasks.create\ndescription: Creates a task.\nhandler: tasks.create\nparameters:\n" +
		"  - {name: title, type: string, required: true, description: What is to be done}\n" +
		"  - {name: priority, type: integer, description: How urgent it is}\n  - {name: done, type: flag, description: Whether it is done}\n---\n# tasks.create\n\nThe man page.\n",
	"---\nname: workflows.greet\ndescription: Greets people.\n---\n# Greet\n\nSay hello to everyone.\n",
}

func newDesk(t *testing.T, face agent.Face, steps ...scripted.Step) *desk {
	t.Helper()
	d := &desk{t: t, n: newNode(t), g: newGrant(), turn: mesh.NewExecutionID(thread), face: face, model: scripted.New(steps...)}
	for _, f := range skillFiles {
		d.n.addSkill(t, f)
	}
	d.g.Turn, d.g.Parent = d.turn, d.turn
	d.options = agent.SkillOptions{Handlers: map[string]skill.Handler{}, MaxToolCalls: agent.Unlimited}
	for _, s := range d.n.skills.List() {
		if s.Handler != "" {
			d.options.Handlers[s.Handler] = skill.HandlerFunc(d.execute)
		}
	}
	return d
}

func (d *desk) execute(_ context.Context, c *skill.Call, _ *skill.Env) (*skill.Result, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.calls = append(d.calls, c)
	if d.result != nil {
		return d.result(c)
	}
	return &skill.Result{Content: "did " + c.Skill}, nil
}

// made are the names of the skills that handlers were called for.
func (d *desk) made() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	var names []string
	for _, c := range d.calls {
		names = append(names, c.Skill)
	}
	return strings.Join(names, " ")
}

// begin logs the user's first message and that the agent is asked.
func (d *desk) begin(text string) {
	d.last = text
	d.n.log(opened(d.turn), posted(d.turn, 1, text), dispatch(d.turn, d.g.Execution, d.g.Agent))
}

// answer logs that the user answered what the agent asked.
func (d *desk) answer(text string) {
	d.last = text
	d.n.log(posted(d.turn, 2, text), &mesh.Event{Execution: d.g.Execution, Body: mesh.TaskMoved{State: working, Reason: mesh.ReasonDelivered}})
}

// say begins the conversation and runs the agent on it.
func (d *desk) say(text string) heardRun {
	d.t.Helper()
	d.begin(text)
	return d.run(false)
}

// reply goes on with the user's answer, in a process that knows nothing but the
// log.
func (d *desk) reply(text string) heardRun {
	d.t.Helper()
	d.answer(text)
	return d.run(true)
}

// A heardRun is what one run said.
type heardRun struct {
	text  string
	ask   agent.Ask
	err   error
	outs  []agent.Output
	tools *agent.SkillTools
}

func (d *desk) invocation(resumed bool) *agent.Invocation {
	d.t.Helper()
	said := message(d.last)
	if d.metadata != nil {
		said.Metadata = a2a.SetExtension(nil, d.metadata)
	}
	return &agent.Invocation{
		Message: said, Execution: d.g.Execution, Thread: d.g.Key(), User: d.g.User, Grant: d.g, Mesh: d.n.mesh(d.t, d.g), Resumed: resumed,
	}
}

func (d *desk) run(resumed bool) heardRun {
	d.t.Helper()
	inv := d.invocation(resumed)
	o := d.options
	o.Face = d.face
	tools := skillTools(d.t, inv, o)
	commands, skills := tools.Prompt()
	var all llm.Tools = tools
	if d.wrap != nil {
		all = d.wrap(tools)
	}
	outs, err := outputs(d.t, inv, agent.ModelRun{
		Model: d.model, System: agent.Prompt{Identity: "You help.", Commands: commands, Skills: skills}.String(),
		Tools: all, Commands: tools.Commands(), Pause: d.pause, MaxSteps: d.maxSteps, Progress: tools.Progress,
	})
	return d.heard(outs, err, tools)
}

// heard puts the outputs together, and logs what the user is asked.
func (d *desk) heard(outs []agent.Output, err error, tools *agent.SkillTools) heardRun {
	h := heardRun{err: err, outs: outs, tools: tools}
	for _, o := range outs {
		switch o := o.(type) {
		case agent.Text:
			h.text += o.Text
		case agent.Ask:
			h.ask = o
			d.n.log(&mesh.Event{Execution: d.g.Execution, Body: mesh.TaskMoved{State: input, Message: message(o.Text)}},
				&mesh.Event{Execution: d.turn, Body: mesh.TaskMoved{State: input, Message: message(o.Text)}})
		}
	}
	return h
}

// logged returns the agent's events of one kind.
func logged[B mesh.Body](d *desk) []B {
	d.t.Helper()
	var out []B
	for _, b := range d.n.bodies(d.t, d.g.Execution) {
		if b, ok := b.(B); ok {
			out = append(out, b)
		}
	}
	return out
}

// read are the messages of the model's last request, one line each.
func (d *desk) read() []string {
	d.t.Helper()
	reqs := d.model.Requests()
	return lines(reqs[len(reqs)-1].Messages)
}

func lines(messages []llm.Message) []string {
	var out []string
	for _, m := range messages {
		out = append(out, fmt.Sprintf("%s: %s", m.Role, m.Text))
	}
	return out
}

// lastRead is the text of the last message that the model was shown.
func (d *desk) lastRead() string {
	d.t.Helper()
	reqs := d.model.Requests()
	messages := reqs[len(reqs)-1].Messages
	return messages[len(messages)-1].Text
}

// A wish is a skill call, whatever the face.
type wish struct {
	skill string
	args  map[string]string
}

// does is a reply that says the text and makes the calls through the face.
func does(face agent.Face, text string, wishes ...wish) scripted.Step {
	step := scripted.Step{}
	if text != "" {
		step = step.Say(text)
	}
	if face == agent.FaceCommands {
		block := "\n```cmd\n"
		for _, w := range wishes {
			block += w.line() + "\n"
		}
		return step.Say(block + "```\n")
	}
	for _, w := range wishes {
		if w.args == nil {
			w.args = map[string]string{}
		}
		if face == agent.FaceDirect {
			step = step.Call(strings.ReplaceAll(w.skill, ".", "-"), encoded(w.args))
		} else {
			step = step.Call("use_skill", encoded(map[string]any{"skill": w.skill, "arguments": w.args}))
		}
	}
	return step
}

func (w wish) line() string {
	line := w.skill
	for _, k := range slices.Sorted(maps.Keys(w.args)) {
		line += fmt.Sprintf(" --%s %q", k, w.args[k])
	}
	return line
}

func encoded(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}

var (
	sendBob = wish{"mail.send", map[string]string{"to": "bob"}}
	newTask = wish{"tasks.create", map[string]string{"title": "Call Ann"}}
	purge   = wish{"mail.purge", map[string]string{"folder": "spam"}}
)

// allow lets the node take n skill calls since the user's last message, and
// refuse further ones for the limit.
func (d *desk) allow(n int, name string) {
	d.n.refuse = func(e *meshv1.Event) error {
		if e.GetSkillCalled() == nil {
			return nil
		}
		used := 0
		for _, old := range d.n.events {
			switch {
			case old.GetMessagePosted() != nil:
				used = 0
			case old.GetSkillCalled() != nil:
				used++
			}
		}
		if used < n {
			return nil
		}
		trip := limit.Trip{Limit: name, Used: int64(used), Most: int64(n)}
		if name == limit.ThreadSkillCalls || name == limit.UserSkillCalls {
			trip.Free = now().Truncate(time.Hour).Add(3*time.Hour + 34*time.Minute + 56*time.Second)
		}
		d.n.events = append(d.n.events, &meshv1.Event{
			Seq: int64(len(d.n.events) + 1), Id: mesh.NewEventID(), ExecutionId: e.GetExecutionId(), Actor: "node",
			Body: eventpb.EventToProto(&mesh.Event{Body: trip.Fact()}).Body,
		})
		return trip.Err("node")
	}
}

// now is a fixed time.
func now() time.Time { return time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC) }

// sources are the faces' values of SkillCalled.Source.
var sources = map[agent.Face]string{
	agent.FaceCommands: mesh.SourceCommand, agent.FaceUseSkill: mesh.SourceUseSkill, agent.FaceDirect: mesh.SourceDirect,
}

// byCall sorts what was called at the same time.
func byCall(a, b mesh.SkillCalled) int {
	return cmp.Or(cmp.Compare(a.Skill, b.Skill), cmp.Compare(a.Args, b.Args))
}
