package offline

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"agentmesh/mesh"
)

// A step is one use of a skill. Its JSON form is what an agent that delegates
// tells another one, which then need not read the request again.
type step struct {
	Skill     string         `json:"skill"`
	Arguments map[string]any `json:"arguments"`
	// Take is the argument that the result of the step before it fills, or those
	// of the jobs From; Of are the words for the thing whose id is taken.
	Take string   `json:"take,omitempty"`
	Of   string   `json:"of,omitempty"`
	From []string `json:"from,omitempty"`

	skill *skill
	part  pagePart
}

// A pagePart says what a step has to do with the page of a skill.
type pagePart uint8

const (
	partNone     pagePart = iota
	partPage              // its call brought the page, whose steps come after it
	partStep              // it is one of a page, and takes nothing of the one before it
	partForModel          // its call brought a page that is for a model to read
)

// A job is a part of a request with the steps that do it.
type job struct {
	id    string
	words string
	stage int
	steps []*step
	needs []string // ids of jobs that must be done first
	slots []slot   // what is missing, of the last step
	form  *form
}

func (j *job) last() *step { return j.steps[len(j.steps)-1] }

// A plan is what a request comes to, before anything of it is done.
type plan struct {
	jobs []*job
	// left are the words that were not understood. Nothing is done then.
	left     []string
	tooMany  bool
	agreed   bool // the user allowed what is to be sent or removed
	declined bool // the user wants nothing of it
	again    bool // what the user answered is no answer
	now      time.Time
	reader   *reader
}

// A reader makes plans with the skills that it knows.
type reader struct {
	skills []skill
	now    time.Time
	taken  map[string]bool // ids of jobs that there were before
}

// resolve plans the request. The answers are what the user said to the
// questions that came up, in their order: the first one belongs to the first
// question of the plan. What is no answer is a request of its own, if it is one.
func (r *reader) resolve(text string, answers []string) *plan {
	p := r.plan(text)
	for _, a := range answers {
		p.again = false
		switch q := p.question(); {
		case q != nil && leaves(a):
			p.declined = true
			return p
		case q != nil && p.accept(q, a), q == nil && p.narrow(a):
		default:
			if other := r.plan(a); len(other.jobs) > 0 && len(other.left) == 0 {
				p = other
			} else if p.again = true; q == nil {
				p = other
			}
		}
	}
	return p
}

// leaves reports whether the user wants nothing of what was asked about.
func leaves(answer string) bool {
	c := newClause(answer).trimmed()
	return mesh.AnswerOf(answer) == mesh.AnswerNo || c.starts("never mind", "nevermind", "forget it", "leave it", "drop it", "skip it", "no thanks", "cancel that", "neither", "none")
}

// question returns the first thing that the user has to say, or nil.
func (p *plan) question() *slot {
	if len(p.left) > 0 || p.tooMany {
		return nil
	}
	for _, j := range p.jobs {
		if len(j.slots) > 0 {
			return &j.slots[0]
		}
	}
	if about := p.effects(); len(about) > 0 && !p.agreed {
		ask := about[0] + "\n\nShall I do that?"
		if len(about) > 1 {
			ask = "- " + strings.Join(about, "\n- ") + "\n\nShall I do that?"
		}
		return &slot{ask: "I would do this:\n\n" + ask}
	}
	return nil
}

// effects tells of the steps that send or remove something, with all else that is
// to be done. Of skills about which the mesh asks before each call, it need not.
func (p *plan) effects() []string {
	var out []string
	asks := false
	for _, j := range p.jobs {
		for _, s := range j.steps {
			away := s.skill.takesAway()
			asks = asks || !s.skill.Asks && (s.skill.act == actSend || s.skill.act == actRemove || away != nil && s.Arguments[away.Name] != nil)
			out = append(out, s.describe())
		}
	}
	if !asks {
		return nil
	}
	return out
}

// describe says what the step does.
func (s *step) describe() string {
	var args []string
	for _, p := range s.skill.Parameters {
		switch v := s.Arguments[p.Name].(type) {
		case nil:
		case []string:
			args = append(args, p.Name+": "+strings.Join(v, ", "))
		default:
			args = append(args, fmt.Sprintf("%s: %v", p.Name, v))
		}
	}
	if s.Take != "" && s.Of != "" {
		args = append(args, s.Take+": of “"+s.Of+"”")
	} else if s.Take != "" {
		args = append(args, s.Take+": what is found")
	}
	return strings.TrimSuffix(s.Skill+" ("+strings.Join(args, "; ")+")", " ()")
}

// accept takes the answer to the question; false if it is none.
func (p *plan) accept(q *slot, answer string) bool {
	if q.param == "" {
		p.agreed = mesh.AnswerOf(answer) == mesh.AnswerYes
		return p.agreed
	}
	i := slices.IndexFunc(p.jobs, func(j *job) bool { return len(j.slots) > 0 })
	j := p.jobs[i]
	if f := p.labels(j, answer); f != nil {
		maps.Copy(j.last().Arguments, f.args)
		j.slots = slices.DeleteFunc(j.slots, func(s slot) bool { return f.args[s.param] != nil })
		j.last().derive()
		return true
	}
	var ok bool
	value := any(strings.TrimSpace(answer))
	switch q.kind {
	case kindAddress:
		var mails []string
		for _, t := range tokenize(answer) {
			if t.kind == email {
				mails = append(mails, t.text)
			} else if t.kind == word && !t.in(glue) && !t.is("is", "it", "it's", "his", "her", "their", "address", "e-mail", "email", "and") && !strings.Contains(q.ask, t.text) {
				return false
			}
		}
		had, _ := j.last().Arguments[q.param].([]string)
		value, ok = append(slices.Clone(had), mails...), len(mails) > 0
	case kindTime:
		var m moment
		if m, ok = q.answered(answer, p.now); ok {
			j.slots = j.slots[1:]
			j.form.missing = nil
			j.form.setTime(j.form.s.named(q.param), m)
			if v := j.form.args[q.param]; v != nil {
				j.last().Arguments[q.param] = v
			}
			j.slots = append(j.form.missing, j.slots...)
			return true
		}
	case kindID:
		return p.narrowed(j, answer)
	default:
		c := newClause(answer).trimmed()
		if ok = value != "" && mesh.AnswerOf(answer) != mesh.AnswerYes && !slices.ContainsFunc(c.toks, func(t token) bool { return t.in(limits) }); len(c.toks) == 1 && c.at(0).kind == quoted {
			value = c.at(0).text
		}
	}
	if ok {
		j.last().Arguments[q.param] = value
		j.slots = j.slots[1:]
		j.last().derive()
	}
	return ok
}

// labels reads an answer that names what it gives, as "subject X, text Y"; nil for
// others.
func (p *plan) labels(j *job, answer string) *form {
	c := newClause(answer).trimmed()
	for c.at(0).in(determiners) && len(c.toks) > 1 {
		c = c.from(1)
	}
	f := newForm(c, j.last().skill, "", p.now)
	if f.labelled(0) == nil {
		return nil
	}
	f.explicit()
	f.text()
	f.leftovers()
	if len(f.left) > 0 || len(f.args) == 0 {
		return nil
	}
	return f
}

// narrow takes an answer to which of several things is meant, which was only
// found out while the plan was carried out.
func (p *plan) narrow(answer string) bool {
	return slices.ContainsFunc(p.jobs, func(j *job) bool {
		t := j.last().skill.target()
		return t != nil && j.last().Take == t.Name && p.narrowed(j, answer)
	})
}

func (p *plan) narrowed(j *job, answer string) bool {
	c, s := newClause(answer).trimmed(), j.last()
	if c.order() != "" || c.question() || len(c.toks) > 12 {
		return false
	}
	f := newForm(newClause("id "+c.all()), s.skill, "", p.now)
	f.references()
	if target := s.skill.target(); f.args[target.Name] != nil {
		s.Arguments[target.Name], s.Take, s.Of, s.From = f.args[target.Name], "", "", nil
		j.steps = j.steps[len(j.steps)-1:]
	} else {
		f = read(c, s.skill, "", p.now)
		if f.of, f.take = nameOf(c, f), target.Name; f.of == "" {
			return false
		}
		j.steps = j.steps[len(j.steps)-1:]
		if p.reader.locate(j, f, nil) != "" {
			return false
		}
	}
	if len(j.slots) > 0 {
		j.slots = j.slots[1:]
	}
	return true
}

// nameOf are the words of the answer that name a thing.
func nameOf(c clause, f *form) string {
	var words []string
	for i := range c.toks {
		if t := c.at(i); t.in(limits) || t.in(negations) || t.in(ordinals) {
			return ""
		} else if t.kind != punct && !t.in(glue) && !t.in(determiners) && !t.in(pronouns) && !t.in(prepositions) && !f.isThing(t) {
			words = append(words, t.text)
		}
	}
	return strings.Join(words, " ")
}

func (s *step) search(words string) {
	if q := s.skill.first(kindQuery); q != nil {
		s.Arguments[q.Name] = words
	}
}

// derive makes a title of the text where one is required.
func (s *step) derive() {
	title, body := s.skill.first(kindTitle), s.skill.first(kindBody)
	if title == nil || body == nil || !title.Required || s.Arguments[title.Name] != nil {
		return
	}
	if text := firstLine(s.Arguments[body.Name]); text != "" {
		s.Arguments[title.Name] = clip(text, 60)
	}
}
