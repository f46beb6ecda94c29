package edge

import (
	"slices"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/types/known/structpb"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/registry"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
)

// An exit is what a message does that leaves the agent of the active handoff.
type exit struct {
	// bare says that the message says nothing else; else main answers it.
	bare bool
}

// exitOf returns how the message leaves the agent that has the conversation, or nil for one
// that is to be answered: while main has it, nobody can be left. A session that any other
// message would park is left, too: its question, with the way out, is still what the user sees.
// To an agent that asked in a task of its own, which the message names, a word is a word.
func (e *Edge) exitOf(s *thread.State, in *intake) *exit {
	if !s.Handoff.Active() {
		return nil
	}
	a, _ := e.Directory.Resolve(in.key.Tenant, s.Handoff.To) // also of one that is away
	words := append(registry.Params(a.Card).ExitWords, mesh.ExitWord)
	bare := mesh.Says(in.msg, words...) && !elsewhere(s, in.task)
	if !bare && !a2a.Extension(in.msg.GetMetadata()).GetFields()[a2a.KeyExit].GetBoolValue() {
		return nil
	}
	return &exit{bare: bare}
}

// checkExit refuses an exit that is neither true nor false.
func checkExit(m *a2apb.Message) error {
	v := a2a.Extension(m.GetMetadata()).GetFields()[a2a.KeyExit]
	if _, is := v.GetKind().(*structpb.Value_BoolValue); v == nil || is {
		return nil
	}
	return mesh.InvalidField("edge.Send", "message.metadata."+mesh.ExtensionURI+"."+a2a.KeyExit, "must be true or false; leave it out to stay")
}

// leaving returns the turn that a message goes to which leaves: the one in which the user
// talks to that agent, at work or waiting; nil for a new one.
func (e *Edge) leaving(s *thread.State, in *intake) (*thread.Execution, error) {
	if in.task != "" {
		return e.target(s, in)
	}
	for _, t := range slices.Backward(s.InSession()) {
		if t.User == in.call.Principal.User && (in.call.Agent == "" || in.call.Agent == t.Agent) {
			return t, nil
		}
	}
	return nil, e.full("edge.Send", s)
}

// elsewhere reports whether another agent than that of the active handoff has the stream of
// the task: it works there, or asked.
func elsewhere(s *thread.State, task mesh.ExecutionID) bool {
	who := s.Holder(s.Turn(task))
	return who != "" && who != s.Handoff.To
}

// ended is the event with which the handoff ends by a message in the turn of the id, whose
// user reads it; but in one that another agent has nobody takes the stream, and nobody reads it.
func (e *Edge) ended(s *thread.State, id mesh.ExecutionID, actor string, end mesh.HandoffEnded) *mesh.Event {
	if elsewhere(s, id) {
		id = ""
	}
	return e.event(id, actor, end)
}

// leave adds to the decision what follows when the user leaves in the turn of the id, by a
// message or a cancel that is in it already: the handoff ends as cancelled. Of the turns, which
// are in the session, that one goes on with main; others in which that agent waits are over, and
// one in which it works goes on with main, too. It returns the executions that waited, and do
// no more.
func (e *Edge) leave(s *thread.State, user string, id mesh.ExecutionID, turns []*thread.Execution, dec *cache.Decision) []thread.Execution {
	by := "user:" + user
	c := s.Close(by, turns, func(t *thread.Execution) bool { return t.ID == id })
	about := id
	if len(c.Working) > 0 {
		about = mesh.ExecutionID(c.Working[0]) // it tells who reads it
	}
	dec.Scopes = append(dec.Scopes, c.Working...)
	return e.close(c, e.ended(s, about, by, s.Handoff.Leave(by)), dec)
}

// close adds to the decision how a handoff ends, and what comes to rest with its session. It
// returns the executions that waited, and do no more.
func (e *Edge) close(c thread.Closing, end *mesh.Event, dec *cache.Decision) []thread.Execution {
	dec.Events = append(dec.Events, end)
	for _, ev := range c.Events {
		dec.Events = append(dec.Events, e.event(ev.Execution, end.Actor, ev.Body))
	}
	return c.Waiting
}
