package agent

import (
	"context"
	"sync"

	"agentmesh/mesh/a2a"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/command"

	"google.golang.org/protobuf/types/known/structpb"
)

// facts returns what the tools know, found out when somebody asks and once.
func facts(tools llm.Tools) func(context.Context) (*llm.Facts, error) {
	var mu sync.Mutex
	var known *llm.Facts
	return func(ctx context.Context) (*llm.Facts, error) {
		mu.Lock()
		defer mu.Unlock()
		if known != nil {
			return known, nil
		}
		f := new(llm.Facts)
		if k, ok := tools.(llm.Knower); ok {
			if err := k.Know(ctx, f); err != nil {
				return nil, err
			}
		}
		known = f
		return f, nil
	}
}

// Know implements llm.Knower. Of an agent that only reads itself, the skills are for
// models: programs need no look before they delegate.
func (t *SkillTools) Know(ctx context.Context, f *llm.Facts) (err error) {
	if t.o.ReadOnly || t.Empty() {
		return nil
	}
	list := t.listed
	if t.look {
		if list, err = t.catalog().List(ctx, ""); err != nil {
			return err
		}
	}
	f.Face, f.Skills = t.o.Face, known(list)
	return nil
}

// Know implements llm.Knower.
func (d discovery) Know(ctx context.Context, f *llm.Facts) error {
	list, err := d.catalog.List(ctx, "")
	f.Skills = known(list)
	return err
}

// known are the skills as programs know them.
func known(list []*skill.Skill) []llm.Skill {
	out := make([]llm.Skill, len(list))
	for i, s := range list {
		out[i] = llm.Skill{Name: s.Name, Description: s.Description, Tags: s.Tags, Tool: command.ToolName(s.Name),
			Reads: s.Access == skill.AccessRead, Asks: s.Confirm != "" || s.RequiresApproval}
		for _, p := range s.Parameters {
			out[i].Parameters = append(out[i].Parameters, llm.Parameter{Name: p.Name, Type: p.Type, Description: p.Description, Required: p.Required, Default: p.Default, Enum: p.Enum})
		}
	}
	return out
}

// keyMission is the name of what a message wants of the agent, in its parts.
const keyMission = "mission"

// MissionData is the mission as extension data of the message that says it.
func MissionData(m llm.Mission) map[string]*structpb.Value {
	text := structpb.NewStringValue
	f := map[string]*structpb.Value{"text": text(m.Text)}
	if m.Context != "" {
		f["context"] = text(m.Context)
	}
	if len(m.Results) > 0 {
		results := &structpb.Struct{Fields: map[string]*structpb.Value{}}
		for id, r := range m.Results {
			results.Fields[id] = text(r)
		}
		f["results"] = structpb.NewStructValue(results)
	}
	if len(m.Answers) > 0 {
		answers := &structpb.ListValue{}
		for _, a := range m.Answers {
			answers.Values = append(answers.Values, text(a))
		}
		f["answers"] = structpb.NewListValue(answers)
	}
	return map[string]*structpb.Value{keyMission: structpb.NewStructValue(&structpb.Struct{Fields: f})}
}

// mission is what another agent asked this execution for; nil where the user did,
// whatever the message says.
func (inv *Invocation) mission() *llm.Mission {
	if inv.Grant.Parent == inv.Grant.Turn {
		return nil
	}
	message := inv.Message
	if inv.Resumed {
		inv.Mesh.reading.Lock()
		message = inv.Mesh.own().Mission
		inv.Mesh.reading.Unlock()
	}
	f := a2a.Extension(message.GetMetadata()).GetFields()[keyMission].GetStructValue().GetFields()
	m := &llm.Mission{Text: f["text"].GetStringValue(), Context: f["context"].GetStringValue(), Results: map[string]string{}}
	for id, r := range f["results"].GetStructValue().GetFields() {
		m.Results[id] = r.GetStringValue()
	}
	for _, a := range f["answers"].GetListValue().GetValues() {
		m.Answers = append(m.Answers, a.GetStringValue())
	}
	if m.Text == "" { // an agent of another mesh says it in words alone
		m.Text = a2a.TextOf(message)
	}
	return m
}
