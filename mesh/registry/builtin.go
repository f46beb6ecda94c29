package registry

import (
	"agentmesh/mesh"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// RegisterBuiltin registers an agent that this node runs, for all tenants and
// until RemoveBuiltin; secret is what it proves itself by. Its name is then nobody else's: a shared agent that had
// it is replaced, one of a tenant hidden. It returns Invalid, naming the field,
// for a broken card, name or endpoint.
func (r *Registry) RegisterBuiltin(name string, card *a2apb.AgentCard, endpoint, secret string) error {
	return r.builtin("registry.RegisterBuiltin", name, card, endpoint, secret, false)
}

func (r *Registry) builtin(op, name string, card *a2apb.AgentCard, endpoint, secret string, inner bool) error {
	if card == nil {
		return mesh.InvalidField(op, "card", "is missing")
	}
	c := &record{secret: digest(secret), inner: inner, Entry: Entry{Builtin: true, Card: card, Registered: r.now().UTC()}}
	if err := c.describe(name, endpoint); err != nil {
		return mesh.Wrap(op, err)
	}
	r.writes.Lock()
	defer r.writes.Unlock()
	r.insert(c, "")
	return nil
}

// RegisterInner is RegisterBuiltin for an agent that no list has: other agents of the node,
// which know its name, call it.
func (r *Registry) RegisterInner(name string, card *a2apb.AgentCard, endpoint, secret string) error {
	return r.builtin("registry.RegisterInner", name, card, endpoint, secret, true)
}

// RemoveBuiltin ends the registration of a built-in agent, if there is one.
func (r *Registry) RemoveBuiltin(name string) {
	r.writes.Lock()
	defer r.writes.Unlock()
	r.mu.Lock()
	c := r.record("", name)
	r.mu.Unlock()
	if c != nil && c.Builtin {
		r.remove(c)
	}
}
