package registry

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/security/credentials"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// A Request asks for a registration: by Card, or by CardURL.
type Request struct {
	// Name is by default made from the card's name, as [Slug] does.
	Name string
	Card *a2apb.AgentCard
	// Endpoint is the address of the agent's A2A gRPC server, as [mesh.Endpoint] has them,
	// or of an interface of the card; by default of the first that the mesh can use.
	Endpoint string
	// CardURL is where the card is, or the address of a server that has it at
	// /.well-known/agent-card.json.
	CardURL string
	// Lease is how long the agent lives without renewal: MinLease to MaxLease,
	// 0 for DefaultLease. An agent added by URL has none.
	Lease time.Duration
	// LeaseID, if it is that of the name's registration, replaces it.
	LeaseID string
	// Shared shares the agent with all tenants; for operators.
	Shared bool
	// Replica says that the agent may have other processes beside this one, all registered
	// so by the same registrant, with a lease each. Of others they need not know.
	Replica bool
	// Credentials are what the agent is called with, and its card fetched, in place of what
	// was given before. Without any the agent keeps those that it has.
	Credentials []credentials.Given
}

// A Registration is what Register granted.
type Registration struct {
	Entry Entry
	// LeaseID is the secret for KeepAlive and Deregister; "" without a lease.
	LeaseID string
	Lease   time.Duration
	// Secret is what the agent proves itself by; "" when it has it: when the registration
	// replaces one by its lease id.
	Secret string
}

// Register adds an agent of p's tenant, or a shared one, after asking whether
// it answers. It keeps the card, which nobody may change any more.
//
// A name is its registrant's: p may take its own again when its agent is not live, and
// for the same address or card URL, as may who administers the tenant's agents and
// whoever has its lease id; the registration before ends with that. Replicas stand beside
// one another: each replaces what is at its own address, and what its lease id is of. Errors: Denied for
// a shared agent and for the address of an agent of others, Invalid naming the field of
// the request or card, Unavailable when the card or the agent cannot be
// reached, Invalid when the probe refuses its address, Precondition when the
// name is taken, Exhausted beyond MaxAgents.
// Nothing is registered then.
func (r *Registry) Register(ctx context.Context, p mesh.Principal, req Request) (Registration, error) {
	const op = "registry.Register"
	if err := mayRegister(p, req.Shared); err != nil {
		return Registration{}, mesh.Wrap(op, err)
	}
	c, err := r.propose(ctx, p, req)
	if err != nil {
		return Registration{}, mesh.Wrap(op, err)
	}
	if r.allows != nil {
		if err := r.allows(p, c.Name); err != nil {
			return Registration{}, mesh.Wrap(op, err)
		}
	}
	leaseID, secret := "", rand.Text()
	c.secret = digest(secret)
	if c.lease > 0 {
		leaseID = rand.Text()
		c.leaseID = digest(leaseID)
	}
	if err := r.Refresh(ctx); err != nil {
		return Registration{}, mesh.Wrap(op, err)
	}
	if err := r.challenge(ctx, p, c, req); err != nil {
		return Registration{}, mesh.Wrap(op, err)
	}
	switch err := r.ask(ctx, c.Entry); {
	case mesh.IsCode(err, mesh.Denied): // by the probe, which is ours: the agent was not asked
		return Registration{}, mesh.InvalidField(op, "endpoint", "is %s: %s; "+
			"use a public address, or ask the operator to allow this one (egress.allow)", clip(c.Endpoint), mesh.DetailOf(err))
	case err != nil:
		return Registration{}, mesh.Errorf(mesh.Unavailable, op,
			"Agent %s %s; start it first or correct the address: %w", c.Name, doesNotAnswer(c.Endpoint), err)
	}

	r.writes.Lock()
	defer r.writes.Unlock()
	if err := r.refresh(ctx); err != nil {
		return Registration{}, mesh.Wrap(op, err)
	}
	if err := r.admit(p, c, req); err != nil {
		return Registration{}, mesh.Wrap(op, err)
	}
	if err := r.keep(ctx, c, req.LeaseID); err != nil {
		return Registration{}, mesh.Wrap(op, err)
	}
	if c.secret != digest(secret) {
		secret = ""
	}
	return Registration{r.insert(c, req.LeaseID), leaseID, c.lease, secret}, nil
}

// keep makes the store agree with c, which is about to be inserted. The caller
// holds writes.
func (r *Registry) keep(ctx context.Context, c *record, leaseID string) error {
	r.mu.Lock()
	gone := r.replaced(c, leaseID)
	r.mu.Unlock()
	for _, o := range gone {
		if r.durable(c) && storeKey(o) == storeKey(c) { // it is written over
			continue
		}
		if err := r.unsave(ctx, o); err != nil {
			return err
		}
	}
	if c.lease > 0 {
		c.Expires = r.now().Add(c.lease).UTC()
		c.kept = c.Expires
	}
	return r.save(ctx, c)
}

// mayRegister checks that p may add and remove agents of its tenant, or shared
// ones.
func mayRegister(p mesh.Principal, shared bool) error {
	const op = "registry.mayRegister"
	if err := p.Tenant.Validate(); err != nil {
		return err
	}
	if shared && !p.Can(mesh.ActAdminNode) {
		return mesh.Errorf(mesh.Denied, op, "Agents that all tenants share need the role %q; "+
			"ask the operator, or leave out \"shared\"", mesh.RoleOperator)
	}
	return nil
}

// propose makes the record that the request asks for and checks all that can
// be checked without looking at other records.
func (r *Registry) propose(ctx context.Context, p mesh.Principal, req Request) (*record, error) {
	const op = "registry.propose"
	c := &record{given: req.Endpoint, replica: req.Replica, Entry: Entry{Tenant: p.Tenant, Owner: p.User, Registered: r.now().UTC()}}
	if req.Shared {
		c.Tenant = ""
	}
	given, err := credentials.New(req.Credentials)
	if err != nil {
		return nil, err
	}
	switch {
	case req.Card == nil && req.CardURL == "":
		return nil, mesh.InvalidField(op, "card", "is missing; give the agent's card, or its address as card_url")
	case req.Card != nil && req.CardURL != "":
		return nil, mesh.InvalidField(op, "card_url", "cannot be given together with card; leave one of them out")
	case req.CardURL != "" && req.Lease != 0:
		return nil, mesh.InvalidField(op, "lease", "cannot be given together with card_url; such agents stay until they are removed")
	case req.Replica && req.CardURL != "":
		return nil, mesh.InvalidField(op, "replica", "cannot be given together with card_url; such agents share out their work behind their own address")
	case req.Replica && given != nil:
		return nil, mesh.InvalidField(op, "replica", "cannot be given together with credentials; agents with several processes are called without")
	case req.Card != nil:
		c.Card, c.lease = req.Card, req.Lease
		if c.lease == 0 {
			c.lease = DefaultLease
		}
		if c.lease < MinLease || c.lease > MaxLease {
			return nil, mesh.InvalidField(op, "lease", "must be %v to %v, and is %v", MinLease, MaxLease, c.lease)
		}
	default:
		at, err := CardURL(req.CardURL)
		if err != nil {
			return nil, err
		}
		c.CardURL = at
		if err := r.Refresh(ctx); err != nil { // of what was removed nothing is used any more
			return nil, err
		}
		as, of := r.had(p, c.Tenant, req.Name, at)
		if given != nil {
			of = nil
			if as, err = given.Bind(nil, at); err != nil {
				return nil, err
			}
		}
		if c.Card, err = r.get(ctx, at, as.Sender(of, at, r.via)); err != nil {
			return nil, noCard(op, at, err)
		}
	}
	card := c.Card
	if err := c.describe(req.Name, req.Endpoint); err != nil {
		return nil, err
	}
	if err := errors.Join(r.vouched(ctx, card, c), itself(p, c.Name)); err != nil {
		return nil, err
	}
	return c, r.give(c, given)
}

// itself refuses agents that come with a certificate of another name.
func itself(p mesh.Principal, name string) error {
	if p.Agent == "" || p.Agent == name {
		return nil
	}
	return &mesh.Error{Code: mesh.Denied, Op: "registry.itself", Field: "name",
		Detail: "name is not that of the certificate, which is " + p.Agent + "; register under that, or with a token of the role agent-publisher"}
}

func noCard(op, url string, err error) error {
	if mesh.IsCode(err, mesh.Invalid) {
		return err
	}
	why := mesh.DetailOf(err)
	if why == "" {
		why = "it does not answer"
	}
	return mesh.Errorf(mesh.Unavailable, op, "No agent card could be read from %s: %s; "+
		"start the agent first or correct the URL: %w", clip(mesh.PublicURL(url)), why, err)
}

// describe checks the card and sets the name, the endpoint and the warnings. The card is a
// copy then, with its interfaces as the mesh writes them.
func (c *record) describe(name, endpoint string) error {
	warnings, err := Inspect(c.Card)
	if err != nil {
		return err
	}
	addr, err := address(c.Card, endpoint)
	if err != nil {
		return err
	}
	c.Endpoint, c.Card, c.odd = addr, callable(c.Card, addr), warnings
	field, said := "name", name
	if name == "" {
		name, field, said = Slug(c.Card.GetName()), "card.name", c.Card.GetName()
	}
	if !mesh.ValidAgentName(name) {
		return mesh.InvalidField("registry.describe", field, "is %q; give the agent a name of 1 to 64 lower-case letters, "+
			"digits, '-' and '_' that begins with a letter", clip(said))
	}
	c.Name = name
	return nil
}

// challenge asks the agent that has c's name, if one has, whether it still
// answers, so that a crashed agent can come back before its lease runs out.
func (r *Registry) challenge(ctx context.Context, p mesh.Principal, c *record, req Request) error {
	r.lock()
	rival, err := r.conflict(p, c, req)
	var holder Entry
	if rival != nil {
		holder = rival.Entry
	}
	r.mu.Unlock()
	if rival == nil {
		return err
	}
	if probeErr := r.ask(ctx, holder); probeErr != nil && ctx.Err() == nil {
		r.ReportDown(holder, probeErr)
		return nil
	}
	return err
}

// admit checks that the record may be inserted now, and says by what the agent proves
// itself, and whether it is trusted: by
// who may trust the tenant's agents now, or did when the same user registered it before.
// The caller holds writes.
func (r *Registry) admit(p mesh.Principal, c *record, req Request) error {
	r.lock()
	defer r.mu.Unlock()
	if _, err := r.conflict(p, c, req); err != nil {
		return err
	}
	c.consent = p.Can(mesh.ActAdminTenant)
	before := r.instances(c.Tenant, c.Name)
	for _, o := range before {
		if len(req.Credentials) == 0 && !c.replica {
			c.creds, c.sealed = o.creds, o.sealed
		}
		c.consent = c.consent || o.consent && o.Owner == c.Owner
		if o.owns(req.LeaseID) {
			c.secret = o.secret
		}
	}
	n := -len(r.replaced(c, req.LeaseID))
	for _, all := range r.agentsOf(c.Tenant) {
		n += len(all)
	}
	if n >= MaxAgents {
		return mesh.Errorf(mesh.Exhausted, "registry.admit", "There are %d agents already, which is the limit; remove some first", n)
	}
	return nil
}

// conflict says who stands in c's way. The rival, if there is one, does so only
// as long as it is live. The caller holds mu.
func (r *Registry) conflict(p mesh.Principal, c *record, req Request) (rival *record, err error) {
	const op = "registry.conflict"
	shared, own := r.record("", c.Name), r.instances(c.Tenant, c.Name)
	switch {
	case shared != nil && shared.Builtin:
		return nil, taken(op, "Agent name %s belongs to a built-in agent; choose another name", c.Name)
	case c.Tenant != "" && shared != nil:
		return nil, taken(op, "Agent name %s belongs to an agent that all tenants share; choose another name", c.Name)
	case slices.ContainsFunc(own, func(o *record) bool { return !o.OwnedBy(p) && !o.owns(req.LeaseID) }):
		return nil, taken(op, "Agent name %s belongs to another user; choose another name, or have a tenant-admin remove the agent", c.Name)
	}
	if err := r.foreign(p, c); err != nil {
		return nil, err
	}
	if ok, err := r.beside(c, req.LeaseID); ok || err != nil {
		return nil, err
	}
	for _, o := range own {
		if !o.Live || o.owns(req.LeaseID) || o.Endpoint == c.Endpoint || o.CardURL != "" && o.CardURL == c.CardURL {
			continue
		}
		if c.replica || o.replica {
			return o, taken(op, "Agent %s is registered at %s and live; processes stand beside one another if each registers as a replica, "+
				"so stop that one and register it so too, or choose another name", c.Name, o.Endpoint)
		}
		return o, taken(op, "Agent %s is registered at %s and live; remove it first, or choose another name", c.Name, o.Endpoint)
	}
	return nil, nil
}

// foreign refuses an agent at an address that is not its registrant's: where an agent
// of another tenant is, of all tenants, or of the node. The caller holds mu.
func (r *Registry) foreign(p mesh.Principal, c *record) error {
	if p.Can(mesh.ActAdminNode) {
		return nil
	}
	at := c.addresses()
	for other := range r.all() {
		if other.Tenant != c.Tenant && slices.ContainsFunc(other.addresses(), func(a string) bool { return slices.Contains(at, a) }) {
			return &mesh.Error{Code: mesh.Denied, Op: "registry.foreign", Field: "endpoint",
				Detail: "endpoint is not yours to register; give the address of an agent of your own, or ask the operator"}
		}
	}
	return nil
}

func taken(op, format string, args ...any) *mesh.Error {
	return &mesh.Error{Code: mesh.Precondition, Op: op, Field: "name", Detail: fmt.Sprintf(format, args...)}
}

// insert makes c the record of its name, or one of them, and returns the agent's entry.
// The caller holds writes.
func (r *Registry) insert(c *record, leaseID string) Entry {
	r.lock()
	defer r.mu.Unlock()
	now := r.now()
	if c.lease > 0 {
		r.renew(c, now)
	}
	if c.CardURL != "" {
		c.probeAt = now.Add(recheck)
	}
	r.put(c, r.replaced(c, leaseID))
	r.log.Info("agent registered", "agent", c.Name, "tenant", c.Tenant, "endpoint", c.Endpoint, "builtin", c.Builtin, "replica", c.replica)
	return whole(r.instances(c.Tenant, c.Name)).Entry
}
