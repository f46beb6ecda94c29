package memindex

import (
	"cmp"
	"maps"
	"slices"

	"agentmesh/mesh"
	"agentmesh/mesh/threadlog"
)

// A Draft is batches that are to be committed together. Each is judged as if
// those before it were committed; one that is refused leaves no trace. While a
// draft is open, its book is read but not changed. Threads to which it adds are loaded.
type Draft struct {
	book    *Book
	last    mesh.Pos
	records int
	added   map[mesh.ThreadKey]*thread
	order   []*thread // added
}

// Draft begins a draft.
func (b *Book) Draft() *Draft {
	return &Draft{book: b, last: b.last, records: b.records, added: map[mesh.ThreadKey]*thread{}}
}

// Add judges the batch by the rules of [threadlog.Store.Append] and adds it to
// the draft, or returns a Conflict error.
func (d *Draft) Add(key mesh.ThreadKey, batch *threadlog.Batch) (threadlog.Appended, error) {
	at := threadlog.Appended{
		Seqs: make([]mesh.Seq, len(batch.Entries)),
		Pos:  make([]mesh.Pos, len(batch.Entries)),
	}
	v := view{base: d.book.find(key), added: d.added[key]}
	fresh := v.place(batch, at.Seqs)
	if fresh == 0 {
		return at, nil
	}
	if err := v.judge(batch, at.Seqs); err != nil {
		return threadlog.Appended{}, err
	}
	t := d.to(key)
	t.settled = max(t.settled, batch.Settled)
	next := v.last() + 1
	for i := range batch.Entries {
		// The same id twice in one batch has one Seq, and is noted once.
		if at.Seqs[i] == next {
			d.last++
			d.records++
			at.Pos[i] = d.last
			t.note(&batch.Entries[i], next, d.last)
			next++
		}
	}
	return at, nil
}

// to returns what the draft adds to the thread.
func (d *Draft) to(key mesh.ThreadKey) *thread {
	t := d.added[key]
	if t == nil {
		t = &thread{}
		t.Key = key
		d.added[key], d.order = t, append(d.order, t)
	}
	return t
}

// Link returns the link of the last record that the thread will have.
func (d *Draft) Link(key mesh.ThreadKey) Link {
	if t := d.added[key]; t != nil && t.Link != (Link{}) {
		return t.Link
	}
	return d.book.Link(key)
}

// SetLink sets it, of a thread to which the draft adds records.
func (d *Draft) SetLink(key mesh.ThreadKey, l Link) { d.added[key].Link = l }

// Last returns the highest position that will have been given.
func (d *Draft) Last() mesh.Pos { return d.last }

// Records returns how many records there will be.
func (d *Draft) Records() int { return d.records }

// Commit makes the draft part of its book. The draft is not used again.
func (d *Draft) Commit() {
	b := d.book
	slices.SortFunc(d.order, func(a, b *thread) int { return cmp.Compare(a.LastPos, b.LastPos) })
	for _, add := range d.order {
		t := b.open(add.Key)
		t.positions = append(t.positions, add.positions...)
		t.Link, t.LastPos = add.Link, add.LastPos
		if t.Last += add.Last; t.Last == add.Last {
			t.FirstPos = add.FirstPos
		}
		t.Bytes += add.Bytes
		b.tenants[add.Key.Tenant].bytes += add.Bytes
		t.Epoch = max(t.Epoch, add.Epoch)
		t.decisions = merge(t.decisions, add.decisions)
		t.ids = merge(t.ids, add.ids)
		if add.Open > 0 {
			t.Open, t.OpenPos = add.Open, add.OpenPos
		}
		b.work(t, add.settled)
		b.touch(t)
	}
	b.last, b.records = d.last, d.records
}

func merge[K comparable](into, from map[K]mesh.Seq) map[K]mesh.Seq {
	if into == nil {
		return from
	}
	maps.Copy(into, from)
	return into
}

// A view is a thread as it will be after the draft. Both parts may be nil.
type view struct{ base, added *thread }

func (v view) last() mesh.Seq {
	n := mesh.Seq(0)
	for _, t := range []*thread{v.base, v.added} {
		if t != nil {
			n += t.Last
		}
	}
	return n
}

func (v view) first() mesh.Pos {
	for _, t := range []*thread{v.base, v.added} {
		if t != nil && t.Last > 0 {
			return t.FirstPos
		}
	}
	return 0
}

func (v view) epoch() mesh.Epoch {
	var e mesh.Epoch
	for _, t := range []*thread{v.base, v.added} {
		if t != nil {
			e = max(e, t.Epoch)
		}
	}
	return e
}

func (v view) decision(s mesh.Scope) mesh.Seq {
	var seq mesh.Seq
	for _, t := range []*thread{v.base, v.added} {
		if t != nil {
			seq = max(seq, t.decisions[s])
		}
	}
	return seq
}

func (v view) id(id string) mesh.Seq {
	h := hashID(id)
	for _, t := range []*thread{v.base, v.added} {
		if t == nil {
			continue
		}
		if seq := max(t.ids[h], t.loaded.find(h)); seq != 0 {
			return seq
		}
	}
	return 0
}

// place gives each entry its Seq and returns how many are new.
func (v view) place(batch *threadlog.Batch, seqs []mesh.Seq) (fresh int) {
	last := v.last()
	var here map[string]mesh.Seq // ids of this batch
	for i := range batch.Entries {
		id := batch.Entries[i].ID
		if id != "" {
			if seqs[i] = v.id(id); seqs[i] == 0 {
				seqs[i] = here[id]
			}
			if seqs[i] != 0 {
				continue
			}
		}
		fresh++
		seqs[i] = last + mesh.Seq(fresh)
		if id != "" && len(batch.Entries) > 1 {
			if here == nil {
				here = map[string]mesh.Seq{}
			}
			here[id] = seqs[i]
		}
	}
	return fresh
}

// judge returns the Conflict of the batch, if it has one. Claims of entries that
// were there already do not count.
func (v view) judge(batch *threadlog.Batch, seqs []mesh.Seq) error {
	const op = "threadlog.Store.Append"
	if is := v.first(); batch.First != 0 && batch.First != is {
		return mesh.Errorf(mesh.Conflict, op, "The thread begins at %d and not at %d, where one began that was deleted; read it again", is, batch.First)
	}
	for _, x := range batch.Expect {
		if is := v.decision(x.Scope); is != x.Seq {
			return mesh.Errorf(mesh.Conflict, op,
				"The last decision in scope %q is event %d and not %d; read the thread again and decide again", x.Scope, is, x.Seq)
		}
	}
	epoch, next := v.epoch(), v.last()+1
	for i := range batch.Entries {
		if seqs[i] != next {
			continue
		}
		next++
		claim := batch.Entries[i].Claim
		if claim <= 0 {
			continue
		}
		if claim <= epoch {
			return mesh.Errorf(mesh.Conflict, op,
				"The thread is claimed under epoch %d; a claim under %d comes too late", epoch, claim)
		}
		epoch = claim
	}
	if batch.Epoch != 0 && batch.Epoch != epoch {
		return mesh.Errorf(mesh.Conflict, op,
			"The thread is claimed under epoch %d; its driver under epoch %d must stop", epoch, batch.Epoch)
	}
	return nil
}
