// Package shared lets several nodes of one process stand on one store, as nodes on
// one database do: for tests of what happens between them.
//
// Each node has a [Handle] of its own, which tells of what the other handles
// appended and deleted. What the handles keep is what the store keeps.
package shared

import (
	"context"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"agentmesh/mesh"
	"agentmesh/mesh/threadlog"
)

// A Store is what the handles share. Use New. It may be used concurrently.
type Store struct {
	backend threadlog.Backend

	mu        sync.Mutex
	listeners map[*listener]struct{}
}

type listener struct {
	of   *Handle
	wake func(mesh.ThreadKey)
}

// New returns the store over the backend, which its owner closes.
func New(b threadlog.Backend) *Store {
	return &Store{backend: b, listeners: map[*listener]struct{}{}}
}

// Handle returns one more handle.
func (s *Store) Handle() *Handle { return &Handle{Backend: s.backend, store: s} }

// tell wakes those who listen through other handles than from.
func (s *Store) tell(from *Handle, key mesh.ThreadKey) {
	s.mu.Lock()
	all := slices.Collect(maps.Keys(s.listeners))
	s.mu.Unlock()
	for _, l := range all {
		if l.of != from && !l.of.deaf.Load() {
			l.wake(key)
		}
	}
}

// A Handle is one node's access to the store. It implements [threadlog.Backend].
type Handle struct {
	threadlog.Backend
	store *Store
	deaf  atomic.Bool
}

// Deafen makes the handle lose all wake-ups from now on, or hear them again.
func (h *Handle) Deafen(deaf bool) { h.deaf.Store(deaf) }

// Append implements [threadlog.Store].
func (h *Handle) Append(ctx context.Context, key mesh.ThreadKey, b *threadlog.Batch) (threadlog.Appended, error) {
	at, err := h.Backend.Append(ctx, key, b)
	if err == nil {
		h.store.tell(h, key)
	}
	return at, err
}

// Delete implements [threadlog.Catalog].
func (h *Handle) Delete(ctx context.Context, key mesh.ThreadKey, last mesh.Pos) error {
	err := h.Backend.Delete(ctx, key, last)
	if err == nil {
		h.store.tell(h, key)
	}
	return err
}

// Notify implements [threadlog.Notifier].
func (h *Handle) Notify(ctx context.Context, wake func(mesh.ThreadKey)) error {
	l := &listener{h, wake}
	h.store.mu.Lock()
	h.store.listeners[l] = struct{}{}
	h.store.mu.Unlock()
	defer func() {
		h.store.mu.Lock()
		delete(h.store.listeners, l)
		h.store.mu.Unlock()
	}()
	<-ctx.Done()
	return nil
}

// LastHash implements [threadlog.Chained], as far as the backend does.
func (h *Handle) LastHash(key mesh.ThreadKey) (hash [32]byte) {
	if c, ok := h.Backend.(threadlog.Chained); ok {
		hash = c.LastHash(key)
	}
	return hash
}
