package thread

import (
	"slices"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/types/known/structpb"

	"agentmesh/mesh"
	catalogue "agentmesh/mesh/text"
)

// A passage is how far a handoff is for those who read the stream of a turn: with which
// event each of its states begins. State keeps one for each handoff of the thread, so that a
// View from any event on goes on where another one is.
//
// It goes by events alone. The turn of an execution is known to it for legs only.
type passage struct {
	seq  mesh.Seq // of its HandoffStarted
	to   string
	legs []arrival // of agents that were asked for while they are waited for
	// heard is the Seq with which it is active, ended that of its HandoffEnded, and back that
	// with which it is over; 0 before.
	heard, ended, back mesh.Seq
	outcome            mesh.HandoffOutcome
	// turn is the one whose stream comes back; "" for one that nobody reads.
	turn mesh.ExecutionID
}

// An arrival is an execution whose agent is waited for.
type arrival struct {
	turn, id mesh.ExecutionID
	agent    string
	from     mesh.Seq
}

func newPassage(e *mesh.Event, b mesh.HandoffStarted) *passage { return &passage{seq: e.Seq, to: b.To} }

// end applies the event with which a handoff ends, in the stream of the turn, and reports
// whether it was this one.
func (p *passage) end(e *mesh.Event, b mesh.HandoffEnded, turn mesh.ExecutionID) bool {
	if p == nil || p.ended != 0 || p.seq != b.Started || b.Stays {
		return false
	}
	p.ended, p.outcome, p.turn = e.Seq, b.Outcome, turn
	if b.Outcome == mesh.HandoffParked || turn == "" {
		p.back = e.Seq
	}
	return true
}

// apply adds the next event, but for the start and the end of handoffs, and returns the turn
// in whose stream the handoff reaches its next state with it; "" for none.
func (p *passage) apply(e *mesh.Event) (turn mesh.ExecutionID) {
	if p == nil || p.back != 0 || p.heard != 0 && p.ended == 0 {
		return ""
	}
	if b, begins := e.Body.(mesh.DispatchIssued); begins {
		p.expect(e, b.Child)
	}
	switch at := p.arrived(e); {
	case at == nil:
		b, moves := e.Body.(mesh.TaskMoved)
		if p.ended == 0 || !moves || e.Execution != p.turn || !mesh.Terminal(b.State) && !mesh.Interrupted(b.State) {
			return ""
		}
		p.back = e.Seq
		return p.turn
	case p.ended == 0:
		p.heard = e.Seq
		return at.turn
	default:
		p.back = e.Seq
		return at.turn
	}
}

// expect notes the execution if its agent is waited for.
func (p *passage) expect(e *mesh.Event, x mesh.Execution) {
	if x.Parent != e.Execution || x.Kind == mesh.KindTurn {
		return
	}
	if p.ended == 0 && (x.Kind != mesh.KindHandoff || x.Agent != p.to) || p.ended != 0 && e.Execution != p.turn {
		return
	}
	p.legs = append(p.legs, arrival{e.Execution, x.ID, x.Agent, e.Seq})
}

// arrived returns what is waited for of which the event shows that its agent was heard.
func (p *passage) arrived(e *mesh.Event) *arrival {
	settled, settles := e.Body.(mesh.DispatchSettled)
	for i := range p.legs {
		switch at := &p.legs[i]; {
		case p.ended != 0 && at.from < p.ended: // it is not waited for any more
		case settles && settled.Child == at.id && settled.State == a2apb.TaskState_TASK_STATE_COMPLETED,
			at.id == e.Execution && e.Actor == "agent:"+at.agent:
			return at
		}
	}
	return nil
}

// state is that which it reached last.
func (p *passage) state() mesh.HandoffState {
	switch {
	case p.back != 0:
		return mesh.HandoffState(p.outcome)
	case p.ended != 0:
		return mesh.HandoffReturning
	case p.heard != 0:
		return mesh.HandoffActive
	}
	return mesh.HandoffPending
}

// data is what extended readers are told of its state.
func (p *passage) data() *structpb.Value {
	return structpb.NewStructValue(&structpb.Struct{Fields: map[string]*structpb.Value{
		"seq": structpb.NewNumberValue(float64(p.seq)), "state": structpb.NewStringValue(string(p.state())),
		"target_agent_id": structpb.NewStringValue(p.to),
	}})
}

// at is the passage as it was after the event with the Seq, for a reader of the turn, and is
// theirs.
func (p *passage) at(after mesh.Seq, turn mesh.ExecutionID) *passage {
	was := *p
	if was.heard > after {
		was.heard = 0
	}
	if was.back > after {
		was.back = 0
	}
	if was.ended > after {
		was.ended, was.outcome, was.turn = 0, "", ""
	}
	was.legs = nil
	for _, l := range p.legs {
		if l.from <= after {
			was.legs = append(was.legs, l)
		}
	}
	if was.ended != 0 && was.turn != turn { // it comes back to others
		was.turn, was.back = "", was.ended
	}
	return &was
}

// passage returns the last one that had begun with the event with the Seq, as it was then;
// nil if there was none.
func (s *State) passage(after mesh.Seq, turn mesh.ExecutionID) *passage {
	for _, p := range slices.Backward(s.passages) {
		if p.seq <= after {
			return p.at(after, turn)
		}
	}
	return nil
}

// pass applies the event to the passage of the last handoff.
func (s *State) pass(e *mesh.Event) {
	if b, starts := e.Body.(mesh.HandoffStarted); starts {
		s.passages = append(s.passages, newPassage(e, b))
	}
	if len(s.passages) == 0 {
		return
	}
	last := s.passages[len(s.passages)-1]
	b, ends := e.Body.(mesh.HandoffEnded)
	if !ends {
		last.apply(e)
		return
	}
	var turn mesh.ExecutionID
	if t := s.TurnOf(e.Execution); t != nil {
		if had := t.stream(e.Seq - 1); had.apply(e) {
			turn = t.ID
		}
	}
	last.end(e, b, turn)
}

// handoff tells of a handoff that begins in the stream.
func (v *View) handoff(e *mesh.Event, b mesh.HandoffStarted) *a2apb.StreamResponse {
	if v.mode.Extended {
		v.passage = newPassage(e, b)
	}
	if v.reached = v.apply(e); !v.reached {
		return nil
	}
	name := b.ToName
	if name == "" {
		name = b.To
	}
	return v.status(e, a2apb.TaskState_TASK_STATE_WORKING, v.say(e, catalogue.Connecting(name)), nil,
		"agent", b.From, "handoff", map[string]any{
			"type": "handoff", "thread_id": v.ctx, "seq": float64(e.Seq),
			"source_agent_id": b.From, "target_agent_id": b.To, "target_agent_name": name,
			"handoff_reason": b.Reason, "context_summary": b.Summary,
			"conversation_history_count": float64(b.RecentMessages),
			"preserve_state":             b.PreserveState, "return_expected": b.ReturnExpected,
			"state": string(mesh.HandoffPending),
		})
}

// handoffReturn tells of a handoff that ends in the stream.
func (v *View) handoffReturn(e *mesh.Event, b mesh.HandoffEnded) *a2apb.StreamResponse {
	from := v.agent
	var turn mesh.ExecutionID
	if v.apply(e) {
		turn = v.turn
	}
	if v.reached = v.passage.end(e, b, turn) && turn != ""; turn == "" {
		return nil
	}
	if from == "" && v.reached { // it had another turn's stream
		from = v.passage.to
	}
	artifacts := []any{}
	for _, a := range b.Artifacts {
		artifacts = append(artifacts, map[string]any{"task_id": string(a.Task), "artifact_id": a.ID, "name": a.Name})
	}
	return v.status(e, a2apb.TaskState_TASK_STATE_WORKING, v.say(e, catalogue.Returning()), nil,
		"agent", from, "handoff_return", map[string]any{
			"type": "handoff_return", "thread_id": v.ctx, "seq": float64(b.Started),
			"source_agent_id": from, "outcome": string(b.Outcome), "summary": b.Summary, "by": b.By,
			"artifacts": artifacts,
		})
}
