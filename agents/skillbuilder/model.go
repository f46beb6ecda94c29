package skillbuilder

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"

	"agentmesh/mesh"
	"agentmesh/mesh/agent/modelrun"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/session"
	"agentmesh/mesh/skill"
)

// A model says by a typed call what a message is for, and what an answer has for the draft.
// The machine decides what follows, as it does with rules: a model writes nothing into the
// draft but an answer, and saves nothing.

// The tools of the model: one for each thing that a message may be for.
const (
	toolAnswer  = "answer"
	toolStep    = "question_about_the_step"
	toolMain    = "for_main_assistant"
	toolAnother = "another_skill"
	toolUnclear = "unclear"
	toolLeave   = "leave"
	toolThere   = "existing_skill"
)

// system is what the model is told.
const system = `You listen for the skill builder, which builds a skill with the user step by step. A skill is something that an assistant does when it is asked for by a phrase.
You do not talk to the user. You read the user's last message and say with exactly one call what it is for.

- answer: it answers the question of the step, or changes something of the skill. Take only what the user says; never make anything up.
- question_about_the_step: it asks what the step, the skill or the builder means. Reply in one or two sentences.
- for_main_assistant: it is a question or a task that has nothing to do with building this skill, such as looking something up or finding tasks.
- another_skill: it asks for another skill than the one that is being built.
- existing_skill: it says what becomes of the skills that are there already.
- leave: it wants out.
- unclear: it may be an answer, or something for somebody else. The user is then asked. Do not guess.`

// filled is what an answer has for the draft, as a model says.
type filled struct {
	Purpose  string   `json:"purpose"`
	Steps    []string `json:"steps"`
	Inputs   []input  `json:"inputs"`
	Name     string   `json:"name"`
	Triggers []string `json:"triggers"`
	Asks     *bool    `json:"ask_before_each_call"`
	Confirm  string   `json:"confirm"`
	Default  bool     `json:"you_decide"`
}

type input struct {
	Name        string `json:"name"`
	Type        string `json:"type"`
	Required    *bool  `json:"required"`
	Description string `json:"description"`
}

// understood is what a message is for, with what an answer says and what a question is
// answered with, if a model told it.
type understood struct {
	session.Input
	fields *filled
	reply  string
}

// listen finds out what the message is for: by rules where they are certain, else by the
// model if there is one. Where that fails, the rules have it.
func (r *run) listen(ctx context.Context, t talk) understood {
	text := r.inv.Text()
	by := t.hears(text)
	if r.Model == nil || t.certain(by, text) {
		return understood{Input: by}
	}
	l := &listener{talk: t, text: text}
	for _, err := range modelrun.Run(ctx, r.inv, modelrun.Options{
		Model: r.Model, Name: r.ModelName, System: system, Context: t.stand(), Tools: l, MaxSteps: 1, Fit: r.Fit, Cost: r.Cost, Logger: r.Logger,
	}) { // what it says besides is for nobody
		if err != nil {
			r.Logger.WarnContext(ctx, "the model did not tell what a message is for", "thread", r.inv.Thread, "err", err)
			break
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.heard == nil {
		return understood{Input: by}
	}
	return *l.heard
}

// certain reports whether the rules need no model: a short word to what is asked.
func (t talk) certain(by session.Input, text string) bool {
	switch by.Kind {
	case session.Leave, session.Restart, session.Back, session.Yes, session.No, session.Finish, session.Park:
		return true
	case session.Answer:
		what, _ := t.similarAnswer(text)
		return what != "" && len(t.Draft.Similar) > 0 || t.Waits == session.ForAnswer && t.Draft.Purpose != "" && (isYes(text) || isDefault(text) || isNo(text))
	}
	return mainPattern.MatchString(text)
}

// stand tells the model where the session is.
func (t talk) stand() string {
	d := t.Draft
	data, err := json.Marshal(map[string]any{"step": t.Step, "question": t.stepQuestion(), "skill": map[string]any{
		"purpose": d.Purpose, "steps": d.Steps, "inputs": names(d.Inputs), "name": d.Name, "triggers": d.Triggers}})
	if err != nil { // texts always have a JSON form
		return ""
	}
	return "Where the session is, as data:\n" + string(data)
}

// A listener takes the model's call. The first one counts.
type listener struct {
	talk talk
	text string

	mu    sync.Mutex
	heard *understood
}

// List implements llm.Tools: sorted by name.
func (l *listener) List(context.Context) []llm.Tool {
	text := func(about string) map[string]any { return map[string]any{"type": "string", "description": about} }
	list := func(of any, about string) map[string]any {
		return map[string]any{"type": "array", "items": of, "description": about}
	}
	yes := func(about string) map[string]any { return map[string]any{"type": "boolean", "description": about} }
	in := map[string]any{"type": "object", "required": []string{"name"}, "properties": map[string]any{
		"name": text("Short."), "type": map[string]any{"type": "string", "enum": skill.Types()}, "required": yes("Whether it must be given."), "description": text("What it means."),
	}}
	tools := []llm.Tool{
		tool(toolAnswer, "The message answers the question of the step, or changes the skill.", nil, map[string]any{
			"purpose": text("What the skill does, in the third person: sends Slack alerts."), "steps": list(text("One step."), "How it works, in order."),
			"inputs": list(in, "What it has to know each time."), "name": text("As domain.action, in lower-case letters."),
			"triggers": list(text("A phrase."), "What people say when they want it."), "ask_before_each_call": yes("Whether the user is asked before each call, if the message says so."),
			"confirm": text("The question that the user is asked before each call."), "you_decide": yes("The user leaves it to the builder."),
		}),
		tool(toolStep, "The message asks about the step.", []string{"reply"}, map[string]any{"reply": text("The answer, in one or two sentences.")}),
		tool(toolMain, "The message is for the main assistant.", []string{"request"}, map[string]any{"request": text("What the user wants to know or have done, in full.")}),
		tool(toolAnother, "The message asks for another skill.", nil, map[string]any{"purpose": text("What the other one does, in the third person.")}),
		tool(toolUnclear, "The message may be an answer, or for somebody else.", nil, map[string]any{}),
		tool(toolLeave, "The user wants out.", nil, map[string]any{}),
	}
	if len(l.talk.Draft.Similar) > 0 {
		tools = append(tools, tool(toolThere, "What becomes of the skills that are there already.", []string{"what"}, map[string]any{
			"what": map[string]any{"type": "string", "enum": []string{"use", "change", "new"}}, "name": text("Which of them."),
		}))
	}
	slices.SortFunc(tools, func(a, b llm.Tool) int { return strings.Compare(a.Name, b.Name) })
	return tools
}

func tool(name, about string, required []string, properties map[string]any) llm.Tool {
	schema := map[string]any{"type": "object", "properties": properties}
	if required != nil {
		schema["required"] = required
	}
	data, err := json.Marshal(schema)
	if err != nil {
		panic("skillbuilder: " + err.Error()) // texts and lists of the code
	}
	return llm.Tool{Name: name, Description: about, Parameters: data}
}

// Call implements llm.Tools. It ends the run: what follows is not the model's to say.
func (l *listener) Call(_ context.Context, use mesh.ToolUse) llm.ToolResult {
	var args struct {
		filled
		Reply, Request, What string
	}
	if err := json.Unmarshal([]byte(use.Arguments), &args); err != nil {
		return llm.ToolResult{Text: "The arguments cannot be read: " + err.Error(), Failed: true}
	}
	heard := understood{Input: session.Input{Kind: session.Answer, Words: l.text}}
	switch use.Name {
	case toolAnswer: // without anything for the draft it is none
		if heard.fields = &args.filled; !heard.fields.Default && !heard.fields.says() {
			heard.Kind, heard.fields = session.Unclear, nil
		}
	case toolStep:
		heard.Kind, heard.reply = session.Question, mesh.Clip(strings.TrimSpace(args.Reply), maxReply)
	case toolMain:
		heard.Kind = session.Main
		if words := strings.TrimSpace(args.Request); words != "" {
			heard.Words = mesh.Clip(words, maxRequest)
		}
	case toolAnother:
		heard.Kind, heard.Words = session.Second, phrase(args.Purpose)
	case toolLeave:
		heard.Kind = session.Leave
	case toolThere:
		if !l.talk.offers(args.What, args.Name) {
			heard.Kind = session.Unclear
			break
		}
		heard.Words = args.What + " " + args.Name
	default:
		heard.Kind = session.Unclear
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.heard == nil {
		l.heard = &heard
	}
	return llm.ToolResult{Text: "noted", Stop: true}
}

// How much of a model's words is taken, in bytes.
const (
	maxReply   = 1000
	maxRequest = 4000
)

// fill takes what a model read in an answer into the draft.
func (t talk) fill(f *filled) (talk, outcome) {
	d, known := t.Draft.with(f), t.Draft.Purpose != ""
	switch t.Step {
	case Gathering:
		if t.Draft = d; d.Purpose == "" {
			t.Hint = "I need at least one sentence about what the skill does."
			return t, missed
		}
		t.Draft.Problem = ""
		if !known {
			return t.to(Gathering), found
		}
		return t.suggest().to(Triggers), noted
	case Triggers:
		d.Problem = ""
		t.Draft = d
		return t.to(Generating), generate
	}
	return t.changed(d)
}

// says reports whether there is anything for the draft.
func (f *filled) says() bool {
	return phrase(f.Purpose)+validName(f.Name)+phrase(f.Confirm) != "" || len(cleaned(f.Steps, maxSteps))+len(cleaned(f.Triggers, maxTriggers)) > 0 ||
		slices.ContainsFunc(f.Inputs, func(in input) bool { return skill.Slug(in.Name) != "" }) || f.Asks != nil
}

// with is the draft with what was filled in, as far as it is usable.
func (d draft) with(f *filled) draft {
	if p := phrase(f.Purpose); p != "" {
		d.Purpose = p
	}
	if list := cleaned(f.Steps, maxSteps); len(list) > 0 {
		d.Steps = list
	}
	if list := cleaned(f.Triggers, maxTriggers); len(list) > 0 {
		d.Triggers = list
	}
	var inputs []skill.Parameter
	for _, in := range f.Inputs {
		p := skill.Parameter{Name: skill.Slug(in.Name), Type: in.Type, Required: in.Required == nil || *in.Required, Description: phrase(in.Description)}
		if !slices.Contains(skill.Types(), p.Type) {
			p.Type = "string"
		}
		if p.Required = p.Required && p.Type != "flag"; p.Description == "" {
			p.Description = upper(phrase(in.Name))
		}
		if p.Name != "" {
			inputs = append(inputs, p)
		}
	}
	if len(inputs) > 0 {
		d.Inputs = unique(inputs)
	}
	if name := validName(f.Name); name != "" {
		if d.Name == "" {
			d.Name = nameFor(d.Purpose) // for the domain
		}
		d = d.called(name)
	}
	if f.Asks != nil {
		if d.Approval = *f.Asks; !d.Approval {
			d.Confirm = ""
		}
	}
	if q := phrase(f.Confirm); q != "" {
		d.Confirm = mesh.Clip(strings.TrimRight(q, "?")+"?", maxPhrase)
	}
	return d
}

func cleaned(list []string, most int) (out []string) {
	for _, s := range list {
		if s = phrase(s); s != "" && !slices.Contains(out, s) {
			out = append(out, s)
		}
	}
	return capped(out, most)
}
