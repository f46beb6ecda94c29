package offline

import (
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

	lore *lore // nil until it was learned
}

// lore is what the words of a skill tell. It is found out once, and not
// changed.
type lore struct {
	tokens            []token // of the description
	acts, does, kinds []concept
	like              string
	knows             bool
	words             map[concept]float64 // what its texts mention
	tags              map[concept]bool    // what only its tags mention
}

// learned returns the skill with its lore and what its parameters mean.
func (s *skill) learned() skill {
	out := *s
	out.learn()
	return out
}

func (s *skill) learn() {
	s.Parameters = slices.Clone(s.Parameters)
	for i := range s.Parameters {
		p := &s.Parameters[i]
		p.kind = kindUnset
		p.kind = kindOf(p)
	}
	s.lore = &lore{tokens: tokenize(s.Description)}
	s.lore.acts = s.findActs()
	s.lore.does = s.findDeeds()
	s.lore.kinds = s.findKinds()
	s.lore.like = s.findPrefix()
	s.lore.knows = s.findKnowledge()
	s.lore.words, s.lore.tags = mentioned(s)
}

// known returns the skill's lore.
func (s *skill) known() *lore {
	if s.lore == nil {
		out := s.learned()
		return out.lore
	}
	return s.lore
}

// A param is one parameter of a skill.
type param struct {
	Name        string      `json:"name"`
	Type        string      `json:"type"`
	Required    bool        `json:"required"`
	Description string      `json:"description"`
	Enum        textList    `json:"enum"`
	Default     looseString `json:"default"`

	kind paramKind // kindUnset until it was learned
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
func (s *skill) acts() []concept { return s.known().acts }

func (s *skill) findActs() []concept {
	for _, w := range strings.Split(s.action(), "_") {
		if a := actsOf(stem(w)); len(a) > 0 {
			return a
		}
	}
	if f := s.lore.tokens; len(f) > 0 {
		return actsOf(f[0].stem)
	}
	return nil
}

// does returns all that the skill does: acts, and the verbs that its
// description names beside the first, as in "change an event, or delete it".
func (s *skill) does() []concept { return s.known().does }

func (s *skill) findDeeds() []concept {
	out := slices.Clone(s.lore.acts)
	tokens := s.lore.tokens
	for i, t := range tokens {
		if t.kind != word || !verbs[t.low] {
			continue
		}
		if i == 0 || tokens[i-1].is("or") || i > 1 && tokens[i-1].is(",") {
			out = append(out, actsOf(t.stem)...)
		}
	}
	return out
}

// saysVerb reports whether the verb is the skill's action, or one that changes or
// removes and that the description names as what the skill does.
func (s *skill) saysVerb(head *token) bool {
	acts := actsOf(head.stem)
	if head.low == s.action() && !plainActs[head.low] {
		return true
	}
	if plainActs[head.low] || !slices.Contains(acts, doUpdate) && !slices.Contains(acts, doRemove) {
		return false
	}
	tokens := s.known().tokens
	for i := range tokens {
		if tokens[i].stem == head.stem && (i == 0 || tokens[i-1].is("or", ",")) {
			return true
		}
	}
	return false
}

// searches reports whether the skill finds things of its domain by what is
// known of them.
func (s *skill) searches() bool {
	needs := slices.ContainsFunc(s.Parameters, func(p param) bool { return p.Required && kindOf(&p) != kindQuery })
	return s.reads() && slices.Contains(s.acts(), doSearch) && !needs &&
		!slices.ContainsFunc(s.Parameters, func(p param) bool { return isID(p.Name) })
}

// sends reports whether the skill writes a message to somebody.
func (s *skill) sends() bool {
	has := func(k paramKind) bool {
		return slices.ContainsFunc(s.Parameters, func(p param) bool { return kindOf(&p) == k })
	}
	return slices.Contains(s.acts(), doSend) || has(kindAddress) && has(kindBody) && !has(kindTime) && !s.reads()
}

// identifier returns the parameter that says which one thing the skill works
// on, or nil.
func (s *skill) identifier() *param {
	i := slices.IndexFunc(s.Parameters, func(p param) bool { return p.Required && isID(p.Name) })
	if i < 0 {
		return nil
	}
	return &s.Parameters[i]
}

// place returns the parameter that says where the thing is that the skill works
// on, or nil.
func (s *skill) place() *param {
	i := slices.IndexFunc(s.Parameters, func(p param) bool { return p.Required && kindOf(&p) == kindPath })
	if i < 0 {
		return nil
	}
	return &s.Parameters[i]
}

// knows reports whether the skill looks things up in documents.
func (s *skill) knows() bool { return s.known().knows }

func (s *skill) findKnowledge() bool {
	return s.reads() && slices.ContainsFunc(tokenize(strings.NewReplacer(".", " ", "_", " ").Replace(s.Name)+" "+s.Description), func(t token) bool {
		return t.kind == word && t.is("knowledge", "documentation", "docs", "manual", "faq")
	})
}

func (s *skill) searchable() bool {
	return slices.ContainsFunc(s.Parameters, func(p param) bool { return kindOf(&p) == kindQuery })
}

// kinds are the words for what the skill works on: those of its domain, and the
// object of its description, as "notes" in "Find notes of the vault".
func (s *skill) kinds() []concept { return s.known().kinds }

func (s *skill) findKinds() []concept {
	words := strings.Split(s.domain(), "_")
	for i, t := range s.lore.tokens {
		if i > 0 && (t.kind != word || prepositions[t.low]) {
			break
		}
		if i > 0 && !determiners[t.low] && !stopWords[t.low] {
			words = append(words, t.low)
		}
	}
	var out []concept
	for _, w := range words {
		out = append(append(out, stem(w)), thingsOf(stem(w))...)
	}
	return out
}

// takesContent reports whether the skill has a parameter for a longer text.
func takesContent(s *skill) bool {
	return slices.ContainsFunc(s.Parameters, func(p param) bool { return kindOf(&p) == kindBody })
}
