package offline

import (
	"regexp"
	"slices"
	"strings"
)

// Bounds of what is asked for at once.
const (
	maxSearches = 8  // for parts of one request
	maxWords    = 24 // of one search
	maxPages    = 10 // of skills that only commands tell about
	maxPerPart  = 4  // of them for one part
)

// A discovery finds the skills for a request, step by step, before it is
// planned. Agents that are told all about their skills need none.
type discovery struct {
	t     *turn
	known []skill // with what they take
	heard []skill // whose names and descriptions are known only
	stage stage
	// refused is why nothing could be looked up, or "".
	refused string
}

type stage uint8

const (
	toSearch  stage = iota
	toListAll       // searching is not allowed: read the pages of domains
	toList          // list the domains of skills that need others
	toRead          // read the pages of skills
	found
)

func discover(t *turn) *discovery { return &discovery{t: t, known: t.listed} }

// next returns what to ask, or nothing when all is known that can be.
func (d *discovery) next() []deed {
	var out []deed
	switch d.stage {
	case toSearch:
		for _, words := range d.searches() {
			out = append(out, deed{search: words})
		}
	case toListAll:
		for _, dom := range d.t.domains[:min(len(d.t.domains), maxPages)] {
			out = append(out, deed{help: dom.name})
		}
	case toList:
		for _, name := range d.lacking() {
			out = append(out, deed{help: name})
		}
	case toRead:
		for _, name := range d.candidates() {
			out = append(out, deed{help: name})
		}
	}
	return out
}

// settle takes in what came of the deeds that next returned.
func (d *discovery) settle(deeds []deed, ends []call) {
	command := d.t.face == byCommand
	failed := len(ends) > 0 && !slices.ContainsFunc(ends, func(c call) bool { return !c.failed })
	for i, c := range ends {
		switch {
		case c.failed:
		case d.stage == toRead:
			if at := slices.IndexFunc(d.heard, func(s skill) bool { return s.Name == deeds[i].help }); at >= 0 {
				s := d.heard[at]
				s.Parameters = readPage(c.result)
				d.add(&d.known, s.learned())
			}
		case command:
			for _, s := range d.t.memo.skills(source{form: foundHints, text: c.result}, func() []skill { return readHints(c.result) }) {
				d.add(&d.heard, s)
			}
		default:
			for _, s := range d.t.memo.skills(source{form: foundSkills, text: c.result}, func() []skill { return readSkills(c.result) }) {
				d.add(&d.known, s)
			}
		}
	}
	if failed && d.stage != toSearch || failed && !command {
		d.refused = ends[0].result
	}
	d.stage = d.after(failed)
}

// after returns the stage that follows.
func (d *discovery) after(failed bool) stage {
	command := d.t.face == byCommand
	switch {
	case d.stage == toSearch && command && failed:
		return toListAll
	case d.stage == toSearch && len(d.lacking()) > 0:
		return toList
	case d.stage < toRead && command:
		return toRead
	}
	return found
}

// lacking returns the domains of skills that work on a thing, fit a part of the
// request, and came without one that finds it.
func (d *discovery) lacking() []string {
	cat := newCatalog(append(slices.Clone(d.known), d.heard...))
	var out []string
	for _, p := range (splitter{matches: asks, verbs: cat.verbs}).split(d.t.text) {
		for _, s := range cat.rank(p.clause) {
			changes := slices.ContainsFunc(verbOf(p.clause), func(a concept) bool { return a == doUpdate || a == doRemove })
			if name := s.skill.domain(); s.evidence >= enough && !s.opposed && changes && !s.skill.reads() && cat.finder(s.skill) == nil && !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	return out[:min(len(out), maxPerPart)]
}

func (d *discovery) add(to *[]skill, s skill) {
	if !slices.ContainsFunc(*to, func(have skill) bool { return have.Name == s.Name }) {
		*to = append(*to, s)
	}
}

// possible reports whether skills can be looked for.
func (d *discovery) possible() bool {
	if d.t.face == byCommand {
		return len(d.t.listed) == 0 && len(d.t.domains) > 0
	}
	return d.t.tool(toolGetSkill) != nil || len(d.t.tools) == 0 && len(d.t.called(toolGetSkill)) > 0
}

// searches returns the words to search for: for each part of the request that
// none of the skills known so far is about.
func (d *discovery) searches() []string {
	if !d.possible() {
		return nil
	}
	cat := newCatalog(d.known)
	var out []string
	for _, p := range (splitter{matches: asks}).split(d.t.text) {
		if p.imperative(cat.verbs) == 0 && !p.question() && len(d.known) > 0 || cat.matches(p.clause) {
			continue
		}
		if words := searchWords(p.clause); words != "" && !slices.Contains(out, words) && len(out) < maxSearches {
			out = append(out, words)
		}
	}
	return out
}

// asks reports whether the clause wants something done or told, whatever.
func asks(c clause) bool { return c.imperative(nil) == 2 || c.question() }

// searchWords returns the words by which a catalog may find the skills for the
// clause: its own, in the form that all forms of them contain, and those for
// what it is about.
func searchWords(c clause) string {
	if name := calledByName(c); name != "" {
		return name
	}
	var out []string
	put := func(words ...string) {
		for _, w := range words {
			if !slices.Contains(out, w) && len(out) < maxWords {
				out = append(out, w)
			}
		}
	}
	own := c.question() && ownThings(c)
	for i := range c.tokens {
		if t := c.at(i); t.kind == email && !c.meets(i) {
			put(subjects[aMail])
		} else if occasions[t.low] {
			put(strings.Fields(subjects[aMeeting])...)
		}
	}
	about := subject(c)
	for i := range about.tokens {
		t := about.at(i)
		for _, thing := range thingsOf(t.stem) {
			put(strings.Fields(subjects[thing])...)
		}
		if own && recalls(t) {
			put(strings.Fields(subjects[aMemory])...)
		}
		named := t.capital() && i > 0 || smallNumberOrDigit(t.low) || isDateWord(t.low)
		if t.kind != word || stopWords[t.low] || prepositions[t.low] || plainActs[t.low] || named || len(t.stem) < 3 {
			continue
		}
		put(t.stem)
	}
	if namesPath(c) {
		put("file")
	}
	if slices.Contains(verbOf(c), doSend) {
		put("send", subjects[aMail])
	}
	if ownQuestion(c) {
		put(strings.Fields(subjects[aMemory])...)
	}
	if explanation(c) {
		put(strings.Fields(subjects[aDoc])...)
	}
	return strings.Join(out, " ")
}

// hint is a line that names a skill: of a list, or of a table.
var hint = regexp.MustCompile(`(?m)^(?:[-*] |\| ?)` + "`?" + `([a-z][a-z0-9_]*\.[a-z][a-z0-9_]*)` + "`?" + `(?:: | \| ?)(.*?)[ |]*$`)

// readHints reads names and descriptions of skills.
func readHints(text string) []skill {
	var out []skill
	for _, m := range hint.FindAllStringSubmatch(text, -1) {
		out = append(out, skill{Name: m[1], Description: m[2]})
	}
	return out
}

// candidates are the skills of which the parts of the request may need to know
// more: those that fit best, and those by which things are found.
func (d *discovery) candidates() []string {
	cat := newCatalog(d.heard)
	cat.hinted = true
	var out []string
	put := func(s *skill) {
		if !slices.Contains(out, s.Name) && len(out) < maxPages {
			out = append(out, s.Name)
		}
	}
	parts := (splitter{matches: asks, verbs: cat.verbs}).split(d.t.text)
	for _, p := range parts {
		for _, s := range cat.choose(p.clause) {
			put(s)
			if f := cat.finder(s); f != nil && s.reads() {
				put(f) // which of the two it is shows in what they take
			}
		}
	}
	for _, p := range parts {
		byID := slices.ContainsFunc(p.tokens, func(t token) bool { return idLike(&t) })
		n := 0
		for _, s := range cat.rank(p.clause) {
			// "complete t-4f" names a thing in a way that only the pages tell.
			if n < maxPerPart && (s.fits() || byID && s.total > 0 && !s.opposed) {
				put(s.skill)
				n++
			}
		}
		if best := cat.best(p.clause); best != nil && !best.reads() {
			for _, s := range cat.skills {
				if s.domain() == best.domain() && s.searches() {
					put(s)
				}
			}
		}
	}
	return out
}
