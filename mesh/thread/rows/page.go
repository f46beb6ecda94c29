package rows

import (
	"encoding/binary"
	"errors"
	"slices"
)

// A node is a page: of rows, or of what is below it. Its first key, if it is not of rows, says
// nothing: all that is below the second is there.
type node struct {
	id     uint64
	height int // 0 is of rows
	keys   []string
	vals   []string // of rows
	kids   []kid
	used   bool // since trim
	// changed says that it is among those that changed since Changes.
	changed bool
	bytes   int // of keys and values
}

func (n *node) leaf() bool { return n.height == 0 }

type kid struct {
	id   uint64
	rows int
}

// child is the kid that has the key, if one has. The first key is not looked at: what is below it
// may be in the first kid, and then the second one's key, too.
func (n *node) child(key string) int {
	i, is := slices.BinarySearch(n.keys[1:], key)
	if is {
		i++
	}
	return i
}

func (n *node) rows() (all int) {
	if n.leaf() {
		return len(n.keys)
	}
	for _, k := range n.kids {
		all += k.rows
	}
	return all
}

// weigh counts the bytes of keys and values.
func (n *node) weigh() *node {
	n.bytes = 0
	for _, k := range n.keys {
		n.bytes += len(k)
	}
	for _, v := range n.vals {
		n.bytes += len(v)
	}
	return n
}

func (n *node) drop(i int) {
	n.bytes -= len(n.keys[i])
	n.keys, n.kids = slices.Delete(n.keys, i, i+1), slices.Delete(n.kids, i, i+1)
}

func pageKey(id uint64) string { return string(binary.BigEndian.AppendUint64([]byte("p"), id)) }

var errPage = errors.New("a page of rows is missing, or is none")

// node returns the page. When it cannot be read, that is an empty one, and t.err says so.
func (t *Table) node(id uint64) *node {
	n := t.nodes[id]
	if n == nil {
		if n = t.load(id); n == nil {
			return &node{id: id}
		}
	}
	n.used = true
	return n
}

// below is the i-th kid of n. One that is not as n has it is damaged.
func (t *Table) below(n *node, i int) *node {
	k := n.kids[i]
	of := t.nodes[k.id]
	if of == nil {
		if of = t.node(k.id); of.height != n.height-1 || of.rows() != k.rows {
			t.Fail(errPage)
		}
	}
	of.used = true
	if of.height != n.height-1 {
		return &node{id: k.id}
	}
	return of
}

func (t *Table) load(id uint64) *node {
	if t.pages == nil || t.err != nil {
		t.Fail(errPage)
		return nil
	}
	b, err := t.pages.Get(pageKey(id))
	if err == nil && b == nil {
		err = errPage
	}
	if err != nil {
		t.Fail(err)
		return nil
	}
	n, err := decode(id, b)
	if err != nil {
		t.Fail(err)
		return nil
	}
	if len(t.nodes) >= max(t.limit, 2*maxPages) {
		t.trim()
	}
	t.nodes[id] = n
	return n
}

// Fail says that what the Table has is not right: [Table.Err] is the first such error.
func (t *Table) Fail(err error) {
	if t.err == nil {
		t.err = err
	}
}

// trim forgets pages that were not used since it was called, and are kept elsewhere, when
// there are many.
func (t *Table) trim() {
	if t.pages == nil || len(t.nodes) < maxPages {
		return
	}
	for id, n := range t.nodes {
		_, changed := t.dirty[id]
		_, written := t.writing[id]
		if !n.used && !changed && !written {
			delete(t.nodes, id)
		}
		n.used = false
	}
	t.limit = 2 * len(t.nodes) // else it would be called for nothing where many changed
}

func (t *Table) add(n *node) *node {
	n.id = t.next
	t.next++
	t.changed(n)
	return n
}

func (t *Table) changed(n *node) {
	if n.changed {
		return
	}
	n.changed = true
	if t.nodes[n.id] = n; t.pages != nil {
		t.dirty[n.id] = true
	}
}

func (t *Table) free(n *node) {
	delete(t.nodes, n.id)
	if t.pages != nil {
		t.dirty[n.id] = false
	}
}

// encode writes the page. Of a key it has what differs from the one before.
func (n *node) encode() []byte {
	b := make([]byte, 0, n.bytes+4*len(n.keys)+16) // about
	b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(n.height)), uint64(len(n.keys)))
	before := ""
	for i, k := range n.keys {
		same := 0
		for same < min(len(k), len(before)) && k[same] == before[same] {
			same++
		}
		b = binary.AppendUvarint(binary.AppendUvarint(b, uint64(same)), uint64(len(k)-same))
		b = append(b, k[same:]...)
		if before = k; n.leaf() {
			b = append(binary.AppendUvarint(b, uint64(len(n.vals[i]))), n.vals[i]...)
		} else {
			b = binary.AppendUvarint(binary.AppendUvarint(b, n.kids[i].id), uint64(n.kids[i].rows))
		}
	}
	return b
}

func decode(id uint64, b []byte) (*node, error) {
	d := decoder{b: b}
	n := &node{id: id, height: int(min(d.number(), 64))}
	count := d.number()
	if count > uint64(len(b)) || count == 0 && !n.leaf() {
		return nil, errPage
	}
	all := make([]byte, 0, 4*len(b)) // of which all keys and values are parts
	ends := make([]int, 0, 2*count)  // of each key, where it begins and ends
	from, to := 0, 0                 // of the key before
	for range count {
		same := int(min(d.number(), uint64(to-from)))
		begin := len(all)
		all = append(append(all, all[from:from+same]...), d.bytes(d.number())...)
		from, to = begin, len(all)
		if ends = append(ends, from, to); n.leaf() {
			all = append(all, d.bytes(d.number())...)
		} else {
			n.kids = append(n.kids, kid{d.number(), int(d.number())})
		}
	}
	if d.err != nil || len(d.b) > 0 {
		return nil, errPage
	}
	text := string(all)
	n.keys = make([]string, count)
	for i := range n.keys {
		if n.keys[i] = text[ends[2*i]:ends[2*i+1]]; n.leaf() {
			to = len(text)
			if i+1 < len(n.keys) {
				to = ends[2*i+2]
			}
			n.vals = append(n.vals, text[ends[2*i+1]:to])
		}
	}
	return n.weigh(), nil
}

// A decoder reads what encode wrote; after an error, nothing.
type decoder struct {
	b   []byte
	err error
}

func (d *decoder) number() uint64 {
	v, n := binary.Uvarint(d.b)
	if n <= 0 {
		d.err, d.b = errPage, nil
		return 0
	}
	d.b = d.b[n:]
	return v
}

func (d *decoder) bytes(n uint64) []byte {
	if n > uint64(len(d.b)) {
		d.err, d.b = errPage, nil
		return nil
	}
	b := d.b[:n]
	d.b = d.b[n:]
	return b
}
