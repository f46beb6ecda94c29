package edge

import (
	"agentmesh/mesh"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
)

// park adds to the decision what parks the session of a handoff whose user said nothing for
// too long, if there is one. It comes behind the message that finds it so, in the turn of the
// id, whose user reads it: the message is for who had the conversation before. Turns in which
// the session's agent waits go on without that agent when their users answer; it returns the
// executions that waited, and do no more, for a later session is another one, also of agents
// that keep what was said themselves. Nobody watches the time of sessions: until the next
// message a thread costs nothing.
func (e *Edge) park(s *thread.State, id mesh.ExecutionID, dec *cache.Decision) []thread.Execution {
	if !s.Overdue(e.Now()) {
		return nil
	}
	c := s.Close("node", s.InSession(), func(*thread.Execution) bool { return true })
	return e.close(c, e.ended(s, id, "node", mesh.HandoffEnded{Started: s.Handoff.Seq, Outcome: mesh.HandoffParked, By: "node"}), dec)
}
