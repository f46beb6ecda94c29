package skill

import (
	"fmt"
	"regexp"
	"strings"
	"unicode"

	"agentmesh/mesh"
)

// A Draft is what somebody says of a skill that is to be written.
type Draft struct {
	// Name is the action: lower-case letters, digits and '_'.
	Name string
	// Domain is DefaultDomain if it is empty.
	Domain      string
	Description string
	// Steps say in order what the skill does; without any, the description is
	// the one step.
	Steps []string
	// Triggers are phrases that ask for the skill.
	Triggers   []string
	Tags       []string
	Parameters []Parameter
	Schedule   string
	Timezone   string
	Author     string
	Created    string // a date, as "2026-11-20"
	// Confirm is what to ask the user before each call, or "", and
	// RequiresApproval has the user asked also without it.
	Confirm          string
	RequiresApproval bool
}

var numbered = regexp.MustCompile(`^\d+\. +`)

// Step is the step that a line of a page's section Behavior has; false if it has none.
func Step(line string) (step string, ok bool) {
	n := len(numbered.FindString(line))
	return line[n:], n > 0
}

// AskedBefore stands below the steps of a page whose user is asked before each call of its skill,
// which the mesh sees to.
const AskedBefore = "The user is asked before each call."

// maxSteps bounds steps, triggers and tags of a draft, each.
const maxSteps = 50

// Build writes the template skill that the draft describes. The skill is
// valid, and its Source is the file. The error is Invalid and names the field
// of the draft.
func Build(d Draft) (*Skill, error) {
	const op = "skill.Build"
	if d.Domain == "" {
		d.Domain = DefaultDomain
	}
	for _, part := range []struct{ field, value string }{{"name", d.Name}, {"domain", d.Domain}} {
		if !ValidPart(part.value) {
			return nil, mesh.InvalidField(op, part.field,
				"must be lower-case letters, digits and '_', beginning with a letter, and is %q%s", clip(part.value), proposal(part.value))
		}
	}
	d.Description = strings.TrimSpace(d.Description)
	for _, list := range []struct {
		field  string
		values []string
	}{{"steps", d.Steps}, {"triggers", d.Triggers}, {"tags", d.Tags}} {
		if len(list.values) > maxSteps {
			return nil, mesh.InvalidField(op, list.field, "has %d elements; at most %d are allowed", len(list.values), maxSteps)
		}
		if err := checkList(list.field, list.values); err != nil {
			return nil, mesh.Wrap(op, err)
		}
	}
	s := &Skill{
		Name: d.Domain + "." + d.Name, Domain: d.Domain, Action: d.Name, Description: d.Description,
		Schedule: d.Schedule, Timezone: d.Timezone, Author: d.Author, Created: d.Created,
		Confirm: strings.TrimSpace(d.Confirm), RequiresApproval: d.RequiresApproval,
		Access: DefaultAccess(d.Name), Tags: d.Tags, Parameters: d.Parameters,
	}
	s.Body = d.page(s)
	if err := Validate(s); err != nil {
		return nil, mesh.Wrap(op, err)
	}
	built, err := Parse("", Render(s))
	return built, mesh.Wrap(op, err)
}

func proposal(s string) string {
	if slug := Slug(s); slug != "" {
		return fmt.Sprintf("; try %q", slug)
	}
	return ""
}

// Slug turns words into something that may be a name, as "Slack alerts!" into
// "slack_alerts". It returns "" if there is nothing to make one of.
func Slug(text string) string {
	words := strings.FieldsFunc(strings.ToLower(text), func(r rune) bool {
		return r > unicode.MaxASCII || !unicode.IsLetter(r) && !unicode.IsDigit(r)
	})
	slug := strings.TrimLeft(strings.Join(words, "_"), "0123456789_")
	if len(slug) > maxName {
		slug = strings.TrimRight(slug[:maxName], "_")
	}
	return slug
}

// page writes the man page.
func (d *Draft) page(s *Skill) string {
	var b strings.Builder
	title := strings.ReplaceAll(d.Name, "_", " ")
	fmt.Fprintf(&b, "# %s%s\n\n%s\n\n## Usage\n\n    %s", strings.ToUpper(title[:1]), title[1:], d.Description, s.Name)
	for _, p := range d.Parameters {
		if p.Required {
			fmt.Fprintf(&b, " --%s <%s>", p.Name, p.Type)
		}
	}
	b.WriteString("\n\n## Flags\n\n")
	if len(d.Parameters) == 0 {
		b.WriteString("None.\n")
	}
	for _, p := range d.Parameters {
		fmt.Fprintf(&b, "    --%s  %s%s\n", p.Name, p.Description, flagNotes(p))
	}
	b.WriteString("\n## Behavior\n\n")
	steps := d.Steps
	if len(steps) == 0 {
		steps = []string{d.Description}
	}
	for i, step := range steps {
		fmt.Fprintf(&b, "%d. %s\n", i+1, strings.TrimSpace(step))
	}
	if s.Asks() {
		b.WriteString("\n" + AskedBefore + "\n")
	}
	if len(d.Triggers) > 0 {
		b.WriteString("\n## When to use\n\n")
		for _, t := range d.Triggers {
			fmt.Fprintf(&b, "- %s\n", strings.TrimSpace(t))
		}
	}
	fmt.Fprintf(&b, "\n## Examples\n\n    %s%s\n", s.Name, example(d.Parameters))
	return b.String()
}

func flagNotes(p Parameter) string {
	notes := ""
	if p.Required {
		notes += " (required)"
	}
	if p.Default != "" {
		notes += " (default: " + p.Default + ")"
	}
	if p.Type == "flag" {
		notes += " (boolean flag)"
	}
	if len(p.Enum) > 0 {
		notes += " One of: " + strings.Join(p.Enum, ", ")
	}
	return notes
}

func example(params []Parameter) string {
	out := ""
	for _, p := range params {
		value := "\"…\""
		switch {
		case len(p.Enum) > 0:
			value = p.Enum[0]
		case p.Type == "flag":
			value = ""
		case p.Type == "integer" || p.Type == "float":
			value = "1"
		case p.Type == "boolean":
			value = "true"
		}
		out += strings.TrimRight(" --"+p.Name+" "+value, " ")
	}
	return out
}
