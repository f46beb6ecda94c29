package registry

import (
	"context"
	"fmt"

	"agentmesh/mesh"
	"agentmesh/mesh/security/credentials"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// give has the agent called with the set, which nobody else gets to see: it goes to where the
// agent is by its card now.
func (r *Registry) give(c *record, set *credentials.Set) error {
	const op = "registry.give"
	c.creds, c.sealed = nil, nil
	if set == nil {
		return nil
	}
	if r.box == nil {
		return mesh.Errorf(mesh.Unsupported, op, "This mesh keeps no credentials of agents")
	}
	bound, err := set.Bind(c.Card, append(c.addresses(), c.CardURL)...)
	if err != nil {
		return err
	}
	c.creds = bound
	return mesh.Wrap(op, r.sealRecord(c))
}

// unseal reads the credentials of a kept record. What cannot be read is told and left: the
// agent is called without.
func (r *Registry) unseal(c *record) {
	if len(c.sealed) == 0 || r.box == nil {
		return
	}
	plain, first, err := r.box.Open(storeKey(c), c.sealed)
	if err == nil {
		c.creds, err = credentials.Decode(plain)
		c.reseal = !first
	}
	if err != nil {
		r.log.Error("credentials of agent cannot be read; give them again", "agent", c.Name, "tenant", c.Tenant, "err", err)
	}
}

// sealAnew keeps under the new secret what was sealed under one that will go, before anybody
// else knows the registry.
func (r *Registry) sealAnew(ctx context.Context) {
	for c := range r.all() {
		if !c.reseal {
			continue
		}
		err := r.sealRecord(c)
		if err == nil {
			err = r.save(ctx, c)
		}
		if err != nil {
			r.log.Warn("credentials of agent could not be sealed under the new key", "agent", c.Name, "tenant", c.Tenant, "err", err)
		}
	}
}

// sealRecord seals the credentials of c.
func (r *Registry) sealRecord(c *record) error {
	plain, err := c.creds.Encode()
	if err == nil {
		c.sealed, c.reseal = r.box.Seal(storeKey(c), plain), false
	}
	return err
}

// Credentials returns what the tenant's agent of that name, or the shared one for "", is
// called with; nil for nothing.
func (r *Registry) Credentials(tenant mesh.TenantID, name string) *credentials.Set {
	r.lock()
	defer r.mu.Unlock()
	if c := r.record(tenant, name); c != nil {
		return c.creds
	}
	return nil
}

// SetCredentials has the agent called with what is given from now on, in place of all that
// was given before; with nothing, without. Whoever may remove the agent may do that. Errors
// are those of Deregister, and Invalid for what the card has no place for.
func (r *Registry) SetCredentials(ctx context.Context, p mesh.Principal, name string, shared bool, given []credentials.Given) (Entry, error) {
	const op = "registry.SetCredentials"
	set, err := credentials.New(given)
	if err != nil {
		return Entry{}, mesh.Wrap(op, err)
	}
	r.writes.Lock()
	defer r.writes.Unlock()
	if err := r.refresh(ctx); err != nil {
		return Entry{}, mesh.Wrap(op, err)
	}
	all, err := r.removable(p, name, "", shared)
	if err != nil {
		return Entry{}, mesh.Wrap(op, err)
	}
	c := all[0]
	if c.replica {
		return Entry{}, mesh.Errorf(mesh.Unsupported, op, "Agent %s may have several processes, and such agents are called without credentials", c.Name)
	}
	r.mu.Lock()
	next := *c
	r.mu.Unlock()
	if err := r.give(&next, set); err != nil {
		return Entry{}, mesh.Wrap(op, err)
	}
	if err := r.save(ctx, &next); err != nil {
		return Entry{}, mesh.Wrap(op, err)
	}
	r.lock()
	defer r.mu.Unlock()
	c.creds, c.sealed = next.creds, next.sealed
	if c.down != "" { // it may have been for want of a certificate
		c.down, c.fails, c.probeAt = "", 0, r.now()
	}
	r.changed(c)
	r.log.Info("credentials of agent changed", "agent", c.Name, "tenant", c.Tenant, "schemes", len(given))
	return c.Entry, nil
}

// had returns the credentials that p's agent of that name has, or else the one from that
// URL, with the card that they are for.
func (r *Registry) had(p mesh.Principal, tenant mesh.TenantID, name, url string) (*credentials.Set, *a2apb.AgentCard) {
	r.lock()
	defer r.mu.Unlock()
	for _, all := range r.agentsOf(tenant) {
		c := chief(all)
		if (c.Name == name || name == "" && c.CardURL == url) && c.OwnedBy(p) {
			return c.creds, c.Card
		}
	}
	return nil, nil
}

// credentialWarnings are of credentials that the agent wants and lacks, and of places where it does not
// get those that it has.
func (c *record) credentialWarnings(via credentials.Via) []Warning {
	const again = "give them again: mesh agents credentials set NAME --credential SCHEME=env:VARIABLE"
	v := verdict{}
	for _, s := range c.creds.Missing(c.Card) {
		if s.Kind == "" {
			v.warn("card.securityRequirements", "asks for a credential of the scheme %q, which the mesh cannot send; the agent may refuse all calls", clip(s.Scheme))
			continue
		}
		v.warn("card.securityRequirements", "asks for a credential of the scheme %q (%s), which nobody gave; the agent may refuse all calls; "+
			"give it: mesh agents credentials set NAME --credential '%s=env:VARIABLE'", clip(s.Scheme), s.Kind, clip(s.Scheme))
	}
	for i, in := range c.Card.GetSupportedInterfaces() {
		addr, err := interfaceAddress(in)
		if err != nil || c.creds == nil {
			continue
		}
		at := fmt.Sprintf("card.supportedInterfaces[%d].url", i)
		if !c.creds.GoesTo(addr) {
			v.warn(at, "is not where the agent's credentials were given for, and gets none; %s", again)
		} else if why := c.creds.Sender(c.Card, addr, via).Refused(); why != nil {
			v.warn(at, "gets no credentials: %s", mesh.DetailOf(why))
		}
	}
	for _, s := range c.creds.States(c.Card) {
		if s.Kind == "" {
			v.warn("card.securitySchemes", "has no place for the credential %q, which is not sent", clip(s.Scheme))
		}
	}
	for _, at := range c.creds.Strays(c.Card) {
		v.warn("card.securitySchemes", "has the token endpoint %s, for which the agent's credentials were not given; %s", clip(mesh.PublicURL(at)), again)
	}
	return v.warnings
}
