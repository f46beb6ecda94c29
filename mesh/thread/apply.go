package thread

import (
	"slices"
	"strings"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
)

// Apply adds the next event of the thread. Events must come in the order of
// their Seq, each once.
func (s *State) Apply(e *mesh.Event) {
	if s.Seq == 0 {
		s.Created, s.First = e.Time, e.Pos
	}
	s.Seq, s.Updated = e.Seq, e.Time
	if scope, ok := mesh.ScopeOf(e); ok {
		if s.decisions == nil {
			s.decisions = map[mesh.Scope]mesh.Seq{}
		}
		s.decisions[scope] = e.Seq
	}
	owner := s.Owner
	s.Access.Apply(e)
	s.pass(e)
	if b, ok := e.Body.(mesh.TaskMoved); !ok || b.Reason != mesh.ReasonContinued {
		s.hearOf(e)
	}
	switch b := e.Body.(type) {
	case mesh.ThreadShared:
		s.give(owner, b.Owner)
	case mesh.ThreadClaimed:
		s.Epoch, s.Node = b.Epoch, b.Node
	case mesh.TaskOpened:
		s.open(e, b.Execution)
	case mesh.DispatchAccepted:
		s.accept(e, b)
	case mesh.DispatchIssued:
		s.dispatch(e, b)
	case mesh.HandoffStarted:
		s.startHandoff(e, b)
	case mesh.HandoffEnded:
		s.endHandoff(e, b)
	case mesh.MessagePosted:
		s.post(e, b)
	case mesh.DispatchSettled:
		if x := s.execs[b.Child]; x != nil && x.Kind != mesh.KindTurn && !mesh.Terminal(x.State) {
			x.move(e, b.State, b.Reason)
			x.Result, x.Message = b.Result, nil // that was about another state
			s.explain(x)
			s.progress(x.Parent)
		}
	default:
		if x := s.execs[e.Execution]; x != nil {
			s.applyTo(x, e)
		}
	}
	if x := s.execs[e.Execution]; x != nil {
		x.Logged = x.Logged.Plus(e.Volume())
	}
	s.hearHandoff(e)
	s.stand(e)
	s.depict(e)
	s.place(e)
}

// give makes turns that wait for their user, who owned the thread, wait for its new owner,
// with all that is at work in them. Nobody lends rights: they go on with those that the new
// one has when answering. What does not wait for anybody ends as it began.
func (s *State) give(from, to string) {
	if to == "" || to == from {
		return
	}
	for _, x := range s.order {
		t := s.TurnOf(x.ID)
		if t == nil || !mesh.Interrupted(t.State) || x.User != from || mesh.Terminal(x.State) {
			continue
		}
		x.User, x.Roles = to, nil
		if h := s.Handoff; h.Active() && h.Turn == x.ID {
			s.changeHandoff(func(h *Handoff) { h.By = to })
		}
	}
}

// applyTo applies an event that concerns its own execution alone.
func (s *State) applyTo(x *Execution, e *mesh.Event) {
	x.Updated = e.Time
	switch e.Body.(type) {
	case mesh.SkillCalled, mesh.SkillReturned, mesh.ToolReturned, mesh.ModelReplied:
		s.progress(x.ID)
	}
	switch b := e.Body.(type) {
	case mesh.TaskMoved:
		if b.Reason == mesh.ReasonContinued && !mesh.Terminal(x.State) {
			x.goOn(e.Time)
		}
		if !mesh.Terminal(x.State) {
			x.move(e, b.State, b.Why())
			x.Message = b.Message
			s.explain(x)
			if x.Kind == mesh.KindTurn && mesh.Interrupted(b.State) {
				s.show(x, e.Seq, b)
			}
			if x.Kind == mesh.KindTurn && (mesh.Interrupted(b.State) || mesh.Terminal(b.State)) {
				s.rest(x, e)
			}
		}
		if b.Reason == mesh.ReasonDelivered {
			if t := s.Turn(x.Parent); t != nil {
				x.Got, t.Delivered = slices.Concat(x.Got, t.Pending()), e.Seq
			}
			x.WentOn = e.ID
			if x.Worked, x.Began, x.Heard = 0, e.Time, e.Time; !x.Deadline.IsZero() {
				x.Deadline = e.Time.Add(x.Allowed)
			}
			s.afresh(x)
		}
		s.learn(x, b)
	case mesh.ArtifactAppended:
		x.Artifacts++
		if x.Anew = x.Anew || !b.Append; !x.Anew {
			s.progress(x.ID)
		}
	case mesh.SkillCalled:
		s.called(x, e, b)
	case mesh.SkillReturned:
		delete(x.Unsettled, b.Call)
		delete(x.Intents, b.Call)
	case mesh.ToolReturned:
		s.toolReturned(x, b)
		s.delivered(x, e, b.Delivered)
	case mesh.ResultsDelivered:
		s.delivered(x, e, b.Executions)
	case mesh.ApprovalAsked:
		s.asked(x, e, b)
	case mesh.ApprovalSettled:
		if s.remember(e) {
			s.answered(x, b)
		}
	case mesh.LimitTripped:
		s.tripped(x, b)
	case mesh.ModelReplied:
		if len(b.Tools) > 0 {
			x.Calls.Steps++
		}
		x.Usage = x.Usage.Add(b.Usage)
		s.Usage = s.Usage.Add(b.Usage)
		s.spend(x, b.Usage.Spent())
	case mesh.CancelRequested:
		x.Canceled = true
	case mesh.InstructionPosted:
		x.instruct(e, b)
	}
}

// progress notes that the execution, and so those above it, came on.
func (s *State) progress(id mesh.ExecutionID) {
	for at := range s.Up(id) {
		at.Adoptions = 0
	}
}

// hearOf notes that the execution of the event was at work, and so those above it. What
// users do about one does not say so.
func (s *State) hearOf(e *mesh.Event) {
	if strings.HasPrefix(e.Actor, "user:") {
		return
	}
	for x := range s.Up(e.Execution) {
		if !mesh.Terminal(x.State) && e.Time.After(x.Heard) {
			x.Heard = e.Time
		}
	}
}

// goOn counts that the execution goes on. Time does not run for it while nobody works on
// it.
func (x *Execution) goOn(now time.Time) {
	x.Adoptions++
	x.CutOff, x.Anew = true, false
	if !x.Deadline.IsZero() {
		x.Deadline = now.Add(x.Left())
	}
	x.Worked += max(x.Heard.Sub(x.Began), 0)
	x.Began, x.Heard = now, now
}

// Left is how much of its time the execution had left when it, or one below it, was last
// heard of, as far as it has a deadline: a second at least, in which it can be ended.
func (x *Execution) Left() time.Duration { return max(x.Deadline.Sub(x.Heard), time.Second) }

// spend counts what the execution used.
func (s *State) spend(x *Execution, used mesh.Budget) {
	for at := range s.Up(x.ID) {
		at.Used = at.Used.Add(used)
	}
}

// move changes the state unless it is terminal already: nothing follows a
// terminal state (A2A v1.0 §4.1.3).
func (x *Execution) move(e *mesh.Event, state mesh.TaskState, reason string) {
	if mesh.Terminal(x.State) {
		return
	}
	x.State, x.Reason, x.Updated, x.HelpTold = state, reason, e.Time, ""
	if mesh.Terminal(state) {
		x.take(e)
		x.Ended = e.Seq
		x.Approvals, x.Approved, x.Requested, x.Intents = nil, nil, nil, nil // nobody waits any more
	}
}

func (s *State) add(e *mesh.Event, ex mesh.Execution) *Execution {
	if s.execs[ex.ID] != nil {
		return nil
	}
	if s.execs == nil {
		s.execs = map[mesh.ExecutionID]*Execution{}
	}
	x := &Execution{Execution: ex, State: a2apb.TaskState_TASK_STATE_SUBMITTED, Opened: e.Seq, Started: e.Time, Updated: e.Time, Began: e.Time, Heard: e.Time}
	s.execs[ex.ID] = x
	s.order = append(s.order, x)
	return x
}

func (s *State) open(e *mesh.Event, ex mesh.Execution) {
	if !opens(e, ex) {
		return
	}
	if x := s.add(e, ex); x != nil {
		s.turns = append(s.turns, x)
	}
}

// accept opens an execution that waits until it is dispatched.
func (s *State) accept(e *mesh.Event, b mesh.DispatchAccepted) {
	if !s.isChild(e, b.Child) {
		return
	}
	if x := s.add(e, b.Child); x != nil {
		x.Accepted = &b
		s.dispatched(x)
		s.enter(x)
	}
}

// isChild reports whether the execution can be dispatched by that of the event.
func (s *State) isChild(e *mesh.Event, x mesh.Execution) bool {
	return x.Kind != mesh.KindTurn && x.Parent == e.Execution && s.execs[x.Parent] != nil
}

func (s *State) dispatch(e *mesh.Event, b mesh.DispatchIssued) {
	child := b.Child
	if !s.isChild(e, child) {
		return
	}
	x := s.execs[child.ID]
	switch {
	case x == nil:
		x = s.add(e, child)
		s.dispatched(x)
	case x.Waits() && x.Parent == child.Parent:
		x.Execution, x.State, x.Reason = child, a2apb.TaskState_TASK_STATE_WORKING, ""
		x.Started, x.Updated, x.Began, x.Heard = e.Time, e.Time, e.Time, e.Time
	default:
		return
	}
	x.Issued = e.Seq
	s.hold(x)
	s.progress(child.Parent)
	if !x.Deadline.IsZero() {
		x.Allowed = x.Deadline.Sub(x.Started)
	}
	if t := s.TurnOf(x.ID); t != nil {
		x.Calls.Since = t.LastPost()
	}
	if t := s.Turn(child.Parent); t != nil {
		if c, err := mesh.SkillCallOf(b.Message.GetMetadata()); err == nil && c != nil && c.Approved {
			x.Requested = c
		}
		t.take(e)
		s.goAlong(b)
		if !returns(b.Message) {
			if x.Got = t.Pending(); len(x.Got) == 0 {
				x.Got = t.Posts[max(len(t.Posts)-1, 0):]
			}
			t.Delivered = e.Seq
		}
	}
	s.enter(x)
}

// delivered notes that the execution's model was told what came of those.
func (s *State) delivered(x *Execution, e *mesh.Event, of []mesh.ExecutionID) {
	by := e.ID
	if by == "" { // its writer has no use for one
		by = "-"
	}
	for _, id := range of {
		child := s.execs[id]
		switch {
		case child == nil || child.Parent != x.ID:
		case child.WaitsForHelp() && child.HelpTold == "":
			child.HelpTold = by
		case !child.WaitsForHelp() && child.Delivery == "":
			child.Delivery = by
		}
	}
}

// WaitsForHelp reports whether the execution waits for an answer of who dispatched it.
func (x *Execution) WaitsForHelp() bool {
	return x.State == a2apb.TaskState_TASK_STATE_INPUT_REQUIRED && x.Reason == mesh.ReasonHelp
}

// returns reports whether the message tells an agent that control came back to
// it: then it has none of the user's words, and those that came meanwhile are
// still to be delivered.
func returns(m *a2apb.Message) bool {
	_, ok := m.GetMetadata().GetFields()[mesh.ExtensionURI].GetStructValue().GetFields()["handoff_return"]
	return ok
}

func (s *State) post(e *mesh.Event, b mesh.MessagePosted) {
	if s.posted == nil {
		s.posted = map[string][]Posted{}
	}
	id := b.Message.GetMessageId()
	s.posted[id] = append(s.posted[id], Posted{User: b.User, Digest: string(b.Digest), Task: e.Execution, Seq: e.Seq})
	if s.Handoff.Active() {
		s.changeHandoff(func(h *Handoff) { h.Rests = e.Time })
	}
	if t := s.Turn(e.Execution); t != nil {
		if b.User == t.User {
			t.Roles, t.Credential, t.Asked = b.Roles, b.Credential, e.Time
		}
		if t.Detail == 0 && wantsDetail(b.Message) {
			t.Detail = e.Seq
		}
		if b.Exit { // nobody is told, and nothing is answered by it
			return
		}
		t.Posts = append(t.Posts, e.Seq)
		if t.Answers(b.User, b.Roles) {
			s.hear(t, mesh.AnswerOf(mesh.TextOf(b.Message)))
		}
		t.Calls, t.Tripped, t.Used = Calls{Since: e.Seq}, nil, mesh.Budget{}
	}
	if s.Title == "" {
		s.Title = title(b.Message)
	}
}

// title shortens the first text of a message to one line of at most 60 runes.
func title(m *a2apb.Message) string {
	const most = 60
	for _, p := range m.GetParts() {
		if t := strings.Join(strings.Fields(p.GetText()), " "); t != "" {
			if r := []rune(t); len(r) > most {
				return string(r[:most-1]) + "…"
			}
			return t
		}
	}
	return ""
}
