package disk

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	bolt "go.etcd.io/bbolt"

	"agentmesh/mesh"
	"agentmesh/mesh/threadlog/memindex"
)

// The index file has the index of threads as it was at a position of the log. It can be
// made of the log, and is when it is missing, damaged, of another form or of another log;
// it is never ahead of the log. Its rows have checksums as those of values have:
//
//	heads  last position -> what is known of a thread at once
//	parts  first position, seq -> what its events after that seq, some in a row, added
//	meta   the position, and what all heads must add up to
//
// Rows of parts never change, but go with their thread.
var (
	bucketHeads = []byte("heads")
	bucketParts = []byte("parts")
	keyIndex    = []byte("index")
)

// indexForm is the form of the rows.
const indexForm = 2 // since the bytes of a thread are in its head

// errIndex is why the index file is not used.
var errIndex = errors.New("a row is missing or damaged")

// indexPath is the file of the index.
func indexPath(path string) string {
	return strings.TrimSuffix(path, filepath.Ext(path)) + ".index"
}

// An index is the index file.
type index struct {
	path string
	has  indexed
	last memindex.Head // the one with the highest position when it was opened

	mu      sync.Mutex // guards the fields below
	db      *bolt.DB   // nil while there is none
	spoiled bool       // a row is damaged: the file was removed, and nothing is saved any more
	broken  error      // it is not even read any more: bbolt may hold its locks
}

// indexed is what the file says of itself.
type indexed struct {
	upTo    mesh.Pos
	records int
	heads   int
	sum     uint64        // of the checksums of all heads
	tail    memindex.Link // the hash of the record at upTo
	chain   chain
	erase   []int64 // records that are to be erased, and may still be in the files
}

// open opens the file that is there and has the book revived from it, which is empty.
func (x *index) open(book *memindex.Book) error {
	if _, err := os.Stat(x.path); err != nil {
		return err
	}
	db, err := openFile(x.path, indexPage, false)
	if err != nil {
		return err
	}
	x.set(db)
	return x.view(func(tx *bolt.Tx) error {
		st, err := os.Stat(x.path)
		if err != nil {
			return err
		}
		if st.Size() < tx.Size() {
			return fmt.Errorf("it has %d bytes and should have %d", st.Size(), tx.Size())
		}
		meta, heads := tx.Bucket(bucketMeta), tx.Bucket(bucketHeads)
		if meta == nil || heads == nil || tx.Bucket(bucketParts) == nil {
			return errIndex
		}
		if x.has, err = decodeIndexed(meta.Get(keyIndex)); err != nil {
			return err
		}
		x.last, err = x.has.revive(heads, book)
		return err
	})
}

// revive gives the book all heads, which must be those that were written, and returns the last.
func (i *indexed) revive(heads *bolt.Bucket, book *memindex.Book) (last memindex.Head, err error) {
	var tenant string
	all, sum := make([]memindex.Head, 0, i.heads), uint64(0)
	err = heads.ForEach(func(k, v []byte) error {
		h, err := decodeHead(k, v, &tenant)
		if err != nil {
			return err
		}
		all = append(all, h)
		sum += uint64(binary.BigEndian.Uint32(v))
		return nil
	})
	if err != nil || len(all) != i.heads || sum != i.sum {
		return last, cmp.Or(err, errIndex)
	}
	if len(all) > 0 {
		last = all[len(all)-1]
	}
	if book.Revive(all); book.Records() != i.records || book.Last() > i.upTo {
		return last, errIndex
	}
	return last, nil
}

// create makes an empty file, in place of what is there.
func (x *index) create() error {
	if err := x.discard(); err != nil {
		return err
	}
	db, err := openFile(x.path, indexPage, false)
	if err != nil {
		return err
	}
	err = guard(func() error {
		return db.Update(func(tx *bolt.Tx) error {
			for _, name := range [][]byte{bucketMeta, bucketHeads, bucketParts} {
				if _, err := tx.CreateBucket(name); err != nil {
					return err
				}
			}
			return nil
		})
	})
	if err != nil {
		return errors.Join(err, guard(db.Close))
	}
	x.set(db)
	return nil
}

func (x *index) set(db *bolt.DB) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.db = db
}

// none reports whether there is no file that is open.
func (x *index) none() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.db == nil
}

// forget closes the file and leaves it as it is.
func (x *index) forget() error {
	err := x.close()
	x.has = indexed{}
	x.mu.Lock()
	x.broken, x.spoiled = nil, false
	x.mu.Unlock()
	return err
}

// discard removes the file: it is made of the log again.
func (x *index) discard() error {
	err := x.forget()
	if rm := os.Remove(x.path); rm != nil && !errors.Is(rm, fs.ErrNotExist) {
		return errors.Join(err, rm)
	}
	return nil
}

func (x *index) close() error {
	if db := x.release(); db != nil {
		return guard(db.Close) // which waits for readers
	}
	return nil
}

// release returns what is to be closed: nothing if bbolt may hold its locks.
func (x *index) release() *bolt.DB {
	x.mu.Lock()
	defer x.mu.Unlock()
	db := x.db
	if x.db = nil; x.broken != nil {
		db = nil
	}
	return db
}

func (x *index) isSpoiled() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.spoiled
}

// use runs fn and notes if that shows that the file is damaged.
func (x *index) use(fn func(*bolt.DB) error) error {
	x.mu.Lock()
	db, err := x.db, x.broken
	x.mu.Unlock()
	if err != nil {
		return err
	}
	if db == nil {
		return os.ErrClosed
	}
	err = guard(func() error { return fn(db) })
	var p *panicError
	if errors.As(err, &p) || errors.Is(err, errBroken) || errors.Is(err, errForm) {
		return x.fail(err)
	}
	return err
}

// fail notes that the file is damaged. It is removed, so that the next start makes it of the
// log.
func (x *index) fail(err error) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	err = fmt.Errorf("%s: %w", filepath.Base(x.path), err)
	var p *panicError
	if errors.As(err, &p) && x.broken == nil {
		x.broken = err
	}
	if !x.spoiled {
		x.spoiled = true
		_ = os.Remove(x.path) // if it stays, the next start finds the same
	}
	return err
}

func (x *index) view(fn func(*bolt.Tx) error) error {
	return x.use(func(db *bolt.DB) error { return db.View(fn) })
}

// parts returns the parts that have the thread's events after that seq up to another, whole
// or their positions alone.
func (x *index) parts(first mesh.Pos, after, upTo mesh.Seq, whole bool) (out []memindex.Part, err error) {
	err = x.view(func(tx *bolt.Tx) error {
		c := tx.Bucket(bucketParts).Cursor()
		at := partKey(first, after)
		k, v := c.Seek(at)
		if k == nil || !slices.Equal(k, at) {
			k, v = c.Prev()
		}
		for next := mesh.Seq(-1); next < upTo; k, v = c.Next() {
			p, err := decodePart(first, k, v, whole)
			if err != nil {
				return err
			}
			if next < 0 && p.After > after || next >= 0 && p.After != next {
				return errIndex
			}
			next = p.After + mesh.Seq(len(p.Positions))
			out = append(out, p)
		}
		return nil
	})
	return out, err
}

// save brings what has changed into the file.
func (x *index) save(to indexed, changes []memindex.Change, gone []memindex.Gone) error {
	to.heads, to.sum = x.has.heads, x.has.sum
	err := x.use(func(db *bolt.DB) error {
		return db.Update(func(tx *bolt.Tx) error {
			w := indexWriter{heads: tx.Bucket(bucketHeads), parts: tx.Bucket(bucketParts), is: &to}
			slices.SortFunc(changes, func(a, b memindex.Change) int { return int(a.FirstPos - b.FirstPos) })
			for _, g := range gone {
				if err := w.remove(g); err != nil {
					return err
				}
			}
			for i := range changes {
				if err := w.put(&changes[i]); err != nil {
					return err
				}
			}
			return tx.Bucket(bucketMeta).Put(keyIndex, to.encode())
		})
	})
	if err == nil {
		x.has = to
	}
	return err
}

// An indexWriter changes rows, and what they add up to.
type indexWriter struct {
	heads, parts *bolt.Bucket
	is           *indexed
}

func (w *indexWriter) put(c *memindex.Change) error {
	if err := w.unhead(c.Was); err != nil {
		return err
	}
	k := posKey(c.LastPos)
	v := encodeHead(k, c.Head)
	w.is.heads++
	w.is.sum += uint64(binary.BigEndian.Uint32(v))
	if err := w.heads.Put(k, v); err != nil {
		return err
	}
	for _, p := range divide(c.Part) {
		k = partKey(c.FirstPos, p.After)
		if err := w.parts.Put(k, encodePart(k, p)); err != nil {
			return err
		}
	}
	return nil
}

// partSize is how many events a part has at most, so that a page needs few of them.
const partSize = 1024

// divide divides a part among rows.
func divide(p memindex.Part) []memindex.Part {
	if len(p.Positions) <= partSize {
		return []memindex.Part{p}[:min(len(p.Positions), 1)]
	}
	out := make([]memindex.Part, (len(p.Positions)+partSize-1)/partSize)
	for i := range out {
		from := i * partSize
		out[i] = memindex.Part{After: p.After + mesh.Seq(from), Positions: p.Positions[from:min(from+partSize, len(p.Positions))],
			Decisions: map[mesh.Scope]mesh.Seq{}, IDs: map[memindex.ID]mesh.Seq{}}
	}
	for scope, seq := range p.Decisions {
		out[(seq-p.After-1)/partSize].Decisions[scope] = seq
	}
	for id, seq := range p.IDs {
		out[(seq-p.After-1)/partSize].IDs[id] = seq
	}
	return out
}

// unhead removes a head, if it is there.
func (w *indexWriter) unhead(last mesh.Pos) error {
	k := posKey(last)
	v := w.heads.Get(k)
	if v == nil {
		return nil
	}
	w.is.heads--
	w.is.sum -= uint64(binary.BigEndian.Uint32(v))
	return w.heads.Delete(k)
}

func (w *indexWriter) remove(g memindex.Gone) error {
	if err := w.unhead(g.LastPos); err != nil {
		return err
	}
	var keys [][]byte
	c := w.parts.Cursor()
	for k, _ := c.Seek(posKey(g.FirstPos)); len(k) == 16 && slices.Equal(k[:8], posKey(g.FirstPos)); k, _ = c.Next() {
		keys = append(keys, slices.Clone(k))
	}
	for _, k := range keys {
		if err := w.parts.Delete(k); err != nil {
			return err
		}
	}
	return nil
}
