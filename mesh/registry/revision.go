package registry

import (
	"agentmesh/mesh"
)

// Revision returns a number that grows with every change of what List and Get
// return for the tenant, so that what was made of them can be kept until then.
func (r *Registry) Revision(tenant mesh.TenantID) uint64 {
	r.lock()
	defer r.mu.Unlock()
	var rev uint64
	for _, t := range []mesh.TenantID{"", tenant} {
		if of := r.realms[t]; of != nil {
			rev = max(rev, of.rev)
		}
	}
	return rev
}

// lock takes mu and brings the leases up to date.
func (r *Registry) lock() {
	r.mu.Lock()
	r.expire()
}

// changed publishes a change of c. The caller holds mu.
func (r *Registry) changed(c *record) {
	c.refresh(r.via)
	c.rev = r.touch(c.Tenant)
}

// touch gives the tenant's agents a new revision, which it returns, and wakes
// all who look at them. The caller holds mu.
func (r *Registry) touch(tenant mesh.TenantID) uint64 {
	r.rev++
	r.realms[tenant].rev = r.rev
	poke(r.wake)
	for w := range r.watchers {
		poke(w)
	}
	return r.rev
}

func poke(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}
