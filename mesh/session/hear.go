package session

import "slices"

// A Kind is what a message to a session is for.
type Kind string

// The kinds. The agent says which it is; in doubt it says Unclear, and the user is asked.
const (
	Answer   Kind = "answer"   // to the step's question
	Question Kind = "question" // about the step
	Main     Kind = "main"     // for the main agent: a question or a task of another kind
	Second   Kind = "second"   // another workflow of the same agent
	Leave    Kind = "leave"    // out of the session
	Restart  Kind = "restart"  // from the beginning, without what there is
	Back     Kind = "back"     // a greeting, of somebody who comes back
	Unclear  Kind = "unclear"  // an answer, or for somebody else

	// What answers the questions of the session itself; to a step's question they are
	// answers.
	Yes    Kind = "yes"
	No     Kind = "no"
	Finish Kind = "finish" // this one first
	Park   Kind = "park"   // set this one aside
)

// Kinds lists all kinds.
func Kinds() []Kind {
	return []Kind{Answer, Question, Main, Second, Leave, Restart, Back, Unclear, Yes, No, Finish, Park}
}

// An Input is a message as the agent understands it. Words are what it says: of an Answer
// or an Unclear one the message, of Main what the main agent is asked, of Second what the
// other workflow is to be about, which may be "".
type Input struct {
	Kind  Kind
	Words string
}

// An Action is what the agent does about a message.
type Action string

// The actions.
const (
	// Ask: put the question that the session waits for.
	Ask Action = "ask"
	// Take: Words are an answer. Take them into the draft, and call Go, or Miss where they
	// cannot be understood.
	Take Action = "take"
	// Explain: Words ask about the step. Answer them, and put the question again.
	Explain Action = "explain"
	// Pass: Words are for the main agent. Have it answer, and put the question again.
	Pass Action = "pass"
	// Begin: the session is a new one, for Words, which may be "". Greet, and put its question.
	Begin Action = "begin"
	// GoAway: the session ends and is kept as it is.
	GoAway Action = "leave"
	// GiveUp is GoAway because the user was not understood.
	GiveUp Action = "give up"
)

// A Move is what follows from a message.
type Move struct {
	Do    Action
	Words string
}

// Miss is what follows when an answer could not be understood: the question again, or after
// MaxClarifications the end.
func (m *Machine[D]) Miss(s Session[D]) (Session[D], Move) {
	if s.Missed >= MaxClarifications {
		return m.Leave(s), Move{Do: GiveUp}
	}
	s.Missed++
	return s, Move{Do: Ask}
}

// Hear is the transition of the machine. A session that is done hears nothing: what it is
// told begins a new one.
func (m *Machine[D]) Hear(s Session[D], in Input) (Session[D], Move) {
	if !m.Unfinished(s) {
		return m.begin(s, in.Words)
	}
	switch in.Kind { // what means the same whatever is asked
	case Leave:
		return m.Leave(s), Move{Do: GoAway}
	case Restart:
		return m.begin(s, "")
	case Question:
		return s, Move{Explain, in.Words}
	case Main:
		if in.Words != "" {
			return s.unless(ForMeant), Move{Pass, in.Words}
		}
	case Back:
		if s.Waits == ForAnswer {
			return m.Pause(s, ""), Move{Do: Ask}
		}
	}
	switch s.Waits {
	case ForResume:
		return m.resume(s, in)
	case ForChoice:
		return m.choose(s, in)
	case ForMeant:
		return m.meant(s, in)
	}
	return m.answer(s, in)
}

// unless is s, settled if that is what it waits for.
func (s Session[D]) unless(w Wait) Session[D] {
	if s.Waits == w {
		s.Waits, s.Other = ForAnswer, ""
	}
	return s
}

// answer hears what is said to the step's question.
func (m *Machine[D]) answer(s Session[D], in Input) (Session[D], Move) {
	switch in.Kind {
	case Answer, Yes, No, Finish, Park:
		return s, Move{Take, in.Words}
	case Second:
		s.Waits, s.Other = ForChoice, in.Words
		return s, Move{Do: Ask}
	case Unclear, Main:
		next, move := m.Miss(s)
		if move.Do == Ask && in.Words != "" {
			next.Waits, next.Other = ForMeant, in.Words
		}
		return next, move
	}
	return m.Miss(s)
}

// resume hears whether to go on. Whoever answers the question before that has decided too.
func (m *Machine[D]) resume(s Session[D], in Input) (Session[D], Move) {
	switch in.Kind {
	case Yes, Finish, Back:
		return s.settled(), Move{Do: Ask}
	case No:
		return m.begin(s, s.Other)
	case Second, Park:
		if s.Other == "" || in.Words != "" {
			s.Other = in.Words
		}
		return m.park(s)
	}
	return m.answer(s.settled(), in)
}

// choose hears what becomes of a second workflow.
func (m *Machine[D]) choose(s Session[D], in Input) (Session[D], Move) {
	switch in.Kind {
	case Yes, Finish:
		if !s.CanWait() {
			return m.Miss(s)
		}
		if s.Other != "" && !slices.Contains(s.Later, s.Other) {
			s.Later = append(slices.Clip(s.Later), s.Other)
		}
		return s.settled(), Move{Do: Ask}
	case Park:
		return m.park(s)
	case Answer:
		return m.answer(s.unless(ForChoice), in)
	case Second:
		s.Other = in.Words
		return s, Move{Do: Ask}
	}
	return m.Miss(s)
}

// meant hears whether what was said is an answer. Who says that it is for
// the main agent was understood in the end, and who says something else that nobody can tell is
// asked about that.
func (m *Machine[D]) meant(s Session[D], in Input) (Session[D], Move) {
	words := s.Other
	switch in.Kind {
	case Yes:
		return s.unless(ForMeant), Move{Take, words}
	case No, Main:
		return s.settled(), Move{Pass, words}
	case Unclear:
		if in.Words != "" {
			s.Other = in.Words
		}
		return m.Miss(s)
	case Back:
		return m.Miss(s)
	}
	return m.answer(s.unless(ForMeant), in)
}

// park sets the session aside and begins the other one, unless too many are.
func (m *Machine[D]) park(s Session[D]) (Session[D], Move) {
	if !s.CanPark() {
		s.Waits = ForChoice
		return m.Miss(s)
	}
	words := s.Other
	s.Parked = append(slices.Clip(s.Parked), Parked[D]{s.Step, s.Draft})
	return m.begin(s, words)
}

// begin returns a new session, with what was set aside.
func (m *Machine[D]) begin(s Session[D], words string) (Session[D], Move) {
	var none D
	next := m.Begin(none)
	next.Parked = s.Parked
	for _, l := range s.Later {
		if l != words {
			next.Later = append(next.Later, l)
		}
	}
	return next, Move{Begin, words}
}
