package registry

import (
	"bytes"
	"context"
	"slices"
	"time"

	"google.golang.org/protobuf/proto"

	"agentmesh/mesh"
	"agentmesh/mesh/alarm"
)

const (
	// lookEvery is how often a registry looks what others registered.
	lookEvery = time.Second
	// readEvery is how often it reads all of it although nothing seems to have
	// changed: another node may have died between its change and telling of it.
	readEvery = time.Minute
	// storeTimeout bounds what those wait for the store whose calls have no bound.
	storeTimeout = 2 * time.Second
)

// Refresh brings what the registry knows up to date with what others registered, if
// it shares its store.
func (r *Registry) Refresh(ctx context.Context) error {
	if !r.shared {
		return nil
	}
	r.writes.Lock()
	defer r.writes.Unlock()
	return mesh.Wrap("registry.Refresh", r.refresh(ctx))
}

// refresh is Refresh for a caller who holds writes.
func (r *Registry) refresh(ctx context.Context) error {
	if !r.shared {
		return nil
	}
	rev, err := r.store.Revision(ctx)
	if err != nil || rev == r.seen && r.now().Sub(r.read) < readEvery {
		return err
	}
	return r.readAll(ctx)
}

// readAll makes the memory what the store has. The caller holds writes.
func (r *Registry) readAll(ctx context.Context) error {
	rev, err := r.store.Revision(ctx) // before what it is of
	if err != nil {
		return err
	}
	all, err := r.store.All(ctx)
	if err != nil {
		return err
	}
	for at, over := range r.mergeAll(all) {
		if _, err := r.store.Remove(ctx, at); err != nil {
			r.log.Warn("old registration could not be removed", "agent", over.Name, "tenant", over.Tenant, "err", err)
		}
	}
	r.seen, r.read = rev, r.now()
	return nil
}

// mergeAll makes the memory what the store has, and returns what nobody renews any
// more.
func (r *Registry) mergeAll(all map[string][]byte) map[string]*record {
	r.lock()
	defer r.mu.Unlock()
	over := map[string]*record{}
	for at, data := range all {
		c, err := r.decode(data)
		switch {
		case err != nil:
			r.log.Error("kept registration is damaged and was left out", "key", at, "err", err)
		case c.lease > 0 && r.now().Sub(c.Expires) > 2*lapsedKept:
			over[at] = c
		default:
			r.merge(c)
		}
	}
	for c := range r.all() {
		if _, ok := all[storeKey(c)]; !ok && r.durable(c) {
			r.drop(c)
		}
	}
	return over
}

// merge takes over what the store has of an agent. The caller holds mu.
func (r *Registry) merge(c *record) {
	now, all := r.now(), r.instances(c.Tenant, c.Name)
	var was *record
	if i := slices.IndexFunc(all, func(o *record) bool { return o.Builtin || storeKey(o) == storeKey(c) }); i >= 0 {
		was = all[i]
	}
	switch {
	case was != nil && was.Builtin:
	case was != nil && was.same(c):
		was.kept = c.kept
		if c.Expires.After(was.Expires) {
			r.expires(was, c.Expires)
		}
	case c.lease > 0 && now.Sub(c.Expires) > lapsedKept: // as if it had not been there
	default:
		if c.lease > 0 {
			c.lapsed = !now.Before(c.Expires)
			r.expectBy(c.Expires)
		} else {
			c.probeAt = now
		}
		r.put(c, r.replaced(c, ""))
	}
}

// same reports whether the other record is of the same registration, with the same
// card.
func (c *record) same(o *record) bool {
	return c.CardURL == o.CardURL && c.Endpoint == o.Endpoint && c.given == o.given && c.leaseID == o.leaseID && c.secret == o.secret &&
		c.lease == o.lease && c.Registered.Equal(o.Registered) && proto.Equal(c.Card, o.Card) && bytes.Equal(c.sealed, o.sealed) && slices.Equal(c.odd, o.odd)
}

// look looks into the store for an agent that the memory does not have, or whose
// lease ran out by what it has.
func (r *Registry) look(tenant mesh.TenantID, name string) error {
	ctx, cancel := context.WithTimeout(context.Background(), storeTimeout)
	defer cancel()
	r.writes.Lock()
	defer r.writes.Unlock()
	if err := r.refresh(ctx); err != nil {
		return err
	}
	r.lock()
	c := r.find(tenant, name)
	lapsed := c != nil && c.lapsed
	r.mu.Unlock()
	if !lapsed {
		return nil
	}
	_, _, err := r.reread(ctx, c)
	return err
}

// reread takes over what the store has of the agent of c, and returns that, as it is
// kept, too. The caller holds writes.
func (r *Registry) reread(ctx context.Context, c *record) (*record, []byte, error) {
	data, err := r.store.Get(ctx, storeKey(c))
	if err != nil {
		return nil, nil, err
	}
	var is *record
	if data != nil {
		if is, err = r.decode(data); err != nil {
			return nil, nil, err
		}
	}
	r.lock()
	defer r.mu.Unlock()
	switch {
	case is != nil:
		r.merge(is)
	case r.has(c):
		r.drop(c)
	}
	return is, data, nil
}

// follow looks what others registered and renewed, until ctx is done.
func (r *Registry) follow(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if err := r.lookAt(ctx); ctx.Err() == nil {
			r.alarms.Report(ctx, alarm.Source{Setting: "agents", Of: "of other nodes"}, "the agents that were known go on to be", err)
		}
	}
}

// lookAt looks at what changed, and at the leases that are about to end: others
// renew them without a change, and those who are renewed here have longer.
func (r *Registry) lookAt(ctx context.Context) error {
	r.writes.Lock()
	defer r.writes.Unlock()
	if err := r.refresh(ctx); err != nil {
		return err
	}
	var ending []*record
	r.lock()
	for c := range r.all() {
		if c.lease > 0 && !c.lapsed && c.Expires.Sub(r.now()) < c.lease/4 {
			ending = append(ending, c)
		}
	}
	r.mu.Unlock()
	for _, c := range ending {
		if _, _, err := r.reread(ctx, c); err != nil {
			return err
		}
	}
	return nil
}
