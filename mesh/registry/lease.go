package registry

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"time"

	"agentmesh/mesh"
)

// renew lets c's lease begin now. The caller holds mu.
func (r *Registry) renew(c *record, now time.Time) { r.expires(c, now.Add(c.lease)) }

// expires lets c's lease end at t, which is to come. The caller holds mu.
func (r *Registry) expires(c *record, t time.Time) {
	c.Expires = t.UTC()
	r.expectBy(c.Expires)
	if c.lapsed {
		c.lapsed = false
		r.changed(c)
	}
}

// KeepAlive renews the lease with that id and returns when it ends now. A
// lease that ran out is renewed too while nobody else took the name. It returns
// NotFound for a name that p's tenant does not see and for a wrong id alike.
func (r *Registry) KeepAlive(p mesh.Principal, name, leaseID string) (time.Time, error) {
	const op = "registry.KeepAlive"
	expires, ok := r.keepAlive(p.Tenant, name, leaseID)
	if !ok && r.shared { // it may be registered with another
		if err := r.look(p.Tenant, name); err != nil {
			return time.Time{}, mesh.Wrap(op, err)
		}
		expires, ok = r.keepAlive(p.Tenant, name, leaseID)
	}
	if ok && r.shared {
		ok = r.keepLease(p.Tenant, name, leaseID)
	}
	if !ok {
		return time.Time{}, noLease(op, name)
	}
	return expires, nil
}

// keepAlive renews the lease in memory, if it is there.
func (r *Registry) keepAlive(tenant mesh.TenantID, name, leaseID string) (time.Time, bool) {
	r.lock()
	defer r.mu.Unlock()
	c := r.leased(tenant, name, leaseID)
	if c == nil {
		return time.Time{}, false
	}
	r.renew(c, r.now())
	return c.Expires, true
}

// leased returns the tenant's or shared record with that name and lease id.
// The caller holds mu.
func (r *Registry) leased(tenant mesh.TenantID, name, leaseID string) *record {
	for _, t := range []mesh.TenantID{tenant, ""} {
		for _, c := range r.instances(t, name) {
			if c.owns(leaseID) {
				return c
			}
		}
	}
	return nil
}

func noLease(op, name string) *mesh.Error {
	return &mesh.Error{Code: mesh.NotFound, Op: op, Field: "lease_id",
		Detail: "Agent " + clip(name) + " has no registration with this lease id; register it again"}
}

func (c *record) owns(leaseID string) bool {
	return c.leaseID != "" && subtle.ConstantTimeCompare([]byte(c.leaseID), []byte(digest(leaseID))) == 1
}

// Holds reports whether the secret is that of the agent's registration with the tenant, or
// with "" for all tenants. Where others share the store it may look there.
func (r *Registry) Holds(tenant mesh.TenantID, name, secret string) bool {
	held := func() bool {
		r.lock()
		defer r.mu.Unlock()
		proof := digest(secret)
		for _, c := range r.instances(tenant, name) {
			if c.secret != "" && subtle.ConstantTimeCompare([]byte(c.secret), []byte(proof)) == 1 {
				return true
			}
		}
		return r.now().Before(r.left[departed{tenant, name, proof}])
	}
	if secret == "" || held() {
		return secret != ""
	}
	return r.shared && r.look(tenant, name) == nil && held()
}

// digest is what is kept of a lease id or a secret, so that the store gives none away.
// Nobody guesses the text of a digest, as they are random.
func digest(leaseID string) string {
	sum := sha256.Sum256([]byte(leaseID))
	return hex.EncodeToString(sum[:])
}

// keepLease lets others know that the lease was renewed here, as rarely as they need
// to know. It reports whether the lease is still there: others may have removed or
// replaced it. A store that does not answer changes nothing.
func (r *Registry) keepLease(tenant mesh.TenantID, name, leaseID string) bool {
	r.mu.Lock()
	c := r.leased(tenant, name, leaseID)
	known := c != nil && c.kept.Sub(r.now()) > c.lease/2
	r.mu.Unlock()
	if c == nil || known {
		return c != nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	r.writes.Lock()
	defer r.writes.Unlock()
	is, data, err := r.reread(ctx, c)
	if err == nil {
		r.mu.Lock()
		c = r.leased(tenant, name, leaseID)
		if c == nil || is == nil {
			r.mu.Unlock()
			return false
		}
		lapsed := !r.now().Before(is.Expires)
		is.Expires, c.kept = c.Expires, c.Expires
		r.mu.Unlock()
		err = r.saveLease(ctx, is, data, lapsed)
	}
	if err != nil {
		r.log.Warn("renewed lease of agent could not be kept", "agent", name, "tenant", tenant, "err", err)
	}
	return true
}

// saveLease keeps the end of a lease in place of what is there. Others look at a
// lease by themselves before it ends, and are told of one that had.
func (r *Registry) saveLease(ctx context.Context, c *record, old []byte, lapsed bool) error {
	if lapsed {
		return r.save(ctx, c)
	}
	data, err := encode(c)
	if err != nil {
		return err
	}
	return r.store.Swap(ctx, storeKey(c), old, data)
}
