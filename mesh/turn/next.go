package turn

import (
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/call"
	"agentmesh/mesh/text"
	"agentmesh/mesh/thread"
)

// maxHops bounds how often the stream may change hands within a turn: back from
// the specialist that had it before, and to handoff.MaxHandoffsInTurn and back.
const maxHops = 9

// nextLeg decides what follows a leg: another leg, or how the turn moves. With an agent that
// is lost again and again the turn is cut off.
func (d *driver) nextLeg(s *thread.State, t *thread.Execution, l *leg, out *outcome) (*leg, mesh.TaskMoved) {
	h := s.Handoff
	next := &leg{turn: t.ID, user: t.User, hops: l.hops}
	taken := d.taken(s, t, next, l.from)
	switch {
	case t.Canceled:
		return nil, mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_CANCELED, Message: mesh.Say(text.Canceled())}
	case out.kind == legOver && (out.last.Reason == mesh.ReasonInterrupted || l.from == 0):
		// A leg that could not even be logged will not be when it is tried again.
		return nil, out.last
	case taken && l.hops >= maxHops:
		return nil, call.Failure(reasonHops, text.TooManyHandoffs())
	case taken:
		return next, mesh.TaskMoved{}
	case out.lost && !d.Interrupt && s.Execution(l.exec.ID).Adoptions < maxAdoptions:
		next.resumeLeg(l)
		next.adopted = true
		return next, mesh.TaskMoved{}
	case mesh.Interrupted(out.last.State) && len(t.Pending()) > 0:
		next.resumeLeg(l)
		return next, mesh.TaskMoved{}
	case givenUp(out.last.State) && h.Active() && h.To == l.exec.Agent && l.exec.Agent != d.home(t.Agent):
		next.hops++
		next.start(s, d.key.ID, d.home(t.Agent), mesh.KindAgent, len(t.Legs))
		ended := *h
		ended.Outcome, ended.Result = mesh.HandoffError, text.CouldNotGoOn(l.exec.Agent, mesh.TextOf(out.last.Message))
		if !failedIn(out.last.State) {
			ended.Outcome = mesh.HandoffCancelled
		}
		next.returned, next.endHandoff = &ended, true
		return next, mesh.TaskMoved{}
	case mesh.Terminal(out.last.State) && len(t.Pending()) > 0:
		next.start(s, d.key.ID, s.ActiveAgent(d.home(t.Agent)), legKind(s), len(t.Legs))
		return next, mesh.TaskMoved{}
	case out.kind == legLost:
		return nil, call.Failure(mesh.ReasonIllegal, text.LostTrack())
	case out.lost && !d.Interrupt:
		out.last.Reason, out.cut = mesh.ReasonInterrupted, text.AgentLost(l.exec.Agent)
	}
	return nil, mesh.TaskMoved{State: out.last.State, Message: out.last.Message, Reason: out.last.Reason, Metadata: out.last.Metadata}
}

// taken makes the leg that of the agent to which a handoff of the turn gave the stream, or
// gave it back, after the Seq; false if none did. Another agent, which works or asked in a task
// of its own while the handoff ends, goes on.
func (d *driver) taken(s *thread.State, t *thread.Execution, next *leg, after mesh.Seq) bool {
	switch h := s.Handoff; {
	case h != nil && h.Turn == t.ID && h.Seq > after && h.Active():
		next.start(s, d.key.ID, h.To, mesh.KindHandoff, len(t.Legs))
		next.handoff = h
	case h != nil && h.Ended > after && (t.Leg() == nil || t.Leg().Agent == h.To):
		next.start(s, d.key.ID, d.home(t.Agent), mesh.KindAgent, len(t.Legs))
		next.returned = h
	default:
		return false
	}
	next.hops++
	return true
}

// legKind is the kind of an execution of the thread's active agent.
func legKind(s *thread.State) mesh.Kind {
	if s.Handoff.Active() {
		return mesh.KindHandoff
	}
	return mesh.KindAgent
}

func failedIn(s mesh.TaskState) bool {
	return s == a2apb.TaskState_TASK_STATE_FAILED || s == a2apb.TaskState_TASK_STATE_REJECTED
}

// givenUp reports whether the agent does not go on with what it was asked for: it failed, or
// canceled its task itself. One that completed it has answered, and is asked next, too.
func givenUp(s mesh.TaskState) bool {
	return failedIn(s) || s == a2apb.TaskState_TASK_STATE_CANCELED
}
