package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/skill"
)

// Combine returns the tools of all lists. Of tools with the same name the
// first is called. Lists may be nil.
func Combine(tools ...llm.Tools) llm.Tools {
	return combined(slices.DeleteFunc(tools, func(t llm.Tools) bool { return t == nil }))
}

type combined []llm.Tools

func (c combined) List(ctx context.Context) []llm.Tool {
	var all []llm.Tool
	for _, tools := range c {
		for _, t := range tools.List(ctx) {
			if !slices.ContainsFunc(all, named(t.Name)) {
				all = append(all, t)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b llm.Tool) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Batch implements llm.Batcher for those of the tools that do.
func (c combined) Batch(ctx context.Context, uses []mesh.ToolUse) {
	for _, tools := range c {
		if b, ok := tools.(llm.Batcher); ok {
			b.Batch(ctx, uses)
		}
	}
}

func (c combined) Call(ctx context.Context, use mesh.ToolUse) llm.ToolResult {
	for _, tools := range c {
		if slices.ContainsFunc(tools.List(ctx), named(use.Name)) {
			return tools.Call(ctx, use)
		}
	}
	return failedTool("Unknown tool: " + use.Name)
}

func named(name string) func(llm.Tool) bool {
	return func(t llm.Tool) bool { return t.Name == name }
}

func failedTool(text string) llm.ToolResult { return llm.ToolResult{Text: text, Failed: true} }

// GetSkill is the name of the tool that finds skills.
const GetSkill = "get_skill"

// Discovery returns the tool get_skill, by which a model finds the skills that
// the execution may grant to others. Its result is JSON: {"skills": [...]},
// each with name, description, access, parameters and tags.
func Discovery(inv *Invocation) llm.Tools { return discovery{inv} }

type discovery struct{ inv *Invocation }

func (d discovery) List(context.Context) []llm.Tool {
	return []llm.Tool{{
		Name: GetSkill,
		Description: "Finds skills that agents can be given. Without a query it lists all of them; " +
			"with one, those whose name, description or tags have a word of it, best match first.",
		Parameters: json.RawMessage(`{"type":"object","properties":{"query":{"type":"string",` +
			`"description":"Words to look for, as \"send email\""}},"additionalProperties":false}`),
	}}
}

func (d discovery) Call(ctx context.Context, use mesh.ToolUse) llm.ToolResult {
	var args struct {
		Query string `json:"query"`
	}
	if err := json.Unmarshal([]byte(use.Arguments), &args); err != nil {
		return failedTool("The argument query of get_skill must be a string")
	}
	skills, err := d.inv.Mesh.Skills(ctx)
	if err != nil {
		return failedTool(explain("Skills cannot be listed", err))
	}
	skills = slices.DeleteFunc(slices.Clone(skills), func(s *meshv1.Skill) bool {
		return !d.inv.Grant.AllowsSkill(s.GetName())
	})
	found := foundSkills{Skills: []foundSkill{}}
	for _, s := range match(skills, args.Query) {
		found.Skills = append(found.Skills, foundSkill{
			s.GetName(), s.GetDescription(), s.GetAccess(), parameters(s), nonNil(s.GetTags()),
		})
	}
	return llm.ToolResult{Text: toJSON(found)}
}

type foundSkills struct {
	Skills []foundSkill `json:"skills"`
}

type foundSkill struct {
	Name        string            `json:"name"`
	Description string            `json:"description"`
	Access      string            `json:"access"`
	Parameters  []skill.Parameter `json:"parameters"`
	Tags        []string          `json:"tags"`
}

// match returns the skills that have a word of the query, those with the most
// words first; all of them if it has no words.
func match(skills []*meshv1.Skill, query string) []*meshv1.Skill {
	words := strings.Fields(strings.ToLower(query))
	if len(words) == 0 {
		return skills
	}
	hits := map[*meshv1.Skill]int{}
	var found []*meshv1.Skill
	for _, s := range skills {
		text := strings.ToLower(s.GetName() + " " + s.GetDescription() + " " + strings.Join(s.GetTags(), " "))
		for _, w := range words {
			if strings.Contains(text, w) {
				hits[s]++
			}
		}
		if hits[s] > 0 {
			found = append(found, s)
		}
	}
	slices.SortStableFunc(found, func(a, b *meshv1.Skill) int { return cmp.Compare(hits[b], hits[a]) })
	return found
}

// parameters returns the skill's parameters in the form that models are shown.
func parameters(s *meshv1.Skill) []skill.Parameter {
	out := make([]skill.Parameter, len(s.GetParameters()))
	for i, p := range s.GetParameters() {
		out[i] = skill.Parameter{
			Name: p.GetName(), Type: p.GetType(), Required: p.GetRequired(), Description: p.GetDescription(),
			Items: p.GetItems(), Default: p.GetDefault(), Enum: p.GetEnum(),
		}
	}
	return out
}

func nonNil(list []string) []string {
	if list == nil {
		return []string{}
	}
	return list
}

// toJSON returns v, which has a JSON form, on one line and readable for models.
func toJSON(v any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "null"
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// explain adds what may be told of err to the text.
func explain(text string, err error) string {
	if detail := mesh.DetailOf(err); detail != "" {
		return text + ": " + detail
	}
	return text + ": internal error"
}
