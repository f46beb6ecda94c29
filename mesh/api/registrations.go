package api

import (
	"bytes"
	"context"

	"agentmesh/mesh"
	"agentmesh/mesh/registry"
	"agentmesh/mesh/state"
)

// registrationKind is the kind under which registrations are kept, among the
// operator's own values, which no grant reaches.
const registrationKind = "registrations"

// registryRevision changes with them.
var registryRevision = state.Key{Kind: "registry", Name: "revision"}

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
func (s *Registrations) Save(ctx context.Context, key string, data []byte) (int64, error) {
	const op = "api.Registrations.Save"
	if _, err := s.kv.Put(ctx, registrationKey(key), data, state.AnyVersion); err != nil {
		return 0, mesh.Wrap(op, err)
	}
	rev, err := s.touch(ctx)
	return rev, mesh.Wrap(op, err)
}

// Remove implements [registry.Store].
func (s *Registrations) Remove(ctx context.Context, key string) (int64, error) {
	const op = "api.Registrations.Remove"
	if err := s.kv.Delete(ctx, registrationKey(key), state.AnyVersion); err != nil && !mesh.IsCode(err, mesh.NotFound) {
		return 0, mesh.Wrap(op, err)
	}
	rev, err := s.touch(ctx)
	return rev, mesh.Wrap(op, err)
}

// touch makes a new revision: that is the version of a value that is the same.
func (s *Registrations) touch(ctx context.Context) (int64, error) {
	return s.kv.Put(ctx, registryRevision, []byte("."), state.AnyVersion)
}

// Revision implements [registry.Store].
func (s *Registrations) Revision(ctx context.Context) (int64, error) {
	v, err := s.kv.Get(ctx, registryRevision)
	if mesh.IsCode(err, mesh.NotFound) {
		return 0, nil
	}
	return v.Version, mesh.Wrap("api.Registrations.Revision", err)
}

// Get implements [registry.Store].
func (s *Registrations) Get(ctx context.Context, key string) ([]byte, error) {
	v, err := s.kv.Get(ctx, registrationKey(key))
	if mesh.IsCode(err, mesh.NotFound) {
		return nil, nil
	}
	return v.Data, mesh.Wrap("api.Registrations.Get", err)
}

// Swap implements [registry.Store].
func (s *Registrations) Swap(ctx context.Context, key string, old, data []byte) error {
	v, err := s.kv.Get(ctx, registrationKey(key))
	if err == nil && bytes.Equal(v.Data, old) {
		_, err = s.kv.Put(ctx, registrationKey(key), data, v.Version)
	}
	if mesh.IsCode(err, mesh.NotFound) || mesh.IsCode(err, mesh.Conflict) {
		return nil // another was quicker
	}
	return mesh.Wrap("api.Registrations.Swap", err)
}

// All implements [registry.Store].
func (s *Registrations) All(ctx context.Context) (map[string][]byte, error) {
	all := map[string][]byte{}
	page := state.Page{Kind: registrationKind, Limit: state.MaxPage}
	for {
		items, more, err := s.kv.List(ctx, page)
		if err != nil {
			return nil, mesh.Wrap("api.Registrations.All", err)
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
