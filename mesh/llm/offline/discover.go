package offline

import (
	"slices"
	"strings"
)

// Bounds of what is asked for at once.
const (
	maxSearches = 8  // for parts of one request
	maxWords    = 24 // of one search
	maxHints    = 12 // of skills that one search found, the best first
	maxPages    = 24 // of skills that only commands tell about
)

// A deed is what is to be done next, whatever the face: a skill is to be used,
// skills are to be searched for, or help about a skill or domain is wanted.
type deed struct {
	skill        string
	args         map[string]any
	search, help string
}

// perform returns the reply that does the deeds.
func (t *turn) perform(deeds []deed) reply {
	var r reply
	for _, d := range deeds {
		line, c := commandLine(d.skill, d.args), toolCall{toolUseSkill, map[string]any{"skill": d.skill, "arguments": d.args}}
		switch {
		case d.help != "":
			line, c = d.help+" --help", toolCall{toolGetSkill, map[string]any{"domain": d.help}}
		case d.skill == "":
			line, c = toolGetSkill+flag("search", d.search), toolCall{toolGetSkill, map[string]any{"search": d.search}}
		case t.face == byTool:
			c = toolCall{strings.ReplaceAll(d.skill, ".", "-"), d.args}
		}
		if t.face == byCommand {
			r.commands = append(r.commands, line)
		} else {
			r.calls = append(r.calls, c)
		}
	}
	return r
}

// discover returns the skills that are known, or what is to be asked to know
// more. refused is why nothing can be found out, or "".
func (t *turn) discover() (known []skill, ask []deed, refused string) {
	if len(t.listed) > 0 || t.face == byTool {
		return t.listed, nil, ""
	}
	if t.face == byCommand {
		return t.readPages()
	}
	asked := t.called(toolGetSkill)
	for _, c := range asked {
		if c.failed {
			refused = c.result
		}
		for _, s := range t.memo.skills(c.result, foundSkills) {
			known = include(known, s)
		}
	}
	switch {
	case len(asked) == 0 && t.tool(toolGetSkill) != nil:
		return nil, t.searches(), ""
	case len(known) > 0 || len(asked) > 0 && refused == "":
		return known, nil, ""
	case refused == "":
		refused = "there is no way to look for skills"
	}
	return nil, nil, refused
}

func include(skills []skill, s skill) []skill {
	if slices.ContainsFunc(skills, func(have skill) bool { return have.Name == s.Name }) {
		return skills
	}
	return append(skills, s)
}

// readPages finds skills by commands: it searches, or reads about the domains
// where searching is not allowed, and then reads the pages of those that may be
// meant.
func (t *turn) readPages() (known []skill, ask []deed, refused string) {
	var heard []skill
	searched, browsed := false, false
	for _, c := range t.calls {
		switch {
		case c.help == "":
		case skillCall.MatchString(c.help):
			if at := slices.IndexFunc(heard, func(s skill) bool { return s.Name == c.help }); at >= 0 && !c.failed {
				s := heard[at]
				s.Parameters = pageFlags(c.result)
				known = include(known, learn(s))
			} else if c.failed {
				refused = c.result
			}
		default:
			searched = searched || c.help == toolGetSkill
			browsed = browsed || c.help != toolGetSkill || !c.failed
			for i, s := range t.memo.skills(c.result, hintsIn) {
				if i < maxHints || c.help != toolGetSkill {
					heard = include(heard, s)
				}
			}
		}
	}
	switch {
	case !searched && len(t.domains) > 0:
		return nil, t.searches(), ""
	case !browsed:
		for _, d := range t.domains[:min(len(t.domains), maxPages)] {
			ask = append(ask, deed{help: d.name})
		}
	case len(known) == 0 && refused == "":
		for _, s := range heard[:min(len(heard), maxPages)] {
			ask = append(ask, deed{help: s.Name})
		}
	}
	return known, ask, refused
}

// wanted are the clauses of all that the user said.
func (t *turn) wanted() []part {
	text := strings.Join(append([]string{t.text}, t.answers...), "\n")
	parts := split(text, func(c clause) bool { return c.order() != "" || c.question() })
	for i := range parts {
		parts[i].clause = plainly(parts[i].clause)
	}
	return parts
}

// searches returns the words to search for, for each part of the request.
func (t *turn) searches() []deed {
	var out []deed
	for _, p := range t.wanted() {
		words := searchWords(p.clause)
		if words != "" && !slices.ContainsFunc(out, func(d deed) bool { return d.search == words }) && len(out) < maxSearches {
			out = append(out, deed{search: words})
		}
	}
	return out
}

// subjects are the words by which catalogs name kinds of things.
var subjects = map[string]string{"mail": "mail", "meeting": "calendar", "task": "task", "note": "note", "file": "file", "memory": "memory", "doc": "documentation"}

// searchWords returns the words by which a catalog may find the skills for the
// clause: for what it is about, and its own, as all their forms have them.
func searchWords(c clause) string {
	var out []string
	put := func(w string) {
		if w != "" && !slices.Contains(out, w) && len(out) < maxWords {
			out = append(out, w)
		}
	}
	for i := range c.toks { // what is to be written down says nothing
		if c.order() != "" && i > 1 && (c.at(i).is("saying", "that", ":") || c.at(i).is("to") && verbs[c.at(i+1).low] != actNone) {
			c.toks = c.toks[:i]
			break
		}
	}
	for i := range c.toks {
		t := c.at(i)
		switch {
		case skillCall.MatchString(t.low):
			put(t.low)
		case t.kind == email && c.at(0).low != "invite" && (verbs[c.at(0).low] != actCreate || c.at(0).is("remind")), i == 0 && slices.Contains(actsOf(t.low), actSend):
			put(subjects["mail"])
		case t.kind == word && pathForm.MatchString(t.text):
			put(subjects["file"])
		case t.kind == word:
			put(subjects[things[t.stem]])
			if things[t.stem] != "" && !plainVerbs[t.low] {
				put(t.stem)
			}
		}
	}
	switch head := c.at(0); {
	case c.explanation():
		put(subjects["doc"])
	case head.is("remind"):
		put(subjects["task"])
	case head.is("remember", "memorize", "save", "note"), c.question() && c.personal():
		put(subjects["memory"])
	}
	for i := range c.toks {
		t := c.at(i)
		if t.kind == word && !t.in(asides) && !t.in(glue) && !t.in(prepositions) && !t.in(plainVerbs) && !t.in(dayWords) && things[t.stem] == "" && !(t.capital() && i > 0) && len(t.stem) > 2 && numberOf(t) == 0 {
			put(t.stem)
		}
	}
	if len(out) == 0 {
		put(stem(c.order()))
	}
	return strings.Join(out, " ")
}
