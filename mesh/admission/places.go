package admission

import (
	"cmp"
	"slices"
	"sync"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/thread"
)

// DefaultNodeAgents is how many agents that others dispatched work at once on one node.
const DefaultNodeAgents = 256

// waitTime is how long who was told to wait keeps the turn without asking again.
const waitTime = 5 * time.Second

// lostTime is how much longer than its time an agent may hold a place whose end nobody saw
// here, as another node wrote it.
const lostTime = time.Minute

// Places are how many agents that others dispatched work on this node at once, of all turns.
// Who finds none asks again. A place that is free goes to who is next in the [limit.Line]. An
// agent that dispatches others itself gives its place back: it only waits for those, who need
// it.
//
// Places are in memory: they follow from what the log gets through this process. The zero
// value has DefaultNodeAgents. It may be used concurrently.
type Places struct {
	Most int // 0 for DefaultNodeAgents, -1 for no limit

	mu    sync.Mutex
	line  limit.Line[mesh.ExecutionID]
	until map[mesh.ExecutionID]time.Time // who holds a place, or waits, gives it up
}

// take gives the execution a place, or returns the trip of the limit.
func (p *Places) take(g *mesh.Grant, x mesh.Execution, now time.Time) *limit.Trip {
	if p == nil || p.Most == limit.Unlimited {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leave(g.Execution)
	if p.line.Holds(x.ID) {
		return nil
	}
	for id, until := range p.until {
		if now.After(until) {
			p.leave(id)
		}
	}
	p.line.Most = cmp.Or(p.Most, DefaultNodeAgents)
	p.line.Wait(x.ID, limit.Party{Tenant: g.Tenant, User: g.User}, p.line.Come())
	p.keepUntil(x.ID, now.Add(waitTime))
	if !slices.Contains(p.line.First(p.line.Most), x.ID) {
		return &limit.Trip{Limit: limit.NodeAgents, Used: int64(p.line.Held()), Most: int64(p.line.Most), Free: now.Add(time.Second)}
	}
	p.hold(g, x, now)
	return nil
}

// keepUntil says when the execution gives up what it has. p.mu is held.
func (p *Places) keepUntil(id mesh.ExecutionID, until time.Time) {
	if p.until == nil {
		p.until = map[mesh.ExecutionID]time.Time{}
	}
	p.until[id] = until
}

// leave has the execution neither hold a place nor wait. p.mu is held.
func (p *Places) leave(id mesh.ExecutionID) {
	p.line.Leave(id)
	delete(p.until, id)
}

// hold has the execution hold a place. p.mu is held.
func (p *Places) hold(g *mesh.Grant, x mesh.Execution, now time.Time) {
	until := x.Deadline
	if until.IsZero() {
		until = now.Add(time.Hour)
	}
	p.line.Hold(x.ID, limit.Party{Tenant: g.Tenant, User: g.User})
	p.keepUntil(x.ID, until.Add(lostTime))
}

// keep has an execution hold a place that goes on: it was let in before.
func (p *Places) keep(g *mesh.Grant, x *thread.Execution, now time.Time) {
	if p == nil || p.Most == limit.Unlimited {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	is := x.Execution
	is.Deadline = now.Add(x.Allowed)
	p.hold(g, is, now)
}

// free gives back the execution's place, if it has one. Who waits goes on waiting.
func (p *Places) free(id mesh.ExecutionID) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.line.Holds(id) {
		p.leave(id)
	}
}

// Added takes in what was appended to the log: see threadlog.WithAdded.
func (p *Places) Added(_ mesh.ThreadKey, events []*mesh.Event, _ time.Duration) {
	for _, e := range events {
		switch b := e.Body.(type) {
		case mesh.DispatchSettled:
			p.free(b.Child)
		case mesh.TaskMoved:
			if mesh.Terminal(b.State) || mesh.Interrupted(b.State) {
				p.free(e.Execution)
			}
		}
	}
}

// WithPlaces has no more agents begin at once than there are places. Who finds none is
// refused by limit.NodeAgents, and asks again.
func WithPlaces(p *Places) Option { return func(c *Controller) { c.places = p } }
