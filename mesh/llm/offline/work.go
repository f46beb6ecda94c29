package offline

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
)

// maxTries is how often a call is corrected and made again, and maxBatch how
// many commands one reply has.
const (
	maxTries = 3
	maxBatch = 8
)

// A work is a plan that is carried out with skills. What was done of it shows in
// the calls of the turn.
type work struct {
	t       *turn
	jobs    []*job
	tries   map[*step][]call
	stuck   map[*step]string // why the step cannot be taken
	which   string           // a question that came up: which of several things is meant
	foreign []call           // what was done that is not in the plan
}

// planWork replies for an agent that uses skills: it finds out about them if it
// has to, plans, uses one after the other, and then answers.
func planWork(t *turn) reply {
	if r, ok := t.chat(); ok {
		return r
	}
	known, ask, refused := t.discover()
	switch {
	case len(ask) > 0 && !t.final:
		return t.perform(ask)
	case refused != "":
		return say("I cannot find out which skills there are, so I cannot do this: %s", sentence(clip(squeeze(strings.TrimPrefix(refused, "Error: ")), 200)))
	}
	jobs, r, ok := t.jobs(known)
	if !ok {
		return r
	}
	w := &work{t: t, jobs: jobs, tries: map[*step][]call{}, stuck: map[*step]string{}}
	for _, c := range t.calls {
		if c.done && c.skill != "" && !onLimit(c.result) {
			w.settle(c)
		}
	}
	if batch := w.batch(); len(batch) > 0 && !t.final {
		var deeds []deed
		for _, s := range batch {
			deeds = append(deeds, deed{skill: s.Skill, args: s.Arguments})
		}
		return t.perform(deeds)
	}
	if w.which != "" && !t.final && !w.changed() {
		return reply{text: w.which, ask: true}
	}
	r = w.report()
	r.declined = t.ended && t.dispatched && slices.ContainsFunc(w.all(), func(s *step) bool { return !w.did(s) })
	return r
}

// jobs returns what is to be done, or the reply that says why nothing is.
func (t *turn) jobs(known []skill) ([]*job, reply, bool) {
	r := reader{skills: known, now: t.now, taken: t.takenIDs(), sole: len(known) == 1}
	if t.steps != nil {
		j := &job{id: "-", words: t.text, steps: t.steps}
		for _, s := range t.steps {
			i := slices.IndexFunc(known, func(k skill) bool { return k.Name == s.Skill })
			if i < 0 {
				return nil, say("I have no skill %s.", s.Skill), false
			}
			s.skill = &known[i]
			if s.Arguments == nil {
				s.Arguments = map[string]any{}
			}
		}
		return []*job{j}, reply{}, true
	}
	p := r.resolve(t.text, t.answers)
	if reply, ok := t.settled(p, known); ok {
		return nil, reply, false
	}
	return p.jobs, reply{}, true
}

// settled returns the reply of a plan that is not carried out, or not yet.
func (t *turn) settled(p *plan, known []skill) (reply, bool) {
	q := p.question()
	switch {
	case p.tooMany:
		return say("This request asks for more than %d things; please send them in several messages.", maxParts), true
	case p.declined:
		return say("All right, I did nothing."), true
	case len(p.left) > 0:
		var said []string
		for _, l := range p.left[:min(len(p.left), 5)] {
			said = append(said, quoteShort(l))
		}
		hint := ""
		if len(p.jobs) > 0 {
			hint = " So I did nothing at all. Say it in other words, or put what is to be written down in quotes."
		}
		return say("I did not understand %s.%s %s", listed(said), hint, t.offers(known)), true
	case len(p.jobs) == 0 && t.text == "":
		return say("I did nothing more."), true
	case len(p.jobs) == 0:
		return say("I did not understand %s. %s", quoteShort(t.text), t.offers(known)), true
	case q != nil && p.again && q.param == "":
		return reply{text: "Please answer with yes or no.\n\n" + q.ask, ask: true}, true
	case q != nil && p.again:
		return reply{text: "I did not understand that. " + q.ask, ask: true}, true
	case q != nil:
		return reply{text: q.ask, ask: true}, true
	}
	return reply{}, false
}

// takenIDs are the ids of agents that were dispatched before in the conversation.
func (t *turn) takenIDs() map[string]bool {
	out := map[string]bool{}
	for _, u := range t.earlier {
		var args struct {
			ID string `json:"agent_id"`
		}
		if u.Name == toolDispatch && json.Unmarshal([]byte(u.Arguments), &args) == nil {
			out[args.ID] = true
		}
	}
	return out
}

func (w *work) all() []*step {
	var out []*step
	for _, j := range w.jobs {
		out = append(out, j.steps...)
	}
	return out
}

// settle notes what came of a call.
func (w *work) settle(c call) {
	for _, s := range w.all() {
		if s.Skill == c.skill && !w.did(s) && !w.failed(s) {
			w.jobOf(s).prepare(w, s)
			w.tries[s] = append(w.tries[s], c)
			if missing := wanting(c.result); c.failed && missing != "" && len(w.tries[s]) < maxTries {
				s.correct(missing)
			}
			return
		}
	}
	w.foreign = append(w.foreign, c)
}

// correct adds an argument that a skill says it wants, if what is known has it.
func (s *step) correct(missing string) {
	if p := s.skill.named(missing); p != nil && p.kind == kindTitle {
		p := *p
		p.Required = true
		if body := s.skill.first(kindBody); body != nil && s.Arguments[p.Name] == nil && firstLine(s.Arguments[body.Name]) != "" {
			s.Arguments[p.Name] = clip(firstLine(s.Arguments[body.Name]), 60)
		}
	}
}

func (w *work) last(s *step) *call {
	if n := len(w.tries[s]); n > 0 {
		return &w.tries[s][n-1]
	}
	return nil
}

func (w *work) did(s *step) bool { c := w.last(s); return c != nil && !c.failed }

// failed reports whether the step is given up: its call failed, and no argument
// was added since.
func (w *work) failed(s *step) bool {
	c := w.last(s)
	if c == nil || !c.failed {
		return false
	}
	missing := wanting(c.result)
	return missing == "" || s.Arguments[missing] == nil || len(w.tries[s]) >= maxTries || slices.ContainsFunc(w.tries[s][:len(w.tries[s])-1], func(before call) bool { return before.result == c.result })
}

func (w *work) jobOf(s *step) *job {
	i := slices.IndexFunc(w.jobs, func(j *job) bool { return slices.Contains(j.steps, s) })
	return w.jobs[i]
}

// next returns the step of the job to take next, or nil.
func (w *work) next(j *job) *step {
	for _, id := range j.needs {
		i := slices.IndexFunc(w.jobs, func(e *job) bool { return e.id == id })
		if i >= 0 && slices.ContainsFunc(w.jobs[i].steps, func(s *step) bool { return !w.did(s) }) {
			return nil
		}
	}
	for _, s := range j.steps {
		if !w.did(s) {
			if w.failed(s) || !j.prepare(w, s) {
				return nil
			}
			return s
		}
	}
	return nil
}

// batch returns the steps to take next. It is one step, or, where skills are
// called by commands, several that do not need each other. What reads stands
// alone in its reply: its result may look like the result of another command.
func (w *work) batch() []*step {
	var out []*step
	for _, j := range w.jobs {
		s := w.next(j)
		if s == nil {
			continue
		}
		if len(out) > 0 && (w.t.face != byCommand || s.skill.reads() || len(out) == maxBatch) {
			break
		}
		if out = append(out, s); s.skill.reads() {
			break
		}
	}
	return out
}

// prepare fills in what the step takes from results, and reports whether it can
// be taken.
func (j *job) prepare(w *work, s *step) bool {
	if s.Take == "" || s.Arguments[s.Take] != nil {
		return true
	}
	var found []string
	if at := slices.Index(j.steps, s); at > 0 && len(s.From) == 0 {
		if c := w.last(j.steps[at-1]); c != nil {
			found = append(found, c.result)
		}
	}
	for _, id := range s.From {
		if text, ok := w.t.results[id]; ok {
			found = append(found, text)
		}
		for _, e := range w.jobs {
			if e.id == id {
				found = append(found, w.outcome(e))
			}
		}
	}
	text := strings.TrimSpace(strings.Join(found, "\n\n"))
	p := s.skill.named(s.Take)
	if p == nil || p.kind != kindID {
		if text != "" {
			s.Arguments[s.Take] = text
			s.derive()
		}
		return text != ""
	}
	ids := idsFor(text, s.Of)
	if m := idExample.FindStringSubmatch(p.Description); m != nil {
		ids = slices.DeleteFunc(ids, func(id string) bool { return !strings.HasPrefix(id, m[1]) })
	}
	what := cmp.Or(s.Of, "that")
	switch {
	case text == "":
		return false
	case len(ids) == 1:
		s.Arguments[s.Take] = ids[0]
		return true
	case len(ids) == 0:
		w.stuck[s] = "I found nothing that is called “" + what + "”, so I did not use " + s.Skill + "."
	default:
		w.stuck[s] = "Several are called “" + what + "”, so I did not use " + s.Skill + "."
		w.which = "Which one is meant with “" + what + "”? Please say its id.\n\n" + text
	}
	return false
}

// changed reports whether something that has an effect was done.
func (w *work) changed() bool {
	return slices.ContainsFunc(w.all(), func(s *step) bool { return w.did(s) && !s.skill.reads() }) || len(w.foreign) > 0
}

// report tells what the work came to.
func (w *work) report() reply {
	var lines, rest []string
	for _, c := range w.foreign {
		lines = append(lines, outcomeOf(c.skill, &c))
	}
	for _, j := range w.jobs {
		if said := w.outcome(j); said != "" {
			lines = append(lines, said)
		}
		for _, s := range j.steps {
			if w.did(s) || w.failed(s) || w.stuck[s] != "" {
				continue
			}
			name := s.Skill
			if len(w.jobs) > 1 {
				name += " (" + quoteShort(j.words) + ")"
			}
			rest = append(rest, name)
		}
	}
	if len(rest) > 0 {
		lines = append(lines, "I did not get to "+listed(rest)+".")
	}
	return reply{text: strings.Join(lines, "\n\n")}
}

// outcome tells what came of one job.
func (w *work) outcome(j *job) string {
	var lines []string
	for i, s := range j.steps {
		c := w.last(s)
		used := i+1 < len(j.steps) && w.did(j.steps[i+1])
		switch {
		case w.stuck[s] != "":
			lines = append(lines, w.stuck[s])
		case c == nil || used:
		default:
			lines = append(lines, outcomeOf(s.Skill, c))
		}
		if i > 0 && w.did(s) && s.Of == "" {
			lines = append(lines, "It is based on this:\n"+w.last(j.steps[i-1]).result)
		}
	}
	return strings.Join(lines, "\n\n")
}

// outcomeOf tells what came of one call.
func outcomeOf(name string, c *call) string {
	if c.failed {
		return "I could not use " + name + ": " + sentence(strings.TrimPrefix(c.result, "Error: "))
	}
	return cmp.Or(c.result, "Done: "+name+".")
}
