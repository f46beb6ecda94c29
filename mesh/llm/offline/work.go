package offline

import (
	"slices"
	"strings"
)

// A step is one use of a skill for one part of a request.
type step struct {
	part   int // in work.parts
	clause clause
	skill  *skill
	source bool    // the next step uses what this one reads
	target *skill  // the skill of the next step, if this one only finds its thing
	tries  []call  // in their order; the last one counts
	fill   *filler // the arguments of the last try, or of the next one
	state  state
}

type state uint8

const (
	open state = iota
	done
	failed
	stuck // something is missing that only a person knows
)

// maxTries is how often a call is corrected and made again.
const maxTries = 3

// maxBatch is how many commands one reply has.
const maxBatch = 8

// A work is a request that is carried out with skills. What was decided and
// done so far is found out by deciding again, reply for reply: the same history
// gives the same decisions, whatever the face.
type work struct {
	t       *turn
	find    *discovery
	cat     *catalog
	parts   []assignment
	steps   []*step
	unknown []part
	planned bool
	foreign []call // what was done that this planner did not decide
}

// planWork replies for an agent that uses skills: it finds out about them if it
// has to, uses one after the other, as later ones may need what earlier ones
// found, and then answers.
func planWork(t *turn) reply {
	if r, ok := chat(t); ok {
		return r
	}
	w := &work{t: t, find: discover(t)}
	for _, r := range t.rounds {
		w.settle(r)
	}
	deeds := w.next()
	switch {
	case len(w.parts)+len(w.unknown) > maxParts:
		return tooMany()
	case len(deeds) > 0 && !t.final:
		return t.perform(deeds)
	}
	r := w.report()
	if t.ended && t.dispatched && slices.ContainsFunc(w.steps, func(s *step) bool { return s.state != done }) {
		r.declined = true
	}
	if t.first && t.alone() {
		r.text = strings.TrimSpace(r.text + "\n\n" + notice)
	}
	return r
}

// next returns what to do next, or nothing.
func (w *work) next() []deed {
	if !w.planned {
		if deeds := w.find.next(); len(deeds) > 0 {
			return deeds
		}
		w.plan()
	}
	var out []deed
	for _, s := range w.batch() {
		out = append(out, deed{skill: s.skill.Name, args: s.fill.args})
	}
	return out
}

// settle takes in a reply of this turn and what came of it.
func (w *work) settle(r round) {
	deeds := w.next()
	ends, ok := w.t.outcomes(r, deeds)
	switch {
	case !ok:
		for _, c := range w.t.calls[r.from:r.to] {
			if c.done && c.skill() != "" {
				w.foreign = append(w.foreign, c)
			}
		}
	case !w.planned:
		w.find.settle(deeds, ends)
	default:
		for i, s := range w.batch() {
			s.settle(w, ends[i])
		}
	}
}

// plan turns the parts of the request into steps. An agent that was granted one
// skill is meant to use it, whatever the words.
func (w *work) plan() {
	w.planned = true
	w.cat = newCatalog(w.find.known)
	w.parts, w.unknown = assign(w.t, w.cat)
	if len(w.parts)+len(w.unknown) > maxParts {
		return
	}
	if len(w.parts) == 0 && len(w.t.listed) == 1 && len(w.cat.skills) == 1 && strings.TrimSpace(w.t.text) != "" && !forbids(newClause(w.t.text)) && !remark(newClause(w.t.text)) {
		w.parts, w.unknown = []assignment{{part: part{clause: newClause(w.t.text).trimmed()}, skills: w.cat.skills}}, nil
	}
	for n, a := range w.parts {
		skills := a.skills
		if len(skills) == 1 && len(w.t.inputs) == 0 && n == 0 {
			skills = append(w.cat.onlySource(a.clause, skills[0]), skills[0])
		}
		for i, s := range skills {
			next := &step{part: n, clause: newClause(capitalize(a.words())), skill: s, source: i < len(skills)-1}
			if next.source && s == w.cat.finder(skills[i+1]) {
				next.target = skills[i+1]
			}
			w.steps = append(w.steps, next)
		}
	}
}

// onlySource returns the one skill that was granted along with a skill that
// hands something over, and that can find it.
func (c *catalog) onlySource(cl clause, main *skill) []*skill {
	if len(c.skills) != 2 || main.reads() || !takesContent(main) || !carries(cl, main) {
		return nil
	}
	for _, s := range c.skills {
		if s != main && s.reads() && s.domain() != main.domain() {
			return []*skill{s}
		}
	}
	return nil
}

// batch returns the steps to take next, with their arguments. It is one step,
// or, where skills are called by commands, several that do not need each other.
// What reads stands alone in its reply: its result may look like anything, also
// like the result of another command.
func (w *work) batch() []*step {
	var out []*step
	for i, s := range w.steps {
		if s.state != open || w.barred(i) {
			continue
		}
		if len(out) > 0 && (w.t.face != byCommand || len(out) == maxBatch || s.skill.reads() || w.needs(s.part, out)) {
			break
		}
		if w.prepare(i); s.state == open {
			out = append(out, s)
			if s.skill.reads() {
				break
			}
		}
	}
	return out
}

// needs reports whether the part waits for one of the steps.
func (w *work) needs(part int, of []*step) bool {
	return slices.ContainsFunc(of, func(s *step) bool {
		return s.part == part || slices.Contains(w.parts[part].needs, w.parts[s.part].id)
	})
}

// barred reports whether the step cannot be taken because of what came of
// others that it needs.
func (w *work) barred(i int) bool {
	s := w.steps[i]
	return slices.ContainsFunc(w.steps[:i], func(e *step) bool {
		return e.state != done && w.needs(s.part, []*step{e})
	})
}

// prepare finds the arguments of the step, or out what is missing for it.
func (w *work) prepare(i int) {
	s := w.steps[i]
	f := &filler{
		cl: s.clause, skill: s.skill.corrected(s.tries), now: w.t.now, known: w.t.text + "\n" + w.t.notes,
		source: s.source, target: s.target,
	}
	if i > 0 && w.steps[i-1].source && w.steps[i-1].part == s.part {
		f.inputs = []string{w.steps[i-1].tries[len(w.steps[i-1].tries)-1].result}
	} else {
		f.inputs = slices.Clone(w.t.inputs)
		for n, p := range w.parts[:s.part] {
			if slices.Contains(w.parts[s.part].needs, p.id) {
				f.inputs = append(f.inputs, w.told(n))
			}
		}
	}
	f.fill()
	s.fill = f
	if len(f.missing) > 0 {
		s.state = stuck
	}
}

// settle takes in what came of the step's call. A call whose arguments were
// wrong is corrected, if the request says more than it used.
func (s *step) settle(w *work, end call) {
	if end.failed && atLimit(end.result) { // it was not made, and may be when there is room
		return
	}
	end.args = s.fill.args
	s.tries = append(s.tries, end)
	if !end.failed {
		s.state = done
		return
	}
	if len(s.tries) < maxTries && complaint(end.result) {
		before := encode(s.fill.args)
		if w.prepare(slices.Index(w.steps, s)); encode(s.fill.args) != before {
			return
		}
		if s.state == stuck {
			return
		}
	}
	s.state = failed
}

// atLimit reports whether a call was not made because a limit was met.
func atLimit(result string) bool {
	return strings.Contains(result, "The limit of skill calls ") && strings.Contains(result, " is reached (")
}
