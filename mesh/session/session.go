// Package session is the state machine of agents that work with a user step by step.
//
// An agent has a [Machine] of its steps. A [Session] is where one stands: the step, what it
// waits for, and the agent's draft. What a message means, the agent says, by rules or by a
// model, as an [Input]; the machine says what follows from it, as a [Move], and the agent
// does that. The machine never reads words.
//
// It guarantees that
//   - nothing goes into the draft but what is meant as an answer: words for somebody else,
//     another workflow and what nobody can tell lead elsewhere;
//   - from every state each input leads to a legal one ([Machine.Check]);
//   - a step asks again at most [MaxClarifications] times because it did not understand,
//     and the session is then left, kept;
//   - who leaves, at whichever step, finds the draft as it was.
//
// The package is pure: no clock, no I/O, no randomness. Sessions are values, and what they
// share is never changed, if drafts hold to that.
package session

import (
	"bytes"
	"encoding/json"
	"slices"

	"agentmesh/mesh"
)

const (
	// MaxClarifications is how often a step asks again because it did not understand.
	MaxClarifications = 3
	// MaxParked is how many sessions may be set aside for another one.
	MaxParked = 5
	// MaxLater is how many wishes are kept for later.
	MaxLater = 5
)

// A Step is one of a machine's. Next are those that may follow it beside itself; a step
// without any ends the session.
type Step struct {
	Name string
	Next []string
}

// A Machine has the steps of an agent's sessions, whose drafts are of type D, which JSON can
// represent. Use New.
type Machine[D any] struct{ steps []Step }

// New returns the machine of the steps, in their order; sessions begin with the first. The
// error is Invalid and names the step.
func New[D any](steps ...Step) (*Machine[D], error) {
	const op = "session.New"
	m := &Machine[D]{steps}
	if len(steps) == 0 {
		return nil, mesh.InvalidField(op, "steps", "are missing; a machine has at least one")
	}
	for i, s := range steps {
		if s.Name == "" || m.number(s.Name) != i+1 {
			return nil, mesh.InvalidField(op, "steps", "must have names, each its own; the %dth has %q", i+1, s.Name)
		}
		for _, next := range s.Next {
			if m.number(next) == 0 {
				return nil, mesh.InvalidField(op, "steps", "of %s name %q as next, which is none", s.Name, next)
			}
		}
	}
	return m, nil
}

// A Wait is what a session waits for.
type Wait string

// The waits. The zero value is the answer to the step's question.
const (
	ForAnswer Wait = ""
	ForResume Wait = "resume" // whether to go on, or to begin with Other, which may be ""
	ForChoice Wait = "choice" // whether to finish first, to park it and begin Other, or to leave
	ForMeant  Wait = "meant"  // whether Other is an answer, or for the main agent
)

// A Session is where the work with a user stands. The zero value is none.
type Session[D any] struct {
	Step  string `json:"step"`
	Draft D      `json:"draft"`
	Waits Wait   `json:"waits,omitempty"`
	// Other is what the user said that the session asks about: see Wait.
	Other string `json:"other,omitempty"`
	// Missed is how often the step did not understand.
	Missed int `json:"missed,omitempty"`
	// Parked are sessions that were set aside, the last one last; Later is what else the
	// user wants, once this one is done.
	Parked []Parked[D] `json:"parked,omitempty"`
	Later  []string    `json:"later,omitempty"`
}

// A Parked session was set aside.
type Parked[D any] struct {
	Step  string `json:"step"`
	Draft D      `json:"draft"`
}

// CanWait reports whether what the user wants besides can be kept for later: of a session that
// waits for their choice, whether it can be finished first.
func (s Session[D]) CanWait() bool {
	return s.Other == "" || len(s.Later) < MaxLater || slices.Contains(s.Later, s.Other)
}

// CanPark reports whether the session can be set aside for another one.
func (s Session[D]) CanPark() bool { return len(s.Parked) < MaxParked }

// Begin returns a new session with the draft.
func (m *Machine[D]) Begin(draft D) Session[D] {
	return Session[D]{Step: m.steps[0].Name, Draft: draft}
}

// number is the step's place, from 1; 0 for none of the machine.
func (m *Machine[D]) number(step string) int {
	return slices.IndexFunc(m.steps, func(s Step) bool { return s.Name == step }) + 1
}

// Progress is the number of the session's step, from 1, and of how many.
func (m *Machine[D]) Progress(s Session[D]) (step, steps int) {
	return max(m.number(s.Step), 1), len(m.steps)
}

// Done reports whether the session is at an end.
func (m *Machine[D]) Done(s Session[D]) bool {
	n := m.number(s.Step)
	return n > 0 && len(m.steps[n-1].Next) == 0
}

// Unfinished reports whether there is something to go on with.
func (m *Machine[D]) Unfinished(s Session[D]) bool { return m.number(s.Step) > 0 && !m.Done(s) }

// Go moves the session to the step, which may be its own, after an answer was understood.
// The error is Precondition where that step does not follow.
func (m *Machine[D]) Go(s Session[D], step string) (Session[D], error) {
	n := m.number(s.Step)
	if n == 0 || m.number(step) == 0 || step != s.Step && !slices.Contains(m.steps[n-1].Next, step) {
		return s, mesh.Errorf(mesh.Precondition, "session.Go", "%q does not follow %q", step, s.Step)
	}
	s.Step = step
	return s.settled(), nil
}

// settled is s without anything that it asked beside the step's question.
func (s Session[D]) settled() Session[D] {
	s.Waits, s.Other, s.Missed = ForAnswer, "", 0
	return s
}

// Pause has the session ask whether to go on, for a user who comes back: other is what they
// want instead, or "".
func (m *Machine[D]) Pause(s Session[D], other string) Session[D] {
	s = s.settled()
	s.Waits, s.Other = ForResume, other
	return s
}

// Leave is the snapshot with which the session goes on when the user comes back.
func (m *Machine[D]) Leave(s Session[D]) Session[D] { return s.settled() }

// Unpark returns the session that was set aside last, asking whether to go on with it;
// false if there is none. What the user wants later goes with it.
func (m *Machine[D]) Unpark(s Session[D]) (Session[D], bool) {
	last := len(s.Parked) - 1
	if last < 0 {
		return s, false
	}
	p := s.Parked[last]
	return m.Pause(Session[D]{Step: p.Step, Draft: p.Draft, Parked: s.Parked[:last:last], Later: s.Later}, ""), true
}

// Check returns what keeps s from being a session of the machine: an Invalid error that
// names the field.
func (m *Machine[D]) Check(s Session[D]) error {
	const op = "session.Check"
	switch {
	case m.number(s.Step) == 0:
		return mesh.InvalidField(op, "step", "is %q, which is none of the machine", s.Step)
	case s.Waits != ForAnswer && s.Waits != ForResume && s.Waits != ForChoice && s.Waits != ForMeant:
		return mesh.InvalidField(op, "waits", "is %q, which is nothing to wait for", s.Waits)
	case s.Waits == ForAnswer && s.Other != "" || s.Waits == ForMeant && s.Other == "":
		return mesh.InvalidField(op, "other", "is %q, and the session waits for %q", s.Other, s.Waits)
	case m.Done(s) && s.Waits != ForAnswer:
		return mesh.InvalidField(op, "waits", "is %q, and the session is at its end", s.Waits)
	case s.Missed < 0 || s.Missed > MaxClarifications:
		return mesh.InvalidField(op, "missed", "is %d; at most %d is possible", s.Missed, MaxClarifications)
	case len(s.Parked) > MaxParked:
		return mesh.InvalidField(op, "parked", "has %d sessions; at most %d are possible", len(s.Parked), MaxParked)
	case len(s.Later) > MaxLater:
		return mesh.InvalidField(op, "later", "has %d wishes; at most %d are possible", len(s.Later), MaxLater)
	}
	for _, p := range s.Parked {
		if !m.Unfinished(Session[D]{Step: p.Step}) {
			return mesh.InvalidField(op, "parked", "has a session at %q, where nothing goes on", p.Step)
		}
	}
	return nil
}

// Encode returns the session for keeping.
func (m *Machine[D]) Encode(s Session[D]) ([]byte, error) {
	var data bytes.Buffer
	e := json.NewEncoder(&data)
	e.SetEscapeHTML(false) // it is for no page, and would take six times the room
	err := e.Encode(s)
	return bytes.TrimSpace(data.Bytes()), mesh.Wrap("session.Encode", err)
}

// Decode returns a session that was kept. The error is Invalid if it is none of this machine.
func (m *Machine[D]) Decode(data []byte) (Session[D], error) {
	const op = "session.Decode"
	var s Session[D]
	if err := json.Unmarshal(data, &s); err != nil {
		return Session[D]{}, mesh.InvalidField(op, "session", "cannot be read: %v", err)
	}
	if err := m.Check(s); err != nil {
		return Session[D]{}, mesh.Wrap(op, err)
	}
	return s, nil
}
