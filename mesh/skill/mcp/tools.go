package mcp

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"unicode"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/command"
)

// Bounds of what is kept of a tool, in bytes where nothing else is said.
const (
	maxDescription = 500 // the one line that planners see
	maxManual      = 8 << 10
	maxTitle       = 100
	maxTags        = 8
	maxAction      = 64
)

// skillsOf returns the tools as skills, and by the names of the skills the
// tools. What cannot be a skill is left out, and logged if that is wanted.
func (r *remote) skillsOf(ctx context.Context, tools []*sdk.Tool, log bool) ([]*skill.Skill, map[string]tool) {
	actions := actionsOf(tools)
	skills := make([]*skill.Skill, 0, len(tools))
	names, first := make(map[string]tool, len(tools)), make(map[string]*sdk.Tool, len(tools))
	for _, t := range tools {
		action, ok := actions[t.Name]
		name := r.name + "." + action
		if !ok {
			continue
		}
		if is, twice := first[name]; twice {
			if log {
				r.logger.WarnContext(ctx, "tool of an mcp server left out, for another one has the same name; rename one of them",
					"tool", line(t.Name, maxTitle), "left out", line(t.Description, maxTitle), "skill", name, "kept", line(is.Description, maxTitle))
			}
			continue
		}
		first[name] = t
		s, err := r.skillOf(t, action)
		if err != nil {
			if log {
				r.logger.WarnContext(ctx, "tool of an mcp server left out", "tool", line(t.Name, maxTitle), "err", err)
			}
			continue
		}
		of := tool{name: t.Name, promise: outputOf(t.OutputSchema)}
		if of.promise != nil {
			s.Output = of.promise.schema
		}
		skills = append(skills, s)
		names[name] = of
	}
	return skills, names
}

// actionsOf chooses a name for each tool, by the tool's own. Who has the name
// itself gets it; of others that come to the same one, the first in the order of
// their names, and the rest get a number. It depends on nothing but the names.
func actionsOf(tools []*sdk.Tool) map[string]string {
	names := make([]string, 0, len(tools))
	for _, t := range tools {
		if t.Name != "" && len(t.Name) <= 1024 {
			names = append(names, t.Name)
		}
	}
	slices.SortFunc(names, func(a, b string) int {
		exact := func(s string) int {
			if action(s) == s {
				return 0
			}
			return 1
		}
		return cmp.Or(exact(a)-exact(b), strings.Compare(a, b))
	})
	actions, taken := make(map[string]string, len(names)), make(map[string]bool, len(names))
	counts := make(map[string]int)
	for _, name := range slices.Compact(names) {
		base := action(name)
		choice := base
		for n := max(counts[base], 2); taken[choice]; n++ {
			suffix := "_" + strconv.Itoa(n)
			choice = base[:min(len(base), maxAction-len(suffix))] + suffix
			counts[base] = n + 1
		}
		actions[name], taken[choice] = choice, true
	}
	return actions
}

// action makes the second half of a skill's name of a tool's name.
func action(tool string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z' || r >= '0' && r <= '9':
			return r
		case r >= 'A' && r <= 'Z':
			return r + 'a' - 'A'
		}
		return '_'
	}, tool)
	name = strings.TrimLeft(name, "_")
	if name == "" || name[0] >= '0' && name[0] <= '9' || skill.ReservedAction(name) {
		name = "tool_" + name
	}
	return strings.TrimRight(name[:min(len(name), maxAction)], "_")
}

// skillOf returns the tool as the skill with that action. The error is Invalid.
func (r *remote) skillOf(t *sdk.Tool, action string) (*skill.Skill, error) {
	in, err := inputOf(t.InputSchema)
	if err != nil {
		return nil, err
	}
	hints := t.Annotations
	if hints == nil {
		hints = &sdk.ToolAnnotations{}
	}
	destructive := hints.DestructiveHint != nil && *hints.DestructiveHint
	title := line(cmp.Or(t.Title, hints.Title, t.Name), maxTitle)
	s := &skill.Skill{
		Name: r.name + "." + action, Domain: r.name, Action: action, Handler: HandlerName(r.name),
		Description:      cmp.Or(line(t.Description, maxDescription), title),
		Access:           skill.AccessWrite,
		RequiresApproval: destructive,
		Tags:             words(title),
		Parameters:       in.parameters,
		Schema:           in.schema,
	}
	if hints.ReadOnlyHint && !destructive {
		s.Access = skill.AccessRead
	}
	s.Body = r.page(s, t, title)
	return s, skill.Validate(s)
}

// words returns the words of a title, for search.
func words(title string) []string {
	var out []string
	for _, w := range strings.FieldsFunc(strings.ToLower(title), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) }) {
		if len(w) > 2 && !slices.Contains(out, w) && len(out) < maxTags {
			out = append(out, w)
		}
	}
	return out
}

// page writes the man page of the tool. What the server says beyond one line is
// quoted.
func (r *remote) page(s *skill.Skill, t *sdk.Tool, title string) string {
	flags := strings.Split(command.Usage(s), "\n")[2:]
	usage := ""
	for _, flag := range command.Required(s) {
		usage += " " + flag
	}
	if len(flags) == 0 {
		flags = []string{"None."}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s\n\n## Usage\n\n    %s%s\n\n## Flags\n\n%s\n\n## Behavior\n\n",
		title, s.Description, s.Name, usage, strings.Join(flags, "\n"))
	fmt.Fprintf(&b, "Calls the tool `%s` of the MCP server `%s`, which does the work and answers.", strings.ReplaceAll(line(t.Name, maxTitle), "`", "'"), r.name)
	switch {
	case s.RequiresApproval:
		b.WriteString(" It may destroy something; the user is asked first.")
	case s.Access == skill.AccessRead:
		b.WriteString(" It changes nothing.")
	}
	if manual := strings.TrimSpace(t.Description); line(manual, maxDescription) != manual {
		b.WriteString("\n\n## What the server says\n\n" + command.Quote(clean(mesh.Clip(manual, maxManual))))
	}
	fmt.Fprintf(&b, "\n\n## Examples\n\n    %s%s", s.Name, usage)
	return b.String()
}
