package disk

import (
	"cmp"
	"context"
	"fmt"

	"agentmesh/mesh"
	"agentmesh/mesh/store/segment"
	"agentmesh/mesh/threadlog"
)

// pageBytes bounds the data of one page; one record is always returned.
const pageBytes = 4 << 20

// atOnce is how many records are asked of the log at once.
const atOnce = 256

// A page collects events up to a size.
type page struct {
	recs  []threadlog.Record
	bytes int
	seen  int // records that were read, also those that are no events
	full  bool
	err   error
}

// add returns false when the page is full or the record cannot be read.
func (p *page) add(number int64, rec segment.Record) bool {
	if p.seen++; rec.Kind != kindEvent {
		return true
	}
	r, err := decode(rec.Data)
	if err != nil {
		p.err = fmt.Errorf("the event at position %d: %w", number, err)
		return false
	}
	if p.bytes += len(r.Data); p.bytes > pageBytes && len(p.recs) > 0 {
		p.full = true
		return false
	}
	p.recs = append(p.recs, threadlog.Record{Seq: r.seq, Pos: mesh.Pos(number), Thread: r.key, Decision: r.Decision, Data: r.Data})
	return true
}

// Read implements [threadlog.Store].
func (s *Store) Read(ctx context.Context, key mesh.ThreadKey, after mesh.Seq, limit int) ([]threadlog.Record, error) {
	const op = "disk.Read"
	for {
		if err := s.readable(ctx, op); err != nil {
			return nil, err
		}
		s.index.RLock()
		positions := s.book.Positions(key, after, limit)
		s.index.RUnlock()
		if len(positions) == 0 {
			return nil, nil
		}
		var p page
		whole, err := s.readPage(&p, positions)
		if err != nil {
			return nil, s.failed(op, err)
		}
		if whole {
			return p.recs, nil
		}
		// It was deleted meanwhile: see what is there now.
	}
}

// readPage returns false if a record is there no more.
func (s *Store) readPage(p *page, positions []mesh.Pos) (whole bool, err error) {
	for len(positions) > 0 && !p.full {
		some := positions[:min(len(positions), atOnce)]
		positions = positions[len(some):]
		p.seen = 0
		if err := s.log.Read(numbers(some), p.add); err != nil || p.err != nil {
			return false, cmp.Or(err, p.err)
		}
		if !p.full && p.seen < len(some) {
			return false, nil
		}
	}
	return true, nil
}

// Scan implements [threadlog.Store].
func (s *Store) Scan(ctx context.Context, after mesh.Pos, limit int) ([]threadlog.Record, error) {
	const op = "disk.Scan"
	var p page
	for at := max(int64(after), 0); len(p.recs) < limit && !p.full; {
		if err := s.readable(ctx, op); err != nil {
			return nil, err
		}
		some := s.log.After(at, min(limit-len(p.recs), atOnce))
		if len(some) == 0 {
			break
		}
		at = some[len(some)-1]
		if err := s.log.Read(some, p.add); err != nil || p.err != nil {
			return nil, s.failed(op, cmp.Or(err, p.err))
		}
	}
	return p.recs, nil
}

// readable returns why nothing is read.
func (s *Store) readable(ctx context.Context, op string) error {
	if err := ctx.Err(); err != nil {
		return mesh.Wrap(op, err)
	}
	if s.isClosed() {
		return mesh.Errorf(mesh.Unavailable, op, "The node is shutting down; try again")
	}
	return nil
}

// failed is the error of a read that failed.
func (s *Store) failed(op string, err error) error {
	if s.isClosed() {
		return mesh.Errorf(mesh.Unavailable, op, "The node is shutting down; try again: %w", err)
	}
	s.logger.Error("read failed", "path", s.path, "op", op, "err", s.lost(err))
	return mesh.Errorf(mesh.Unavailable, op,
		"The node's data folder cannot be read; its operator must stop it and restore a copy: %w", err)
}

func (s *Store) isClosed() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.closed
}

// Threads implements [threadlog.Catalog].
func (s *Store) Threads(ctx context.Context, tenant mesh.TenantID, before mesh.Pos, limit int) ([]threadlog.Info, error) {
	s.index.RLock()
	defer s.index.RUnlock()
	return s.book.Threads(tenant, before, limit), mesh.Wrap("disk.Threads", ctx.Err())
}

// Idle implements [threadlog.Catalog].
func (s *Store) Idle(ctx context.Context, tenant mesh.TenantID, after mesh.Pos, limit int) ([]threadlog.Info, error) {
	s.index.RLock()
	defer s.index.RUnlock()
	return s.book.Idle(tenant, after, limit), mesh.Wrap("disk.Idle", ctx.Err())
}

// Tenants implements [threadlog.Catalog].
func (s *Store) Tenants(ctx context.Context) (map[mesh.TenantID]int, error) {
	s.index.RLock()
	defer s.index.RUnlock()
	return s.book.Tenants(), mesh.Wrap("disk.Tenants", ctx.Err())
}

// Deletions implements [threadlog.Catalog].
func (s *Store) Deletions(ctx context.Context, tenant mesh.TenantID) (int64, error) {
	s.index.RLock()
	defer s.index.RUnlock()
	return s.book.Deletions(tenant), mesh.Wrap("disk.Deletions", ctx.Err())
}

// Unfinished implements [threadlog.Catalog].
func (s *Store) Unfinished(ctx context.Context, after mesh.Pos, limit int) ([]threadlog.Unfinished, error) {
	s.index.RLock()
	defer s.index.RUnlock()
	return s.book.Unfinished(after, limit), mesh.Wrap("disk.Unfinished", ctx.Err())
}

// Notify implements [threadlog.Notifier]: nobody else can open the folder.
func (s *Store) Notify(context.Context, func(mesh.ThreadKey)) error { return nil }

// Info implements [threadlog.Catalog].
func (s *Store) Info(ctx context.Context, key mesh.ThreadKey) (threadlog.Info, bool, error) {
	s.index.RLock()
	defer s.index.RUnlock()
	info, ok := s.book.Info(key)
	return info, ok, mesh.Wrap("disk.Info", ctx.Err())
}
