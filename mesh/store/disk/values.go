package disk

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"maps"
	"os"
	"runtime/debug"
	"time"

	bolt "go.etcd.io/bbolt"

	"agentmesh/mesh"
	"agentmesh/mesh/state"
)

// The file's buckets and the keys of bucketMeta.
var (
	bucketMeta    = []byte("meta")
	bucketState   = []byte("state")      // tenant NUL kind NUL name -> value
	keyCheckpoint = []byte("checkpoint") // up to which position the log's changes are in the file
	keyVersion    = []byte("version")    // of the folder
)

// The keeper brings values and the index into their files when the log has grown by saveBytes.
// A change counts as changeWeight bytes more: pending ones are in memory. Of events a part
// counts, for what the next start reads of them costs less than the rows of their threads.
const (
	saveBytes    = 4 << 20
	changeWeight = 4 << 10
	eventShare   = 4
)

// Sizes of bbolt's pages. Rows of the index are small, and those of a checkpoint far apart.
const (
	valuesPage = 16 << 10
	indexPage  = 4 << 10
)

var (
	castagnoli = crc32.MakeTable(crc32.Castagnoli)
	errBroken  = errors.New("checksum or form is wrong")
)

// openFile opens the file and survives what damage does to bbolt.
func openFile(path string, page int, readOnly bool) (db *bolt.DB, err error) {
	err = guard(func() error {
		db, err = bolt.Open(path, 0o600, &bolt.Options{
			Timeout:      time.Second,
			PageSize:     page,
			FreelistType: bolt.FreelistMapType,
			ReadOnly:     readOnly,
			NoStatistics: true,
		})
		return err
	})
	return db, err
}

// guard runs fn and turns what damage does to bbolt into an error: panics, and
// faults of memory that maps what the file has not.
func guard(fn func() error) (err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		if r := recover(); r != nil {
			err = &panicError{r}
		}
	}()
	return fn()
}

type panicError struct{ value any }

func (p *panicError) Error() string {
	if isFault(p) {
		return "the file is shorter than it was"
	}
	return fmt.Sprint(p.value)
}

// isFault reports whether the error is a fault of memory: the file ends before what it maps.
func isFault(err error) bool {
	var p *panicError
	if !errors.As(err, &p) {
		return false
	}
	_, is := p.value.(interface{ Addr() uintptr })
	return is
}

// readFile opens the file for reading only, and closes it after fn. Opened for
// writing, bbolt looks for free pages in a goroutine of its own, where nobody
// could recover from what it finds.
func readFile(path string, fn func(*bolt.Tx) error) error {
	db, err := openFile(path, valuesPage, true)
	if err != nil {
		return err
	}
	err = guard(func() error { return db.View(fn) })
	var p *panicError
	if !errors.As(err, &p) { // else bbolt may hold its locks
		err = errors.Join(err, db.Close())
	}
	return err
}

// view runs fn with the file's values.
func (s *Store) view(fn func(*bolt.Bucket) error) error { return s.viewAt(func() {}, fn) }

// viewAt runs fn with the file's values as they are when look sees the index.
func (s *Store) viewAt(look func(), fn func(*bolt.Bucket) error) error {
	return s.lost(guard(func() error {
		for {
			saved := s.lookAt(func() {})
			tx, err := s.begin(false) // without the index: it may wait for the keeper
			if err != nil {
				return err
			}
			if s.lookAt(look) != saved {
				_ = tx.Rollback() // a checkpoint came between
				continue
			}
			defer func() { _ = tx.Rollback() }() // a reader has nothing to lose
			return fn(tx.Bucket(bucketState))
		}
	}))
}

// begin begins a transaction of the file. None begins after a fault of another, at which bbolt
// may hold its locks.
func (s *Store) begin(writes bool) (tx *bolt.Tx, err error) {
	s.beginning.Lock()
	defer s.beginning.Unlock()
	if s.torn == nil {
		err = guard(func() error { tx, err = s.db.Begin(writes); return err })
		if isFault(err) {
			s.torn = err
		}
		return tx, err
	}
	return nil, s.torn
}

// lookAt lets look see the index, and returns of which checkpoint that is.
func (s *Store) lookAt(look func()) mesh.Pos {
	s.index.RLock()
	defer s.index.RUnlock()
	look()
	return s.saved
}

// keep brings values into the file and takes deleted threads out of the log, when
// there is something to do, until Close.
func (s *Store) keep() {
	defer close(s.kept)
	for range s.tidy {
		s.checkpoint()
		if err := s.log.Sweep(); err != nil {
			s.logger.Error("deleted events are still in the data folder", "path", s.path, "err", err)
		}
	}
}

func (s *Store) wakeKeeper() {
	select {
	case s.tidy <- struct{}{}:
	default:
	}
}

// checkpoint brings what the log says of values into their file, and then what it says of
// threads into the index file. What fails is still in the log, and tried again the next
// time.
func (s *Store) checkpoint() {
	s.saving.Lock()
	defer s.saving.Unlock()
	s.index.Lock()
	before, upTo, changes, spent := s.saved, s.book.Last(), maps.Clone(s.pending), s.spent
	s.spent = nil
	threads := s.diff()
	s.index.Unlock()
	if s.hurt {
		return
	}
	if upTo > before && !s.saveValues(upTo, changes, spent) {
		return
	}
	if err := s.saveThreads(threads); err != nil {
		s.logger.Error("the index of threads could not be saved; the next start reads more of the log", "path", s.threads.path, "err", err)
	}
}

// saveValues brings the values into the file, with which these records are spent; false if
// that failed. The caller holds saving.
func (s *Store) saveValues(upTo mesh.Pos, changes map[string]value, spent []int64) bool {
	err := guard(func() error {
		tx, err := s.begin(true)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // of what was not committed
		b, removed := tx.Bucket(bucketState), false
		for k, v := range changes {
			if err := putValue(b, []byte(k), v.Value); err != nil {
				return err
			}
			removed = removed || v.Version == 0
		}
		if removed {
			if err := noteRemoved(tx); err != nil {
				return err
			}
		}
		if err := putNumber(tx, keyCheckpoint, uint64(upTo)); err != nil {
			return err
		}
		return tx.Commit()
	})
	var p *panicError
	s.hurt = errors.As(err, &p)
	_ = s.lost(err)
	s.index.Lock()
	if err != nil {
		s.spent = append(spent, s.spent...)
	} else {
		s.saved = upTo
		for k, v := range changes {
			if s.pending[k].upTo == v.upTo {
				delete(s.pending, k)
			}
		}
	}
	s.index.Unlock()
	if err != nil {
		s.logger.Error("values could not be brought into their file; they are in the log", "path", s.path, "err", err)
		return false
	}
	s.log.Drop(spent, false)
	return true
}

func putValue(b *bolt.Bucket, key []byte, v state.Value) error {
	if v.Version == 0 {
		return b.Delete(key)
	}
	return b.Put(key, encodeValue(key, v.Data, v.Version))
}

// seal puts the checksum of key and value into the value's first four bytes.
func seal(key, value []byte) {
	binary.BigEndian.PutUint32(value, checksum(key, value[4:]))
}

// unseal returns the value without its checksum.
func unseal(key, value []byte) ([]byte, error) {
	if len(value) < 4 || binary.BigEndian.Uint32(value) != checksum(key, value[4:]) {
		return nil, errBroken
	}
	return value[4:], nil
}

func checksum(key, body []byte) uint32 {
	return crc32.Update(crc32.Checksum(key, castagnoli), castagnoli, body)
}

func encodeValue(key, data []byte, version int64) []byte {
	b := make([]byte, 4, 4+binary.MaxVarintLen64+len(data))
	b = binary.AppendUvarint(b, uint64(version))
	b = append(b, data...)
	seal(key, b)
	return b
}

// decodeValue returns a value whose Data is part of b; the zero one for nil.
func decodeValue(key, b []byte) (state.Value, error) {
	if b == nil {
		return state.Value{}, nil
	}
	b, err := unseal(key, b)
	if err != nil {
		return state.Value{}, err
	}
	version, data, err := cutNumber(b)
	return state.Value{Data: data, Version: int64(version)}, err
}

// lookUp returns the value whose Data is the file's; the zero one if there is
// none.
func (s *Store) lookUp(b *bolt.Bucket, key []byte) (state.Value, error) {
	return s.read(key, b.Get(key))
}

// read is decodeValue for who reads one: what is made again may be damaged.
func (s *Store) read(key, raw []byte) (state.Value, error) {
	v, err := decodeValue(key, raw)
	if err != nil && remade(key, s.opts.Remade) != "" {
		s.logger.Warn("a value is damaged, and is made again", "path", s.path, "key", string(key), "err", err)
		return state.Value{Version: 1}, nil
	}
	if err != nil {
		return state.Value{}, fmt.Errorf("the state %q: %w", key, err)
	}
	return v, nil
}

// remade returns what begins the keys of the kind, if it is one of those that are made again.
func remade(key []byte, kinds []string) string {
	for _, kind := range kinds {
		if prefix := string(kindKey("", kind)); bytes.HasPrefix(key, []byte(prefix)) {
			return prefix
		}
	}
	return ""
}

// putNumber puts a number under a key of bucketMeta.
func putNumber(tx *bolt.Tx, key []byte, n uint64) error {
	b := binary.AppendUvarint(make([]byte, 4, 4+binary.MaxVarintLen64), n)
	seal(key, b)
	return tx.Bucket(bucketMeta).Put(key, b)
}

// getNumber returns the number under a key of bucketMeta, 0 if there is none.
func getNumber(tx *bolt.Tx, key []byte) (uint64, error) {
	meta := tx.Bucket(bucketMeta)
	if meta == nil || meta.Get(key) == nil {
		return 0, nil
	}
	b, err := unseal(key, meta.Get(key))
	if err != nil {
		return 0, err
	}
	n, _, err := cutNumber(b)
	return n, err
}

// verifyFile checks all of the file but values of those kinds, its version first, and returns
// that and up to which position the log's changes are in it. One of a version to come is not
// looked at any further.
func verifyFile(path string, newest int, but []string) (version int, saved mesh.Pos, err error) {
	err = readFile(path, func(tx *bolt.Tx) error {
		st, err := os.Stat(path)
		if err != nil {
			return err
		}
		if st.Size() < tx.Size() {
			return fmt.Errorf("it has %d bytes and should have %d", st.Size(), tx.Size())
		}
		n, err := getNumber(tx, keyVersion)
		if err != nil {
			return fmt.Errorf("the version: %w", err)
		}
		version = int(n)
		switch {
		case version > newest:
			return nil
		case version < firstVersion:
			return errors.Join(verifyOld(tx), verifyState(tx, but))
		}
		if tx.Bucket(bucketMeta).Get(keyCheckpoint) == nil || tx.Bucket(bucketState) == nil {
			return errBroken
		}
		n, err = getNumber(tx, keyCheckpoint)
		saved = mesh.Pos(n)
		return errors.Join(err, verifyState(tx, but))
	})
	if err != nil {
		return 0, 0, damaged(path, err)
	}
	return version, saved, nil
}

func verifyState(tx *bolt.Tx, but []string) error {
	b := tx.Bucket(bucketState)
	if b == nil {
		return errNotOurs
	}
	c := b.Cursor()
	for k, v := c.First(); k != nil; {
		if prefix := remade(k, but); prefix != "" {
			k, v = c.Seek([]byte(prefix[:len(prefix)-1] + "\x01")) // which is after the NUL
			continue
		}
		if v == nil {
			return fmt.Errorf("the state %q is not a value", k)
		}
		if _, err := decodeValue(k, v); err != nil {
			return fmt.Errorf("the state %q: %w", k, err)
		}
		k, v = c.Next()
	}
	return nil
}
