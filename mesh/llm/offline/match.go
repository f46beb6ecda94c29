package offline

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"
)

// A skill is what the planner knows of a skill: what discovery tells.
type skill struct {
	Name        string   `json:"name"` // as "mail.send"
	Description string   `json:"description"`
	Access      string   `json:"access"` // "read" or "write"
	Parameters  []param  `json:"parameters"`
	Tags        []string `json:"tags"`
}

// A param is one parameter of a skill.
type param struct {
	Name        string      `json:"name"`
	Type        string      `json:"type"`
	Required    bool        `json:"required"`
	Description string      `json:"description"`
	Enum        textList    `json:"enum"`
	Default     looseString `json:"default"`
}

// textList is a JSON array whose items are taken as text, whatever they are.
type textList []string

// UnmarshalJSON implements [json.Unmarshaler].
func (l *textList) UnmarshalJSON(b []byte) error {
	var items []any
	if err := json.Unmarshal(b, &items); err != nil {
		return nil //nolint:nilerr // a list in another shape is no list
	}
	for _, it := range items {
		*l = append(*l, fmt.Sprint(it))
	}
	return nil
}

// looseString is a JSON value taken as text.
type looseString string

// UnmarshalJSON implements [json.Unmarshaler].
func (s *looseString) UnmarshalJSON(b []byte) error {
	var v any
	if err := json.Unmarshal(b, &v); err == nil && v != nil {
		*s = looseString(fmt.Sprint(v))
	}
	return nil
}

func (s *skill) domain() string {
	d, _, _ := strings.Cut(s.Name, ".")
	return d
}

func (s *skill) action() string {
	_, a, ok := strings.Cut(s.Name, ".")
	if !ok {
		return s.Name
	}
	return a
}

// reads reports whether the skill only tells something.
func (s *skill) reads() bool {
	if s.Access != "" {
		return s.Access == "read"
	}
	return slices.Contains(s.acts(), doSearch)
}

// acts returns what the skill does, as far as its name or description tell.
func (s *skill) acts() []concept {
	for _, w := range strings.Split(s.action(), "_") {
		if a := actsOf(stem(w)); len(a) > 0 {
			return a
		}
	}
	if f := tokenize(s.Description); len(f) > 0 {
		return actsOf(f[0].stem)
	}
	return nil
}

// A catalog ranks skills for what people say. It is made once per request and
// not changed.
type catalog struct {
	skills []*skill
	words  []map[concept]float64 // per skill: what its texts mention
	spread map[concept]int       // in how many skills a concept appears
	verbs  map[string]bool       // actions that are no words of the lexicon
}

// newCatalog sorts the skills by name, so that plans do not depend on the
// order they came in.
func newCatalog(skills []skill) *catalog {
	c := &catalog{spread: map[concept]int{}, verbs: map[string]bool{}}
	for i := range skills {
		if skills[i].Name != "" {
			c.skills = append(c.skills, &skills[i])
		}
	}
	slices.SortStableFunc(c.skills, func(a, b *skill) int { return strings.Compare(a.Name, b.Name) })
	for _, s := range c.skills {
		m := mentioned(s)
		c.words = append(c.words, m)
		for w := range m {
			c.spread[w]++
		}
		for _, w := range strings.Split(s.action(), "_") {
			c.verbs[w] = true
		}
	}
	return c
}

// Weights of where a word of a skill stands.
const (
	inName        = 3.0
	inTags        = 2.0
	inDescription = 1.0
	inParameters  = 0.5
	sameAct       = 3.0  // the clause's verb is what the skill does
	byName        = 50.0 // the clause calls the skill by its whole name
	enough        = 1.8  // least evidence that the clause is about the skill
)

func mentioned(s *skill) map[concept]float64 {
	m := map[concept]float64{}
	put := func(text string, weight float64) {
		for _, t := range tokenize(strings.ReplaceAll(text, "_", " ")) {
			if t.kind != word || stopWords[t.low] || verbs[t.low] && !nounVerbs[t.low] && len(thingsOf(t.stem)) == 0 {
				continue // what a skill does is told by acts
			}
			for _, c := range append(thingsOf(t.stem), t.stem) {
				m[c] = max(m[c], weight)
			}
		}
	}
	put(strings.ReplaceAll(s.Name, ".", " "), inName)
	put(strings.Join(s.Tags, " "), inTags)
	put(s.Description, inDescription)
	for _, p := range s.Parameters {
		put(p.Name+" "+strings.Join(p.Enum, " "), inParameters)
		if len(p.Enum) == 0 && isStatus(p.Name) {
			put(p.Description, inParameters)
		}
	}
	return m
}

// A score says how well a skill fits a clause. Evidence is how much the clause
// is about the skill's subject, whatever its verb.
type score struct {
	skill    *skill
	total    float64
	evidence float64
	opposed  bool // the clause wants something else done than the skill does
}

// fits reports whether the skill may be used for the clause. A skill that does
// something else than was asked is never used, however well the words fit: who
// wants a meeting cancelled must not get another one.
func (s *score) fits() bool { return s.evidence >= enough && s.total > 0 && !s.opposed }

// rank scores all skills for the clause, best first.
func (c *catalog) rank(cl clause) []score {
	cl = cl.trimmed()
	acts := verbOf(cl)
	mentions, plain := c.mentions(cl)
	called := calledByName(cl)
	var out []score
	for i, s := range c.skills {
		sc := score{skill: s}
		for w := range mentions {
			if weight := c.words[i][w]; weight > 0 {
				sc.evidence += weight * c.rarity(w)
			}
		}
		if called == s.Name {
			sc.evidence += byName
		}
		skillActs := s.acts()
		shared := slices.ContainsFunc(acts, func(a concept) bool { return slices.Contains(skillActs, a) })
		sc.total = sc.evidence
		switch {
		case shared:
			sc.total += sameAct
			// To send is to use a mail-like skill; to create says nothing
			// about what.
			if slices.Contains(acts, doSend) && slices.Contains(skillActs, doSend) {
				sc.evidence += enough
			}
		case len(acts) > 0 && len(skillActs) > 0:
			sc.opposed = called != s.Name
		}
		if plain[s.action()] {
			sc.total++ // the very word, as "list" for calendar.list
			if head := cl.at(0); head.low == s.action() && !plainActs[head.low] {
				sc.evidence += inName // "archive" alone says what is meant
			}
		}
		sc.total -= c.unmet(s, cl)
		out = append(out, sc)
	}
	slices.SortStableFunc(out, func(a, b score) int {
		switch {
		case a.total > b.total:
			return -1
		case a.total < b.total:
			return 1
		}
		return strings.Compare(a.skill.Name, b.skill.Name)
	})
	return out
}

// rarity weighs down what many skills mention.
func (c *catalog) rarity(w concept) float64 {
	return math.Log(1+float64(len(c.skills))/float64(max(1, c.spread[w]))) / math.Ln2
}

// mentions returns what the clause is about, and its plain words. What
// somebody is to be told, or a task is about, is not looked at.
func (c *catalog) mentions(cl clause) (about map[concept]bool, plain map[string]bool) {
	about, plain = map[concept]bool{}, map[string]bool{}
	creates := slices.Contains(actsOf(cl.at(0).stem), doCreate)
	for i := range cl.tokens {
		t := cl.at(i)
		if next := cl.at(i + 1); creates && i > 0 && t.is("to") && next.kind == word && !determiners[next.low] && !pronouns[next.low] && !next.capital() {
			break // "remind me to call the office" is not about calls
		}
		if i > 0 && t.is("that", "saying", "says", ":") && !cl.at(i+1).is("is", "are", "was", "were", "i", "my", "have", "has") {
			break
		}
		if t.kind == email {
			about["a:mail"] = true
			continue
		}
		if t.kind != word {
			continue
		}
		plain[t.low] = true
		if stopWords[t.low] && t.low != "how" {
			continue
		}
		// Only the head of a clause is a verb: "show" in "create a show" is
		// a thing.
		for _, a := range append(thingsOf(t.stem), t.stem) {
			about[a] = true
		}
	}
	if head := cl.at(0); len(actsOf(head.stem)) > 0 && len(thingsOf(head.stem)) == 0 {
		delete(about, head.stem)
	}
	return about, plain
}

// unmet is the penalty for a skill that needs what the clause does not name.
func (c *catalog) unmet(s *skill, cl clause) float64 {
	penalty := 0.0
	for i := range s.Parameters {
		p := &s.Parameters[i]
		if isID(p.Name) && (p.Required || s.reads()) && findID(cl, s) == "" {
			penalty += 5
		}
	}
	return penalty
}

// verbOf returns what the clause wants done.
func verbOf(cl clause) []concept {
	cl = cl.trimmed()
	head := cl.at(0)
	if head.kind != word {
		return nil
	}
	if cl.question() || head.is("there", "any") || head.is("tell", "show", "give") && cl.at(1).is("me", "us") {
		return []concept{doSearch}
	}
	if nounVerbs[head.low] && cl.imperative(nil) == 0 {
		return nil // "schedule for tomorrow" is a thing
	}
	acts := actsOf(head.stem)
	addressed := slices.ContainsFunc(cl.tokens, func(t token) bool { return t.kind == email })
	if len(acts) == 0 && addressed && slices.ContainsFunc(cl.tokens, func(t token) bool { return t.is(delivered...) }) {
		return []concept{doSend} // "a report of my tasks sent to …"
	}
	return acts
}

// delivered are the participles that say that something is sent.
var delivered = []string{"sent", "emailed", "mailed", "forwarded", "delivered"}

// best returns the skill for the clause, or nil if none is about it.
func (c *catalog) best(cl clause) *skill {
	for _, s := range c.rank(cl) {
		if s.fits() {
			return s.skill
		}
	}
	return nil
}

// matches reports whether some skill is about the clause.
func (c *catalog) matches(cl clause) bool { return c.best(cl) != nil }

// choose returns the skills for the clause in the order of their use: the one
// that does it, and before it one that reads what the clause says is to be
// sent or put in ("send Bob the overdue tasks report"; S0-011).
func (c *catalog) choose(cl clause) []*skill {
	ranked := c.rank(cl)
	i := slices.IndexFunc(ranked, func(s score) bool { return s.fits() })
	if i < 0 {
		return nil
	}
	main := ranked[i].skill
	if main.reads() || !takesContent(main) || !carries(cl, main) {
		return []*skill{main}
	}
	var source *score
	for j := range ranked {
		s := &ranked[j]
		if s.skill == main || s.skill.domain() == main.domain() || !s.skill.reads() || !slices.Contains(s.skill.acts(), doSearch) {
			continue
		}
		if s.evidence >= 2*enough && c.named(s.skill, cl) && (source == nil || s.evidence-c.unmet(s.skill, cl) > source.evidence-c.unmet(source.skill, cl)) {
			source = s
		}
	}
	if source == nil {
		return []*skill{main}
	}
	return []*skill{source.skill, main}
}

// named reports whether the clause names the skill's domain itself, or one of
// its tags, as a thing: a report about tasks comes from the tasks.
func (c *catalog) named(s *skill, cl clause) bool {
	mentions, _ := c.mentions(cl)
	for _, w := range append(strings.Split(s.domain(), "_"), s.Tags...) {
		st := stem(strings.ToLower(w))
		if mentions[st] && len(actsOf(st)) == 0 {
			return true
		}
		for _, a := range thingsOf(st) {
			if mentions[a] && a != "a:doc" {
				return true
			}
		}
	}
	return false
}

// takesContent reports whether the skill has a parameter for a longer text.
func takesContent(s *skill) bool {
	return slices.ContainsFunc(s.Parameters, func(p param) bool { return kindOf(&p) == kindBody })
}

// carries reports whether the clause hands over something that must be read
// first, and not words of its own.
func carries(cl clause, s *skill) bool {
	sends := slices.Contains(s.acts(), doSend)
	for i := range cl.tokens {
		t := cl.at(i)
		if t.kind == quoted || i > 0 && t.is("saying", "that", "about", "regarding", "titled", "called") {
			return i > 0 && t.is("about", "regarding") && manyThings(cl.from(i))
		}
		if t.kind == word && reportWords[t.low] {
			return true
		}
	}
	return sends
}

// manyThings reports whether the words name a report, somebody's own things, or
// several: "about my tasks" is a reason to look them up, "about the task" none.
func manyThings(c clause) bool {
	return slices.ContainsFunc(c.tokens, func(t token) bool {
		return t.is("my", "our", "all") || t.kind == word && (reportWords[t.low] || len(thingsOf(t.stem)) > 0 && strings.HasSuffix(t.low, "s"))
	})
}
