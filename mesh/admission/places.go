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
// Who finds none asks again. A place that is free goes to whoever's tenant has the fewest,
// then whose user has, then who has waited the longest. An agent that dispatches others
// itself gives its place back: it only waits for those, who need it.
//
// Places are in memory: they follow from what the log gets through this process. The zero
// value has DefaultNodeAgents. It may be used concurrently.
type Places struct {
	Most int // 0 for DefaultNodeAgents, -1 for no limit

	mu      sync.Mutex
	held    map[mesh.ExecutionID]place
	waiting []place
}

// A place is held, or wanted, for an execution.
type place struct {
	of     mesh.ExecutionID
	tenant mesh.TenantID
	user   string
	until  time.Time // it is given up
}

// take gives the execution a place, or returns the trip of the limit.
func (p *Places) take(g *mesh.Grant, x mesh.Execution, now time.Time) *limit.Trip {
	if p == nil || p.Most == limit.Unlimited {
		return nil
	}
	most := cmp.Or(p.Most, DefaultNodeAgents)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.held, g.Execution)
	if _, has := p.held[x.ID]; has {
		return nil
	}
	for id, h := range p.held {
		if now.After(h.until) {
			delete(p.held, id)
		}
	}
	p.waiting = slices.DeleteFunc(p.waiting, func(w place) bool { return now.After(w.until) })
	at := slices.IndexFunc(p.waiting, func(w place) bool { return w.of == x.ID })
	if at < 0 {
		at = len(p.waiting)
		p.waiting = append(p.waiting, place{of: x.ID, tenant: g.Tenant, user: g.User})
	}
	p.waiting[at].until = now.Add(waitTime)
	if free := most - len(p.held); free <= 0 || !slices.Contains(p.next(free), x.ID) {
		return &limit.Trip{Limit: limit.NodeAgents, Used: int64(len(p.held)), Most: int64(most), Free: now.Add(time.Second)}
	}
	p.hold(g, x, now)
	return nil
}

// next are the first n of those that wait, in their turns. p.mu is held.
func (p *Places) next(n int) []mesh.ExecutionID {
	type user struct {
		tenant mesh.TenantID
		name   string
	}
	tenants, users := map[mesh.TenantID]int{}, map[user]int{}
	for _, h := range p.held {
		tenants[h.tenant]++
		users[user{h.tenant, h.user}]++
	}
	var out []mesh.ExecutionID
	left := slices.Clone(p.waiting) // in the order in which they came
	for len(out) < n && len(left) > 0 {
		first := slices.MinFunc(left, func(a, b place) int {
			return cmp.Or(tenants[a.tenant]-tenants[b.tenant], users[user{a.tenant, a.user}]-users[user{b.tenant, b.user}])
		})
		tenants[first.tenant]++
		users[user{first.tenant, first.user}]++
		out = append(out, first.of)
		left = slices.DeleteFunc(left, func(w place) bool { return w.of == first.of })
	}
	return out
}

// hold has the execution hold a place. p.mu is held.
func (p *Places) hold(g *mesh.Grant, x mesh.Execution, now time.Time) {
	if p.held == nil {
		p.held = map[mesh.ExecutionID]place{}
	}
	until := x.Deadline
	if until.IsZero() {
		until = now.Add(time.Hour)
	}
	p.held[x.ID] = place{of: x.ID, tenant: g.Tenant, user: g.User, until: until.Add(lostTime)}
	p.waiting = slices.DeleteFunc(p.waiting, func(w place) bool { return w.of == x.ID })
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

// free gives back the execution's place, if it has one.
func (p *Places) free(id mesh.ExecutionID) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.held, id)
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
