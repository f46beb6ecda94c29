package skilltools

import (
	"context"
	"encoding/json"
	"fmt"
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
	numbered    = regexp.MustCompile("(?m)^\\d+\\. +`?(.*?)`? *$")
	placeholder = regexp.MustCompile(`\{([a-z][a-z0-9_]*)\}`)
)

// withSteps adds to a template the calls that its page says, each {"skill", "arguments"}, with the
// arguments of this call in place of {parameter}. It adds nothing where a step is anything else than
// a command of a skill that is code: such a page is for a model to read.
func (t *Tools) withSteps(ctx context.Context, r *skill.Result) *skill.Result {
	section := behavior.FindStringSubmatch(r.Content)
	if !r.Template() || section == nil {
		return r
	}
	given, _ := r.Metadata["arguments"].(map[string]any)
	var steps []map[string]any
	for _, step := range numbered.FindAllStringSubmatch(section[1], -1) {
		name, _, _ := strings.Cut(step[1], " ")
		s, err := t.lookup(ctx, name)
		if err != nil || s.Handler == "" {
			return r
		}
		c := CommandOf(step[1], s)
		if c == nil || !filled(c.Arguments, given) {
			return r
		}
		steps = append(steps, map[string]any{"skill": c.Skill, "arguments": c.Arguments})
	}
	if len(steps) > 0 {
		r.Metadata[metaSteps] = steps
	}
	return r
}

// CommandOf is the call of the skill that a line is in the language of commands; nil if it is
// none.
func CommandOf(line string, s *skill.Skill) *mesh.SkillCall {
	c, err := command.Parse(line)
	if err != nil || c.Discovery() || c.Skill != s.Name || len(c.Stray) > 0 {
		return nil
	}
	return &mesh.SkillCall{Skill: s.Name, Arguments: plainArgs(command.Args(c.Flags, s)), Source: mesh.SourceRun}
}

// plainArgs are the arguments in the types that JSON knows; nil if they have no such form.
func plainArgs(args map[string]any) (plain map[string]any) {
	if data, err := json.Marshal(args); err != nil || json.Unmarshal(data, &plain) != nil {
		return nil
	}
	return plain
}

// filled puts what was given in place of each {parameter}, and leaves out what is such a place
// alone and was not given. It reports whether nothing is missing within a text.
func filled(args, given map[string]any) bool {
	for name, v := range args {
		said, ok := v.(string)
		if !ok {
			continue
		}
		if m := placeholder.FindString(said); m == said && m != "" {
			if value, ok := given[m[1:len(m)-1]]; ok {
				args[name] = value
			} else {
				delete(args, name)
			}
			continue
		}
		all := true
		args[name] = placeholder.ReplaceAllStringFunc(said, func(m string) string {
			value, ok := given[m[1:len(m)-1]]
			all = all && ok
			return fmt.Sprint(value)
		})
		if !all {
			return false
		}
	}
	return true
}
