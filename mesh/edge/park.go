package edge

import (
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
)

// park are the events that park the session of a handoff whose user said nothing for too
// long: none if there is no such. They come before the message that finds it so, which then
// is for who had the conversation before. A turn in which the session's agent waits for its
// user goes on, without that agent. Nobody watches the time of sessions: until the next
// message a thread costs nothing.
func (e *Edge) park(s *thread.State) []*mesh.Event {
	if !s.Overdue(e.Now()) {
		return nil
	}
	end := mesh.HandoffEnded{Started: s.Handoff.Seq, Outcome: mesh.HandoffParked, By: "node"}
	t := s.InterruptedTurn()
	if t == nil || t.Leg() == nil || t.Leg().Agent != s.Handoff.To {
		return []*mesh.Event{e.event(s.Handoff.Turn, "node", end)}
	}
	events := []*mesh.Event{e.event(t.ID, "node", end)}
	for _, x := range s.Unfinished(t.ID) {
		events = append(events, e.event(x.Parent, "node", mesh.DispatchSettled{
			Child: x.ID, State: a2apb.TaskState_TASK_STATE_CANCELED, Reason: mesh.ReasonHandedOff,
		}))
	}
	return events
}
