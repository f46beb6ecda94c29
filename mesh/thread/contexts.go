package thread

import "agentmesh/mesh"

// Bounds of what a State remembers of the contexts of agents: of how many agents, and
// how long an id may be, in bytes. What is beyond is not remembered.
const (
	maxContexts = 256
	maxContext  = 1 << 10
)

// maxInstance is how long the name of a process may be, in bytes; a longer one is none.
const maxInstance = 64

// A remoteContext is where an agent that has contexts of its own keeps the conversation.
type remoteContext struct {
	id     string           // the agent's own, once it has said it
	holder mesh.ExecutionID // the last execution that went on in it
}

// hold has a new execution go on in the context of its agent, unless another one is at
// work in it: then it has one of its own, which nobody goes on in.
func (s *State) hold(x *Execution) {
	c := s.contexts[x.Agent]
	switch {
	case c == nil && len(s.contexts) >= maxContexts:
		return
	case c == nil:
		if s.contexts == nil {
			s.contexts = map[string]*remoteContext{}
		}
		c = new(remoteContext)
		s.contexts[x.Agent] = c
	case !mesh.Terminal(s.execs[c.holder].State):
		return
	}
	c.holder, x.Remembers, x.RemoteContext = x.ID, true, c.id
}

// learn takes in what an execution's agent calls it. A context that the agent has refused
// is remembered until it has answered in another one, so that each execution until then is
// told what was said.
func (s *State) learn(x *Execution, b mesh.TaskMoved) {
	if b.Reason == mesh.ReasonReplaced {
		x.RemoteContext = ""
	}
	if b.RemoteTask != "" {
		x.RemoteTask = b.RemoteTask
	}
	if b.Instance != "" && len(b.Instance) <= maxInstance {
		x.Instance = b.Instance
	}
	if b.RemoteContext == "" {
		return
	}
	x.RemoteContext = b.RemoteContext
	if c := s.contexts[x.Agent]; x.Remembers && c.holder == x.ID {
		if c.id = b.RemoteContext; len(c.id) > maxContext {
			c.id = ""
		}
	}
}
