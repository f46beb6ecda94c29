package bolt

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"agentmesh/mesh"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/memindex"
)

// pageBytes bounds the data of one page; one record is always returned.
const pageBytes = 4 << 20

// view runs fn in a reading transaction. What look reads of the index is in the
// file as that transaction sees it, but for the thread that is being removed.
func (s *Store) view(ctx context.Context, op string, look func(*memindex.Book), fn func(*bolt.Tx) error) error {
	if err := ctx.Err(); err != nil {
		return mesh.Wrap(op, err)
	}
	err := guard(func() error {
		tx, err := s.begin(look)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // a reader has nothing to lose
		return fn(tx)
	})
	switch {
	case err == nil:
		return nil
	case s.isClosed():
		return mesh.Errorf(mesh.Unavailable, op, "The node is shutting down; try again: %w", err)
	}
	s.logger.Error("read failed", "path", s.path, "op", op, "err", err)
	return mesh.Errorf(mesh.Unavailable, op,
		"The node's data file cannot be read; its operator must stop it and restore a copy: %w", err)
}

func (s *Store) begin(look func(*memindex.Book)) (*bolt.Tx, error) {
	s.index.RLock()
	defer s.index.RUnlock()
	look(&s.book)
	return s.db.Begin(false)
}

func (s *Store) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// A page collects records up to a size.
type page struct {
	recs  []threadlog.Record
	bytes int
}

// add returns false when the page is full.
func (p *page) add(k, v []byte) (bool, error) {
	r, err := decode(k, v)
	pos := mesh.Pos(binary.BigEndian.Uint64(k))
	if err != nil {
		return false, fmt.Errorf("the event at position %d: %w", pos, err)
	}
	if p.bytes += len(r.Data); p.bytes > pageBytes && len(p.recs) > 0 {
		return false, nil
	}
	p.recs = append(p.recs, threadlog.Record{Seq: r.seq, Pos: pos, Thread: r.key, Data: bytes.Clone(r.Data)})
	return true, nil
}

// Read implements [threadlog.Store].
func (s *Store) Read(ctx context.Context, key mesh.ThreadKey, after mesh.Seq, limit int) ([]threadlog.Record, error) {
	if s.hasAll(key, after) {
		return nil, mesh.Wrap("bolt.Read", ctx.Err())
	}
	var p page
	var positions []mesh.Pos
	var going bool
	look := func(b *memindex.Book) { positions, going = b.Positions(key, after, limit), s.removing == key }
	err := s.view(ctx, "bolt.Read", look, func(tx *bolt.Tx) error {
		log := tx.Bucket(bucketLog)
		for _, pos := range positions {
			k := posKey(pos)
			v := log.Get(k)
			if v == nil && going {
				return nil
			}
			if more, err := p.add(k, v); err != nil || !more {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return p.recs, nil
}

// hasAll reports whether a reader that has the events up to after has all: most
// reads look for news where there is none, and need no transaction to see it.
func (s *Store) hasAll(key mesh.ThreadKey, after mesh.Seq) bool {
	if s.isClosed() {
		return false
	}
	s.index.RLock()
	defer s.index.RUnlock()
	return len(s.book.Positions(key, after, 1)) == 0
}

// Scan implements [threadlog.Store].
func (s *Store) Scan(ctx context.Context, after mesh.Pos, limit int) ([]threadlog.Record, error) {
	var p page
	var last mesh.Pos // the file may show a commit before its sync has returned
	look := func(b *memindex.Book) { last = b.Last() }
	err := s.view(ctx, "bolt.Scan", look, func(tx *bolt.Tx) error {
		c, end := tx.Bucket(bucketLog).Cursor(), posKey(last)
		k, v := c.Seek(posKey(max(after, 0) + 1))
		for ; k != nil && bytes.Compare(k, end) <= 0 && len(p.recs) < limit; k, v = c.Next() {
			if more, err := p.add(k, v); err != nil || !more {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return p.recs, nil
}

// Threads implements [threadlog.Catalog].
func (s *Store) Threads(ctx context.Context, tenant mesh.TenantID, before mesh.Pos, limit int) ([]threadlog.Info, error) {
	s.index.RLock()
	defer s.index.RUnlock()
	return s.book.Threads(tenant, before, limit), mesh.Wrap("bolt.Threads", ctx.Err())
}

// Unfinished implements [threadlog.Catalog].
func (s *Store) Unfinished(ctx context.Context, after mesh.Pos, limit int) ([]threadlog.Unfinished, error) {
	s.index.RLock()
	defer s.index.RUnlock()
	return s.book.Unfinished(after, limit), mesh.Wrap("bolt.Unfinished", ctx.Err())
}

// Notify implements [threadlog.Notifier]: nobody else can open the folder.
func (s *Store) Notify(context.Context, func(mesh.ThreadKey)) error { return nil }

// Info implements [threadlog.Catalog].
func (s *Store) Info(ctx context.Context, key mesh.ThreadKey) (threadlog.Info, bool, error) {
	s.index.RLock()
	defer s.index.RUnlock()
	info, ok := s.book.Info(key)
	return info, ok, mesh.Wrap("bolt.Info", ctx.Err())
}
