package skilltools

import (
	"context"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/command"
)

// Know implements llm.Knower. Of an agent that only reads itself, the skills are for
// models: programs need no look before they delegate.
func (t *Tools) Know(ctx context.Context, f *llm.Facts) (err error) {
	if t.o.ReadOnly || t.Empty() {
		return nil
	}
	list := t.listed
	if t.look {
		if list, _, err = t.catalog().find(ctx, &meshv1.ListSkillsRequest{Patterns: t.scope}, maxShown); err != nil {
			return err
		}
	}
	f.Face, f.Skills = t.o.Face, known(list)
	return nil
}

// Know implements llm.Knower.
func (d discovery) Know(ctx context.Context, f *llm.Facts) error {
	list, _, err := d.catalog.find(ctx, &meshv1.ListSkillsRequest{Patterns: d.catalog.scope}, maxShown) // programs read no texts
	f.Skills = known(list)
	return err
}

// known are the skills as programs know them.
func known(list []*skill.Skill) []llm.Skill {
	out := make([]llm.Skill, len(list))
	for i, s := range list {
		out[i] = llm.Skill{Name: s.Name, Description: s.Description, Tags: s.Tags, Tool: command.ToolName(s.Name),
			Reads: s.Access == skill.AccessRead, Asks: s.Asks(), Page: s.Handler == ""}
		for _, p := range s.Parameters {
			out[i].Parameters = append(out[i].Parameters, llm.Parameter{Name: p.Name, Type: p.Type, Description: p.Description, Required: p.Required, Default: p.Default, Enum: p.Enum})
		}
	}
	return out
}
