package memindex

import (
	"slices"

	"agentmesh/mesh"
	"agentmesh/mesh/threadlog"
)

// A Head is what a book must know of a thread at once.
type Head struct {
	threadlog.Info
	OpenPos mesh.Pos // of the entry at Info.Open; 0 if that is 0
	Link    Link     // of the last record
}

// A Part is what records in a row added to their thread: those after the Seq After.
type Part struct {
	After     mesh.Seq
	Positions []mesh.Pos
	Decisions map[mesh.Scope]mesh.Seq // the last of each scope
	IDs       []IDAt
}

// Gone is a thread that was deleted, and is still where the driver keeps it.
type Gone struct{ FirstPos, LastPos mesh.Pos }

// A Change is how a thread differs from what its driver keeps: it has the Head, and the Part
// more. Was is the LastPos with which it is kept, 0 if it is not.
type Change struct {
	Head
	Part
	Was mesh.Pos
	of  *thread
}

// Keep says that a driver keeps the book elsewhere, too.
func (b *Book) Keep() { b.keeping = true }

// Revive adds n threads that the driver keeps, in the order of their LastPos, to an empty
// book: next fills in the head of one after the other. They are not loaded. After an error of
// next, which it returns, the book is as it was.
func (b *Book) Revive(n int, next func(*Head) error) error {
	all, counts, open := make([]thread, n), map[mesh.TenantID]int{}, 0 // at once, for speed
	for i := range all {
		h := &all[i].Head
		if err := next(h); err != nil {
			return err
		}
		counts[h.Key.Tenant]++
		if h.Open > 0 {
			open++
		}
	}
	b.tenants, b.pending = map[mesh.TenantID]*tenant{}, make(map[*thread]struct{}, open)
	for id, n := range counts {
		b.tenants[id] = &tenant{threads: make(map[string]*thread, n), touches: make([]touch, 0, n)}
	}
	for i := range all {
		t := &all[i]
		t.base, t.kept, t.saved = t.Last, t.LastPos, t.Last
		tn := b.tenants[t.Key.Tenant]
		tn.touch(t)
		tn.threads[t.Key.ID] = t
		tn.bytes += t.Bytes
		if t.Open > 0 {
			b.work(t, 0)
		}
		b.records += int(t.Last)
		b.last = max(b.last, t.LastPos)
	}
	return nil
}

// Unloaded returns up to which Seq the thread is not loaded, 0 if it is, or there is none.
func (b *Book) Unloaded(key mesh.ThreadKey) mesh.Seq {
	if t := b.find(key); t != nil {
		return t.base
	}
	return 0
}

// Load loads the thread: the parts are those up to [Book.Unloaded].
func (b *Book) Load(key mesh.ThreadKey, parts []Part) {
	t := b.find(key)
	positions := make([]mesh.Pos, 0, t.Last)
	var decisions map[mesh.Scope]mesh.Seq
	for _, p := range parts {
		positions = append(positions, p.Positions...)
		decisions = merge(decisions, p.Decisions)
	}
	t.positions = append(positions, t.positions...)
	t.decisions, t.loaded, t.base = merge(decisions, t.decisions), newRoll(parts), 0
}

// change notes that the thread is not what is kept.
func (b *Book) change(t *thread) {
	if !b.keeping {
		return
	}
	if b.dirty == nil {
		b.dirty = map[*thread]struct{}{}
	}
	b.dirty[t] = struct{}{}
}

// forget notes that the thread was deleted.
func (b *Book) forget(t *thread) {
	t.dead = true
	delete(b.dirty, t)
	if t.kept > 0 {
		b.gone = append(b.gone, Gone{t.FirstPos, t.kept})
	}
}

// Changes returns what has changed since the last ones that were kept, and what was deleted.
// They stay as they are when the book changes.
func (b *Book) Changes() ([]Change, []Gone) {
	out := make([]Change, 0, len(b.dirty))
	for t := range b.dirty {
		c := Change{Head: t.Head, Was: t.kept, of: t}
		c.After, c.Positions = t.saved, t.positions[t.saved-t.base:]
		c.Decisions = newer(t.decisions, t.saved)
		for id, seq := range t.ids {
			if seq > t.saved {
				c.IDs = append(c.IDs, IDAt{id, seq})
			}
		}
		out = append(out, c)
	}
	return out, slices.Clone(b.gone)
}

func newer(all map[mesh.Scope]mesh.Seq, after mesh.Seq) map[mesh.Scope]mesh.Seq {
	var out map[mesh.Scope]mesh.Seq
	for k, seq := range all {
		if seq > after {
			if out == nil {
				out = map[mesh.Scope]mesh.Seq{}
			}
			out[k] = seq
		}
	}
	return out
}

// Kept says that these changes are kept.
func (b *Book) Kept(changes []Change, gone []Gone) {
	b.gone = b.gone[len(gone):]
	for _, c := range changes {
		t := c.of
		t.kept, t.saved = c.LastPos, c.Last
		switch {
		case t.dead: // meanwhile
			b.gone = append(b.gone, Gone{t.FirstPos, t.kept})
		case t.Info == c.Info:
			delete(b.dirty, t)
		}
	}
}
