package offline

import "slices"

// finder returns the skill that finds what the skill works on, or nil.
func (c *catalog) finder(of *skill) *skill {
	var best *skill
	for _, s := range c.skills {
		if s == of || s.domain() != of.domain() || !s.searches() {
			continue
		}
		if query := slices.ContainsFunc(s.Parameters, func(p param) bool { return kindOf(&p) == kindQuery }); query || best == nil {
			best = s
			if query {
				break
			}
		}
	}
	return best
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
		return c.answering(cl)
	}
	main := ranked[i].skill
	if f := c.finder(main); f != nil && main.identifier() != nil && !main.reads() && findID(cl, main) == "" && names(cl, main) {
		return []*skill{f, main}
	}
	if main.reads() || !c.hinted && !takesContent(main) || !carries(cl, main) {
		return []*skill{main}
	}
	var source *score
	for j := range ranked {
		s := &ranked[j]
		if s.skill == main || s.skill.domain() == main.domain() || !s.skill.reads() || !slices.Contains(s.skill.acts(), doSearch) {
			continue
		}
		if s.evidence >= enough && c.named(s.skill, cl) && (source == nil || s.evidence-c.unmet(s.skill, cl) > source.evidence-c.unmet(source.skill, cl)) {
			source = s
		}
	}
	if source == nil {
		return []*skill{main}
	}
	return []*skill{source.skill, main}
}

// answering returns the skill with documents for a question that no other skill
// answers, or nothing.
func (c *catalog) answering(cl clause) []*skill {
	if ownQuestion(cl) {
		for _, s := range c.skills {
			if s.reads() && (s.searchable() || len(s.Parameters) == 0) && slices.Contains(s.kinds(), aMemory) {
				return []*skill{s}
			}
		}
	}
	if !explanation(cl) {
		return nil
	}
	for _, s := range c.skills {
		if s.knows() && (s.searchable() || len(s.Parameters) == 0) {
			return []*skill{s}
		}
	}
	return nil
}

// ownQuestion reports whether the clause asks for something of somebody's own,
// as "when is my birthday": what no other skill knows may have been told.
func ownQuestion(cl clause) bool {
	cl = cl.trimmed()
	return cl.question() && ownThings(cl) && cl.at(0).is("what", "what's", "who", "who's", "whose", "when", "when's", "where", "where's", "which") && !forbids(cl)
}

// named reports whether the clause names what the skill's domain is of, or what
// it reads: a report about tasks comes from the tasks.
func (c *catalog) named(s *skill, cl clause) bool {
	mentions, _ := c.mentions(cl)
	return slices.ContainsFunc(s.kinds(), func(k concept) bool {
		return mentions[k] && k != aDoc && len(actsOf(k)) == 0
	})
}
