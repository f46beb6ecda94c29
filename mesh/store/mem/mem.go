// Package mem keeps threads and agents' state in memory: for tests, and
// for a mesh that may forget.
//
// It keeps every rule of its interfaces but durability, starts no goroutine,
// and all of it may be used concurrently.
package mem

import (
	"bytes"
	"context"
	"slices"
	"sync"

	"agentmesh/mesh"
	"agentmesh/mesh/state"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/memindex"
)

// pageBytes bounds the data of one page; one record is always returned.
const pageBytes = 4 << 20

// Store implements [threadlog.Backend] and [state.Store]. Use [Open].
type Store struct {
	mu    sync.RWMutex
	book  memindex.Book
	recs  []record // by Pos-1; of deleted threads, zero
	state map[kind]map[string]state.Value
}

type record struct {
	key      mesh.ThreadKey
	seq      mesh.Seq
	decision bool
	data     []byte // nil only of deleted ones
}

// Open returns an empty store. It need not be closed.
func Open() *Store { return &Store{state: map[kind]map[string]state.Value{}} }

// Append implements [threadlog.Store].
func (s *Store) Append(ctx context.Context, key mesh.ThreadKey, b *threadlog.Batch) (threadlog.Appended, error) {
	if err := ctx.Err(); err != nil {
		return threadlog.Appended{}, mesh.Wrap("mem.Append", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.book.Draft()
	at, err := d.Add(key, b)
	if err != nil {
		return threadlog.Appended{}, err
	}
	for i, pos := range at.Pos {
		if pos != 0 {
			data := append(make([]byte, 0, len(b.Entries[i].Data)), b.Entries[i].Data...)
			s.recs = append(s.recs, record{key, at.Seqs[i], b.Entries[i].Decision, data})
		}
	}
	d.Commit()
	if b.Placed != nil {
		b.Placed()
	}
	return at, nil
}

// Read implements [threadlog.Store].
func (s *Store) Read(ctx context.Context, key mesh.ThreadKey, after mesh.Seq, limit int) ([]threadlog.Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, mesh.Wrap("mem.Read", err)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	var p page
	for _, pos := range s.book.Positions(key, after, limit) {
		if !p.add(pos, s.recs[pos-1]) {
			break
		}
	}
	return p.recs, nil
}

// Scan implements [threadlog.Store].
func (s *Store) Scan(ctx context.Context, after mesh.Pos, limit int) ([]threadlog.Record, error) {
	if err := ctx.Err(); err != nil {
		return nil, mesh.Wrap("mem.Scan", err)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	var p page
	for pos := max(after, 0) + 1; pos <= mesh.Pos(len(s.recs)) && len(p.recs) < limit; pos++ {
		if r := s.recs[pos-1]; r.data != nil && !p.add(pos, r) {
			break
		}
	}
	return p.recs, nil
}

// A page collects records up to a size.
type page struct {
	recs  []threadlog.Record
	bytes int
}

func (p *page) add(pos mesh.Pos, r record) bool {
	if p.bytes += len(r.data); p.bytes > pageBytes && len(p.recs) > 0 {
		return false
	}
	p.recs = append(p.recs, threadlog.Record{Seq: r.seq, Pos: pos, Thread: r.key, Decision: r.decision, Data: r.data})
	return true
}

// Threads implements [threadlog.Catalog].
func (s *Store) Threads(ctx context.Context, tenant mesh.TenantID, before mesh.Pos, limit int) ([]threadlog.Info, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.book.Threads(tenant, before, limit), mesh.Wrap("mem.Threads", ctx.Err())
}

// Info implements [threadlog.Catalog].
func (s *Store) Info(ctx context.Context, key mesh.ThreadKey) (threadlog.Info, bool, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	info, ok := s.book.Info(key)
	return info, ok, mesh.Wrap("mem.Info", ctx.Err())
}

// Idle implements [threadlog.Catalog].
func (s *Store) Idle(ctx context.Context, tenant mesh.TenantID, after mesh.Pos, limit int) ([]threadlog.Info, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.book.Idle(tenant, after, limit), mesh.Wrap("mem.Idle", ctx.Err())
}

// Tenants implements [threadlog.Catalog].
func (s *Store) Tenants(ctx context.Context) (map[mesh.TenantID]int, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.book.Tenants(), mesh.Wrap("mem.Tenants", ctx.Err())
}

// Bytes implements [threadlog.Catalog].
func (s *Store) Bytes(ctx context.Context, tenant mesh.TenantID) (int64, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.book.Bytes(tenant), mesh.Wrap("mem.Bytes", ctx.Err())
}

// Deleted implements [threadlog.Catalog].
func (s *Store) Deleted(ctx context.Context, since int64) (keys []mesh.ThreadKey, now int64, all bool, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	keys, now, all = s.book.Deleted(since)
	return keys, now, all, mesh.Wrap("mem.Deleted", ctx.Err())
}

// Unfinished implements [threadlog.Catalog].
func (s *Store) Unfinished(ctx context.Context, after mesh.Pos, limit int) ([]threadlog.Unfinished, error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.book.Unfinished(after, limit), mesh.Wrap("mem.Unfinished", ctx.Err())
}

// Settle implements [threadlog.Catalog].
func (s *Store) Settle(ctx context.Context, key mesh.ThreadKey, first mesh.Pos, upTo mesh.Seq) error {
	if err := ctx.Err(); err != nil {
		return mesh.Wrap("mem.Settle", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.book.Settle(key, first, upTo)
	return nil
}

// Notify implements [threadlog.Notifier]: nobody else has this memory.
func (s *Store) Notify(context.Context, func(mesh.ThreadKey)) error { return nil }

// Delete implements [threadlog.Catalog].
func (s *Store) Delete(ctx context.Context, key mesh.ThreadKey, last mesh.Pos) error {
	const op = "mem.Delete"
	if err := ctx.Err(); err != nil {
		return mesh.Wrap(op, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	positions, err := s.book.Whole(op, key, last)
	if err != nil {
		return err
	}
	for _, pos := range positions {
		s.recs[pos-1] = record{}
	}
	s.book.Delete(key)
	return nil
}

type kind struct {
	tenant mesh.TenantID
	name   string
}

// GetState implements [state.Store].
func (s *Store) GetState(ctx context.Context, key state.Key) (state.Value, error) {
	const op = "mem.GetState"
	if err := ctx.Err(); err != nil {
		return state.Value{}, mesh.Wrap(op, err)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	v, ok := s.state[kind{key.Tenant, key.Kind}][key.Name]
	if !ok {
		return state.Value{}, state.NotFound(op, key)
	}
	return state.Value{Data: bytes.Clone(v.Data), Version: v.Version}, nil
}

// PutState implements [state.Store].
func (s *Store) PutState(ctx context.Context, key state.Key, data []byte, version int64) (int64, error) {
	const op = "mem.PutState"
	if err := ctx.Err(); err != nil {
		return 0, mesh.Wrap(op, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := kind{key.Tenant, key.Kind}
	is := s.state[k][key.Name].Version
	if err := state.CheckPut(op, key, is, version); err != nil {
		return 0, err
	}
	if s.state[k] == nil {
		s.state[k] = map[string]state.Value{}
	}
	s.state[k][key.Name] = state.Value{Data: bytes.Clone(data), Version: is + 1}
	return is + 1, nil
}

// DeleteState implements [state.Store].
func (s *Store) DeleteState(ctx context.Context, key state.Key, version int64) error {
	const op = "mem.DeleteState"
	if err := ctx.Err(); err != nil {
		return mesh.Wrap(op, err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	k := kind{key.Tenant, key.Kind}
	if err := state.CheckDelete(op, key, s.state[k][key.Name].Version, version); err != nil {
		return err
	}
	delete(s.state[k], key.Name)
	if len(s.state[k]) == 0 {
		delete(s.state, k)
	}
	return nil
}

// StateKinds implements [state.Store].
func (s *Store) StateKinds(ctx context.Context, tenant mesh.TenantID) (kinds []string, err error) {
	if err := ctx.Err(); err != nil {
		return nil, mesh.Wrap("mem.StateKinds", err)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	for k := range s.state {
		if k.tenant == tenant {
			kinds = append(kinds, k.name)
		}
	}
	slices.Sort(kinds)
	return kinds, nil
}

// ListState implements [state.Store].
func (s *Store) ListState(ctx context.Context, p state.Page) ([]state.Item, bool, error) {
	if err := ctx.Err(); err != nil {
		return nil, false, mesh.Wrap("mem.ListState", err)
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	values := s.state[kind{p.Tenant, p.Kind}]
	var names []string
	for name := range values {
		if p.Has(name) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	more := len(names) > p.Limit
	names = names[:min(len(names), p.Limit)]
	items := make([]state.Item, len(names))
	for i, name := range names {
		v := values[name]
		items[i] = state.Item{Name: name, Value: state.Value{Data: bytes.Clone(v.Data), Version: v.Version}}
	}
	return items, more, nil
}
