package skillbuilder

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"agentmesh/mesh/skill"
)

// maxAction leaves room for a number behind a name, in bytes.
const maxAction = 58

// unique gives the skill a name that is not taken, and says so if it is not
// the one that the user knows.
func (t talk) unique(taken func(name string) bool) talk {
	s := &t.Draft
	domain, action, _ := strings.Cut(s.Name, ".")
	base := domain + "." + action[:min(len(action), maxAction)]
	name := s.Name
	for n := 2; taken(name); n++ {
		name = fmt.Sprintf("%s_%d", base, n)
	}
	if name != s.Name {
		t.Hint = strings.TrimSpace(t.Hint + " There is a skill " + s.Name + " already, so I call this one " + name + ".")
		s.Name = name
	}
	return t
}

// written is t with the file of its skill, at the step Testing; or with the problem, at the
// step whose answer causes it. day is when, as "2026-11-20".
func (t talk) written(author, day string) talk {
	d := &t.Draft
	d.Source, d.Problem, d.Trial = "", "", ""
	sk, err := d.build(cmp.Or(d.Author, phrase(author)), cmp.Or(d.Created, day))
	if err != nil {
		field, _ := explained(err)
		return t.refused(field, problem(err))
	}
	d.Source = string(sk.Source)
	return t.to(Testing)
}

// refused is t without the file of its skill, with what is wrong with that, at the step whose
// answer causes it. field is to blame, as the front matter calls it, or "".
func (t talk) refused(field, why string) talk {
	d := &t.Draft
	d.Source, d.Problem, d.Trial = "", cmp.Or(why, unwritten), ""
	if field == "description" {
		d.Purpose = "" // which is asked for anew
	}
	return t.to(causedAt(field))
}

// build writes the skill of the draft.
func (d draft) build(author, day string) (*skill.Skill, error) {
	domain, action, _ := strings.Cut(d.Name, ".")
	return skill.Build(skill.Draft{
		Name: action, Domain: domain, Description: upper(d.Purpose), Steps: sentenceCase(d.Steps), Triggers: d.Triggers,
		Tags: d.tags(), Parameters: d.Inputs, Confirm: d.Confirm, RequiresApproval: d.Approval, Author: author, Created: day,
	})
}

// draftOf is the draft of a skill that was written here, of which build makes the same file;
// false for any other, of which something would be lost.
func draftOf(source string) (draft, bool) {
	sk, problem := skill.Parse("", []byte(source))
	if problem != nil {
		return draft{}, false
	}
	r, n := utf8.DecodeRuneInString(sk.Description)
	d := draft{
		Purpose: string(unicode.ToLower(r)) + sk.Description[n:], Inputs: sk.Parameters, Name: sk.Name,
		Confirm: sk.Confirm, Approval: sk.RequiresApproval, Author: sk.Author, Created: sk.Created,
	}
	for _, part := range strings.Split(sk.Body, "\n## ") {
		head, text, _ := strings.Cut(part, "\n")
		for line := range strings.Lines(text) {
			line = strings.TrimSpace(line)
			switch step, is := skill.Step(line); {
			case head == "Behavior" && is:
				d.Steps = append(d.Steps, step)
			case head == "When to use" && strings.HasPrefix(line, "- "):
				d.Triggers = append(d.Triggers, line[2:])
			}
		}
	}
	again, err := d.build(sk.Author, sk.Created)
	return d, err == nil && string(again.Source) == source
}

// causedAt is the step whose answer the field comes from; Testing, where everything can be
// changed, if it comes from none.
func causedAt(field string) string {
	switch root, _, _ := strings.Cut(field, "."); strings.TrimRight(root, "[]0123456789") {
	case "name", "domain", "triggers", "tags":
		return Triggers
	case "description", "steps", "parameters", "body":
		return Gathering
	}
	return Testing
}

func sentenceCase(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		if out[i] = upper(s); dotted.FindStringIndex(s) != nil && dotted.FindStringIndex(s)[0] == 0 { // a command, which has a form
			out[i] = s
		}
	}
	return out
}

// tags are the words by which planners find the skill: the phrases that ask
// for it, and what it is about.
func (d draft) tags() []string {
	const most = 16
	tags := slices.Clone(d.Triggers)
	g := gistOf(d.Purpose)
	for _, w := range append([]string{g.domain, g.verb}, g.things...) {
		if w != "" {
			tags = append(tags, w)
		}
	}
	var out []string
	for _, t := range tags {
		if t = strings.ToLower(phrase(t)); t != "" && !slices.Contains(out, t) {
			out = append(out, t)
		}
	}
	return out[:min(len(out), most)]
}

// problem says what is wrong with a draft, for the user.
func problem(err error) string {
	field, detail := explained(err)
	return cmp.Or(strings.TrimSpace(field+" "+detail), unwritten)
}

// unwritten is what is wrong where nobody says it.
const unwritten = "it cannot be written"
