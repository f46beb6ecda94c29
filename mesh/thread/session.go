package thread

import (
	"strings"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	catalogue "agentmesh/mesh/text"
)

// A Session is where an agent stands that the conversation was handed over to last.
type Session struct {
	Agent string
	// Step of Steps is where it was last, from 1; 0 if it did not say. Stage is what it calls
	// the state that it was in, or "".
	Step, Steps int
	Stage       string
	// Noted is when it last noted its state, zero if nothing of that is kept.
	Noted time.Time
	// Left says that the handoff ended before it was done, and not because it failed, or is over
	// by time.
	Left bool
	// Offered says that who had handed over offered the user to go on with it, and Answered
	// that the user's next message was given to it.
	Offered, Answered bool
}

// Resumable reports whether the session was left and can be gone on with at the time, when
// what agents note is kept for so long.
func (s Session) Resumable(now time.Time, retention time.Duration) bool {
	return s.Left && Kept(s.Noted, now, retention)
}

// Kept reports whether what was noted then is kept at the time, when it is kept for so long.
func Kept(noted, now time.Time, retention time.Duration) bool {
	return !noted.IsZero() && now.Sub(noted) < retention
}

type session struct {
	step, steps       int
	stage             string
	offering          mesh.ExecutionID // which offers to go on
	offered, answered bool
}

// Session returns the session of the handoff that is active or was last, as it is now; false
// if there never was one.
func (s *State) Session(now time.Time) (Session, bool) {
	h := s.HandoffAt(now)
	if h == nil {
		return Session{}, false
	}
	parked := h.State == mesh.HandoffState(mesh.HandoffParked) // by time, or in the log
	return Session{
		Agent: h.To, Step: s.session.step, Steps: s.session.steps, Stage: s.session.stage, Noted: s.notes[h.To].at,
		Left:    parked || !h.Active() && h.Outcome != mesh.HandoffCompleted && h.Outcome != mesh.HandoffError,
		Offered: s.session.offered, Answered: s.session.answered,
	}, true
}

// Noted is when the agent last noted its state where the user talked to it, zero if nothing
// of that is kept.
func (s *State) Noted(agent string) time.Time { return s.notes[agent].at }

// InSession returns the turns, oldest first, in which the agent of the active handoff works
// or waits for their users.
func (s *State) InSession() []*Execution {
	var out []*Execution
	if !s.Handoff.Active() {
		return nil
	}
	for i := range s.turns {
		t := s.turns[i]
		if mesh.Terminal(t.State) || len(t.Legs) == 0 {
			continue
		}
		if l := t.Leg(); l == nil || l.Agent == s.Handoff.To {
			out = append(out, t)
		}
	}
	return out
}

// A Closing is what comes to rest with the session of a handoff.
type Closing struct {
	// Events are what follows from its end, behind that: without time and actor.
	Events []*mesh.Event
	// Waiting are the executions that waited for users, and do no more: their agents are to
	// be told.
	Waiting []Execution
	// Working are the turns in which its agent is at work: who drives one has it go on
	// without that agent.
	Working []mesh.Scope
}

// Close returns what comes to rest in the turns, which are in the session of the handoff that
// is active, when the actor ends it. In those that wait for their users nobody waits any more; those of
// which goesOn says so go on, and the others are over.
func (s *State) Close(by string, turns []*Execution, goesOn func(*Execution) bool) Closing {
	var c Closing
	event := func(id mesh.ExecutionID, b mesh.Body) {
		c.Events = append(c.Events, &mesh.Event{Execution: id, Body: b})
	}
	for _, t := range turns {
		if !mesh.Interrupted(t.State) {
			c.Working = append(c.Working, mesh.Scope(t.ID))
			continue
		}
		for _, x := range s.Unfinished(t.ID) {
			c.Waiting = append(c.Waiting, *x)
			event(x.Parent, mesh.DispatchSettled{Child: x.ID, State: a2apb.TaskState_TASK_STATE_CANCELED, Reason: mesh.ReasonHandedOff})
		}
		if !goesOn(t) {
			other, _ := strings.CutPrefix(by, "user:")
			if other == t.User || other == by {
				other = ""
			}
			event(t.ID, mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_CANCELED, Reason: mesh.ReasonHandedOff,
				Message: mesh.Say(catalogue.BackWithMain(s.Handoff.To, other))})
		}
	}
	return c
}

// Leave is how the handoff ends when a user leaves: as cancelled, unless its agent was done
// before and kept the stream.
func (h *Handoff) Leave(by string) mesh.HandoffEnded {
	end := mesh.HandoffEnded{Started: h.Seq, Outcome: h.Outcome, Summary: h.Result, By: by, Artifacts: h.Artifacts}
	if end.Outcome == "" {
		end.Outcome = mesh.HandoffCancelled
	}
	if !h.PreserveState && end.Outcome.Early() {
		end.Dropped = h.To
	}
	return end
}

// stand applies the event to the session.
func (s *State) stand(e *mesh.Event) {
	switch b := e.Body.(type) {
	case mesh.HandoffStarted:
		if s.Handoff != nil && s.Handoff.Seq == e.Seq {
			s.session = session{}
		}
	case mesh.HandoffEnded:
		if b.Dropped != "" {
			s.noted(b.Dropped, noted{dropped: e.Seq})
		}
	case mesh.StateNoted:
		s.note(e, b)
	case mesh.DispatchIssued:
		s.offer(b)
	case mesh.DispatchSettled:
		s.settleOffer(b.Child, b.State)
	case mesh.TaskMoved:
		s.settleOffer(e.Execution, b.State)
		if x := s.execs[e.Execution]; x != nil && s.Handoff.Active() && x.Agent == s.Handoff.To && s.Turn(x.Parent) != nil {
			s.step(b)
		}
	}
}

// note notes when an agent noted its state: in an execution that has or had the stream of
// its turn, or in a turn, as who dispatches an agent notes under its name elsewhere.
func (s *State) note(e *mesh.Event, b mesh.StateNoted) {
	x := s.execs[e.Execution]
	was := s.notes[b.Agent]
	switch {
	case x == nil || x.Kind != mesh.KindTurn && (x.Agent != b.Agent || s.Turn(x.Parent) == nil):
	case len(b.Data) == 0:
		s.noted(b.Agent, noted{dropped: e.Seq})
	case x.Kind == mesh.KindTurn || x.Issued > was.dropped:
		was.at = e.Time
		s.noted(b.Agent, was)
	}
}

// A noted is when an agent noted what is kept, and the Seq before which executions began of
// which nothing is.
type noted struct {
	at      time.Time
	dropped mesh.Seq
}

func (s *State) noted(agent string, n noted) {
	if s.notes == nil {
		s.notes = map[string]noted{}
	}
	s.notes[agent] = n
}

// step notes where the agent says that it is.
func (s *State) step(b mesh.TaskMoved) {
	const most = 1 << 20
	ext := b.Metadata.GetFields()[mesh.ExtensionURI].GetStructValue().GetFields()
	number := func(key string) int { return int(min(max(ext[key].GetNumberValue(), 0), most)) }
	if n := number("step"); n > 0 {
		s.session.step, s.session.steps = n, number("steps")
	}
	if stage := ext["state"].GetStringValue(); stage != "" {
		s.session.stage = mesh.Clip(stage, 64)
	}
}

// offer notes that an agent is told of the session that was left: that it is to offer it,
// or that it did, and has the user's answer.
func (s *State) offer(b mesh.DispatchIssued) {
	r := b.Message.GetMetadata().GetFields()[mesh.ExtensionURI].GetStructValue().GetFields()["resume"].GetStructValue().GetFields()
	switch {
	case r == nil || returns(b.Message) || s.Turn(b.Child.Parent) == nil:
	case r["offered"].GetBoolValue():
		s.session.answered = true
	default:
		s.session.offering = b.Child.ID
	}
}

// settleOffer notes that the agent which was to offer the session said all it had to say.
func (s *State) settleOffer(id mesh.ExecutionID, state mesh.TaskState) {
	if id == s.session.offering && id != "" && state == a2apb.TaskState_TASK_STATE_COMPLETED {
		s.session.offered = true
	}
}
