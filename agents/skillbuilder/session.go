package skillbuilder

import (
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
)

// State is where a session stands (S4-040). The values are those on the card.
type State string

// The states, in their order.
const (
	Gathering  State = "gathering_requirements"
	Triggers   State = "defining_triggers"
	Generating State = "generating"
	Testing    State = "testing"
	Complete   State = "complete"
)

// steps lists the states in their order.
var steps = [...]State{Gathering, Triggers, Generating, Testing, Complete}

// number is the state's place in the order, from 1.
func (s State) number() int {
	for i, x := range steps {
		if x == s {
			return i + 1
		}
	}
	return 1
}

// title is the state in words.
func (s State) title() string { return strings.ReplaceAll(string(s), "_", " ") }

// A session is all that is known of the skill that is being built. It is kept
// in the thread after each message, so that it survives a restart and a break.
type session struct {
	State State `json:"state"`
	// Paused says that the user was asked whether to go on with it, and Offer
	// is what they wanted instead when they came back.
	Paused bool   `json:"paused,omitempty"`
	Offer  string `json:"offer,omitempty"`
	// Purpose is what the skill does, as "sends Slack alerts".
	Purpose string            `json:"purpose,omitempty"`
	Steps   []string          `json:"steps,omitempty"`
	Inputs  []skill.Parameter `json:"inputs,omitempty"`
	// Name is "domain.action".
	Name     string   `json:"name,omitempty"`
	Triggers []string `json:"triggers,omitempty"`
	// Confirm is what the user is asked before each call, or "", and Approval
	// says that they are asked, with or without it.
	Confirm  string `json:"confirm,omitempty"`
	Approval bool   `json:"approval,omitempty"`
	// Source is the file that was shown, and Problem why there is none.
	Source  string `json:"source,omitempty"`
	Problem string `json:"problem,omitempty"`
	// Fleeting says that nothing is to be kept when the handoff ends before the skill is
	// done: who handed over wanted it so (preserve_state).
	Fleeting bool `json:"fleeting,omitempty"`
	// Hint is what is said before the question is asked again.
	Hint string `json:"-"`
}

// unfinished reports whether there is something to go on with.
func (s session) unfinished() bool { return s.State != "" && s.State != Complete }

// begin starts a session for a skill with the purpose, which may be "".
func begin(purpose string) session { return session{State: Gathering, Purpose: purpose} }

// A move is what follows from a message.
type move int

const (
	ask      move = iota // put the question of the state
	generate             // write the skill and check it
	save                 // save what was shown
	cancel               // end the session and keep it
)

// pause asks whether to go on with s, for a user who came back with the text.
func (s session) pause(text string) session {
	s.Paused, s.Offer = true, purposeIn(text)
	if s.Offer == s.Purpose {
		s.Offer = ""
	}
	return s
}

// hear is the transition of the machine: what the user said, in the state s.
// It depends on nothing else.
func (s session) hear(text string) (session, move) {
	s.Hint = ""
	switch {
	case isCancel(text):
		return s, cancel
	case isRestart(text):
		return begin(""), ask
	case s.Paused:
		return s.resume(text)
	case isGreeting(text):
		return s.pause(""), ask
	}
	switch s.State {
	case Triggers:
		return s.hearTriggers(text)
	case Generating, Testing:
		return s.hearReview(text)
	default:
		return s.hearRequirements(text)
	}
}

// resume handles the answer to "would you like to continue?". Whoever answers
// the question before that has decided too.
func (s session) resume(text string) (session, move) {
	offer := s.Offer
	s.Paused, s.Offer = false, ""
	switch {
	case isYes(text) || isGreeting(text):
		return s, ask
	case isNo(text):
		return begin(offer), ask
	}
	if p := purposeIn(text); p != "" {
		return begin(p), ask
	}
	return s.hear(text)
}

func (s session) hearRequirements(text string) (session, move) {
	if isQuestion(text) {
		s.Hint = "First I need your answer; “you decide” is one, too."
		return s, ask
	}
	if s.Purpose == "" {
		s.Purpose = purposeOf(text)
		if s.Purpose == "" {
			s.Hint = "I need at least one sentence about what the skill does."
		}
		return s, ask
	}
	text = s.approval(text)
	if !isDefault(text) && phrase(text) != "" {
		var inputs []skill.Parameter
		s.Steps, inputs = details(text)
		s.Inputs = inputs
	}
	if len(s.Inputs) == 0 {
		s.Inputs = usualInputs(s.Purpose)
	}
	s.Name = nameFor(s.Purpose)
	s.Triggers = triggersFor(s.Purpose)
	s.State = Triggers
	return s, ask
}

func (s session) hearTriggers(text string) (session, move) {
	if isQuestion(text) && len(quotedPhrases(text)) == 0 {
		s.Hint = "That sounds like a question. If it is a phrase for the skill, put it in quotes."
		return s, ask
	}
	if !isDefault(text) {
		name, triggers := naming(text)
		if name == "" && len(triggers) == 0 {
			s.Hint = "I did not understand that."
			return s, ask
		}
		s = s.called(name)
		if len(triggers) > 0 {
			s.Triggers = triggers
		}
	}
	s.State = Generating
	return s, generate
}

// called gives the skill the name, if there is one: with or without a domain.
func (s session) called(name string) session {
	if name == "" {
		return s
	}
	if !strings.Contains(name, ".") {
		domain, _, _ := strings.Cut(s.Name, ".")
		name = domain + "." + name
	}
	s.Name = name
	return s
}

func (s session) hearReview(text string) (session, move) {
	if isYes(text) || isDefault(text) {
		if s.Source == "" {
			return s, generate
		}
		if mesh.AnswerOf(text) != mesh.AnswerYes { // the mesh believes nothing else
			s.Hint = "Say “yes” to save it."
			return s, ask
		}
		return s, save
	}
	if isNo(text) {
		s.Hint = "What should be different?"
		return s, ask
	}
	changed, ok := s.edit(text)
	if !ok {
		s.Hint = "I did not understand that."
		return s, ask
	}
	return changed, generate
}
