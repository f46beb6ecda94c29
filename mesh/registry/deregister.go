package registry

import (
	"context"
	"maps"
	"time"

	"agentmesh/mesh"
)

// Deregister removes an agent: the process with that lease id, or without one all of p's own or,
// for who may, of the tenant's or the shared agent of that name. It returns NotFound for what p's tenant does not see and for a
// wrong lease id, and Precondition for built-in agents.
func (r *Registry) Deregister(ctx context.Context, p mesh.Principal, name, leaseID string, shared bool) error {
	const op = "registry.Deregister"
	r.writes.Lock()
	defer r.writes.Unlock()
	if err := r.refresh(ctx); err != nil {
		return mesh.Wrap(op, err)
	}
	all, err := r.removable(p, name, leaseID, shared)
	if err != nil {
		return mesh.Wrap(op, err)
	}
	for _, c := range all {
		if err := r.unsave(ctx, c); err != nil {
			return mesh.Wrap(op, err)
		}
		r.remove(c)
	}
	if leaseID != "" {
		r.lock()
		defer r.mu.Unlock()
		now := r.now()
		maps.DeleteFunc(r.left, func(_ departed, until time.Time) bool { return !now.Before(until) })
		r.left[departed{all[0].Tenant, name, all[0].secret}] = now.Add(lapsedKept)
	}
	return nil
}

// removable returns the records that Deregister is about, of which there is one at least.
func (r *Registry) removable(p mesh.Principal, name, leaseID string, shared bool) ([]*record, error) {
	const op = "registry.removable"
	if leaseID != "" {
		r.lock()
		defer r.mu.Unlock()
		if c := r.leased(p.Tenant, name, leaseID); c != nil {
			return []*record{c}, nil
		}
		return nil, noLease(op, name)
	}
	if err := mayRegister(p, shared); err != nil {
		return nil, err
	}
	if err := itself(p, name); err != nil {
		return nil, err
	}
	r.lock()
	defer r.mu.Unlock()
	of := p.Tenant
	if shared {
		of = ""
	}
	c, all := r.record(of, name), r.record("", name)
	switch {
	case all != nil && all.Builtin:
		return nil, taken(op, "Agent %s is built in and cannot be removed; it ends with its node", name)
	case c == nil && all != nil:
		return nil, mesh.Errorf(mesh.Denied, op, "Agent %s is shared by all tenants; only an operator can remove it, "+
			"with \"shared\" set", name)
	case c == nil:
		return nil, notFound(op, name)
	case !c.OwnedBy(p):
		return nil, mesh.Errorf(mesh.Denied, op, "Agent %s belongs to another user; ask that one, or a tenant-admin", name)
	}
	return r.instances(of, name), nil
}

// remove drops c. The caller holds writes.
func (r *Registry) remove(c *record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.drop(c)
	r.log.Info("agent removed", "agent", c.Name, "tenant", c.Tenant)
}
