package offline

import (
	"slices"
	"strings"
)

// report tells what the work came to.
func (w *work) report() reply {
	if !w.planned {
		w.plan() // with what is known
	}
	var lines []string
	for _, c := range w.foreign {
		lines = append(lines, told(c.skill(), &c, ""))
	}
	var rest []string
	for n := range w.parts {
		if said := w.told(n); said != "" {
			lines = append(lines, said)
		}
		for _, s := range w.steps {
			if s.part == n && s.state == open {
				rest = append(rest, w.named(s))
			}
		}
	}
	if len(rest) > 0 {
		lines = append(lines, "I did not get to "+listed(rest)+".")
	}
	for _, p := range w.unknown {
		remark := p.imperative(nil) == 0 && !p.question()
		if len(w.parts)+len(w.foreign) > 0 && !remark {
			lines = append(lines, puzzled(p.words()))
		}
	}
	if len(lines) == 0 {
		return w.helpless()
	}
	return reply{text: strings.Join(lines, "\n\n")}
}

// named names a step that was not taken: by its skill, and among several parts
// of a request by what it is for.
func (w *work) named(s *step) string {
	if len(w.parts) < 2 {
		return s.skill.Name
	}
	return s.skill.Name + " (" + quoteShort(w.parts[s.part].words()) + ")"
}

// puzzled says that nothing was done about the text, and why.
func puzzled(text string) string {
	c := newClause(text).trimmed()
	switch {
	case forbids(c):
		return "I did nothing about " + quoteShort(text) + "."
	case slices.Contains(verbOf(c), doForget):
		return "None of my skills can forget something, so I did nothing about " + quoteShort(text) + "."
	case remark(c) && len(c.tokens) > 1:
		return "I did not understand " + quoteShort(text) + ". If I am to keep it, begin with “remember that”."
	}
	return "I did not understand " + quoteShort(text) + "."
}

// helpless is the answer when nothing can be done.
func (w *work) helpless() reply {
	switch {
	case w.find.refused != "":
		return say("I cannot find out which skills there are, so I cannot do this: %s", sentence(clip(squeeze(strings.TrimPrefix(w.find.refused, "Error: ")), 200)))
	case len(w.cat.skills) == 0 && len(w.t.domains) == 0 && w.t.tool(toolGetSkill) == nil:
		return say("I have no skills, so I cannot do %s.", quoteShort(w.t.text))
	}
	return say("%s %s", puzzled(w.t.text), w.find.offers())
}

// offers says what can be done, in one sentence.
func (d *discovery) offers() string {
	domains := d.t.domains
	if def := d.t.tool(toolGetSkill); len(domains) == 0 && def != nil {
		domains = domainsOf(def)
	}
	if len(domains) == 0 {
		return offers(newCatalog(d.known))
	}
	var names []string
	for _, dom := range domains {
		names = append(names, dom.name)
	}
	return "I have skills for " + listed(names) + "."
}

// told tells what came of one part of the request: what was found or done, what
// is missing, and what was chosen without being told. It is also what later
// parts get that need this one.
func (w *work) told(part int) string {
	var lines, notes []string
	for i, s := range w.steps {
		if s.part != part {
			continue
		}
		used := i+1 < len(w.steps) && w.steps[i+1].part == part && w.steps[i+1].state == done
		switch {
		case s.state == stuck:
			lines = append(lines, "I cannot use "+s.skill.Name+" yet, because this is missing: "+listed(s.fill.missing)+". Please tell me and ask again.")
		case len(s.tries) == 0, s.source && used:
			// The step that used it is told first.
			continue
		default:
			lines = append(lines, told(s.skill.Name, &s.tries[len(s.tries)-1], s.question()))
		}
		if i > 0 && s.state == done && w.steps[i-1].part == part && w.steps[i-1].source && w.steps[i-1].target == nil {
			lines = append(lines, "It is based on this:\n"+w.steps[i-1].tries[len(w.steps[i-1].tries)-1].result)
		}
		if s.state == done && len(s.fill.assumed) > 0 {
			notes = append(notes, "Note: "+listed(s.fill.assumed)+".")
		}
	}
	return strings.Join(slices.Concat(lines, notes), "\n\n")
}

// question is what the step's skill was asked, or "" if it tells nothing.
func (s *step) question() string {
	if s.skill.reads() {
		return s.clause.words()
	}
	return ""
}

// told tells what came of one call: as an answer if documents were asked the
// question.
func told(name string, c *call, question string) string {
	if c.failed {
		return "I could not use " + name + ": " + sentence(strings.TrimPrefix(c.result, "Error: "))
	}
	if question != "" {
		if a := answerFrom(question, c.result); a != "" {
			return a
		}
	}
	if c.result == "" {
		return "Done: " + name + "."
	}
	return c.result
}
