package offline

import (
	"math"
	"slices"
	"strings"
)

// A catalog ranks skills for what people say. It is made once per request and
// not changed.
type catalog struct {
	skills []*skill
	spread map[concept]int // in how many domains a concept appears
	verbs  map[string]bool // actions that are no words of the lexicon
	hinted bool            // it is not known what the skills take
}

// newCatalog sorts the skills by name, so that plans do not depend on the
// order they came in. Skills without lore get it.
func newCatalog(skills []skill) *catalog {
	c := &catalog{spread: map[concept]int{}, verbs: map[string]bool{}}
	for i := range skills {
		if skills[i].lore == nil {
			skills[i] = skills[i].learned()
		}
		if skills[i].Name != "" {
			c.skills = append(c.skills, &skills[i])
		}
	}
	slices.SortStableFunc(c.skills, func(a, b *skill) int { return strings.Compare(a.Name, b.Name) })
	seen := map[[2]string]bool{}
	for _, s := range c.skills {
		for w := range s.lore.words {
			if at := [2]string{s.domain(), w}; !seen[at] {
				seen[at] = true
				c.spread[w]++
			}
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
	alsoAct       = 2.0  // and what it does besides
	theVerb       = 1.0  // the clause's verb is the skill's own word
	unknownID     = 5.0  // the skill needs an id, and nothing tells which
	findableID    = 1.0  // and another skill can find it
	domains       = 8.0  // for how rare a word is: always as many, so that an agent with few skills chooses as one with all
	documents     = 10.0 // the clause asks how something is, and the skill has documents
	byName        = 50.0 // the clause calls the skill by its whole name
	enough        = 1.8  // least evidence that the clause is about the skill
)

// mentioned returns what the texts of the skill mention, and what only its tags
// do: not every face shows those.
func mentioned(s *skill) (words map[concept]float64, tags map[concept]bool) {
	words, tags = map[concept]float64{}, map[concept]bool{}
	read := func(text string, yield func(concept)) {
		for _, t := range tokenize(strings.ReplaceAll(text, "_", " ")) {
			if t.kind != word || stopWords[t.low] || verbs[t.low] && !nounVerbs[t.low] && len(thingsOf(t.stem)) == 0 {
				continue // what a skill does is told by acts
			}
			for _, c := range append(thingsOf(t.stem), t.stem) {
				yield(c)
			}
		}
	}
	put := func(text string, weight float64) {
		read(text, func(c concept) { words[c] = max(words[c], weight) })
	}
	put(strings.ReplaceAll(s.Name, ".", " "), inName)
	put(s.Description, inDescription)
	for _, p := range s.Parameters {
		put(p.Name+" "+strings.Join(p.Enum, " "), inParameters)
		if len(p.Enum) == 0 && isStatus(p.Name) {
			put(p.Description, inParameters)
		}
	}
	read(strings.Join(s.Tags, " "), func(c concept) { tags[c] = words[c] == 0 })
	return words, tags
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

// rank scores all skills for the clause, best first. Tags are looked at only if
// nothing fits without them: not every face shows them, and the same request is
// to get the same skills.
func (c *catalog) rank(cl clause) []score {
	out := c.score(cl, false)
	if slices.ContainsFunc(out, func(s score) bool { return s.fits() }) {
		return out
	}
	return c.score(cl, true)
}

// score scores all skills for the clause, with their tags or without.
func (c *catalog) score(cl clause, tags bool) []score {
	cl = cl.trimmed()
	acts := verbOf(cl)
	mentions, plain := c.mentions(cl)
	called := calledByName(cl)
	named := c.onlyOneFor(cl, acts)
	never, tells, letter := forbids(cl), remark(cl), writesMail(cl)
	about := make([]float64, len(c.skills))
	for i := range c.skills {
		about[i] = c.evidence(i, mentions, tags)
	}
	most := slices.Max(append([]float64{0}, about...))
	var out []score
	for i, s := range c.skills {
		sc := score{skill: s, evidence: about[i]}
		if called == s.Name {
			sc.evidence += byName
		}
		sc.total = sc.evidence
		sc.weigh(acts, called)
		sc.opposed = sc.opposed || never || tells && called != s.Name && (!s.reads() || len(cl.tokens) > 1 && !speakers[cl.at(0).low])
		if plain[s.action()] {
			sc.total += theVerb // the very word, as "list" for calendar.list
		}
		// "archive" alone says what is meant, unless it is something that
		// other skills are about.
		if s.saysVerb(cl.at(0)) && (about[i] > 0 || most < enough) {
			sc.evidence += inName
		}
		sc.opposed = sc.opposed || letter && !s.reads() && s.lore.words[aMail] == 0 && !s.sends()
		if at := s.place() != nil || c.hinted && s.lore.words["file"] > 0; at && s.reads() && namesPath(cl) {
			sc.evidence += enough
		}
		if like := s.idPrefix(); like != "" && !s.reads() && strings.HasPrefix(strings.ToLower(findID(cl, s)), like) {
			sc.evidence += enough // "complete t-4f" says what it is
		}
		if s == named {
			sc.evidence += enough
		}
		if s.searchable() && cl.at(0).is("find", "search", "look", "locate", "query") {
			sc.total += theVerb // and does not just list
		}
		if howTo(cl) && s.knows() {
			sc.total += documents
		}
		sc.total += titled(s, cl) - c.unmet(s, cl)
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

// onlyOneFor returns the one skill that does acts to things with ids and does
// not say how these look, if the clause names nothing but an id; or nil.
func (c *catalog) onlyOneFor(cl clause, acts []concept) *skill {
	if len(cl.tokens) != 2 || !idLike(cl.at(1)) {
		return nil
	}
	var one *skill
	for _, s := range c.skills {
		does := slices.ContainsFunc(s.does(), func(a concept) bool { return slices.Contains(acts, a) })
		if !does || s.reads() || s.identifier() == nil {
			continue
		}
		if one != nil || s.idPrefix() != "" {
			return nil
		}
		one = s
	}
	return one
}

// weigh compares what is to be done, acts, with what the skill does. called is
// the skill that the clause names, or "".
func (s *score) weigh(acts []concept, called string) {
	does := s.skill.does()
	wants := func(of []concept) bool {
		return slices.ContainsFunc(acts, func(a concept) bool { return slices.Contains(of, a) })
	}
	switch own := s.skill.acts(); {
	case wants(own):
		s.total += sameAct
		// To send is to use a mail-like skill; to create says nothing about
		// what.
		if slices.Contains(acts, doSend) && slices.Contains(own, doSend) {
			s.evidence += enough
			s.total += theVerb
		}
	case wants(does):
		s.total += alsoAct
	case len(acts) > 0 && len(does) > 0:
		s.opposed = called != s.skill.Name
	}
}

// titled is the bonus for a skill that makes something with a title, if the
// clause gives one.
func titled(s *skill, cl clause) float64 {
	has := slices.ContainsFunc(s.Parameters, func(p param) bool { return kindOf(&p) == kindTitle })
	if has && slices.Contains(s.acts(), doCreate) && slices.ContainsFunc(cl.tokens, func(t token) bool { return t.is("titled", "called", "named") }) {
		return theVerb + theVerb
	}
	return 0
}

// evidence is how much of what is mentioned the i-th skill is about.
func (c *catalog) evidence(i int, mentions map[concept]bool, tags bool) float64 {
	l, sum := c.skills[i].lore, 0.0
	for w := range mentions {
		sum += l.words[w] * c.rarity(w)
		if tags && l.tags[w] {
			sum += inTags * c.rarity(w)
		}
	}
	return sum
}

// rarity weighs down what many domains mention.
func (c *catalog) rarity(w concept) float64 {
	return math.Log2(1 + domains/float64(max(1, c.spread[w])))
}

// unmet is the penalty for a skill that needs what the clause does not name.
func (c *catalog) unmet(s *skill, cl clause) float64 {
	penalty := 0.0
	for i := range s.Parameters {
		p := &s.Parameters[i]
		if p.Required && kindOf(p) == kindPath {
			if (&filler{cl: cl, skill: s, quotes: map[int]bool{}}).path(p) == "" {
				penalty += unknownID
			} else {
				penalty -= sameAct // it is told just what it needs
			}
		}
		if !isID(p.Name) || !p.Required && !s.reads() || findID(cl, s) != "" {
			continue
		}
		if p.Required && !s.reads() && c.finder(s) != nil {
			penalty += findableID
		} else {
			penalty += unknownID
		}
	}
	return penalty
}
