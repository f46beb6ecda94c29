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
	// Save keeps the data under the key, in place of what was there.
	Save(ctx context.Context, key string, data []byte) error
	// Remove removes what is under the key, if anything.
	Remove(ctx context.Context, key string) error
	// All returns everything, by key.
	All(ctx context.Context) (map[string][]byte, error)
}

// kept is the stored form of a registration.
type kept struct {
	Name       string          `json:"name"`
	Tenant     mesh.TenantID   `json:"tenant,omitempty"`
	CardURL    string          `json:"card_url"`
	Endpoint   string          `json:"endpoint"`
	Given      string          `json:"given,omitempty"`
	Registered time.Time       `json:"registered"`
	Card       json.RawMessage `json:"card"`
}

func storeKey(c *record) string { return string(c.Tenant) + "/" + c.Name }

// save keeps the record. It does nothing for one that is not durable.
func (r *Registry) save(ctx context.Context, c *record) error {
	if r.store == nil || c.CardURL == "" {
		return nil
	}
	card, err := protojson.Marshal(c.Card)
	if err != nil {
		return err
	}
	data, err := json.Marshal(kept{c.Name, c.Tenant, c.CardURL, c.Endpoint, c.given, c.Registered, card})
	if err != nil {
		return err
	}
	return r.store.Save(ctx, storeKey(c), data)
}

// unsave forgets a durable record.
func (r *Registry) unsave(ctx context.Context, c *record) error {
	if r.store == nil || c.CardURL == "" {
		return nil
	}
	return r.store.Remove(ctx, storeKey(c))
}

func (r *Registry) load(ctx context.Context) error {
	if r.store == nil {
		return nil
	}
	all, err := r.store.All(ctx)
	if err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for at, data := range all {
		c, err := decode(data)
		if err != nil {
			r.log.Error("kept registration is damaged and was left out", "key", at, "err", err)
			continue
		}
		c.down, c.probeAt = "has not been reached since the node started", r.now()
		r.put(c)
	}
	return nil
}

func decode(data []byte) (*record, error) {
	var k kept
	if err := json.Unmarshal(data, &k); err != nil {
		return nil, err
	}
	card := &a2apb.AgentCard{}
	if err := (protojson.UnmarshalOptions{DiscardUnknown: true}).Unmarshal(k.Card, card); err != nil {
		return nil, err
	}
	if !mesh.ValidAgentName(k.Name) || k.CardURL == "" || k.Endpoint == "" {
		return nil, mesh.Errorf(mesh.Invalid, "registry.decode", "name, card_url or endpoint is missing")
	}
	return &record{given: k.Given, Entry: Entry{Name: k.Name, Tenant: k.Tenant, Card: card, Endpoint: k.Endpoint,
		CardURL: k.CardURL, Registered: k.Registered}}, nil
}
