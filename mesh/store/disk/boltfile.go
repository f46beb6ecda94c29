package disk

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"sync"

	bolt "go.etcd.io/bbolt"
)

// A boltFile is a file of what is made of the log: what is damaged is made again.
type boltFile struct {
	path string

	mu      sync.Mutex // guards the fields below
	db      *bolt.DB   // nil while there is none
	spoiled bool       // something is damaged: the file was removed, and nothing is saved any more
	broken  error      // it is not even read any more: bbolt may hold its locks
}

// open opens the file that is there.
func (x *boltFile) open() error {
	if _, err := os.Stat(x.path); err != nil {
		return err
	}
	db, err := openFile(x.path, indexPage, false)
	if err != nil {
		return err
	}
	x.set(db)
	return nil
}

// whole returns an error if the file is shorter than it says.
func (x *boltFile) whole(tx *bolt.Tx) error {
	st, err := os.Stat(x.path)
	if err == nil && st.Size() < tx.Size() {
		err = fmt.Errorf("it has %d bytes and should have %d", st.Size(), tx.Size())
	}
	return err
}

// create makes an empty file, in place of what is there.
func (x *boltFile) create(buckets ...[]byte) error {
	if err := x.discard(); err != nil {
		return err
	}
	db, err := openFile(x.path, indexPage, false)
	if err != nil {
		return err
	}
	err = guard(func() error {
		return db.Update(func(tx *bolt.Tx) error {
			for _, name := range buckets {
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

func (x *boltFile) set(db *bolt.DB) {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.db = db
}

// none reports whether there is no file that is open.
func (x *boltFile) none() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.db == nil
}

// forget closes the file and leaves it as it is.
func (x *boltFile) forget() error {
	err := x.close()
	x.mu.Lock()
	defer x.mu.Unlock()
	x.broken, x.spoiled = nil, false
	return err
}

// discard removes the file: it is made of the log again.
func (x *boltFile) discard() error {
	err := x.forget()
	if rm := os.Remove(x.path); rm != nil && !errors.Is(rm, fs.ErrNotExist) {
		return errors.Join(err, rm)
	}
	return nil
}

func (x *boltFile) close() error {
	if db := x.release(); db != nil {
		return guard(db.Close) // which waits for readers
	}
	return nil
}

// release returns what is to be closed: nothing if bbolt may hold its locks.
func (x *boltFile) release() *bolt.DB {
	x.mu.Lock()
	defer x.mu.Unlock()
	db := x.db
	if x.db = nil; x.broken != nil {
		db = nil
	}
	return db
}

func (x *boltFile) isSpoiled() bool {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.spoiled
}

// use runs fn and notes if that shows that the file is damaged.
func (x *boltFile) use(fn func(*bolt.DB) error) error {
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
func (x *boltFile) fail(err error) error {
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

func (x *boltFile) view(fn func(*bolt.Tx) error) error {
	return x.use(func(db *bolt.DB) error { return db.View(fn) })
}
