package thread

import (
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
)

// A Handoff is a transfer of control.
type Handoff struct {
	mesh.HandoffStarted
	Seq  mesh.Seq
	Turn mesh.ExecutionID
	By   string // user whose stream it is
	// State is how far it is by the log; see [State.HandoffAt].
	State mesh.HandoffState
	// Along is how many messages went along word by word, at most RecentMessages; 0 until the
	// target is asked.
	Along int
	// Rests is since when it rests, if it does: when it started, when a message of a user last
	// came in it, or when its agent last ended its work or asked, whichever was last.
	Rests time.Time
	// Ended is the Seq of its end, or 0. An Outcome with Ended 0 is that of one whose
	// target is done and keeps the stream.
	Ended     mesh.Seq
	Outcome   mesh.HandoffOutcome
	Result    string
	Artifacts []mesh.ArtifactRef
	// Known says, once it ended, that who has the stream back was heard.
	Known bool
	// Resting is the turn with which it returns, or "".
	Resting mesh.ExecutionID
}

// Active reports whether the handoff stands. It may be called on nil.
func (h *Handoff) Active() bool { return h != nil && h.Ended == 0 }

// Parks is when the session is parked if no user says anything more and its agent does not
// work until then; false if never.
func (h *Handoff) Parks() (time.Time, bool) {
	if !h.Active() || h.Session <= 0 {
		return time.Time{}, false
	}
	return h.Rests.Add(h.Session), true
}

// Overdue reports whether the session of the active handoff is over by time, now: nobody
// works, and its user said nothing for too long since its agent last did. The next message
// parks it.
func (s *State) Overdue(now time.Time) bool {
	if !s.Handoff.Active() {
		return false
	}
	parks, ok := s.Handoff.Parks()
	return ok && !now.Before(parks) && s.NextTurn() == nil
}

// HandoffAt returns the handoff that is active or was last, as it is now, or nil: one that
// the next message would park is parked.
func (s *State) HandoffAt(now time.Time) *Handoff {
	if !s.Overdue(now) {
		return s.Handoff
	}
	parked := *s.Handoff
	parked.State = mesh.HandoffState(mesh.HandoffParked)
	return &parked
}

// changeHandoff changes the handoff: readers may hold the one before.
func (s *State) changeHandoff(change func(*Handoff)) {
	h := *s.Handoff
	change(&h)
	s.Handoff = &h
}

func (s *State) startHandoff(e *mesh.Event, b mesh.HandoffStarted) {
	t := s.TurnOf(e.Execution)
	if t == nil || !t.take(e) {
		return
	}
	t.Handoffs++
	s.Handoff = &Handoff{HandoffStarted: b, Seq: e.Seq, Turn: t.ID, By: t.User, State: mesh.HandoffPending, Rests: e.Time}
}

func (s *State) endHandoff(e *mesh.Event, b mesh.HandoffEnded) {
	t := s.TurnOf(e.Execution)
	if t != nil {
		t.take(e)
	}
	if !s.Handoff.Active() || s.Handoff.Seq != b.Started {
		return
	}
	s.changeHandoff(func(h *Handoff) {
		h.Outcome, h.Result, h.Artifacts = b.Outcome, b.Summary, b.Artifacts
		if b.Stays {
			return
		}
		h.Ended, h.State = e.Seq, mesh.HandoffState(b.Outcome)
		if t != nil && !mesh.Terminal(t.State) && !mesh.Interrupted(t.State) && b.Outcome != mesh.HandoffParked {
			h.State, h.Resting = mesh.HandoffReturning, t.ID
		}
	})
}

// rest notes that the session of the active handoff rests since the event, of which the turn
// is: its agent works or waits there, or did last. A user has as long to answer, however long
// the agent was at work before it asked.
func (s *State) rest(t *Execution, e *mesh.Event) {
	if n := len(t.Legs); s.Handoff.Active() && n > 0 && t.Legs[n-1].Agent == s.Handoff.To && e.Time.After(s.Handoff.Rests) {
		s.changeHandoff(func(h *Handoff) { h.Rests = e.Time })
	}
}

// goAlong notes how many messages the target of the active handoff is given with it.
func (s *State) goAlong(b mesh.DispatchIssued) {
	given := b.Message.GetMetadata().GetFields()[mesh.ExtensionURI].GetStructValue().GetFields()["handoff"].GetStructValue().GetFields()
	if n := given["conversation_history_count"].GetNumberValue(); n > 0 && s.Handoff.Active() && s.Handoff.To == b.Child.Agent && s.Handoff.Turn == b.Child.Parent {
		s.changeHandoff(func(h *Handoff) { h.Along = int(min(n, float64(h.RecentMessages))) })
	}
}

// hearHandoff notes who was heard of those that the handoff waits for.
func (s *State) hearHandoff(e *mesh.Event) {
	h := s.Handoff
	if h == nil || h.Known || h.State == mesh.HandoffActive {
		return
	}
	x := s.spoke(e)
	switch {
	case h.State == mesh.HandoffPending:
		if x != nil && x.Kind == mesh.KindHandoff && x.Agent == h.To && x.Issued > h.Seq {
			s.changeHandoff(func(h *Handoff) { h.State = mesh.HandoffActive })
		}
	case x != nil && x.Issued > h.Ended:
		s.changeHandoff(func(h *Handoff) { h.State, h.Known = mesh.HandoffState(h.Outcome), true })
	case h.State == mesh.HandoffReturning && e.Execution == h.Resting:
		if b, moves := e.Body.(mesh.TaskMoved); moves && (mesh.Terminal(b.State) || mesh.Interrupted(b.State)) {
			s.changeHandoff(func(h *Handoff) { h.State = mesh.HandoffState(h.Outcome) })
		}
	}
}

// spoke returns the execution with the stream of its turn of which the event shows that its
// agent was heard, or nil.
func (s *State) spoke(e *mesh.Event) *Execution {
	id, heard := e.Execution, false
	if b, settles := e.Body.(mesh.DispatchSettled); settles {
		id, heard = b.Child, b.State == a2apb.TaskState_TASK_STATE_COMPLETED
	}
	x := s.execs[id]
	if x == nil || s.Turn(x.Parent) == nil || !heard && (id != e.Execution || e.Actor != "agent:"+x.Agent) {
		return nil
	}
	return x
}
