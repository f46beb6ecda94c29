package agenttest

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
	"agentmesh/mesh/agent/modelrun"
	"agentmesh/mesh/agent/skilltools"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/scripted"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/threadlog/eventpb"

	"google.golang.org/protobuf/types/known/structpb"
)

// Faces are all of them.
var Faces = []skilltools.Face{skilltools.FaceCommands, skilltools.FaceUseSkill, skilltools.FaceDirect}

// EachFace runs the test once for each face.
func EachFace(t *testing.T, test func(t *testing.T, face skilltools.Face)) {
	t.Helper()
	for _, face := range Faces {
		t.Run(string(face), func(t *testing.T) { test(t, face) })
	}
}

// A Desk is an agent that a user talks to, in a thread of a node: what its
// runs say is logged as an edge does.
type Desk struct {
	T        *testing.T
	Node     *Node
	Grant    *mesh.Grant
	Turn     mesh.ExecutionID
	Face     skilltools.Face
	Model    *scripted.Model
	Options  skilltools.Options
	Pause    bool
	MaxSteps int
	Wrap     func(llm.Tools) llm.Tools  // the tools of runs, or nil
	Last     string                     // what the user said last
	Metadata map[string]*structpb.Value // extension data of the message, or nil

	Mu    sync.Mutex
	Calls []*skill.Call
	// Result is what handlers return; by default what was called.
	Result func(c *skill.Call) (*skill.Result, error)
}

// SkillFiles are the skills of a desk.
var SkillFiles = []string{
	Source("mail.send", "Sends an email.", "mail.send", "email, message"),
	"---\nname: mail.purge\ndescription: Deletes all mail.\nhandler: mail.purge\nrequires_approval: true\n" +
		"parameters:\n  - {name: folder, type: string, required: true, description: Which folder}\n---\n# mail.purge\n\nDeletes it.\n",
	"---\nname: mail.forward\ndescription: Forwards mail.\nhandler: mail.forward\nconfirm: Forward this mail to others?\n" +
		"parameters:\n  - {name: to, type: string, required: true, description: To whom}\n---\n# mail.forward\n\nForwards it.\n",
	"---\nname: tasks.create\ndescription: Creates a task.\nhandler: tasks.create\nparameters:\n" +
		"  - {name: title, type: string, required: true, description: What is to be done}\n" +
		"  - {name: priority, type: integer, description: How urgent it is}\n  - {name: done, type: flag, description: Whether it is done}\n---\n# tasks.create\n\nThe man page.\n",
	"---\nname: workflows.greet\ndescription: Greets people.\n---\n# Greet\n\nSay hello to everyone.\n",
}

// NewDesk returns a desk whose agent has a model that takes the steps.
func NewDesk(t *testing.T, face skilltools.Face, steps ...scripted.Step) *Desk {
	t.Helper()
	d := &Desk{T: t, Node: NewNode(t), Grant: NewGrant(), Turn: mesh.NewExecutionID(Thread), Face: face, Model: scripted.New(steps...)}
	for _, f := range SkillFiles {
		d.Node.AddSkill(t, f)
	}
	d.Grant.Turn, d.Grant.Parent = d.Turn, d.Turn
	d.Options = skilltools.Options{Handlers: map[string]skill.Handler{}, MaxToolCalls: skilltools.Unlimited}
	for _, s := range d.Node.Skills.List() {
		if s.Handler != "" {
			d.Options.Handlers[s.Handler] = skill.HandlerFunc(d.Execute)
		}
	}
	return d
}

// Execute runs a skill: it keeps the call.
func (d *Desk) Execute(_ context.Context, c *skill.Call, _ *skill.Env) (*skill.Result, error) {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	d.Calls = append(d.Calls, c)
	if d.Result != nil {
		return d.Result(c)
	}
	return &skill.Result{Content: "did " + c.Skill}, nil
}

// Made are the names of the skills that handlers were called for.
func (d *Desk) Made() string {
	d.Mu.Lock()
	defer d.Mu.Unlock()
	var names []string
	for _, c := range d.Calls {
		names = append(names, c.Skill)
	}
	return strings.Join(names, " ")
}

// Begin logs the user's first message and that the agent is asked.
func (d *Desk) Begin(text string) {
	d.Last = text
	d.Node.Log(Opened(d.Turn), Posted(d.Turn, 1, text), Dispatch(d.Turn, d.Grant.Execution, d.Grant.Agent))
}

// Answer logs that the user answered what the agent asked.
func (d *Desk) Answer(text string) {
	d.Last = text
	d.Node.Log(Posted(d.Turn, 2, text), &mesh.Event{Execution: d.Grant.Execution, Body: mesh.TaskMoved{State: Working, Reason: mesh.ReasonDelivered}})
}

// Say begins the conversation and runs the agent on it.
func (d *Desk) Say(text string) RunResult {
	d.T.Helper()
	d.Begin(text)
	return d.Run(false)
}

// Reply goes on with the user's answer, in a process that knows nothing but the
// log.
func (d *Desk) Reply(text string) RunResult {
	d.T.Helper()
	d.Answer(text)
	return d.Run(true)
}

// A RunResult is what one run said.
type RunResult struct {
	Text  string
	Ask   agent.Ask
	Err   error
	Outs  []agent.Output
	tools *skilltools.Tools
}

// Invocation is that of what the user said last.
func (d *Desk) Invocation(resumed bool) *agent.Invocation {
	d.T.Helper()
	said := Message(d.Last)
	if d.Metadata != nil {
		said.Metadata = a2a.SetExtension(nil, d.Metadata)
	}
	return &agent.Invocation{
		Message: said, Execution: d.Grant.Execution, Thread: d.Grant.Key(), User: d.Grant.User, Grant: d.Grant, Mesh: d.Node.Client(d.T, d.Grant), Resumed: resumed,
	}
}

// Run runs the agent on what the user said last.
func (d *Desk) Run(resumed bool) RunResult {
	d.T.Helper()
	inv := d.Invocation(resumed)
	o := d.Options
	o.Face = d.Face
	tools := SkillTools(d.T, inv, o)
	commands, skills := tools.Prompt()
	var all llm.Tools = tools
	if d.Wrap != nil {
		all = d.Wrap(tools)
	}
	outs, err := Outputs(d.T, inv, modelrun.Options{
		Model: d.Model, System: modelrun.Prompt{Identity: "You help.", Commands: commands, Skills: skills}.String(),
		Tools: all, Commands: tools.Commands(), Pause: d.Pause, MaxSteps: d.MaxSteps, Progress: tools.Progress,
	})
	return d.Collect(outs, err, tools)
}

// Collect puts the outputs together, and logs what the user is asked.
func (d *Desk) Collect(outs []agent.Output, err error, tools *skilltools.Tools) RunResult {
	h := RunResult{Err: err, Outs: outs, tools: tools}
	for _, o := range outs {
		switch o := o.(type) {
		case agent.Text:
			h.Text += o.Text
		case agent.Ask:
			h.Ask = o
			d.Node.Log(&mesh.Event{Execution: d.Grant.Execution, Body: mesh.TaskMoved{State: InputRequired, Message: Message(o.Text)}},
				&mesh.Event{Execution: d.Turn, Body: mesh.TaskMoved{State: InputRequired, Message: Message(o.Text)}})
		}
	}
	return h
}

// Logged returns the agent's events of one kind.
func Logged[B mesh.Body](d *Desk) []B {
	d.T.Helper()
	var out []B
	for _, b := range d.Node.Bodies(d.T, d.Grant.Execution) {
		if b, ok := b.(B); ok {
			out = append(out, b)
		}
	}
	return out
}

// Read are the messages of the model's last request, one line each.
func (d *Desk) Read() []string {
	d.T.Helper()
	reqs := d.Model.Requests()
	return Lines(reqs[len(reqs)-1].Messages)
}

// Lines are the messages, one line each.
func Lines(messages []llm.Message) []string {
	var out []string
	for _, m := range messages {
		out = append(out, fmt.Sprintf("%s: %s", m.Role, m.Text))
	}
	return out
}

// LastRead is the text of the last message that the model was shown.
func (d *Desk) LastRead() string {
	d.T.Helper()
	reqs := d.Model.Requests()
	messages := reqs[len(reqs)-1].Messages
	return messages[len(messages)-1].Text
}

// A Wish is a skill call, whatever the face.
type Wish struct {
	Skill string
	args  map[string]string
}

// Want is a wish.
func Want(skill string, args map[string]string) Wish { return Wish{skill, args} }

// Does is a reply that says the text and makes the calls through the face.
func Does(face skilltools.Face, text string, wishes ...Wish) scripted.Step {
	step := scripted.Step{}
	if text != "" {
		step = step.Say(text)
	}
	if face == skilltools.FaceCommands {
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
		if face == skilltools.FaceDirect {
			step = step.Call(strings.ReplaceAll(w.Skill, ".", "-"), Encoded(w.args))
		} else {
			step = step.Call("use_skill", Encoded(map[string]any{"skill": w.Skill, "arguments": w.args}))
		}
	}
	return step
}

func (w Wish) line() string {
	line := w.Skill
	for _, k := range slices.Sorted(maps.Keys(w.args)) {
		line += fmt.Sprintf(" --%s %q", k, w.args[k])
	}
	return line
}

// Encoded is v as JSON.
func Encoded(v any) string {
	data, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(data)
}

var (
	SendBob = Want("mail.send", map[string]string{"to": "bob"})
	NewTask = Want("tasks.create", map[string]string{"title": "Call Ann"})
	Purge   = Want("mail.purge", map[string]string{"folder": "spam"})
)

// Allow lets the node take n skill calls since the user's last message, and
// refuse further ones for the limit.
func (d *Desk) Allow(n int, name string) {
	d.Node.Refuse = func(e *meshv1.Event) error {
		if e.GetSkillCalled() == nil {
			return nil
		}
		used := 0
		for _, old := range d.Node.Events {
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
			trip.Free = Now().Truncate(time.Hour).Add(3*time.Hour + 34*time.Minute + 56*time.Second)
		}
		d.Node.Events = append(d.Node.Events, &meshv1.Event{
			Seq: int64(len(d.Node.Events) + 1), Id: mesh.NewEventID(), ExecutionId: e.GetExecutionId(), Actor: "node",
			Body: eventpb.EventToProto(&mesh.Event{Body: trip.Fact()}).Body,
		})
		return trip.Err("node")
	}
}

// Now is a fixed time.
func Now() time.Time { return time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC) }

// Sources are the faces' values of SkillCalled.Source.
var Sources = map[skilltools.Face]string{
	skilltools.FaceCommands: mesh.SourceCommand, skilltools.FaceUseSkill: mesh.SourceUseSkill, skilltools.FaceDirect: mesh.SourceDirect,
}

// ByCall sorts what was called at the same time.
func ByCall(a, b mesh.SkillCalled) int {
	return cmp.Or(cmp.Compare(a.Skill, b.Skill), cmp.Compare(a.Args, b.Args))
}

// Source is the file of a skill that takes an address.
func Source(name, description, handler string, tags string) string {
	return "---\nname: \"" + name + "\"\ndescription: \"" + description + "\"\nhandler: " + handler + "\ntags: [" + tags + "]\n" +
		"parameters:\n  - {name: to, type: string, required: true, description: \"an <address>\"}\n---\n# " + name + "\n\nDoes it.\n"
}

// SkillTools are the skills of the invocation.
func SkillTools(t *testing.T, inv *agent.Invocation, o skilltools.Options) *skilltools.Tools {
	t.Helper()
	tools, err := skilltools.New(t.Context(), inv, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(tools.Wait)
	return tools
}

// Outputs runs the model and returns what the agent would say.
func Outputs(t *testing.T, inv *agent.Invocation, run modelrun.Options) ([]agent.Output, error) {
	t.Helper()
	var outs []agent.Output
	for o, err := range modelrun.Run(t.Context(), inv, run) {
		if err != nil {
			return outs, err
		}
		outs = append(outs, o)
	}
	return outs, nil
}

// Office is a node with three skills, and an invocation that may call two.
func Office(t *testing.T) (*Node, *agent.Invocation, map[string]skill.Handler, *[]*skill.Call) {
	t.Helper()
	n, g := NewNode(t), NewGrant()
	n.AddSkill(t, Source("mail.send", "Sends an email.", "mail.send", "email, message"))
	n.AddSkill(t, Source("mail.archive", "Archives an email.", "mail.archive", "email"))
	n.AddSkill(t, Source("tasks.create", "Creates a task.", "tasks.create", "todo"))
	g.Skills = []string{"mail.*"}
	inv := &agent.Invocation{
		Message: Message("write to bob"), Execution: g.Execution, Thread: g.Key(), User: g.User, Grant: g, Mesh: n.Client(t, g),
	}
	calls := &[]*skill.Call{}
	handlers := map[string]skill.Handler{"mail.send": skill.HandlerFunc(func(_ context.Context, c *skill.Call, _ *skill.Env) (*skill.Result, error) {
		*calls = append(*calls, c)
		return &skill.Result{Content: "sent to " + c.String("to"), Files: []string{"1.eml"}}, nil
	})}
	return n, inv, handlers, calls
}

// Use is a call of a tool.
func Use(name, args string) mesh.ToolUse {
	return mesh.ToolUse{ID: "call-1", Name: name, Arguments: args}
}

// A NamedTool says its name.
type NamedTool string

// List implements llm.Tools.
func (n NamedTool) List(context.Context) []llm.Tool { return []llm.Tool{{Name: string(n)}} }

// Call implements llm.Tools.
func (n NamedTool) Call(context.Context, mesh.ToolUse) llm.ToolResult {
	return llm.ToolResult{Text: "I am " + string(n)}
}
