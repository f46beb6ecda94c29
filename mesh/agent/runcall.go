package agent

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/command"
	"agentmesh/mesh/text"
	"agentmesh/mesh/thread"
)

// Requested returns the skill call that the execution is for: the message's own
// or, for a message that goes on, that of the message it began with. It is nil
// for an execution that is for none.
func (inv *Invocation) Requested(ctx context.Context) (*SkillCall, error) {
	if inv.SkillCall != nil || !inv.Resumed {
		return inv.SkillCall, nil
	}
	m := inv.Mesh
	m.reading.Lock()
	defer m.reading.Unlock()
	if err := m.read(ctx, nil); err != nil {
		return nil, mesh.Wrap("agent.Requested", err)
	}
	call := a2a.Extension(m.own().Mission.GetMetadata()).GetFields()[keySkill]
	requested, _ := skillCall(call, m.grant.Parent == m.grant.Turn) // one that is wrong was refused when it came
	return requested, nil
}

// RunCall runs the skill call of an invocation without a model, and yields what
// came of it: its text, and as data its files and metadata. A call that needs
// the user's approval asks; a call that fails is the run's failure. A call that
// the log has the end of is not made again.
//
// A template has to be carried out by a model: then model is true, and history
// is what the model is told.
func RunCall(ctx context.Context, tools *SkillTools, c *SkillCall, yield func(Output, error) bool) (history []llm.Message, model bool) {
	tools.asked = c
	r, err := tools.inv.Mesh.returned(ctx, runCall)
	if err != nil {
		yield(nil, mesh.Wrap("agent.RunCall", err))
		return nil, false
	}
	if r == nil {
		r = tools.executor.Execute(ctx, &skill.Call{ID: runCall, Skill: c.Skill, Args: c.Arguments, Source: c.Source}, tools.env)
	}
	switch {
	case r.Ask != "":
		yield(AskAbout([]mesh.Question{{Execution: tools.inv.Execution, Call: runCall, Text: r.Ask}}, nil), nil)
		return nil, false
	case r.Failed():
		e := &mesh.Error{Code: mesh.Precondition, Op: "agent.RunCall", Err: r.Err}
		if errors.As(r.Err, &e) {
			e = &mesh.Error{Code: e.Code, Op: "agent.RunCall", Reason: e.Reason, Limit: e.Limit, Err: r.Err}
		}
		e.Detail = r.Content
		if trip := limit.TripOf(r.Err); trip != nil { // nobody is told what a model is to do
			e.Detail = Report{Limit: trip.Limit, Most: trip.Most, Free: trip.Free}.Why()
		}
		yield(nil, e)
		return nil, false
	case r.Metadata["requires_interpretation"] == true:
		return tools.inv.template(carryOut(c, r.Content)), true
	}
	if !yield(Text{r.Whole()}, nil) {
		return nil, false
	}
	if len(r.Files) > 0 || len(r.Metadata) > 0 {
		yield(Data{Name: ResultData, Value: map[string]any{"files": nonNil(r.Files), "metadata": r.Metadata}}, nil)
	}
	return nil, false
}

// ResultData is the name of the artifact with the files and the metadata of a
// skill that was run without a model.
const ResultData = "skill result"

// carryOut is what a model is told that carries out a template.
func carryOut(c *SkillCall, body string) string {
	args := ""
	if len(c.Arguments) > 0 {
		args = toJSON(c.Arguments)
	}
	return text.CarryOut(c.Skill, strings.TrimSpace(body), args)
}

// template is the conversation with a model that carries out a template: the
// instruction, what was done about it already, and what the user said since.
func (inv *Invocation) template(instruction string) []llm.Message {
	inv.Mesh.reading.Lock()
	defer inv.Mesh.reading.Unlock()
	text := instruction
	if inv.SkillCall == nil { // the message only goes on
		text = inv.Text()
	}
	if len(inv.Mesh.own().Replies) == 0 { // a model has not begun with it
		text = instruction
	}
	return inv.Mesh.alone(instruction, text)
}

// returned is what the log says that came of a call of this execution; nil if
// nothing did yet.
func (m *Mesh) returned(ctx context.Context, call string) (*skill.Result, error) {
	m.reading.Lock()
	defer m.reading.Unlock()
	if err := m.read(ctx, nil); err != nil {
		return nil, err
	}
	c := m.did().Call(call)
	if c == nil || c.Unsettled() {
		return nil, nil
	}
	r := &skill.Result{Status: skill.StatusOK, Content: c.Content, Files: c.Files}
	if c.Status == thread.CallFailed {
		r.Status, r.Content = skill.StatusError, c.Error
	}
	if c.Metadata != "" {
		if err := json.Unmarshal([]byte(c.Metadata), &r.Metadata); err != nil {
			return nil, mesh.Errorf(mesh.Unknown, "agent.returned", "The result of the skill cannot be read: %w", err)
		}
	}
	return r, nil
}

// Progress tells which skill a call uses, whatever face it came by.
func (t *SkillTools) Progress(use mesh.ToolUse) (Progress, bool) {
	var args struct {
		Skill string `json:"skill"`
	}
	name := ""
	switch {
	case use.Name == llm.CommandTool:
		c, err := command.Parse(commandLine(use))
		if err != nil || c.Discovery() {
			return Progress{}, false
		}
		name = c.Skill
	case use.Name == UseSkill:
		if json.Unmarshal([]byte(use.Arguments), &args) != nil {
			return Progress{}, false // the call fails too
		}
		name = args.Skill
	case t.o.Face == FaceDirect:
		name = t.skillOf(use.Name)
	}
	if name == "" {
		return Progress{}, false
	}
	return Progress{Text: "Using " + name + "…"}, true
}
