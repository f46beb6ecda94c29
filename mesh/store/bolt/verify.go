package bolt

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"runtime/debug"

	bolt "go.etcd.io/bbolt"

	"agentmesh/mesh"
)

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

func (p *panicError) Error() string { return fmt.Sprint(p.value) }

// verify reads the whole file, its version first, and builds the index. It opens the file for
// reading only: opened for writing, bbolt looks for free pages in a goroutine
// of its own, where nobody could recover from what it finds.
func (s *Store) verify() error {
	db, err := openFile(s.path, true)
	if err != nil {
		return damaged(s.path, err)
	}
	err = guard(func() error {
		return db.View(func(tx *bolt.Tx) error {
			st, err := os.Stat(s.path)
			if err != nil {
				return err
			}
			if st.Size() < tx.Size() {
				return fmt.Errorf("it has %d bytes and should have %d", st.Size(), tx.Size())
			}
			if s.version, err = getVersion(tx); err != nil {
				return fmt.Errorf("the version: %w", err)
			}
			if s.version > len(s.migrations) {
				return nil // what is in it is not known here
			}
			return errors.Join(s.verifyLog(tx), verifyState(tx))
		})
	})
	var p *panicError
	if !errors.As(err, &p) { // else bbolt may hold its locks
		err = errors.Join(err, db.Close())
	}
	if err != nil {
		return damaged(s.path, err)
	}
	return nil
}

func (s *Store) verifyLog(tx *bolt.Tx) error {
	want, err := getTotals(tx)
	if err != nil {
		return err
	}
	err = tx.Bucket(bucketLog).ForEach(func(k, v []byte) error {
		if len(k) != 8 {
			return fmt.Errorf("key %x of the log is not a position", k)
		}
		pos := mesh.Pos(binary.BigEndian.Uint64(k))
		r, err := decode(k, v)
		if err != nil {
			return fmt.Errorf("the event at position %d: %w", pos, err)
		}
		return s.book.Restore(r.key, r.seq, pos, &r.Entry, r.settled)
	})
	if err != nil {
		return err
	}
	if s.book.Records() != want.records || s.book.Last() > want.last {
		return fmt.Errorf("it has %d events up to position %d and should have %d up to %d",
			s.book.Records(), s.book.Last(), want.records, want.last)
	}
	s.book.Reserve(want.last)
	return nil
}

func verifyState(tx *bolt.Tx) error {
	b := tx.Bucket(bucketState)
	if b == nil {
		return nil // verifyLog has said so
	}
	return b.ForEach(func(k, v []byte) error {
		if v == nil {
			return fmt.Errorf("the state %q is not a value", k)
		}
		if _, err := decodeValue(k, v); err != nil {
			return fmt.Errorf("the state %q: %w", k, err)
		}
		return nil
	})
}
