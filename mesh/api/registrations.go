package api

import (
	"context"

	"agentmesh/mesh"
	"agentmesh/mesh/registry"
	"agentmesh/mesh/state"
)

// registrationKind is the kind under which registrations are kept, among the
// operator's own values, which no grant reaches.
const registrationKind = "registrations"

// Registrations keeps durable registrations of agents in a state store. It is
// a [registry.Store].
type Registrations struct{ kv *state.KV }

// NewRegistrations returns the store of registrations in kv.
func NewRegistrations(kv *state.KV) *Registrations { return &Registrations{kv} }

var _ registry.Store = (*Registrations)(nil)

func registrationKey(key string) state.Key {
	return state.Key{Kind: registrationKind, Name: key}
}

// Save implements [registry.Store].
func (s *Registrations) Save(ctx context.Context, key string, data []byte) error {
	_, err := s.kv.Put(ctx, registrationKey(key), data, state.AnyVersion)
	return mesh.Wrap("service.Registrations.Save", err)
}

// Remove implements [registry.Store].
func (s *Registrations) Remove(ctx context.Context, key string) error {
	err := s.kv.Delete(ctx, registrationKey(key), state.AnyVersion)
	if mesh.IsCode(err, mesh.NotFound) {
		return nil
	}
	return mesh.Wrap("service.Registrations.Remove", err)
}

// All implements [registry.Store].
func (s *Registrations) All(ctx context.Context) (map[string][]byte, error) {
	all := map[string][]byte{}
	page := state.Page{Kind: registrationKind, Limit: state.MaxPage}
	for {
		items, more, err := s.kv.List(ctx, page)
		if err != nil {
			return nil, mesh.Wrap("service.Registrations.All", err)
		}
		for _, it := range items {
			all[it.Name] = it.Data
			page.After = it.Name
		}
		if !more {
			return all, nil
		}
	}
}
