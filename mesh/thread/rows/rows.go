// Package rows keeps ordered rows that are counted as they are kept: how many there are in a
// range is known without looking at them. A projection of the log, as a list, is made of them.
//
// # What it guarantees
//
// A [Table] is a tree of pages, each of which knows how many rows are below it: finding,
// changing and counting cost the logarithm of what there is. Those pages that were used lately
// are in memory, and those that changed until [Table.Written]; the others are read when they are
// wanted. A page that cannot be read, or is not one, is told by [Table.Err], and what the Table
// says from then on means nothing: it is to be made anew.
//
// # What may run concurrently
//
// Nothing. It starts no goroutine.
//
// It does not know what is in a row, and does not keep pages itself: what [Table.Changes]
// returns is brought, all of it or nothing, to where [Pages] reads.
package rows

import (
	"encoding/binary"
	"errors"
	"iter"
	"slices"
)

// Pages are where the pages of a Table are kept. It may be called concurrently.
type Pages interface {
	// Get returns what is kept under the key, nil if nothing is; what is damaged is an error.
	Get(key string) ([]byte, error)
}

// Bounds of a page, in rows and about in bytes, and of how many are kept in memory that
// need not be.
const (
	maxRows  = 64
	maxBytes = 8 << 10
	maxPages = 1024
)

// headKey is where it is said what the Table begins with.
const headKey = "head"

// form is that of the pages.
const form = 1

// Table has rows. Use New or Open.
type Table struct {
	pages   Pages // nil if it is in memory alone
	root    uint64
	next    uint64 // the number of the next page
	nodes   map[uint64]*node
	dirty   map[uint64]bool // changed since Changes; those that are false are no more
	writing map[uint64]bool // likewise, given by Changes
	limit   int             // of nodes, before some are forgotten
	err     error
}

// New returns an empty Table, whose pages will be in pages; nil is for one in memory.
func New(pages Pages) *Table {
	t := &Table{pages: pages, next: 1, nodes: map[uint64]*node{}, dirty: map[uint64]bool{}}
	t.root = t.add(&node{}).id
	return t
}

// Open returns the Table that is in pages, an empty one if none is. The error is of one that
// cannot be read.
func Open(pages Pages) (*Table, error) {
	b, err := pages.Get(headKey)
	if err != nil || b == nil {
		return New(pages), err
	}
	d := decoder{b: b}
	if d.number() != form {
		return nil, errors.New("the rows have another form")
	}
	t := &Table{pages: pages, root: d.number(), next: d.number(), nodes: map[uint64]*node{}, dirty: map[uint64]bool{}}
	t.node(t.root)
	return t, errors.Join(d.err, t.err)
}

// Err is why the Table cannot be used any more, or nil.
func (t *Table) Err() error { return t.err }

// Changed is how many pages Changes would return, about.
func (t *Table) Changed() int { return len(t.dirty) }

// Changes returns what is to be brought into the pages, by key; what is nil is to be removed.
// [Table.Written] says what became of it, before Changes is called again.
func (t *Table) Changes() map[string][]byte {
	out := make(map[string][]byte, len(t.dirty)+1)
	t.writing, t.dirty = t.dirty, map[uint64]bool{}
	for id, there := range t.writing {
		if out[pageKey(id)] = nil; there {
			n := t.nodes[id]
			n.changed = false
			out[pageKey(id)] = n.encode()
		}
	}
	head := binary.AppendUvarint(nil, form)
	out[headKey] = binary.AppendUvarint(binary.AppendUvarint(head, t.root), t.next)
	return out
}

// Written says whether what Changes returned is in the pages.
func (t *Table) Written(is bool) {
	if !is {
		for id, there := range t.writing {
			if _, since := t.dirty[id]; !since {
				t.dirty[id] = there
			}
		}
	}
	t.writing = nil
	t.trim()
}

// Get returns the value of the row; false if there is none.
func (t *Table) Get(key string) (value string, ok bool) {
	n := t.node(t.root)
	for !n.leaf() {
		n = t.below(n, n.child(key))
	}
	i, ok := slices.BinarySearch(n.keys, key)
	if ok {
		value = n.vals[i]
	}
	return value, ok
}

// Count returns how many rows there are from one key up to, and without, another.
func (t *Table) Count(from, to string) int { return max(t.rank(to)-t.rank(from), 0) }

// rank is how many rows there are below the key.
func (t *Table) rank(key string) (rank int) {
	n := t.node(t.root)
	for !n.leaf() {
		i := n.child(key)
		for _, k := range n.kids[:i] {
			rank += k.rows
		}
		n = t.below(n, i)
	}
	i, _ := slices.BinarySearch(n.keys, key)
	return rank + i
}

// Range yields the rows from one key up to, and without, another, in order. They may not be
// changed meanwhile.
func (t *Table) Range(from, to string) iter.Seq2[string, string] {
	return func(yield func(string, string) bool) { t.walk(t.node(t.root), from, to, yield) }
}

func (t *Table) walk(n *node, from, to string, yield func(string, string) bool) bool {
	if n.leaf() {
		i, _ := slices.BinarySearch(n.keys, from)
		for ; i < len(n.keys); i++ {
			if n.keys[i] >= to || !yield(n.keys[i], n.vals[i]) {
				return false
			}
		}
		return true
	}
	for i := n.child(from); i < len(n.kids); i++ {
		if i > 0 && n.keys[i] >= to || !t.walk(t.below(n, i), from, to, yield) {
			return false
		}
	}
	return true
}

// Put has the row have the value.
func (t *Table) Put(key, value string) {
	root := t.node(t.root)
	if _, split := t.put(root, key, value); split != nil {
		t.root = t.add((&node{height: root.height + 1, keys: []string{"", split.keys[0]}, kids: []kid{{root.id, root.rows()}, {split.id, split.rows()}}}).weigh()).id
	}
}

// put returns how many rows there are more below n, and what was split off it.
func (t *Table) put(n *node, key, value string) (added int, split *node) {
	if n.leaf() {
		i, there := slices.BinarySearch(n.keys, key)
		switch {
		case there && n.vals[i] == value:
			return 0, nil
		case there:
			n.bytes += len(value) - len(n.vals[i])
			n.vals[i] = value
		default:
			n.keys, n.vals = slices.Insert(n.keys, i, key), slices.Insert(n.vals, i, value)
			n.bytes += len(key) + len(value)
			added = 1
		}
		t.changed(n)
		return added, t.split(n)
	}
	i := n.child(key)
	added, more := t.put(t.below(n, i), key, value)
	if added == 0 && more == nil {
		return 0, nil
	}
	if n.kids[i].rows += added; more != nil {
		n.kids[i].rows -= more.rows()
		n.keys = slices.Insert(n.keys, i+1, more.keys[0])
		n.bytes += len(more.keys[0])
		n.kids = slices.Insert(n.kids, i+1, kid{more.id, more.rows()})
	}
	t.changed(n)
	return added, t.split(n)
}

// split splits off the second half of a node that is too large.
func (t *Table) split(n *node) *node {
	if len(n.keys) <= maxRows && (len(n.keys) < 4 || n.bytes <= maxBytes) {
		return nil
	}
	m := len(n.keys) / 2
	more := &node{height: n.height, keys: slices.Clone(n.keys[m:])}
	if n.leaf() {
		more.vals, n.vals = slices.Clone(n.vals[m:]), slices.Clone(n.vals[:m])
	} else {
		more.kids, n.kids = slices.Clone(n.kids[m:]), slices.Clone(n.kids[:m])
	}
	n.keys = slices.Clone(n.keys[:m])
	n.weigh()
	return t.add(more.weigh())
}

// Delete removes the row, if there is one.
func (t *Table) Delete(key string) {
	t.remove(t.node(t.root), key)
	for n := t.node(t.root); !n.leaf() && len(n.kids) == 1; n = t.node(t.root) {
		t.root = n.kids[0].id
		t.free(n)
	}
}

// remove reports whether there was one.
func (t *Table) remove(n *node, key string) bool {
	if n.leaf() {
		i, there := slices.BinarySearch(n.keys, key)
		if there {
			n.bytes -= len(n.keys[i]) + len(n.vals[i])
			n.keys, n.vals = slices.Delete(n.keys, i, i+1), slices.Delete(n.vals, i, i+1)
			t.changed(n)
		}
		return there
	}
	i := n.child(key)
	of := t.below(n, i)
	if !t.remove(of, key) {
		return false
	}
	n.kids[i].rows--
	t.changed(n)
	switch {
	case len(of.keys) == 0 && len(n.kids) > 1:
		n.drop(i)
		t.free(of)
	case len(of.keys) < maxRows/4 && i+1 < len(n.kids):
		t.merge(n, i)
	case len(of.keys) < maxRows/4 && i > 0:
		t.merge(n, i-1)
	}
	return true
}

// merge puts what is below the i-th kid of n and the one after it into one, if it fits.
func (t *Table) merge(n *node, i int) {
	a, b := t.below(n, i), t.below(n, i+1)
	if len(a.keys)+len(b.keys) > maxRows*3/4 || a.bytes+b.bytes > maxBytes*3/4 || a.height != b.height {
		return
	}
	from := len(a.keys)
	a.keys, a.vals, a.kids = append(a.keys, b.keys...), append(a.vals, b.vals...), append(a.kids, b.kids...)
	if !a.leaf() {
		a.keys[from] = n.keys[i+1] // its first one says nothing
	}
	a.weigh()
	n.kids[i].rows += n.kids[i+1].rows
	n.drop(i + 1)
	t.free(b)
	t.changed(a)
}

// Beyond is the key after all that begin with the prefix.
func Beyond(prefix string) string {
	b := []byte(prefix)
	for i := len(b) - 1; i >= 0; i-- {
		if b[i]++; b[i] != 0 {
			return string(b[:i+1])
		}
	}
	return "\xff" + prefix // there is none that is longer
}
