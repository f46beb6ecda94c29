package thread

import (
	"slices"

	"agentmesh/mesh"
)

// A Charge is what an event changes of what a user has at work and has used; the zero
// value is nothing.
type Charge struct {
	User string
	// Agents are those at work that agents dispatched: 1 more, or less. Dispatches is 1
	// when one was dispatched.
	Agents, Dispatches int64
	// Spent is what a model used, and Use by what.
	Spent mesh.Budget
	Use   Use
}

// A Use is a reply of a model, as it counts for sums of use; the zero value is none.
type Use struct {
	Agent, Model string
	Usage        mesh.Usage
}

// A Ledger says who is charged for what happens in a thread. It knows executions for as
// long as they are not over, and is not safe for concurrent use.
type Ledger struct{ open []errand }

// An errand is an execution that is not over.
type errand struct {
	id         mesh.ExecutionID
	user       string
	agent      string
	dispatched bool // by an agent
	at         int64
}

// Apply adds the next event of the thread; of facts that are no ModelReplied it needs no
// body.
func (l *Ledger) Apply(e *mesh.Event) (c Charge) {
	switch b := e.Body.(type) {
	case mesh.DispatchIssued:
		if l.find(b.Child.ID) != nil {
			return c
		}
		x := errand{id: b.Child.ID, user: b.Child.User, agent: b.Child.Agent, dispatched: l.find(e.Execution) != nil} // a turn is not there
		if c = x.work(1); x.dispatched {
			c.Dispatches = 1
		}
		l.open = append(l.open, x)
	case mesh.TaskMoved:
		switch x := l.find(e.Execution); {
		case x == nil:
		case mesh.Terminal(b.State):
			return l.end(e.Execution)
		case mesh.Interrupted(b.State):
			return x.work(0)
		default:
			return x.work(1)
		}
	case mesh.DispatchSettled:
		return l.end(b.Child)
	case mesh.ModelReplied:
		if x := l.find(e.Execution); x != nil {
			return Charge{User: x.user, Spent: b.Usage.Spent(), Use: Use{x.agent, b.Model, b.Usage}}
		}
	}
	return c
}

// Close ends all that is not over: the thread has no task any more that goes on, or is
// gone.
func (l *Ledger) Close() (all []Charge) {
	for i := range l.open {
		if c := l.open[i].work(0); c != (Charge{}) {
			all = append(all, c)
		}
	}
	l.open = nil
	return all
}

func (l *Ledger) end(id mesh.ExecutionID) (c Charge) {
	if x := l.find(id); x != nil {
		c = x.work(0)
		l.open = slices.DeleteFunc(l.open, func(o errand) bool { return o.id == id })
	}
	return c
}

func (l *Ledger) find(id mesh.ExecutionID) *errand {
	for i := range l.open {
		if l.open[i].id == id {
			return &l.open[i]
		}
	}
	return nil
}

// work notes whether it is at work, 1, or not, 0.
func (x *errand) work(now int64) Charge {
	if !x.dispatched || x.at == now {
		return Charge{}
	}
	c := Charge{User: x.user, Agents: now - x.at}
	x.at = now
	return c
}
