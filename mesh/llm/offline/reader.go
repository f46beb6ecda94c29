package offline

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// plan reads the request: every word of it, or nothing is done.
func (r *reader) plan(text string) *plan {
	p := &plan{now: r.now, reader: r}
	used := map[string]bool{}
	for id := range r.taken {
		used[id] = true
	}
	if at := quotedLine.FindString(text); at != "" { // what others wrote is not what is wanted
		p.left = []string{strings.TrimSpace(at)}
		return p
	}
	parts := split(text, r.begins)
	if p.tooMany = len(parts) > maxParts; p.tooMany {
		return p
	}
	for _, part := range parts {
		if part.smallTalk() {
			continue
		}
		j, left := r.job(part, p.jobs)
		if p.left = append(p.left, left...); len(left) > 0 {
			continue
		}
		for n := 1; j.id == "" || used[j.id]; n++ {
			j.id = fmt.Sprintf("%s-%d", j.last().skill.domain(), n)
		}
		used[j.id] = true
		for _, e := range p.jobs {
			if e.stage < j.stage && !slices.Contains(j.needs, e.id) {
				j.needs = append(j.needs, e.id)
			}
		}
		p.jobs = append(p.jobs, j)
	}
	return p
}

var quotedLine = regexp.MustCompile(`(?m)^[ \t]*>.*$`)

// maxClause is how many words one thing to do may take to say.
const maxClause = 400

// begins reports whether the clause certainly is another thing to do.
func (r *reader) begins(c clause) bool {
	c.toks = c.toks[:min(len(c.toks), 14)]
	if c.question() {
		return slices.ContainsFunc(r.skills, func(s skill) bool { return s.reads() && s.about(c.toks) >= 4 })
	}
	verb := c.order()
	if verb == "" {
		return skillCall.MatchString(c.at(0).low)
	}
	if c.at(1).capital() && !nounVerbs[c.at(1).low] && slices.Contains(actsOf(verb), actSend) && !plainVerbs[verb] || c.at(1).in(pronouns) && actsOf(verb)[0] != actFind || c.at(1).kind == email || c.at(1).is("me") && verb == "remind" {
		return true
	}
	for i := range r.skills {
		s := &r.skills[i]
		if s.does(verb) == 0 {
			continue
		}
		if s.about(c.toks[1:]) >= 4 || s.act == actSend && slices.ContainsFunc(c.toks, func(t token) bool { return t.kind == email }) || s.action() == verb && !plainVerbs[verb] {
			return true
		}
	}
	return slices.Contains(actsOf(verb), actRemember) && c.at(1).is("that")
}

// idioms are other words for orders.
var idioms = [][2]string{
	{"keep in mind that", "remember that"}, {"keep in mind", "remember that"}, {"bear in mind that", "remember that"}, {"don't forget that", "remember that"},
	{"do not forget that", "remember that"}, {"for the record ,", "remember that"}, {"write down that", "remember that"}, {"jot down that", "remember that"},
	{"take a note that", "remember that"}, {"make a note that", "remember that"}, {"save to memory that", "remember that"}, {"add to your memory :", "remember that"},
	{"don't forget to", "remind me to"}, {"do not forget to", "remind me to"}, {"remember to", "remind me to"}, {"set a reminder to", "remind me to"},
	{"set up", "schedule"}, {"pencil in", "schedule"}, {"look up", "find"}, {"put away", "archive"}, {"push", "move"}, {"bump", "move"},
	{"stick", "put"}, {"pop", "put"}, {"shoot", "send"},
}

// plainly puts an idiom in plain words.
func plainly(c clause) clause {
	for _, m := range idioms {
		if n := c.begins(strings.Fields(m[0])); n > 0 {
			return newClause(m[1] + " " + c.from(n).all())
		}
	}
	return c
}

var skillCall = regexp.MustCompile(`^[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*$`)

// job reads one part. left are the words of it that were not understood.
func (r *reader) job(p part, before []*job) (*job, []string) {
	c := plainly(p.clause)
	if len(c.toks) > maxClause {
		return nil, []string{c.all()}
	}
	if j, left, ok := r.typed(p); ok {
		return j, left
	}
	f := r.best(c)
	if f == nil || f.verb == "" && len(f.missing) > 0 && len(f.args) == 0 {
		return nil, []string{p.all()}
	}
	if len(f.left) > 0 {
		return nil, f.left
	}
	j := &job{words: p.all(), stage: p.stage, form: f, slots: f.missing}
	s := &step{Skill: f.s.Name, Arguments: f.args, skill: f.s}
	j.steps = []*step{s}
	if target := f.s.target(); target != nil && f.take == target.Name {
		if left := r.locate(j, f, before); left != "" {
			return nil, []string{left}
		}
	} else if f.take != "" {
		if left := r.source(j, f, before); left != "" {
			return nil, []string{left}
		}
	}
	s.derive()
	return j, nil
}

// locate adds the step that finds the thing which the words are for.
func (r *reader) locate(j *job, f *form, before []*job) string {
	s := j.last()
	if f.of == "" {
		return ""
	}
	if f.of == "it" {
		for _, e := range slices.Backward(before) {
			if e.last().skill.domain() == f.s.domain() {
				if id := e.last().Arguments[f.take]; id != nil {
					s.Arguments[f.take] = id
					return ""
				}
			}
		}
		j.slots = append(j.slots, slot{param: f.take, kind: kindID, ask: f.question(f.s.target())})
		return ""
	}
	var finder *skill
	for i := range r.skills {
		e := &r.skills[i]
		needs := slices.ContainsFunc(e.Parameters, func(p param) bool { return p.Required && p.kind != kindQuery })
		if e.reads() && e.domain() == f.s.domain() && !needs && (finder == nil || finder.first(kindQuery) == nil) && e.first(kindID) == nil {
			finder = e
		}
	}
	if finder == nil {
		return f.c.all()
	}
	find := &step{Skill: finder.Name, Arguments: map[string]any{}, skill: finder}
	find.search(f.of)
	s.Take, s.Of, j.steps = f.take, f.of, []*step{find, s}
	return ""
}

// source finds what is to be sent: what an earlier job finds, or a step of its
// own does.
func (r *reader) source(j *job, f *form, before []*job) string {
	s, o := j.last(), f.object
	s.Take = f.take
	named := slices.ContainsFunc(o.toks, func(t token) bool { return !t.in(reportWords) && !t.in(determiners) && !t.in(glue) })
	if named && !o.starts("what you find", "what you found") {
		about := clause{o.text, slices.DeleteFunc(slices.Clone(o.toks), func(t token) bool { return t.in(reportWords) || t.is("of") })}
		src := r.among(about, "", func(s *skill) bool { return s.reads() && s.domain() != f.s.domain() && !s.answers() && !s.recalls() })
		if src == nil || len(src.left)+len(src.missing) > 0 || src.has(kindQuery) || src.has(kindPath) {
			return o.all()
		}
		if p := f.s.first(kindTitle); p != nil && p.Required && s.Arguments[p.Name] == nil {
			s.Arguments[p.Name] = capitalize(o.all())
		}
		j.steps = []*step{{Skill: src.s.Name, Arguments: src.args, skill: src.s}, s}
		return ""
	}
	var found []string
	for _, e := range before { // what was found last, or else all that was done
		if s.From = append(s.From, e.id); e.last().skill.reads() {
			found = []string{e.id}
		}
	}
	if found != nil {
		s.From = found
	}
	if len(s.From) == 0 {
		s.Take = ""
		j.slots = append(j.slots, slot{param: f.take, kind: kindBody, ask: f.question(f.s.named(f.take))})
		return ""
	}
	j.needs = slices.Clone(s.From)
	return ""
}

// best reads the clause for the skill that fits it best, or returns nil.
func (r *reader) best(c clause) *form {
	verb := c.order()
	switch {
	case c.explanation():
		if f := r.among(c, "", (*skill).answers); f != nil || verb == "" && !c.question() {
			return f
		}
	case verb == "" && !c.question():
		return nil
	}
	if verb == "tell" && c.at(1).is("me", "us") {
		verb = ""
	}
	if verb == "" {
		var f *form
		recalled := c.starts("what do you know", "what do you remember", "do you remember", "do you know", "what did i")
		if !recalled {
			f = r.among(c, "", func(s *skill) bool { return s.reads() && !s.answers() && !s.recalls() })
		}
		if f == nil && (recalled || c.personal()) {
			f = r.among(c, "", (*skill).recalls)
		}
		if f == nil {
			f = r.among(c, "", (*skill).answers)
		}
		return f
	}
	return r.among(c, verb, func(s *skill) bool {
		switch me := c.at(1).is("me", "us"); {
		case (verb == "remind" || verb == "tell") && !me:
			return s.act == actSend
		case verb == "remind":
			return s.act == actCreate && s.kinds["task"]
		}
		if s.act == actRemember && actsOf(verb)[0] != actRemember && !slices.ContainsFunc(c.toks, func(t token) bool { return t.is("that") || things[t.stem] == "memory" }) {
			return false
		}
		return s.does(verb) > 0
	})
}

// among reads the clause for each skill that may be meant, and returns the
// reading that leaves the least open.
func (r *reader) among(c clause, verb string, may func(*skill) bool) *form {
	var best *form
	most := 0
	for i := range r.skills {
		s := &r.skills[i]
		if !may(s) {
			continue
		}
		f := read(c, s, verb, r.now)
		about := s.about(c.toks[min(1, len(c.toks)):f.head()])
		if verb == "" {
			about = s.about(c.toks)
		}
		if about == 0 && !f.named(verb) && !(verb == "" && (s.answers() || s.recalls())) {
			continue
		}
		value := 100 + 2*s.does(verb) + min(about, 12) - 8*len(f.left) - 3*len(f.missing) + 2*len(f.args)
		if id := s.first(kindID); s.reads() && id != nil && f.args[id.Name] == nil {
			value -= 10 // it is for one thing that is known
		}
		if best == nil || value > most {
			best, most = f, value
		}
	}
	return best
}

// has reports whether the clause gives an argument of the kind.
func (f *form) has(k paramKind) bool {
	p := f.s.first(k)
	return p != nil && f.args[p.Name] != nil
}

// named reports whether the clause says what it is about without naming the
// kind of thing: by an address, an id, a place, or a verb that has no other use.
func (f *form) named(verb string) bool {
	for i := range f.s.Parameters {
		p := &f.s.Parameters[i]
		value, ok := f.args[p.Name].(string)
		switch given := f.args[p.Name] != nil; {
		case p.kind == kindID && ok && strings.Contains(value, "-"),
			p.kind == kindPath && ok && pathForm.MatchString(value) && f.s.kinds["file"],
			p.kind == kindAddress && f.s.act == actSend && verb != "" && (given || len(f.missing) > 0 && f.missing[0].kind == kindAddress),
			p.kind == kindChoice && given && f.s.act == actChange, p.kind == kindID && p.Required && f.of == "it":
			return true
		}
	}
	return f.s.action() == verb && !plainVerbs[verb] || verb == "remind" && f.s.kinds["task"] || f.s.act == actRemember && f.s.does(verb) > 0
}

// command is what is typed of a command, from the skill's name on; false if that is not what the
// clause begins with.
func (c clause) command() (clause, bool) {
	for c.at(0).is("please", "use", "run", "execute", "the", "skill", "call") && len(c.toks) > 1 {
		c = c.from(1)
	}
	return c, skillCall.MatchString(c.at(0).low)
}

// typed reads a command that the user typed: a skill's name, and flags. ok is
// false if the part begins with no skill's name; "use tasks.search to …" only
// names it.
func (r *reader) typed(p part) (j *job, left []string, ok bool) {
	c, ok := p.clause.command()
	if !ok {
		return nil, nil, false
	}
	at := slices.IndexFunc(r.skills, func(s skill) bool { return s.Name == c.at(0).low })
	before, flags, _ := strings.Cut(c.text[c.at(0).end:c.at(len(c.toks)-1).end], "--")
	if at < 0 || strings.TrimSpace(before) != "" {
		return nil, []string{p.all()}, true
	}
	f := newForm(c, &r.skills[at], "", r.now)
	for flag := range strings.SplitSeq(flags, " --") {
		name, value, _ := strings.Cut(strings.TrimSpace(flag), " ")
		param, words := f.s.named(strings.ReplaceAll(name, "-", "_"), name), tokenize(value)
		switch {
		case flags == "":
		case param == nil, len(words) == 0 && param.kind != kindFlag:
			return nil, []string{"--" + flag}, true
		case len(words) == 0:
			f.set(param, true)
		case param.Type == "array":
			for _, t := range words {
				if t.kind != punct {
					f.set(param, t.text)
				}
			}
		case len(words) == 1:
			f.set(param, words[0].text)
		default:
			f.set(param, strings.TrimSpace(value))
		}
	}
	f.require()
	return &job{words: p.all(), stage: p.stage, form: f, slots: f.missing, steps: []*step{{Skill: f.s.Name, Arguments: f.args, skill: f.s}}}, nil, true
}
