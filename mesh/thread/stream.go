package thread

import (
	"slices"
	"strconv"
	"strings"

	"agentmesh/mesh"
)

// A stream is the way from a turn to its user, and who has it. State, View,
// Snapshot and Transcript all go by this one rule: a turn gives its stream to an
// execution by dispatching it; a handoff that the turn or who has the stream
// begins or ends takes it back, but for an end with which the agent stays; and it
// ends with the turn.
type stream struct {
	turn  mesh.ExecutionID
	has   mesh.ExecutionID // who has it, or ""
	agent string           // its agent
	over  bool             // the turn has ended
}

// carries reports whether the user gets what the execution says.
func (s *stream) carries(id mesh.ExecutionID) bool { return id == s.has && id != "" && !s.over }

// apply adds the next event and reports whether it gave or took the stream.
func (s *stream) apply(e *mesh.Event) bool {
	if s.over {
		return false
	}
	switch b := e.Body.(type) {
	case mesh.DispatchIssued:
		if e.Execution != s.turn || b.Child.Parent != s.turn || b.Child.Kind == mesh.KindTurn {
			return false
		}
		s.has, s.agent = b.Child.ID, b.Child.Agent
	case mesh.HandoffStarted, mesh.HandoffEnded:
		if end, ends := b.(mesh.HandoffEnded); ends && end.Stays {
			return false
		}
		if e.Execution != s.turn && !s.carries(e.Execution) {
			return false
		}
		s.has, s.agent = "", ""
	case mesh.TaskMoved:
		if e.Execution != s.turn || !mesh.Terminal(b.State) {
			return false
		}
		s.over = true
	default:
		return false
	}
	return true
}

// opens reports whether the event opens a turn.
func opens(e *mesh.Event, x mesh.Execution) bool {
	return x.Kind == mesh.KindTurn && x.ID == e.Execution && x.Parent == ""
}

// stream returns the stream of a turn as it was after the event with the Seq.
func (x *Execution) stream(after mesh.Seq) stream {
	s := stream{turn: x.ID, over: x.Ended != 0 && x.Ended <= after}
	for _, l := range slices.Backward(x.Legs) {
		if l.From <= after {
			if l.To == 0 || l.To > after {
				s.has, s.agent = l.Execution, l.Agent
			}
			break
		}
	}
	return s
}

// take applies the event to the stream of the turn, and reports whether it gave
// or took the stream; then the turn's legs change.
func (x *Execution) take(e *mesh.Event) bool {
	s := x.stream(e.Seq)
	if !s.apply(e) {
		return false
	}
	if l := x.Leg(); l != nil {
		l.To = e.Seq
	}
	if s.has != "" && !s.over {
		x.Legs = append(x.Legs, Leg{Execution: s.has, Agent: s.agent, From: e.Seq})
	}
	return true
}

// OwnArtifactID is the id that an agent gave an artifact itself, which a task has of its
// execution with the ordinal: the task's first execution is 1, and keeps its ids but for
// those that look like another one's.
func OwnArtifactID(id string, ordinal int) string {
	own, ok := strings.CutPrefix(id, strconv.Itoa(ordinal)+".")
	if !ok || ordinal == 1 && !strings.HasPrefix(strings.TrimLeft(own, "0123456789"), ".") {
		return id
	}
	return own
}
