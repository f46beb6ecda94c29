package registry

import (
	"context"
	"encoding/json"
	"time"

	"agentmesh/mesh"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/encoding/protojson"
)

// A Store keeps the registrations that outlive the node, each under a key of
// at most 160 bytes. Implementations are safe for concurrent use and do not
// retain the slices they are given.
type Store interface {
	// Save keeps the data under the key, in place of what was there, and returns
	// the revision that the store has with it.
	Save(ctx context.Context, key string, data []byte) (int64, error)
	// Remove removes what is under the key, if anything, and returns the revision.
	Remove(ctx context.Context, key string) (int64, error)
	// All returns everything, by key.
	All(ctx context.Context) (map[string][]byte, error)
	// Get returns what is under the key, and nil if nothing is.
	Get(ctx context.Context, key string) ([]byte, error)
	// Swap keeps the data under the key if what is there is old, and leaves the
	// revision as it is. It does nothing otherwise.
	Swap(ctx context.Context, key string, old, data []byte) error
	// Revision returns a number that is one more after each Save and Remove,
	// whoever called it.
	Revision(ctx context.Context) (int64, error)
}

// kept is the stored form of a registration.
type kept struct {
	Name       string          `json:"name"`
	Tenant     mesh.TenantID   `json:"tenant,omitempty"`
	Owner      string          `json:"owner,omitempty"`
	Consent    bool            `json:"consent,omitempty"`
	Replica    bool            `json:"replica,omitempty"`
	CardURL    string          `json:"card_url"`
	Endpoint   string          `json:"endpoint"`
	Given      string          `json:"given,omitempty"`
	Registered time.Time       `json:"registered"`
	LeaseID    string          `json:"lease_id,omitempty"` // its digest
	Proof      string          `json:"proof,omitempty"`    // digest of the secret
	Lease      time.Duration   `json:"lease,omitempty"`
	Expires    time.Time       `json:"expires,omitzero"`
	Card       json.RawMessage `json:"card"`
	Warnings   []Warning       `json:"warnings,omitempty"`
	// Credentials are sealed, bound to the key of the registration.
	Credentials []byte `json:"credentials,omitempty"`
}

// storeKey is where the record is kept: by its name and, if others may stand beside it, its
// place.
func storeKey(c *record) string {
	key := string(c.Tenant) + "/" + c.Name
	if c.replica {
		key += "#" + digest(c.Endpoint)[:16]
	}
	return key
}

// durable reports whether the store keeps the record.
func (r *Registry) durable(c *record) bool {
	return r.store != nil && !c.Builtin && (c.CardURL != "" || r.shared)
}

// save keeps the record. It does nothing for one that is not durable. The caller
// holds writes.
func (r *Registry) save(ctx context.Context, c *record) error {
	if !r.durable(c) {
		return nil
	}
	data, err := encode(c)
	if err != nil {
		return err
	}
	return r.stored(r.store.Save(ctx, storeKey(c), data))
}

// unsave forgets a durable record. The caller holds writes.
func (r *Registry) unsave(ctx context.Context, c *record) error {
	if !r.durable(c) {
		return nil
	}
	return r.stored(r.store.Remove(ctx, storeKey(c)))
}

// stored notes the revision of a change that the memory has, too, unless others
// changed something that it does not.
func (r *Registry) stored(rev int64, err error) error {
	if err == nil && rev == r.seen+1 {
		r.seen = rev
	}
	return err
}

// load reads what was kept, before anybody else knows the registry.
func (r *Registry) load(ctx context.Context) error {
	if r.store == nil {
		return nil
	}
	if err := r.readAll(ctx); err != nil {
		return err
	}
	r.sealAnew(ctx)
	for c := range r.all() {
		c.down, c.probeAt = "has not been reached since the node started", r.now()
		if c.lease == 0 || c.Expires.After(r.now()) {
			c.failed = r.now() // as far as is known it answered until then: who asks for it waits for the first probe
		}
		c.refresh(r.via)
	}
	return nil
}

func encode(c *record) ([]byte, error) {
	card, err := protojson.Marshal(c.Card)
	if err != nil {
		return nil, err
	}
	return json.Marshal(kept{c.Name, c.Tenant, c.Owner, c.consent, c.replica, c.CardURL, c.Endpoint, c.given, c.Registered, c.leaseID, c.secret, c.lease, c.Expires, card, c.odd, c.sealed})
}

func (r *Registry) decode(data []byte) (*record, error) {
	var k kept
	if err := json.Unmarshal(data, &k); err != nil {
		return nil, err
	}
	card := &a2apb.AgentCard{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(k.Card, card); err != nil {
		return nil, err
	}
	if !mesh.ValidAgentName(k.Name) || (k.CardURL == "") == (k.Lease == 0) || k.Endpoint == "" {
		return nil, mesh.Errorf(mesh.Invalid, "registry.decode", "name, card_url or lease, or endpoint is missing")
	}
	c := &record{odd: k.Warnings, sealed: k.Credentials, given: k.Given, consent: k.Consent, replica: k.Replica, leaseID: k.LeaseID, secret: k.Proof, lease: k.Lease, kept: k.Expires,
		Entry: Entry{Name: k.Name, Tenant: k.Tenant, Owner: k.Owner, Card: card, Endpoint: k.Endpoint,
			CardURL: k.CardURL, Registered: k.Registered, Expires: k.Expires}}
	r.unseal(c)
	return c, nil
}
