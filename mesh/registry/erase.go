package registry

import (
	"context"

	"agentmesh/mesh"
)

// Erase removes the agents that a user registered with the tenant, with the credentials that
// were given for them, or counts them alone, and returns how many there were.
func (r *Registry) Erase(ctx context.Context, o mesh.Owner, countOnly bool) ([]mesh.Held, error) {
	const op = "registry.Erase"
	r.writes.Lock()
	defer r.writes.Unlock()
	if err := r.refresh(ctx); err != nil {
		return nil, mesh.Wrap(op, err)
	}
	var theirs []*record
	r.lock()
	for c := range r.all() {
		if c.Tenant == o.Tenant && c.Owner == o.User && !c.Builtin {
			theirs = append(theirs, c)
		}
	}
	r.mu.Unlock()
	if !countOnly {
		for _, c := range theirs {
			if err := r.unsave(ctx, c); err != nil {
				return nil, mesh.Wrap(op, err)
			}
			r.remove(c)
		}
	}
	return []mesh.Held{{What: "agents", Count: len(theirs)}}, nil
}
