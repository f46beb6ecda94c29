package disk

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	bolt "go.etcd.io/bbolt"

	"agentmesh/mesh"
	"agentmesh/mesh/store/segment"
	"agentmesh/mesh/threadlog/memindex"
)

// The file of rows has what others than the store make of the log, in pages that only they
// understand. Like the index it can be made of the log, and is when it is missing, damaged, of
// another form or of another log. It is verified as it is read, and not at start.
//
//	rows   key -> page
//	meta   up to which position they are of the log, and some of its records there
//
// All values have checksums.
var (
	bucketRows = []byte("rows")
	keyRows    = []byte("rows")
)

// rowsForm is the form of the file.
const rowsForm = 1

// maxAnchors is how many records are kept by which a log is known. The last ones may have been
// deleted.
const maxAnchors = 8

// rowsPath is the file of rows.
func rowsPath(path string) string {
	return strings.TrimSuffix(path, filepath.Ext(path)) + ".rows"
}

// Rows is the file of rows of a store. It may be used concurrently.
type Rows struct {
	s       *Store
	file    boltFile
	anchors []anchor // guarded by who writes, which is one, as what follows
	// deletions are how many threads had been deleted when rows were written last, since the
	// start; -1 where some were before it of which there may be rows.
	deletions int64
}

// An anchor is the hash of the record at a position.
type anchor struct {
	pos  mesh.Pos
	hash memindex.Link
}

// Rows returns the file of rows.
func (s *Store) Rows() *Rows { return s.rows }

// Begin returns up to which position the rows are of the log, 0 if there are none, and which
// threads were deleted after it. It is called once, before all others.
func (r *Rows) Begin() (upTo mesh.Pos, gone []mesh.ThreadKey) {
	err := r.open()
	if err == nil && r.s.opts.Rebuild {
		err = errors.New("that was asked for")
	}
	if err == nil && len(r.anchors) > 0 {
		upTo = r.anchors[len(r.anchors)-1].pos
		if gone, err = r.deleted(upTo); err == nil {
			if len(gone) > 0 {
				r.deletions = -1
			}
			return upTo, gone
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = errors.New("there are none yet")
	}
	if err := r.Discard(cmp.Or(err, errIndex)); err != nil {
		r.s.logger.Error("there is no file of rows", "path", r.file.path, "err", err)
	}
	return 0, nil
}

// open opens the file that is there, if it is of the log.
func (r *Rows) open() error {
	if _, err := os.Stat(r.file.path); err != nil {
		return err
	}
	if err := scrub(r.file.path, indexPage); err != nil {
		r.s.logger.Error("rows of what was deleted are still in the data folder", "path", r.file.path, "err", err)
	}
	if err := r.file.open(); err != nil {
		return err
	}
	return r.file.view(func(tx *bolt.Tx) error {
		if err := r.file.whole(tx); err != nil {
			return err
		}
		meta := tx.Bucket(bucketMeta)
		if meta == nil || tx.Bucket(bucketRows) == nil {
			return errIndex
		}
		var err error
		if r.anchors, err = decodeAnchors(meta.Get(keyRows)); err != nil || len(r.anchors) == 0 {
			return err
		}
		if last := r.anchors[len(r.anchors)-1]; last.pos > r.s.opened {
			return errOther
		}
		return r.known()
	})
}

// known returns nil if the log has a record by which it is known, and no other.
func (r *Rows) known() error {
	for _, a := range slices.Backward(r.anchors) {
		hash, ok, err := r.s.hashAt(a.pos)
		if err != nil {
			return err
		}
		if ok && hash != a.hash {
			return errOther
		}
		if ok {
			return nil
		}
	}
	return errOther
}

// hashAt returns the hash of the record at that position; false if it is not there any more.
func (s *Store) hashAt(pos mesh.Pos) (hash memindex.Link, ok bool, err error) {
	err = s.log.Read([]int64{int64(pos)}, func(_ int64, rec segment.Record) bool {
		ok = rec.Hash != nil
		copy(hash[:], rec.Hash)
		return true
	})
	return hash, ok, err
}

// deleted are the threads that were deleted after that position.
func (r *Rows) deleted(after mesh.Pos) (keys []mesh.ThreadKey, err error) {
	for at := int64(after); ; {
		some, err := r.s.log.After(at, atOnce)
		if err != nil || len(some) == 0 {
			return keys, err
		}
		at = some[len(some)-1]
		err = r.s.log.Read(some, func(_ int64, rec segment.Record) bool {
			if rec.Kind != kindDeleted {
				return true
			}
			var stone tombstone
			if stone, err = decodeTombstone(rec.Data); err == nil {
				keys = append(keys, stone.key)
			}
			return true
		})
		if err != nil {
			return nil, err
		}
	}
}

// Discard makes an empty file, in place of what is there, and tells why.
func (r *Rows) Discard(why error) error {
	r.s.logger.Info("rows of lists are made of the log", "path", r.file.path, "because", why)
	r.anchors = nil
	return r.file.create(bucketMeta, bucketRows)
}

// Get returns the page with the key, nil if there is none. The error is for what is not what
// was written.
func (r *Rows) Get(key string) (page []byte, err error) {
	err = r.file.view(func(tx *bolt.Tx) error {
		v := tx.Bucket(bucketRows).Get([]byte(key))
		if v == nil {
			return nil
		}
		b, err := unseal([]byte(key), v)
		page = slices.Clone(b)
		return err
	})
	return page, err
}

// Write brings the changes into the file, all of them or none: by key, nil is to be removed.
// They are of the log up to that position, at which there is an event.
func (r *Rows) Write(upTo mesh.Pos, changes map[string][]byte) error {
	anchors := r.anchors
	hash, _, err := r.s.hashAt(upTo)
	if err != nil {
		return err
	}
	if last := len(anchors) - 1; last < 0 || anchors[last].pos != upTo { // of one that was deleted just now it has no hash, and looks for none
		anchors = append(anchors[max(0, len(anchors)-maxAnchors+1):len(anchors):len(anchors)], anchor{upTo, hash})
	}
	gone, deletions, all, err := r.s.Deleted(context.Background(), r.deletions)
	if err != nil {
		return err
	}
	err = r.file.use(func(db *bolt.DB) error {
		return db.Update(func(tx *bolt.Tx) error {
			b := tx.Bucket(bucketRows)
			if !all || len(gone) > 0 {
				if err := noteRemoved(tx); err != nil {
					return err
				}
			}
			for key, page := range changes {
				if err := putSealed(b, []byte(key), page); err != nil {
					return err
				}
			}
			return putSealed(tx.Bucket(bucketMeta), keyRows, encodeAnchors(anchors))
		})
	})
	if err == nil {
		r.anchors, r.deletions = anchors, deletions
	}
	return err
}

// putSealed puts the value with its checksum; nil removes.
func putSealed(b *bolt.Bucket, key, value []byte) error {
	if value == nil {
		return b.Delete(key)
	}
	all := append(make([]byte, 4, 4+len(value)), value...)
	seal(key, all)
	return b.Put(key, all)
}

func encodeAnchors(all []anchor) []byte {
	b := []byte{rowsForm}
	for _, a := range all {
		b = append(append(b, posKey(a.pos)...), a.hash[:]...)
	}
	return b
}

func decodeAnchors(b []byte) (all []anchor, err error) {
	if b, err = unseal(keyRows, b); err != nil {
		return nil, err
	}
	const size = 8 + len(memindex.Link{})
	if len(b) == 0 || b[0] != rowsForm || (len(b)-1)%size != 0 {
		return nil, fmt.Errorf("it has another form than %d", rowsForm)
	}
	for b := range slices.Chunk(b[1:], size) {
		a := anchor{pos: mesh.Pos(binary.BigEndian.Uint64(b))}
		copy(a.hash[:], b[8:])
		all = append(all, a)
	}
	return all, nil
}
