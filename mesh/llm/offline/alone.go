package offline

import (
	"cmp"
	"slices"
	"strings"
)

// chat replies to what is no work for an agent with skills: what belongs to
// another agent, small talk, and what the agent can do. It returns false for
// everything else.
func chat(t *turn) (reply, bool) {
	r, ok := chatted(t)
	if ok && t.first && t.alone() && (len(r.calls) == 0 || r.calls[0].tool == toolHandoff) && r.text != "" {
		r.text += "\n\n" + notice
	}
	return r, ok
}

func chatted(t *turn) (reply, bool) {
	for _, c := range slices.Backward(t.calls) {
		if r, ok := handedOver(&c); ok {
			return r, true
		}
	}
	said := newClause(t.text)
	asked := said.trimmed()
	if !t.final && len(t.rounds) == 0 {
		if r, ok := t.handoff(asked); ok {
			return r, true
		}
	}
	switch {
	case len(t.inputs) > 0:
		return reply{}, false
	case thanks(said):
		return say("You are welcome."), true
	case len(asked.tokens) == 0 || smallTalk(asked):
		return say("Hello. %s", t.can()), true
	case !aboutMe(asked):
		return reply{}, false
	}
	if asked := t.called(toolGetSkill); len(asked) > 0 {
		t.domains = readDomains(asked[len(asked)-1].result)
	} else if t.tool(toolGetSkill) != nil {
		return reply{calls: []toolCall{{toolGetSkill, map[string]any{}}}}, true
	}
	return say("%s", t.can()), true
}

// can says what the agent has skills for, by domains.
func (t *turn) can() string {
	about := slices.Clone(t.domains)
	for _, s := range t.listed {
		i := slices.IndexFunc(about, func(d domain) bool { return d.name == s.domain() })
		switch {
		case i < 0:
			about = append(about, domain{s.domain(), s.action()})
		case len(t.domains) == 0:
			about[i].description += ", " + s.action()
		}
	}
	if len(about) == 0 && t.tool(toolGetSkill) == nil {
		return "I have no skills at present."
	}
	slices.SortFunc(about, func(a, b domain) int { return cmp.Compare(a.name, b.name) })
	var lines []string
	for _, d := range about {
		lines = append(lines, "- "+sentence(strings.TrimSuffix(d.name+": "+d.description, ": ")))
	}
	for _, a := range t.agents(toolHandoff) {
		lines = append(lines, "- "+a.name+": "+sentence(a.description))
	}
	if len(lines) == 0 {
		return "Ask me what I can do, or tell me what to do."
	}
	return "I can help you with these:\n" + strings.Join(lines, "\n")
}
