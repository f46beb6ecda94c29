package edge

import (
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
)

// park adds to the decision what parks the session of a handoff whose user said nothing for
// too long, if there is one. It comes behind the message that finds it so, in the turn of the
// id, whose user reads it: the message is for who had the conversation before. Turns in which
// the session's agent waits go on without that agent when their users answer. Nobody watches
// the time of sessions: until the next message a thread costs nothing.
func (e *Edge) park(s *thread.State, id mesh.ExecutionID, dec *cache.Decision) {
	if !s.Overdue(e.Now()) {
		return
	}
	dec.Events = append(dec.Events, e.event(id, "node", mesh.HandoffEnded{Started: s.Handoff.Seq, Outcome: mesh.HandoffParked, By: "node"}))
	for _, t := range s.InSession() {
		for _, x := range s.Unfinished(t.ID) {
			dec.Events = append(dec.Events, e.event(x.Parent, "node", mesh.DispatchSettled{
				Child: x.ID, State: a2apb.TaskState_TASK_STATE_CANCELED, Reason: mesh.ReasonHandedOff,
			}))
		}
	}
}
