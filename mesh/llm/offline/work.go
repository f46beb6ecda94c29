package offline

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
)

// A work is a plan that is carried out with skills. What was done of it shows in
// the calls of the turn.
type work struct {
	t       *turn
	jobs    []*job
	ended   map[*step]*call  // what came of the steps
	foreign []call           // which no step of the plan is
	stuck   map[*step]string // why a step cannot be taken
	which   string           // what the user is asked about the step, if nothing else is to be done
}

// planWork replies for an agent that uses skills: it plans, uses one after the
// other, and then answers.
func planWork(t *turn) reply {
	if r, ok := t.chat(); ok {
		return r
	}
	r, _ := t.work()
	return r
}

// work replies with the next call, or with what came of all; the work is nil where there is
// none.
func (t *turn) work() (reply, *work) {
	jobs, r, ok := t.jobs()
	if !ok {
		return r, nil
	}
	w := &work{t: t, jobs: jobs, ended: map[*step]*call{}, stuck: map[*step]string{}}
	for _, c := range t.calls {
		if c.done && c.skill != "" && c.cause != mesh.CauseLimit && c.cause != mesh.CauseWaiting {
			w.settle(c)
		}
	}
	for _, j := range w.jobs {
		if s := w.next(j); s != nil && !t.final {
			return reply{calls: []toolCall{t.uses(s)}}, w
		}
	}
	if w.which != "" && !t.final && !w.changed() {
		return reply{text: w.which, ask: true}, w
	}
	r = w.report()
	r.declined = t.ended && t.serves && slices.ContainsFunc(w.all(), func(s *step) bool { return !w.did(s) })
	if t.serves && slices.ContainsFunc(w.all(), func(s *step) bool { return s.part == partForModel }) {
		r.failed = mesh.ReasonNeedsModel
	}
	return r, w
}

// jobs returns what is to be done, or the reply that says why nothing is.
func (t *turn) jobs() ([]*job, reply, bool) {
	if missing := t.known(t.steps); missing != "" {
		return nil, say("I have no skill %s.", missing), false
	}
	if len(t.steps) > 0 {
		return []*job{{id: "-", words: t.text, steps: t.steps}}, reply{}, true
	}
	r := reader{skills: t.skills, now: t.now, taken: t.taken}
	p := r.resolve(t.text, t.answers)
	if reply, ok := t.settled(p); ok {
		return nil, reply, false
	}
	return p.jobs, reply{}, true
}

// settled returns the reply of a plan that is not carried out, or not yet.
func (t *turn) settled(p *plan) (reply, bool) {
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
		return say("I did not understand %s.%s %s", listed(said), hint, t.can()), true
	case len(p.jobs) == 0:
		return say("I did not understand %s. %s", quoteShort(t.text), t.can()), true
	case q != nil && p.again && q.param == "":
		return reply{text: "Please answer with yes or no.\n\n" + q.ask, ask: true}, true
	case q != nil && p.again:
		return reply{text: "I did not understand that. " + q.ask, ask: true}, true
	case q != nil:
		return reply{text: q.ask, ask: true}, true
	}
	return reply{}, false
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
	for _, j := range w.jobs {
		for _, s := range j.steps {
			if s.Skill == c.skill && w.ended[s] == nil {
				j.prepare(w, s)
				w.ended[s] = &c
				w.expand(j, s, &c)
				return
			}
		}
	}
	w.foreign = append(w.foreign, c)
}

func (w *work) did(s *step) bool { c := w.ended[s]; return c != nil && !c.failed }

// next returns the step of the job to take next, or nil.
func (w *work) next(j *job) *step {
	for _, e := range w.jobs {
		if slices.Contains(j.needs, e.id) && slices.ContainsFunc(e.steps, func(s *step) bool { return !w.did(s) }) {
			return nil
		}
	}
	for _, s := range j.steps {
		switch c := w.ended[s]; {
		case c == nil && j.prepare(w, s):
			return s
		case c == nil || c.failed:
			return nil
		}
	}
	return nil
}

// prepare fills in what the step takes from results, and reports whether it can
// be taken.
func (j *job) prepare(w *work, s *step) bool {
	if s.Take == "" || s.Arguments[s.Take] != nil {
		return true
	}
	before := w.ended[j.steps[max(slices.Index(j.steps, s)-1, 0)]]
	if p := s.skill.named(s.Take); p != nil && p.kind == kindID {
		return before != nil && !before.failed && s.choose(w, before)
	}
	var found []string
	if before != nil && len(s.From) == 0 {
		found = append(found, before.result)
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
	if text != "" {
		s.Arguments[s.Take] = text
		s.derive()
	}
	return text != ""
}

// choose takes the id of the only thing found whose name has the words.
func (s *step) choose(w *work, before *call) bool {
	var data struct {
		Count int
		Found []struct{ ID, Name string }
	}
	_ = json.Unmarshal([]byte(before.metadata), &data) // what cannot be read has found nothing
	var ids []string
	for _, f := range data.Found {
		name := tokenize(strings.Map(func(r rune) rune { // quotes in it say nothing
			if _, ok := quotePairs[r]; ok && r != '\'' && r != '’' {
				return ' '
			}
			return r
		}, f.Name))
		if !slices.ContainsFunc(tokenize(s.Of), func(t token) bool {
			return t.kind == word && !slices.ContainsFunc(name, func(n token) bool { return n.stem == t.stem })
		}) {
			ids = append(ids, f.ID)
		}
	}
	switch {
	case len(ids) == 0 && data.Count <= len(data.Found):
		w.stuck[s] = "I found nothing that is called “" + s.Of + "”, so I did not use " + s.Skill + "."
	case len(ids) == 1 && data.Count <= len(data.Found): // no other page has one
		s.Arguments[s.Take] = ids[0]
		return true
	default:
		w.stuck[s] = "Several are called “" + s.Of + "”, so I did not use " + s.Skill + "."
		w.which = "Which one is meant with “" + s.Of + "”? Please say its id.\n\n" + before.result
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
			if w.ended[s] != nil || w.stuck[s] != "" {
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
		c := w.ended[s]
		switch used := i+1 < len(j.steps) && w.did(j.steps[i+1]) && j.steps[i+1].part != partStep; {
		case s.part == partPage: // what came of its steps is what came of it
		case w.stuck[s] != "":
			lines = append(lines, w.stuck[s])
		case c != nil && !used:
			lines = append(lines, outcomeOf(s.Skill, c))
		}
		if i > 0 && w.did(s) && s.Of == "" && s.part != partStep {
			lines = append(lines, "It is based on this:\n"+w.ended[j.steps[i-1]].result)
		}
	}
	return strings.Join(lines, "\n\n")
}

// outcomeOf tells what came of one call.
func outcomeOf(name string, c *call) string {
	if c.failed {
		return "I could not use " + name + ": " + sentence(c.result)
	}
	if found := llm.PassagesOf(c.metadata); len(found) > 0 {
		return cited(found)
	}
	return cmp.Or(c.result, "Done: "+name+".")
}

// cited shows passages of documents, each with its title and its number, of which the loop makes
// the sources.
func cited(found []llm.Passage) string {
	var all []string
	for _, p := range found {
		title := p.Document
		if p.Section != "" {
			title += " > " + p.Section
		}
		all = append(all, fmt.Sprintf("%s [%d]\n\n> %s", unmarked.Replace(title), p.Number, strings.ReplaceAll(p.Text, "\n", "\n> ")))
	}
	return strings.Join(all, "\n\n")
}

// unmarked takes out of a title what the loop or a reader could take for a source, or for code.
var unmarked = strings.NewReplacer("[", "(", "]", ")", "`", "'", "\n", " ", "\r", " ")
