package disk

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"

	bolt "go.etcd.io/bbolt"

	"agentmesh/mesh"
	"agentmesh/mesh/store/segment"
	"agentmesh/mesh/threadlog/memindex"
)

// A Finding is something in a log that is not what was written.
type Finding struct{ Where, What string }

// Verified is what an offline look at a log found.
type Verified struct {
	Events   int // that are there
	Findings []Finding

	first  int64
	sums   []memindex.Link // of the chain over all records, from first on
	hashes []memindex.Link // of the records
}

// Head returns how the chain over all records was at that position: what
// [Store.Head] returned then, if nothing was changed; false if it does not reach so far.
func (v *Verified) Head(last int64) (first int64, sum [sha256.Size]byte, ok bool) {
	i := last - v.first
	if v.first == 0 || i < 0 || i >= int64(len(v.sums)) {
		return 0, sum, false
	}
	return v.first, v.sums[i], true
}

func (v *Verified) find(where, format string, args ...any) {
	v.Findings = append(v.Findings, Finding{where, fmt.Sprintf(format, args...)})
}

// hash returns the hash that the record at that position has; zeros if it has none.
func (v *Verified) hash(n int64) (l memindex.Link) {
	if i := n - v.first; v.first > 0 && i >= 0 && i < int64(len(v.hashes)) {
		l = v.hashes[i]
	}
	return l
}

// Verify looks at all records of the log of the data file at path, and changes nothing.
// It finds whatever is not chained as it was written; who made all hashes anew is found
// by comparing [Verified.Head] with what was signed. The error is for a log that cannot
// be read. Tell, which may be nil, is given each event, as it was appended, and nil for a thread
// that was deleted.
func Verify(path string, tell func(key mesh.ThreadKey, event []byte)) (*Verified, error) {
	if tell == nil {
		tell = func(mesh.ThreadKey, []byte) {}
	}
	w := &verifier{tell: tell, v: new(Verified), threads: map[mesh.ThreadKey]*seen{}, gone: map[int64]bool{}, last: "the beginning"}
	_, saved, err := verifyFile(path, firstVersion+len(migrations), nil)
	if err != nil {
		w.v.find("the data file", "%v", err)
	}
	log, err := segment.Open(logPath(path), segment.Options{ReadOnly: true, AtLeast: int64(saved), Broken: w.broken}, func(n int64, r segment.Record) error {
		w.visit(n, r, int64(saved))
		return nil
	})
	switch {
	case errors.Is(err, segment.ErrDamaged):
		w.v.find("the log after "+w.last, "%v", err)
	case err != nil:
		return nil, err
	default:
		w.until(log.Last() + 1)
		if err := log.Close(); err != nil {
			return nil, err
		}
	}
	w.end()
	w.rows(rowsPath(path))
	return w.v, nil
}

// rows finds pages of rows that are not what was written, and those of another log. A file
// that is not there is made by the next start.
func (w *verifier) rows(path string) {
	if _, err := os.Stat(path); err != nil {
		return
	}
	err := readFile(path, func(tx *bolt.Tx) error {
		meta, pages := tx.Bucket(bucketMeta), tx.Bucket(bucketRows)
		if meta == nil || pages == nil {
			return errIndex
		}
		if meta.Get(keyRows) == nil {
			return nil // nothing was kept yet
		}
		anchors, err := decodeAnchors(meta.Get(keyRows))
		if err != nil {
			return err
		}
		for _, a := range anchors {
			is, none := w.v.hash(int64(a.pos)), memindex.Link{} // of what was deleted it may be gone
			if int64(a.pos) > w.all.last || is != none && a.hash != none && is != a.hash {
				return errOther
			}
		}
		return pages.ForEach(func(k, v []byte) error {
			if _, err := unseal(k, v); err != nil {
				return fmt.Errorf("the page %q: %w", k, err)
			}
			return nil
		})
	})
	if err != nil {
		w.v.find(filepath.Base(path), "%v; nothing is lost, the next start makes it of the log", err)
	}
}

// A verifier looks at one record after the other.
type verifier struct {
	tell    func(mesh.ThreadKey, []byte)
	v       *Verified
	all     chain
	threads map[mesh.ThreadKey]*seen
	gone    map[int64]bool // events that were dropped, of which no deletion was seen yet
	last    string         // the place of the last record
	buf     []byte
}

// seen is what was seen of a thread.
type seen struct {
	last      mesh.Seq
	link      memindex.Link
	positions []int64
	orphans   []orphan
}

// An orphan is an event whose predecessors were dropped; it must turn out to be deleted.
type orphan struct {
	n          int64
	where      string
	head, data []byte
}

// thread returns what was seen of the thread.
func (w *verifier) thread(key mesh.ThreadKey) *seen {
	t := w.threads[key]
	if t == nil {
		t = new(seen)
		w.threads[key] = t
	}
	return t
}

func positionOf(n int64) string { return fmt.Sprintf("position %d", n) }

func eventAt(n int64, r record) string {
	return fmt.Sprintf("thread %s/%s event %d (position %d)", r.key.Tenant, r.key.ID, r.seq, n)
}

// until finds the positions before n that have no record at all.
func (w *verifier) until(n int64) {
	for w.v.first > 0 && w.all.last+1 < n {
		w.v.find(positionOf(w.all.last+1), "is missing")
		w.add(w.all.last+1, segment.Record{})
	}
}

// add takes the record's hash into the chain over all.
func (w *verifier) add(n int64, r segment.Record) {
	var hash memindex.Link
	copy(hash[:], r.Hash)
	w.all.add(n, r.Kind, hash[:])
	w.v.first = w.all.first
	w.v.sums, w.v.hashes = append(w.v.sums, w.all.sum), append(w.v.hashes, hash)
}

// broken finds a record whose checksum is another, and goes on with the hash that it has.
func (w *verifier) broken(n int64, r segment.Record) {
	w.until(n)
	if w.v.first > 0 || r.Hash != nil {
		w.add(n, r)
	}
	where := positionOf(n)
	if rec, err := decode(r.Data); err == nil && r.Kind == kindEvent {
		where = eventAt(n, rec)
		if t := w.thread(rec.key); rec.seq == t.last+1 {
			t.last, t.link, t.positions = rec.seq, w.v.hash(n), append(t.positions, n)
		}
	}
	w.v.find(where, "is not what was written: its checksum is another")
	w.last = where
}

func (w *verifier) visit(n int64, r segment.Record, saved int64) {
	w.until(n)
	w.last = positionOf(n)
	if r.Hash == nil && w.v.first > 0 {
		w.v.find(positionOf(n), "has no hash, and those before it have one")
	}
	if r.Hash != nil || w.v.first > 0 {
		w.add(n, r)
	}
	switch r.Kind {
	case kindEvent:
		w.event(n, r)
	case kindValue, kindDeleted:
		if sum := linkOther(r.Kind, r.Data); r.Hash != nil && !bytes.Equal(sum[:], r.Hash) {
			w.v.find(positionOf(n), "is not what was written: its hash is another")
		}
		if r.Kind == kindDeleted {
			w.deleted(n, r)
		}
	case kindEvent | segment.Dropped:
		w.gone[n] = true
	case kindValue | segment.Dropped:
		if n > saved {
			w.v.find(positionOf(n), "is gone, a value that is nowhere else")
		}
	default:
		w.v.find(positionOf(n), "is gone, or of no kind that there is (%d)", r.Kind)
	}
}

func (w *verifier) event(n int64, r segment.Record) {
	rec, err := decode(r.Data)
	if err != nil {
		w.v.find(positionOf(n), "is no event: %v", err)
		return
	}
	w.v.Events++
	w.tell(rec.key, rec.Data)
	w.last = eventAt(n, rec)
	t := w.thread(rec.key)
	head := r.Data[:len(r.Data)-len(rec.Data)]
	if rec.seq != t.last+1 || t.orphans != nil {
		t.orphans = append(t.orphans, orphan{n, w.last, bytes.Clone(head), bytes.Clone(rec.Data)})
		return
	}
	if r.Hash != nil {
		w.linked(n, w.last, t.link, head, rec.Data)
	}
	t.last, t.link, t.positions = rec.seq, w.v.hash(n), append(t.positions, n)
}

// linked finds an event that does not follow the one with that hash.
func (w *verifier) linked(n int64, where string, before memindex.Link, head, data []byte) {
	var sum memindex.Link
	if sum, w.buf = linkEvent(w.buf, before, head, data); sum != w.v.hash(n) {
		w.v.find(where, "does not follow the one before as it was written: its hash is another")
	}
}

// deleted settles the events of a thread that was deleted, those that have left the log
// and those that are still there.
func (w *verifier) deleted(n int64, r segment.Record) {
	stone, err := decodeTombstone(r.Data)
	if err != nil {
		w.v.find(positionOf(n), "is no deletion: %v", err)
		return
	}
	w.tell(stone.key, nil)
	t := w.threads[stone.key]
	delete(w.threads, stone.key)
	if stone.positions == nil {
		return // of before there were hashes
	}
	for _, at := range stone.positions {
		delete(w.gone, at)
	}
	where := fmt.Sprintf("thread %s/%s, deleted at position %d", stone.key.Tenant, stone.key.ID, n)
	if last := w.v.hash(stone.positions[len(stone.positions)-1]); last != stone.last {
		w.v.find(where, "had another last event: its hash is another")
	}
	if t == nil {
		return
	}
	for _, at := range t.positions {
		if !slices.Contains(stone.positions, at) {
			w.v.find(where, "had an event at position %d, which was not deleted", at)
		}
	}
	for _, o := range t.orphans {
		i, ok := slices.BinarySearch(stone.positions, o.n)
		switch {
		case !ok:
			w.v.find(o.where, "is none of those that were deleted with its thread")
		case i > 0 && w.v.hash(o.n) != (memindex.Link{}):
			w.linked(o.n, o.where, w.v.hash(stone.positions[i-1]), o.head, o.data)
		}
	}
}

// end finds what nothing explains that was deleted.
func (w *verifier) end() {
	for _, n := range slices.Sorted(maps.Keys(w.gone)) {
		w.v.find(positionOf(n), "is gone, and no thread was deleted that had it")
	}
	for _, t := range w.threads {
		for _, o := range t.orphans[:min(len(t.orphans), 1)] {
			w.v.find(o.where, "does not follow an event before: that is gone")
		}
	}
}
