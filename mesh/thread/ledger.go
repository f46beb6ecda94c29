package thread

import "agentmesh/mesh"

// A Charge is what an event changes of what a user has at work and has used; the zero
// value is nothing.
type Charge struct {
	User string
	// Agents are those at work that agents dispatched: 1 more, or less. Dispatches is 1
	// when one was dispatched.
	Agents, Dispatches int64
	// Spent is what a model used.
	Spent mesh.Budget
}

// A Ledger says who is charged for what happens in a thread. It knows executions for as
// long as they are not over, and is not safe for concurrent use.
type Ledger struct{ open map[mesh.ExecutionID]*errand }

// An errand is an execution that is not over.
type errand struct {
	user       string
	dispatched bool // by an agent
	at         int64
}

// Apply adds the next event of the thread; of facts that are no ModelReplied it needs no
// body.
func (l *Ledger) Apply(e *mesh.Event) (c Charge) {
	switch b := e.Body.(type) {
	case mesh.DispatchIssued:
		if l.open[b.Child.ID] != nil {
			return c
		}
		if l.open == nil {
			l.open = map[mesh.ExecutionID]*errand{}
		}
		_, dispatched := l.open[e.Execution] // a turn is not there
		x := &errand{user: b.Child.User, dispatched: dispatched}
		l.open[b.Child.ID] = x
		if c = x.work(1); dispatched {
			c.Dispatches = 1
		}
	case mesh.TaskMoved:
		switch x := l.open[e.Execution]; {
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
		if x := l.open[e.Execution]; x != nil {
			return Charge{User: x.user, Spent: b.Usage.Spent()}
		}
	}
	return c
}

// Close ends all that is not over: the thread has no task any more that goes on, or is
// gone.
func (l *Ledger) Close() (all []Charge) {
	for id := range l.open {
		if c := l.end(id); c != (Charge{}) {
			all = append(all, c)
		}
	}
	return all
}

func (l *Ledger) end(id mesh.ExecutionID) (c Charge) {
	if x := l.open[id]; x != nil {
		delete(l.open, id)
		c = x.work(0)
	}
	return c
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
