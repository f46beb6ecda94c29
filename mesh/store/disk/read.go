package disk

import (
	"cmp"
	"context"
	"errors"
	"slices"

	"agentmesh/mesh"
	"agentmesh/mesh/store/segment"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/memindex"
)

// pageBytes bounds the data of one page; one record is always returned.
const pageBytes = 4 << 20

// atOnce is how many records are asked of the log at once.
const atOnce = 256

// A page collects events up to a size.
type page struct {
	s      *Store
	recs   []threadlog.Record
	bytes  int
	seen   int   // records that were read, also those that are no events
	at     int64 // the last of them
	full   bool
	err    error
	before record          // that was decoded last
	last   linked          // of a page of one thread, the last event that was seen
	of     *mesh.ThreadKey // whose events they must be; nil for all
	next   mesh.Seq        // of its next one
}

// A linked is an event and its hash.
type linked struct {
	seq  mesh.Seq
	link memindex.Link
}

// add returns false when the page is full or the record cannot be read.
func (p *page) add(number int64, rec segment.Record) bool {
	p.at = number
	if p.seen++; rec.Kind != kindEvent {
		if p.of != nil {
			p.err = p.s.damageAt(number)
		}
		return p.of == nil
	}
	r, err := decodeAfter(p.before, rec.Data)
	p.before = r
	if err == nil && p.of != nil && (r.key != *p.of || r.seq != p.next) {
		err = errForm
	}
	if err != nil {
		p.err = p.s.damageAt(number)
		return false
	}
	if p.bytes += len(r.Data); p.bytes > pageBytes && len(p.recs) > 0 {
		p.full = true
		return false
	}
	p.next++
	there, err := p.vouch(number, rec, r)
	if err != nil {
		p.err = err
		return false
	}
	if !there && p.of != nil {
		p.seen--
		return false
	}
	if there {
		p.recs = append(p.recs, threadlog.Record{Seq: r.seq, Pos: mesh.Pos(number), Thread: r.key, Decision: r.Decision, Data: r.Data})
	}
	return true
}

// vouch checks that the event follows the one before it, unless it was checked already or is
// of this process; false if its thread was deleted.
func (p *page) vouch(number int64, rec segment.Record, r record) (there bool, err error) {
	if pos := mesh.Pos(number); pos > p.s.opened || number <= p.s.checked.Load() {
		return true, nil
	}
	before := p.last
	if p.of == nil {
		before = p.s.seen.of(r.key)
	}
	if before.seq != r.seq-1 {
		var ok bool
		before.link, ok, err = p.s.hashBefore(r.key, r.seq, number)
		if mesh.IsCode(err, mesh.DataLoss) && p.of == nil {
			return false, nil // its thread is closed
		}
		if err != nil || !ok {
			return false, err
		}
	}
	var is memindex.Link
	copy(is[:], rec.Hash)
	if p.last = (linked{r.seq, is}); p.of == nil {
		p.s.seen.note(r.key, p.last)
	}
	if rec.Hash == nil {
		return true, nil // of before there were hashes
	}
	if want, _ := linkEvent(nil, before.link, rec.Data[:len(rec.Data)-len(r.Data)], r.Data); want != is {
		return false, p.s.damageAt(number)
	}
	return true, nil
}

// Read implements [threadlog.Store].
func (s *Store) Read(ctx context.Context, key mesh.ThreadKey, after mesh.Seq, limit int) ([]threadlog.Record, error) {
	const op = "disk.Read"
	var missed int64 // a record that was there no more
	for {
		if err := s.readable(ctx, op); err != nil {
			return nil, err
		}
		positions, err := s.places(key, after, limit)
		if err != nil {
			return nil, mesh.Wrap(op, err)
		}
		if len(positions) == 0 {
			return nil, nil
		}
		if missed > 0 && slices.Contains(positions, mesh.Pos(missed)) {
			return nil, s.broken(op, key, s.damageAt(missed)) // it was dropped, and its thread was not
		}
		p := page{s: s, of: &key, next: max(after, 0) + 1}
		if missed, err = s.readPage(&p, positions); err != nil {
			return nil, s.broken(op, key, err)
		}
		if missed == 0 {
			return p.recs, nil
		}
		// It was deleted meanwhile: see what is there now.
	}
}

// readPage returns a record that is there no more, 0 if all are.
func (s *Store) readPage(p *page, positions []mesh.Pos) (missed int64, err error) {
	for len(positions) > 0 && !p.full {
		some := positions[:min(len(positions), atOnce)]
		positions = positions[len(some):]
		p.seen = 0
		err := s.log.Read(numbers(some), func(n int64, rec segment.Record) bool {
			if n != int64(some[p.seen]) {
				return false
			}
			return p.add(n, rec)
		})
		if err != nil || p.err != nil {
			return 0, cmp.Or(err, p.err)
		}
		if !p.full && p.seen < len(some) {
			return int64(some[p.seen]), nil
		}
	}
	return 0, nil
}

// Scan implements [threadlog.Store]. What is damaged is not there: its thread is closed.
func (s *Store) Scan(ctx context.Context, after mesh.Pos, limit int) ([]threadlog.Record, error) {
	const op = "disk.Scan"
	p := page{s: s}
	for at := max(int64(after), 0); len(p.recs) < limit && !p.full; {
		if err := s.readable(ctx, op); err != nil {
			return nil, err
		}
		some, err := s.log.After(at, min(limit-len(p.recs), atOnce))
		if err != nil {
			return nil, s.failed(op, err)
		}
		if len(some) == 0 {
			break
		}
		at = some[len(some)-1]
		err = s.log.Read(some, p.add)
		err, p.err = cmp.Or(err, p.err), nil
		var d *segment.Damage
		if errors.As(err, &d) {
			s.damage(d)
			at = max(d.Last, p.at)
			continue
		}
		if err != nil {
			return nil, s.failed(op, err)
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
	infos := s.book.Threads(tenant, before, limit)
	for i := range infos {
		infos[i].Damaged = s.ill[infos[i].Key] != nil
	}
	return infos, mesh.Wrap("disk.Threads", ctx.Err())
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

// Bytes implements [threadlog.Catalog].
func (s *Store) Bytes(ctx context.Context, tenant mesh.TenantID) (int64, error) {
	s.index.RLock()
	defer s.index.RUnlock()
	return s.book.Bytes(tenant), mesh.Wrap("disk.Bytes", ctx.Err())
}

// Deleted implements [threadlog.Catalog].
func (s *Store) Deleted(ctx context.Context, since int64) (keys []mesh.ThreadKey, now int64, all bool, err error) {
	s.index.RLock()
	defer s.index.RUnlock()
	keys, now, all = s.book.Deleted(since)
	return keys, now, all, mesh.Wrap("disk.Deleted", ctx.Err())
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
