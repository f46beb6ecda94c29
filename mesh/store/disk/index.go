package disk

import (
	"encoding/binary"
	"errors"
	"path/filepath"
	"slices"
	"strings"

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
	boltFile
	has  indexed
	last memindex.Head // the one with the highest position when it was opened
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
	if err := x.boltFile.open(); err != nil {
		return err
	}
	return x.view(func(tx *bolt.Tx) error {
		err := x.whole(tx)
		if err != nil {
			return err
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
	sum, c := uint64(0), heads.Cursor()
	k, v := c.First()
	err = book.Revive(i.heads, func(h *memindex.Head) (err error) {
		if k == nil {
			return errIndex
		}
		if err = decodeHead(h, k, v, &tenant); err == nil {
			sum += uint64(binary.BigEndian.Uint32(v))
			last = *h
			k, v = c.Next()
		}
		return err
	})
	if err == nil && (k != nil || sum != i.sum || book.Records() != i.records || book.Last() > i.upTo) {
		err = errIndex
	}
	return last, err
}

// create makes an empty file, in place of what is there.
func (x *index) create() error {
	x.has = indexed{}
	return x.boltFile.create(bucketMeta, bucketHeads, bucketParts)
}

// forget closes the file and leaves it as it is.
func (x *index) forget() error {
	x.has = indexed{}
	return x.boltFile.forget()
}

// discard removes the file: it is made of the log again.
func (x *index) discard() error {
	x.has = indexed{}
	return x.boltFile.discard()
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
			Decisions: map[mesh.Scope]mesh.Seq{}}
	}
	for scope, seq := range p.Decisions {
		out[(seq-p.After-1)/partSize].Decisions[scope] = seq
	}
	for _, x := range p.IDs {
		in := &out[(x.Seq-p.After-1)/partSize]
		in.IDs = append(in.IDs, x)
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
