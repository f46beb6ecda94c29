// Package skilltest helps to test skills: it has a State in memory.
//
// Its State keeps the contract of [skill.State] and is safe for concurrent
// use. It is not meant for production: it forgets everything.
package skilltest

import (
	"bytes"
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
)

// A State is a [skill.State] in memory. The zero State is empty and ready.
type State struct {
	mu    sync.Mutex
	items map[string]map[string]skill.Item // by kind, then key
	last  int64
}

var _ skill.State = (*State)(nil)

// Get returns the value and its version.
func (s *State) Get(ctx context.Context, kind, key string) (data []byte, version int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	it, ok := s.items[kind][key]
	switch {
	case ctx.Err() != nil:
		return nil, 0, mesh.Wrap("skilltest.Get", ctx.Err())
	case !ok:
		return nil, 0, mesh.Errorf(mesh.NotFound, "skilltest.Get", "There is no %s %q", kind, key)
	}
	return bytes.Clone(it.Data), it.Version, nil
}

// Put writes the value if the version is the one demanded.
func (s *State) Put(ctx context.Context, kind, key string, data []byte, version int64) (int64, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.demand(ctx, kind, key, version); err != nil {
		return 0, mesh.Wrap("skilltest.Put", err)
	}
	if s.items[kind] == nil {
		if s.items == nil {
			s.items = make(map[string]map[string]skill.Item)
		}
		s.items[kind] = make(map[string]skill.Item)
	}
	s.last++
	s.items[kind][key] = skill.Item{Key: key, Data: bytes.Clone(data), Version: s.last}
	return s.last, nil
}

// Delete removes the value if the version is the one demanded.
func (s *State) Delete(ctx context.Context, kind, key string, version int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.demand(ctx, kind, key, version); err != nil {
		return mesh.Wrap("skilltest.Delete", err)
	}
	delete(s.items[kind], key)
	return nil
}

func (s *State) demand(ctx context.Context, kind, key string, version int64) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	if now := s.items[kind][key].Version; version != skill.AnyVersion && version != now {
		return mesh.Errorf(mesh.Conflict, "", "The %s %q has been changed by another writer; read it again", kind, key)
	}
	return nil
}

// List returns the values after a key, in order.
func (s *State) List(ctx context.Context, kind, prefix, after string, limit int) ([]skill.Item, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Err() != nil {
		return nil, mesh.Wrap("skilltest.List", ctx.Err())
	}
	var out []skill.Item
	for key, it := range s.items[kind] {
		if strings.HasPrefix(key, prefix) && key > after {
			it.Data = bytes.Clone(it.Data)
			out = append(out, it)
		}
	}
	slices.SortFunc(out, func(a, b skill.Item) int { return cmp.Compare(a.Key, b.Key) })
	return out[:min(len(out), max(limit, 0))], nil
}
