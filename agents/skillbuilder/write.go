package skillbuilder

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"agentmesh/mesh/skill"
)

// maxAction leaves room for a number behind a name, in bytes.
const maxAction = 58

// unique gives the skill a name that is not taken, and says so if it is not
// the one that the user knows.
func (s session) unique(taken func(name string) bool) session {
	domain, action, _ := strings.Cut(s.Name, ".")
	base := domain + "." + action[:min(len(action), maxAction)]
	name := s.Name
	for n := 2; taken(name); n++ {
		name = fmt.Sprintf("%s_%d", base, n)
	}
	if name != s.Name {
		s.Hint = strings.TrimSpace(s.Hint + " There is a skill " + s.Name + " already, so I call this one " + name + ".")
		s.Name = name
	}
	return s
}

// written is s in state Testing, with the file of its skill or the problem
// with it. day is when, as "2026-11-20".
func (s session) written(author, day string) session {
	s.State, s.Source, s.Problem = Testing, "", ""
	domain, action, _ := strings.Cut(s.Name, ".")
	sk, err := skill.Build(skill.Draft{
		Name: action, Domain: domain, Description: upper(s.Purpose), Steps: sentenceCase(s.Steps), Triggers: s.Triggers,
		Tags: s.tags(), Parameters: s.Inputs, Confirm: s.Confirm, RequiresApproval: s.Approval, Author: phrase(author), Created: day,
	})
	if err != nil {
		s.Problem = problem(err)
		return s
	}
	s.Source = string(sk.Source)
	return s
}

func sentenceCase(list []string) []string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = upper(s)
	}
	return out
}

// tags are the words by which planners find the skill: the phrases that ask
// for it, and what it is about.
func (s session) tags() []string {
	const most = 16
	tags := slices.Clone(s.Triggers)
	g := gistOf(s.Purpose)
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
	return cmp.Or(strings.TrimSpace(field+" "+detail), "it cannot be written")
}
