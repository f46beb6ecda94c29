package disk

import (
	"context"
	"runtime"
	"slices"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/store/segment"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/memindex"
)

// Bounds of one commit. A single request may be larger.
const (
	maxEntries = 1024
	maxBytes   = 4 << 20
)

// deferral is how long a batch that is deferred waits for others, at most: so much
// later may be seen what nobody waits for.
const deferral = 20 * time.Millisecond

// A request is one of: an append (batch), the deletion of a thread (remove), word
// that nothing is left to do in one (settled), a change of state (change).
type request struct {
	key     mesh.ThreadKey
	batch   *threadlog.Batch
	remove  bool
	last    mesh.Pos // of what is removed
	first   mesh.Pos // of what is settled
	settled mesh.Seq
	change  *change
	size    int // bytes, about

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
	if err := s.do(ctx, "disk.Append", r); err != nil {
		return threadlog.Appended{}, err
	}
	return r.at, nil
}

// Delete implements [threadlog.Catalog]. Readers see the thread until its end is
// on disk; its bytes go from the files after that.
func (s *Store) Delete(ctx context.Context, key mesh.ThreadKey, last mesh.Pos) error {
	return s.do(ctx, "disk.Delete", &request{key: key, remove: true, last: last})
}

// Settle implements [threadlog.Catalog]. The log learns of it with the next batch
// that settles the thread.
func (s *Store) Settle(ctx context.Context, key mesh.ThreadKey, first mesh.Pos, upTo mesh.Seq) error {
	return s.do(ctx, "disk.Settle", &request{key: key, first: first, settled: upTo})
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
	if r.batch == nil || !r.batch.Deferred {
		s.due = true
		s.rouse()
	} else if !s.ticking {
		s.ticking = true
		time.AfterFunc(deferral, s.tick)
	}
	s.mu.Unlock()
	if r.batch != nil && r.batch.Placed != nil {
		r.batch.Placed()
	}
	<-r.done
	return mesh.Wrap(op, r.err)
}

// rouse tells the committer that something is due. The caller holds mu.
func (s *Store) rouse() {
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// tick has committed what was deferred and found nothing to go with.
func (s *Store) tick() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ticking = false
	if !s.closed && len(s.queue) > 0 {
		s.due = true
		s.rouse()
	}
}

func (s *Store) commitLoop() {
	defer close(s.done)
	for range s.wake {
		for s.commitNext() {
		}
		s.lookAgain()
	}
	for s.commitNext() {
	}
}

// gather lets those run who are about to append, until the queue has stopped
// growing by it: it has not grown for as many looks as the last commit woke, who may
// come back together. After a lone append nobody is waited for; and never longer
// than the last commit took to write, whoever else keeps the processors busy.
func (s *Store) gather() {
	begun := time.Now()
	for before, quiet := 0, 0; quiet < max(s.woken, 2) && time.Since(begun) < s.took; {
		s.mu.Lock()
		now := len(s.queue)
		s.mu.Unlock()
		if now >= maxEntries {
			return
		}
		if quiet++; now > before {
			before, quiet = now, 0
		}
		runtime.Gosched()
	}
}

// isDue reports whether not all that waits is deferred.
func (s *Store) isDue() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.due || s.closed
}

// next takes from the queue what goes into one commit. A deletion goes alone.
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
	s.due = len(s.queue) > 0
	return reqs
}

func (s *Store) commitNext() bool {
	if !s.isDue() {
		return false
	}
	s.gather()
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
	s.woken = len(reqs)
	return true
}

// commit decides the requests and writes those that stand as one frame. One that
// is refused does not touch the others. Events come first in it, so that they
// have the positions that the draft gave them.
func (s *Store) commit(reqs []*request) {
	draft := s.book.Draft()
	recs := s.recs[:0]
	s.buf = s.buf[:0]
	for _, r := range reqs {
		if r.batch == nil {
			continue
		}
		if r.err = s.admit(r.key); r.err == nil {
			r.at, r.err = draft.Add(r.key, r.batch)
		}
		recs = s.appendBatch(recs, r, draft)
	}
	events := len(recs)
	changed := map[string]value{}
	for _, r := range reqs {
		if r.change == nil {
			continue
		}
		if r.err = s.decide(r.change, changed); r.err == nil {
			recs = append(recs, r.change.record())
		}
	}
	defer s.reuse(recs)
	if len(recs) > 0 {
		if err := s.write(recs); err != nil {
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
	s.publish(draft, recs, events, changed)
	for _, r := range reqs {
		if r.settled > 0 {
			s.book.Settle(r.key, r.first, r.settled)
		}
	}
}

// publish shows readers what was written.
func (s *Store) publish(draft *memindex.Draft, recs []segment.Record, events int, changed map[string]value) {
	before := s.book.Last()
	for i := range recs {
		s.chain.add(int64(before)+int64(i)+1, recs[i].Kind, recs[i].Hash)
	}
	draft.Commit()
	s.book.Reserve(before + mesh.Pos(len(recs)))
	for i := range recs {
		if i < events {
			s.unsaved += len(recs[i].Data) / eventShare
		} else {
			s.unsaved += len(recs[i].Data) + changeWeight
			s.spent = append(s.spent, int64(before)+int64(i)+1)
		}
	}
	for k, v := range changed {
		v.upTo = s.book.Last()
		s.pending[k] = v
	}
	if s.unsaved >= saveBytes {
		s.unsaved = 0 // the next time only after as much again, also if it fails
		s.wakeKeeper()
	}
}

// reuse keeps the memory of the records for the next commit, unless it is much.
func (s *Store) reuse(recs []segment.Record) {
	s.recs = recs
	if cap(s.buf) > maxBytes {
		s.recs, s.buf = nil, nil
	}
}

// appendBatch appends what is new of the request's batch, with its bytes in s.buf.
// The last record has what the batch settles.
func (s *Store) appendBatch(recs []segment.Record, r *request, draft *memindex.Draft) []segment.Record {
	if r.err != nil {
		return recs
	}
	link := draft.Link(r.key)
	last := len(r.at.Pos) - 1
	for last >= 0 && r.at.Pos[last] == 0 {
		last--
	}
	for i := range last + 1 {
		if r.at.Pos[i] == 0 {
			continue
		}
		rec := record{key: r.key, seq: r.at.Seqs[i], Entry: r.batch.Entries[i]}
		if i == last {
			rec.settled = r.batch.Settled
		}
		start := len(s.buf)
		s.buf = encode(append(s.buf, link[:]...), rec) // the hash will be in its place
		hash, data := s.buf[start:start+len(link)], s.buf[start+len(link):]
		link, s.linking = linkEvent(s.linking, link, data[:len(data)-len(rec.Data)], rec.Data)
		copy(hash, link[:])
		recs = append(recs, segment.Record{Kind: kindEvent, Data: data, Hash: hash})
	}
	if last >= 0 {
		draft.SetLink(r.key, link)
	}
	return recs
}

// remove deletes a thread. Readers have it until that is on disk, so that nobody
// sees it gone and then there again.
func (s *Store) remove(key mesh.ThreadKey, last mesh.Pos) error {
	if err := s.admit(key); err != nil {
		return err
	}
	positions, err := s.book.Whole("disk.Delete", key, last)
	if err != nil {
		return err
	}
	recs := []segment.Record{hashed(kindDeleted, tombstone{key, s.book.Link(key), numbers(positions)}.encode())}
	if err := s.write(recs); err != nil {
		return err
	}
	s.index.Lock()
	s.chain.add(int64(s.book.Last())+1, kindDeleted, recs[0].Hash)
	s.book.Delete(key)
	s.book.Reserve(s.book.Last() + 1)
	s.log.Drop(numbers(positions), true) // at once with it, for who checks, and for a checkpoint
	s.index.Unlock()
	s.wakeKeeper()
	return nil
}

// write appends records, which are on disk when it returns nil. After an error
// they are not there, or nothing is ever written again: the index must not differ
// from the log.
func (s *Store) write(recs []segment.Record) error {
	if h := s.Health(); h.Final {
		return h.Fault
	}
	begun := time.Now()
	_, err := s.log.Append(recs)
	s.took = time.Since(begun)
	if err == nil {
		s.commits++
	} else {
		s.logger.Error("commit failed", "path", s.path, "err", err)
	}
	return s.noteHealth(err)
}

func numbers(positions []mesh.Pos) []int64 {
	out := make([]int64, len(positions))
	for i, p := range positions {
		out[i] = int64(p)
	}
	return out
}
