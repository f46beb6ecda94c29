package admission

import (
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/thread"
)

// Terms are what holds for an agent that has others work, and for one of those. What is 0
// or less has no bound.
type Terms struct {
	// Concurrent is how many agents an execution has at work at a time. Who would be one more
	// is refused by limit.OrchestratorAgents, and asks again.
	Concurrent int
	// Time is how long an execution may have others work, since it began or went on with the
	// user's message, without the time in which nobody worked. What it dispatched has to end by
	// then, and after that only outcomes are taken.
	Time time.Duration
	// Timeout is how long the other agent may take.
	Timeout time.Duration
}

// WithTerms has the mesh keep the terms that of returns for the agent by, and for the agent
// that it dispatches, which is "" where that does not matter. By default there are none.
func WithTerms(of func(tenant mesh.TenantID, by, agent string) Terms) Option {
	return func(c *Controller) { c.terms = of }
}

// time is that of the execution to have others work.
func (w *ruling) time(t Terms) limit.Account {
	return limit.Account{Limit: limit.OrchestratorTime, Of: limit.Seconds, Stops: limit.StopsDispatches | limit.StopsStarts,
		Used: int64(w.worked() / time.Second), Most: int64(t.Time / time.Second)}
}

// worked is how long the execution has worked.
func (w *ruling) worked() time.Duration { return w.mine.Worked + max(w.now.Sub(w.mine.Began), 0) }

// within returns the child with an end that is in time, or the trip of the limit of those at
// work.
func (w *ruling) within(c mesh.Execution) (mesh.Execution, *limit.Trip) {
	t := w.by.terms(w.grant.Tenant, w.grant.Agent, c.Agent)
	if t.Concurrent > 0 {
		if n := w.atWork(); n >= t.Concurrent {
			return c, &limit.Trip{Limit: limit.OrchestratorAgents, Used: int64(n), Most: int64(t.Concurrent), Free: w.now.Add(time.Second)}
		}
	}
	ends := func(in time.Duration) {
		if at := w.now.Add(in); c.Deadline.IsZero() || at.Before(c.Deadline) {
			c.Deadline = at
		}
	}
	if t.Timeout > 0 {
		ends(t.Timeout)
	}
	if t.Time > 0 {
		ends(t.Time - w.worked())
	}
	return c, nil
}

// atWork is how many agents the execution has at work, with this request and what is on its
// way. One whose time is over is not, whatever became of it.
func (w *ruling) atWork() (n int) {
	for _, id := range w.began {
		if !w.over[id] {
			n++
		}
	}
	for id := range w.away.issued {
		if !w.over[id] && !w.away.over[id] {
			n++
		}
	}
	all := w.st.Executions()
	for i := len(all) - 1; i >= 0 && all[i].ID != w.mine.ID; i-- { // what it dispatched came after it
		x := all[i]
		if x.Parent == w.mine.ID && x.Status() == thread.StatusRunning && !w.over[x.ID] && !w.away.over[x.ID] && (x.Deadline.IsZero() || w.now.Before(x.Deadline)) {
			n++
		}
	}
	return n
}
