package bolt

import (
	"context"
	"errors"
	"slices"

	bolt "go.etcd.io/bbolt"

	"agentmesh/mesh"
	"agentmesh/mesh/threadlog"
)

// Bounds of one transaction. A single request may be larger.
const (
	maxEntries = 1024
	maxBytes   = 4 << 20
)

// A request is one of: an append (batch), the deletion of a thread (remove), word
// that nothing is left to do in one (settled), a change of state (change).
type request struct {
	key     mesh.ThreadKey
	batch   *threadlog.Batch
	remove  bool
	last    mesh.Pos // of what is removed
	settled mesh.Seq
	// change returns why it is refused, or how the file failed.
	change func(*bolt.Bucket) (refused, failed error)
	size   int // bytes, about

	at   threadlog.Appended
	err  error
	done chan struct{}
}

// Append implements [threadlog.Store].
func (s *Store) Append(ctx context.Context, key mesh.ThreadKey, b *threadlog.Batch) (threadlog.Appended, error) {
	r := &request{key: key, batch: b}
	for i := range b.Entries {
		r.size += len(b.Entries[i].Data) + 128
	}
	if err := s.do(ctx, "bolt.Append", r); err != nil {
		return threadlog.Appended{}, err
	}
	return r.at, nil
}

// Delete implements [threadlog.Catalog]. It takes time in proportion to the
// thread's length, in which nothing else is written; readers do not wait for it.
func (s *Store) Delete(ctx context.Context, key mesh.ThreadKey, last mesh.Pos) error {
	return s.do(ctx, "bolt.Delete", &request{key: key, remove: true, last: last})
}

// Settle implements [threadlog.Catalog]. The file learns of it with the next batch
// that settles the thread.
func (s *Store) Settle(ctx context.Context, key mesh.ThreadKey, upTo mesh.Seq) error {
	return s.do(ctx, "bolt.Settle", &request{key: key, settled: upTo})
}

// do queues the request and waits until it is decided. It does not give up when
// ctx ends: the request's slices are borrowed, and its outcome is not known.
func (s *Store) do(ctx context.Context, op string, r *request) error {
	if err := ctx.Err(); err != nil {
		return mesh.Wrap(op, err)
	}
	r.done = make(chan struct{})
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return mesh.Errorf(mesh.Unavailable, op, "The node is shutting down; try again")
	}
	s.queue = append(s.queue, r)
	select {
	case s.wake <- struct{}{}:
	default:
	}
	s.mu.Unlock()
	<-r.done
	return mesh.Wrap(op, r.err)
}

func (s *Store) commitLoop() {
	defer close(s.done)
	for range s.wake {
		for s.commitNext() {
		}
	}
	for s.commitNext() {
	}
}

// next takes from the queue what goes into one transaction. A deletion goes
// alone.
func (s *Store) next() []*request {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, entries, size := 0, 0, 0
	for _, r := range s.queue {
		if r.batch != nil {
			entries += len(r.batch.Entries)
		}
		size += r.size
		if n > 0 && (r.remove || s.queue[0].remove || entries > maxEntries || size > maxBytes) {
			break
		}
		n++
	}
	reqs := slices.Clone(s.queue[:n])
	s.queue = slices.Delete(s.queue, 0, n)
	return reqs
}

func (s *Store) commitNext() bool {
	reqs := s.next()
	switch {
	case len(reqs) == 0:
		return false
	case reqs[0].remove:
		reqs[0].err = s.remove(reqs[0].key, reqs[0].last)
	default:
		s.commit(reqs)
	}
	for _, r := range reqs {
		close(r.done)
	}
	return true
}

// commit decides the requests and writes those that stand in one transaction.
// One that is refused does not touch the others.
func (s *Store) commit(reqs []*request) {
	draft := s.book.Draft()
	writes := false
	for _, r := range reqs {
		switch {
		case r.batch != nil:
			r.at, r.err = draft.Add(r.key, r.batch)
		case r.change != nil:
			writes = true
		}
	}
	if writes || draft.Last() != s.book.Last() {
		err := s.transact(func(tx *bolt.Tx) error {
			if err := write(tx, reqs); err != nil {
				return err
			}
			return putTotals(tx, totals{draft.Last(), draft.Records()})
		})
		if err != nil {
			for _, r := range reqs {
				if r.err == nil {
					r.err = err
				}
			}
			return
		}
	}
	s.index.Lock()
	defer s.index.Unlock()
	draft.Commit()
	for _, r := range reqs {
		if r.settled > 0 { // without a record
			s.book.Settle(r.key, r.settled)
		}
	}
}

func write(tx *bolt.Tx, reqs []*request) error {
	log, values := tx.Bucket(bucketLog), tx.Bucket(bucketState)
	log.FillPercent = 0.95 // keys only grow
	for _, r := range reqs {
		if r.change != nil {
			var failed error
			if r.err, failed = r.change(values); failed != nil {
				return failed
			}
		}
		if err := putBatch(log, r); err != nil {
			return err
		}
	}
	return nil
}

// putBatch writes what is new of the request's batch. The last record has what the
// batch settles.
func putBatch(log *bolt.Bucket, r *request) error {
	settled := mesh.Seq(0)
	if r.batch != nil {
		settled = r.batch.Settled
	}
	for i, pos := range slices.Backward(r.at.Pos) {
		if pos == 0 {
			continue
		}
		k := posKey(pos)
		if err := log.Put(k, encode(k, record{r.key, r.at.Seqs[i], settled, r.batch.Entries[i]})); err != nil {
			return err
		}
		settled = 0
	}
	return nil
}

// remove deletes a thread. The index has it until that is on disk, so that nobody
// sees it gone and then there again; readers who do not find its records
// meanwhile know why.
func (s *Store) remove(key mesh.ThreadKey, last mesh.Pos) error {
	positions, err := s.book.Whole("bolt.Delete", key, last)
	if err != nil {
		return err
	}
	s.setRemoving(key)
	err = s.transact(func(tx *bolt.Tx) error {
		log := tx.Bucket(bucketLog)
		for _, pos := range positions {
			if err := log.Delete(posKey(pos)); err != nil {
				return err
			}
		}
		return putTotals(tx, totals{s.book.Last(), s.book.Records() - len(positions)})
	})
	s.index.Lock()
	defer s.index.Unlock()
	if s.removing = (mesh.ThreadKey{}); err == nil {
		s.book.Delete(key)
	}
	return err
}

func (s *Store) setRemoving(key mesh.ThreadKey) {
	s.index.Lock()
	defer s.index.Unlock()
	s.removing = key
}

// transact runs fn in a transaction that is on disk when it returns nil. After
// an error nothing of it is in the file, or nothing is ever written again: the
// index must not differ from the file.
func (s *Store) transact(fn func(*bolt.Tx) error) error {
	const op = "bolt.commit"
	if s.broken != nil {
		return s.broken
	}
	err := guard(func() error {
		return s.update(func(tx *bolt.Tx) error {
			s.lastTry = tx.ID()
			return fn(tx)
		})
	})
	if err == nil {
		return nil
	}
	failed := mesh.Errorf(mesh.Unavailable, op, "The node could not write to its disk; try again: %w", err)
	var p *panicError
	s.hurt = errors.As(err, &p)
	if s.hurt || !s.undone() {
		failed = mesh.Errorf(mesh.Unavailable, op,
			"The node's data file failed; its operator must restart it and, if that fails, restore a copy: %w", err)
		s.broken = failed
	}
	s.logger.Error("commit failed", "path", s.path, "for_good", s.broken != nil, "err", err)
	return failed
}

// undone reports whether the file is as it was before the last transaction: a
// sync that fails may come after the write that makes it count.
func (s *Store) undone() bool {
	current := 0
	err := guard(func() error {
		return s.db.View(func(tx *bolt.Tx) error {
			current = tx.ID()
			return nil
		})
	})
	return err == nil && current < s.lastTry
}
