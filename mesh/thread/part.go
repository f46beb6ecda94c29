package thread

import (
	"cmp"
	"slices"

	"agentmesh/mesh"
)

// A Part is what may be read of a thread under a grant: all of it with
// [mesh.CapReadThread], and else what its agent was told and did itself, here the own part.
// That has
//
//   - the grant's execution with all below it, how it was dispatched and how it ended;
//   - all executions of the agent that have or had the stream of a turn, likewise, with the
//     user's messages that went to them, what the turn said meanwhile, and what dropped
//     the agent's notes;
//   - of what is above these no more than that it began, without which nobody can fold the
//     rest.
//
// The own part grows at its end, and besides only where [Part.Widens] says so. A Part is good
// until its State changes.
type Part struct {
	s *State
	g *mesh.Grant
}

// Part returns what may be read under the grant; nil is for who has none, and reads all.
func (s *State) Part(g *mesh.Grant) Part { return Part{s, g} }

// Has reports whether all about the execution is in the part.
func (p Part) Has(id mesh.ExecutionID) bool {
	if p.g.ReadsAll() {
		return true
	}
	for x := range p.s.Up(id) {
		if x.ID == p.g.Execution || x.Agent == p.g.Agent && p.s.Turn(x.Parent) != nil {
			return true
		}
	}
	return false
}

// HandedOver reports whether the handoff that is active or was last is in the part: the own
// one has those to its agent.
func (p Part) HandedOver() bool {
	return p.g.ReadsAll() || p.s.Handoff != nil && p.s.Handoff.To == p.g.Agent
}

// Show returns the event as it is in the part, or nil if it is not. The State must have it.
func (p Part) Show(e *mesh.Event) *mesh.Event {
	if p.Has(e.Execution) {
		return e
	}
	t := p.s.Turn(e.Execution)
	switch b := e.Body.(type) {
	case mesh.DispatchSettled:
		if p.Has(b.Child) {
			return e
		}
	case mesh.DispatchAccepted:
		return p.dispatch(e, b.Child, mesh.DispatchAccepted{Child: bare(b.Child)})
	case mesh.DispatchIssued:
		return p.dispatch(e, b.Child, mesh.DispatchIssued{Child: bare(b.Child)})
	case mesh.TaskOpened:
		return p.opening(e, t)
	case mesh.MessagePosted:
		if t != nil && p.received(t, e.Seq) {
			return e
		}
	case mesh.StateNoted:
		if t != nil && b.Agent == p.g.Agent {
			return e
		}
	case mesh.HandoffEnded:
		if p.had(t, e.Seq) {
			return e
		}
		if b.Dropped == p.g.Agent { // in whosever turn
			return with(e, "", b)
		}
	case mesh.TaskMoved, mesh.LimitTripped, mesh.CancelRequested:
		if p.had(t, e.Seq) {
			return e
		}
	}
	return nil
}

// Widens reports whether by the event what came before it becomes part: an execution of the
// agent, another one than the grant's, gets the stream of a turn.
func (p Part) Widens(e *mesh.Event) bool {
	b, ok := e.Body.(mesh.DispatchIssued)
	return ok && !p.g.ReadsAll() && b.Child.Agent == p.g.Agent && b.Child.ID != p.g.Execution && p.s.Turn(e.Execution) != nil
}

// dispatch is the event that dispatched the child: for one above, as the body.
func (p Part) dispatch(e *mesh.Event, child mesh.Execution, body mesh.Body) *mesh.Event {
	switch {
	case p.Has(child.ID):
		return e
	case p.s.below(p.g.Execution, child.ID):
		return with(e, e.Execution, body)
	}
	return nil
}

// opening is the event that opened the turn: whole where the agent was the first to be asked.
func (p Part) opening(e *mesh.Event, t *Execution) *mesh.Event {
	switch {
	case t == nil:
		return nil
	case len(t.Legs) > 0 && t.Legs[0].Agent == p.g.Agent:
		return e
	case p.s.below(p.g.Execution, t.ID), slices.ContainsFunc(t.Legs, p.own):
		return with(e, e.Execution, mesh.TaskOpened{Execution: bare(t.Execution)})
	}
	return nil
}

func (p Part) own(l Leg) bool { return l.Agent == p.g.Agent }

// received reports whether the user's message went to the agent, or waits to do so.
func (p Part) received(t *Execution, at mesh.Seq) bool {
	if at > t.Delivered && slices.Contains(t.Posts, at) {
		return p.s.Holder(t) == p.g.Agent
	}
	return slices.ContainsFunc(t.Legs, func(l Leg) bool {
		return p.own(l) && slices.Contains(p.s.execs[l.Execution].Got, at)
	})
}

// had reports whether the agent had the stream of the turn, which may be nil, until the Seq.
func (p Part) had(t *Execution, at mesh.Seq) bool {
	return t != nil && slices.ContainsFunc(t.Legs, func(l Leg) bool { return p.own(l) && l.From < at && (l.To == 0 || at <= l.To) })
}

// bare is what is shown of an execution above: that it is there.
func bare(x mesh.Execution) mesh.Execution {
	return mesh.Execution{ID: x.ID, Parent: x.Parent, Kind: x.Kind, Agent: x.Agent, User: x.User}
}

func with(e *mesh.Event, about mesh.ExecutionID, body mesh.Body) *mesh.Event {
	c := *e
	c.Execution, c.Body, c.Size = about, body, 0
	return &c
}

// Within narrows a range of events, with Seqs above after and up to last, to where those are
// that may be in the part: none is outside, and inside at most [apart] are between two of them.
func (p Part) Within(after, last mesh.Seq) (from, to mesh.Seq) {
	if p.g.ReadsAll() {
		return after, last
	}
	from, to = last, after
	for _, r := range []*stretches{p.s.talks[p.g.Agent], p.s.parts[p.g.Execution]} {
		if f, t := r.within(after, last); f < t {
			from, to = min(from, f), max(to, t)
		}
	}
	return from, max(from, to)
}

// apart is how far events are from each other, at most, that are in one stretch.
const apart = 256

// stretches are where in a thread events are of some kind: in order, each from the first one
// of it to its last. There is one more only where none was for long.
type stretches []stretch

type stretch struct{ from, to mesh.Seq }

// add notes that such an event is there. It may be called on nil.
func (r *stretches) add(at mesh.Seq) {
	if r == nil {
		return
	}
	i := r.search(at - apart)
	if i < len(*r) && (*r)[i].from <= at+apart {
		(*r)[i].from, (*r)[i].to = min((*r)[i].from, at), max((*r)[i].to, at)
		return
	}
	*r = slices.Insert(*r, i, stretch{at, at})
}

// search returns the first stretch that ends there or later.
func (r *stretches) search(at mesh.Seq) int {
	i, _ := slices.BinarySearchFunc(*r, at, func(s stretch, at mesh.Seq) int { return cmp.Compare(s.to, at) })
	return i
}

// within is the range from the first to the last of the events that are within another one;
// where none is, it ends where it begins. It may be called on nil.
func (r *stretches) within(after, last mesh.Seq) (from, to mesh.Seq) {
	if r == nil {
		return after, after
	}
	i, j := r.search(after+1), r.search(last)
	if i == len(*r) {
		return after, after
	}
	if j == len(*r) || (*r)[j].from > last {
		j--
	}
	if j < i {
		return after, after
	}
	return max(after, (*r)[i].from-1), min(last, (*r)[j].to)
}

// enter notes where the execution is, which was accepted or dispatched: what has the stream
// of a turn shares its place with all that its agent had of turns.
func (s *State) enter(x *Execution) {
	if s.talks == nil {
		s.talks, s.parts = map[string]*stretches{}, map[mesh.ExecutionID]*stretches{}
	}
	part := s.parts[x.ID]
	if part == nil {
		part = new(stretches)
	}
	if t := s.Turn(x.Parent); t != nil {
		if s.talks[x.Agent] == nil {
			s.talks[x.Agent] = part
		}
		part = s.talks[x.Agent]
		s.parts[t.ID] = part
	}
	s.parts[x.ID] = part
	for above := range s.Up(x.ID) {
		part.add(above.Opened)
		if above.Issued > 0 {
			part.add(above.Issued)
		}
	}
	for _, at := range x.Got {
		part.add(at)
	}
}

// place notes of which parts the event may be.
func (s *State) place(e *mesh.Event) {
	for x := range s.Up(e.Execution) {
		s.parts[x.ID].add(e.Seq)
	}
	switch b := e.Body.(type) {
	case mesh.DispatchSettled:
		s.parts[b.Child].add(e.Seq)
	case mesh.StateNoted:
		s.talks[b.Agent].add(e.Seq)
	case mesh.HandoffEnded:
		s.talks[b.Dropped].add(e.Seq)
	}
}
