// Package memindex is the in-memory index of a thread store, for drivers that
// hold one: which threads there are, where their records lie, and what decides
// whether a batch may be appended.
//
// It is where the rules of [threadlog.Store.Append] stand once for all drivers
// of that kind. A batch is judged against a [Draft], which the driver commits
// when the bytes are safe, or drops.
//
// A driver may keep a book elsewhere, too, and bring what has changed there from time to
// time: [Book.Changes]. A book that is made again of that has of each thread its [Head]
// alone, until somebody needs more: [Book.Load].
//
// Nothing here may run concurrently with a change of the same Book. It holds no
// data and does no I/O.
package memindex

import (
	"cmp"
	"crypto/sha256"
	"fmt"
	"slices"

	"agentmesh/mesh"
	"agentmesh/mesh/threadlog"
)

// An ID stands for a writer's id. Ids come from outside, so it is a hash in which
// nobody finds collisions.
type ID [16]byte

func hashID(id string) ID {
	sum := sha256.Sum256([]byte(id))
	return ID(sum[:16])
}

// A thread is what is known of one thread, or what a draft adds to it.
type thread struct {
	Head
	base      mesh.Seq   // up to which positions, decisions and ids are not here, but where the driver keeps them
	positions []mesh.Pos // of the records after base; of a draft, of the added ones
	decisions map[mesh.Scope]mesh.Seq
	ids       map[ID]mesh.Seq
	loaded    *roll    // ids of the records that were loaded, which are not in ids
	settled   mesh.Seq // of a draft: up to which nothing is left to do
	newer     *thread  // in its tenant, the one touched after it; nil of the last
	older     *thread  // and before it
	kept      mesh.Pos // its LastPos where the driver keeps it; 0 if it does not
	saved     mesh.Seq // its Last there
	dead      bool     // it was deleted
}

// A Link is the hash of a record that covers those of its thread before it, for drivers
// that chain them; zeros if there is none.
type Link = [sha256.Size]byte

// note adds a record; seq is its Seq, also in a draft.
func (t *thread) note(e *threadlog.Entry, seq mesh.Seq, pos mesh.Pos) {
	t.positions = append(t.positions, pos)
	if t.Last++; t.Last == 1 {
		t.FirstPos = pos
	}
	t.LastPos = pos
	t.Bytes += int64(len(e.Data))
	if e.ID != "" {
		if t.ids == nil {
			t.ids = map[ID]mesh.Seq{}
		}
		t.ids[hashID(e.ID)] = seq
	}
	if e.Decision {
		if t.decisions == nil {
			t.decisions = map[mesh.Scope]mesh.Seq{}
		}
		t.decisions[e.Scope] = seq
	}
	t.Epoch = max(t.Epoch, e.Claim)
	if e.Opens {
		t.Open, t.OpenPos = seq, pos
	}
}

// A Book is the index of one store. The zero value is an empty one.
type Book struct {
	tenants   map[mesh.TenantID]*tenant
	deleted   []mesh.ThreadKey // the last threads that were, of all
	deletions int64
	pending   map[*thread]struct{} // that have something to do
	last      mesh.Pos
	records   int

	keeping bool                 // a driver keeps it elsewhere
	dirty   map[*thread]struct{} // that are otherwise there
	gone    []Gone               // that are still there
}

// Last returns the highest position that was ever given.
func (b *Book) Last() mesh.Pos { return b.last }

// Records returns how many records there are.
func (b *Book) Records() int { return b.records }

// Reserve says that positions up to last were given, as those of threads that
// were deleted are.
func (b *Book) Reserve(last mesh.Pos) { b.last = max(b.last, last) }

// Restore adds a record that the store holds, as a driver does for all of them
// in the order of their positions when it opens; settled is what the record says of
// [threadlog.Batch.Settled]. It returns an error if the
// record does not follow those before it. Of the entry's Data the size alone is used.
func (b *Book) Restore(key mesh.ThreadKey, seq mesh.Seq, pos mesh.Pos, e *threadlog.Entry, settled mesh.Seq) error {
	t := b.open(key)
	if want := t.Last + 1; seq != want {
		return fmt.Errorf("thread %s has event %d where %d belongs", key, seq, want)
	}
	if pos <= b.last && b.records > 0 {
		return fmt.Errorf("position %d comes after %d", pos, b.last)
	}
	t.note(e, seq, pos)
	b.tenants[key.Tenant].bytes += int64(len(e.Data))
	b.work(t, settled)
	b.touch(t)
	b.last = max(b.last, pos)
	b.records++
	return nil
}

// Link returns the link of the thread's last record.
func (b *Book) Link(key mesh.ThreadKey) (l Link) {
	if t := b.find(key); t != nil {
		l = t.Link
	}
	return l
}

// SetLink sets the link of the thread's last record, which was restored.
func (b *Book) SetLink(key mesh.ThreadKey, l Link) { b.find(key).Link = l }

// Positions returns the positions of the thread's records with a Seq above
// after, at most limit; none of those that are not loaded. The slice is not to be changed, and stays as it is when
// the book changes.
func (b *Book) Positions(key mesh.ThreadKey, after mesh.Seq, limit int) []mesh.Pos {
	t := b.find(key)
	if t == nil || limit < 1 {
		return nil
	}
	all := t.positions
	after = max(after-t.base, 0)
	if after >= mesh.Seq(len(all)) {
		return nil
	}
	return all[after:min(after+mesh.Seq(limit), mesh.Seq(len(all)))]
}

// Info returns what is known of the thread; false if there is none.
func (b *Book) Info(key mesh.ThreadKey) (threadlog.Info, bool) {
	t := b.find(key)
	if t == nil {
		return threadlog.Info{}, false
	}
	return t.Info, true
}

// work notes what is to do in the thread: what it has open, unless it is settled up to
// there.
func (b *Book) work(t *thread, settled mesh.Seq) {
	if t.Open > settled {
		if b.pending == nil {
			b.pending = map[*thread]struct{}{}
		}
		b.pending[t] = struct{}{}
		return
	}
	t.Open, t.OpenPos = 0, 0
	delete(b.pending, t)
}

// Settle implements [threadlog.Catalog].
func (b *Book) Settle(key mesh.ThreadKey, first mesh.Pos, upTo mesh.Seq) {
	if t := b.find(key); t != nil && t.FirstPos == first && t.Open > 0 {
		b.work(t, upTo)
		b.change(t)
	}
}

// Unfinished implements [threadlog.Catalog]. Its cost grows with the number of
// threads that have something to do.
func (b *Book) Unfinished(after mesh.Pos, limit int) []threadlog.Unfinished {
	var out []threadlog.Unfinished
	for t := range b.pending {
		if t.OpenPos > after {
			out = append(out, threadlog.Unfinished{Key: t.Key, Open: t.Open, Pos: t.OpenPos})
		}
	}
	slices.SortFunc(out, func(x, y threadlog.Unfinished) int { return cmp.Compare(x.Pos, y.Pos) })
	return out[:min(len(out), max(limit, 0))]
}

// Threads implements [threadlog.Catalog].
func (b *Book) Threads(id mesh.TenantID, before mesh.Pos, limit int) []threadlog.Info {
	tn := b.tenants[id]
	if tn == nil {
		return nil
	}
	var out []threadlog.Info
	for t := tn.before(before); t != nil && len(out) < limit; t = t.older {
		out = append(out, t.Info)
	}
	return out
}

// Idle implements [threadlog.Catalog].
func (b *Book) Idle(id mesh.TenantID, after mesh.Pos, limit int) []threadlog.Info {
	tn := b.tenants[id]
	if tn == nil {
		return nil
	}
	var out []threadlog.Info
	for t := tn.after(after); t != nil && len(out) < limit; t = t.newer {
		out = append(out, t.Info)
	}
	return out
}

// Tenants implements [threadlog.Catalog].
func (b *Book) Tenants() map[mesh.TenantID]int {
	all := make(map[mesh.TenantID]int, len(b.tenants))
	for id, tn := range b.tenants {
		all[id] = len(tn.threads)
	}
	return all
}

// Bytes implements [threadlog.Catalog].
func (b *Book) Bytes(id mesh.TenantID) int64 {
	if tn := b.tenants[id]; tn != nil {
		return tn.bytes
	}
	return 0
}

// Whole returns the positions of the thread's records, in order, for its deletion as
// [threadlog.Catalog] has it: NotFound if there is none, Conflict if its last one is
// not at last. It must be loaded.
func (b *Book) Whole(op string, key mesh.ThreadKey, last mesh.Pos) ([]mesh.Pos, error) {
	t := b.find(key)
	if t == nil {
		return nil, mesh.ThreadNotFound(op)
	}
	if is := t.LastPos; last != threadlog.AnyPos && last != is {
		return nil, mesh.Errorf(mesh.Conflict, op, "The thread's last event is at %d and not at %d; read the thread again", is, last)
	}
	return t.positions, nil
}

// Delete forgets the thread, which there is.
func (b *Book) Delete(key mesh.ThreadKey) {
	t := b.find(key)
	tn := b.tenants[key.Tenant]
	tn.remove(t)
	delete(b.pending, t)
	delete(tn.threads, key.ID)
	if len(tn.threads) == 0 {
		delete(b.tenants, key.Tenant)
	}
	b.records -= int(t.Last)
	tn.bytes -= t.Bytes
	b.forget(t)
	b.deletions++
	if b.deleted = append(b.deleted, key); len(b.deleted) >= 2*maxDeleted {
		b.deleted = slices.Clone(b.deleted[len(b.deleted)-maxDeleted:])
	}
}

// maxDeleted is how many of the threads that were deleted last a book knows at least.
const maxDeleted = 4096

// Deleted implements [threadlog.Catalog].
func (b *Book) Deleted(since int64) (keys []mesh.ThreadKey, now int64, all bool) {
	n := b.deletions - since
	if n < 0 || n > int64(len(b.deleted)) {
		return nil, b.deletions, false
	}
	return slices.Clone(b.deleted[int64(len(b.deleted))-n:]), b.deletions, true
}

func (b *Book) find(key mesh.ThreadKey) *thread {
	if tn := b.tenants[key.Tenant]; tn != nil {
		return tn.threads[key.ID]
	}
	return nil
}

// open returns the thread, which its caller gives a record if it is new.
func (b *Book) open(key mesh.ThreadKey) *thread {
	tn := b.tenants[key.Tenant]
	if tn == nil {
		tn = &tenant{threads: map[string]*thread{}}
		if b.tenants == nil {
			b.tenants = map[mesh.TenantID]*tenant{}
		}
		b.tenants[key.Tenant] = tn
	}
	t := tn.threads[key.ID]
	if t == nil {
		t = &thread{}
		t.Key = key
		tn.threads[key.ID] = t
	}
	return t
}

// touch makes the thread the last that was.
func (b *Book) touch(t *thread) {
	b.tenants[t.Key.Tenant].touch(t)
	b.change(t)
}
