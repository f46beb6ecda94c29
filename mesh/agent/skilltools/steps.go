package skilltools

import (
	"context"
	"encoding/json"
	"regexp"
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/command"
)

// metaSteps in the metadata of a result that is a template has the calls that its page says, where
// all of its steps are commands: rules can make those, where there is no model.
const metaSteps = "steps"

var (
	behavior    = regexp.MustCompile(`(?ms)^## Behavior\s*\n(.*?)(?:^## |\z)`)
	placeholder = regexp.MustCompile(`\{([a-z][a-z0-9_]*)\}`)
)

// withSteps adds to a template the calls that its page says, each {"skill", "arguments"}, with the
// arguments of this call in place of {parameter}. It adds nothing where something else stands among
// the steps than commands of skills that are code: such a page is for a model to read.
func (t *Tools) withSteps(ctx context.Context, r *skill.Result) *skill.Result {
	if !r.Template() {
		return r
	}
	section := behavior.FindStringSubmatch(r.Content)
	if section == nil {
		return r
	}
	given, _ := r.Metadata["arguments"].(map[string]any)
	var steps []map[string]any
	for line := range strings.Lines(section[1]) {
		if line = strings.TrimSpace(line); line == "" || line == skill.AskedBefore {
			continue
		}
		step, is := skill.Step(line)
		if !is {
			return r
		}
		step = strings.TrimSuffix(strings.TrimPrefix(step, "`"), "`")
		name, _, _ := strings.Cut(step, " ")
		s, err := t.lookup(ctx, name)
		if err != nil || s.Handler == "" {
			return r
		}
		c, whole := CommandOf(step, s)
		if c == nil || !whole {
			return r
		}
		if _, ok := filled(c.Arguments, given); !ok {
			return r
		}
		steps = append(steps, map[string]any{"skill": c.Skill, "arguments": c.Arguments})
	}
	if len(steps) > 0 {
		r.Metadata[metaSteps] = steps
	}
	return r
}

// CommandOf is the call of the skill that a line is in the language of commands, nil if it is
// none, and whether each word of the line belongs to it.
func CommandOf(line string, s *skill.Skill) (call *mesh.SkillCall, whole bool) {
	c, err := command.Parse(line)
	if err != nil || c.Discovery() || c.Skill != s.Name {
		return nil, false
	}
	return &mesh.SkillCall{Skill: s.Name, Arguments: plainArgs(command.Args(c.Flags, s)), Source: mesh.SourceRun}, len(c.Stray) == 0
}

// plainArgs are the arguments in the types that JSON knows; nil if they have no such form.
func plainArgs(args map[string]any) (plain map[string]any) {
	if data, err := json.Marshal(args); err != nil || json.Unmarshal(data, &plain) != nil {
		return nil
	}
	return plain
}

// filled puts what was given in place of each {parameter} of the value. A place that is a value
// alone and was not given is none: nil. It reports whether nothing is missing within a text.
func filled(value any, given map[string]any) (any, bool) {
	switch v := value.(type) {
	case string:
		if m := placeholder.FindString(v); m == v && m != "" {
			return given[m[1:len(m)-1]], true
		}
		all := true
		text := placeholder.ReplaceAllStringFunc(v, func(m string) string {
			value, ok := given[m[1:len(m)-1]]
			said, is := value.(string)
			if ok && !is { // a number is the same whether it comes from the call or from the log
				data, err := json.Marshal(value)
				said, ok = string(data), err == nil
			}
			all = all && ok
			return said
		})
		return text, all
	case []any:
		out := []any{}
		for _, item := range v {
			one, ok := filled(item, given)
			if !ok {
				return nil, false
			}
			if several, is := one.([]any); is { // the list that was given
				out = append(out, several...)
			} else if one != nil {
				out = append(out, one)
			}
		}
		if len(out) == 0 {
			return nil, true
		}
		return out, true
	case map[string]any:
		for name, item := range v {
			one, ok := filled(item, given)
			if !ok {
				return nil, false
			}
			if v[name] = one; one == nil {
				delete(v, name)
			}
		}
	}
	return value, true
}
