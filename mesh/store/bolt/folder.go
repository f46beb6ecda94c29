package bolt

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"

	bolt "go.etcd.io/bbolt"

	"agentmesh/mesh"
)

// Beside the data file at path lie path.lock, which a process locks as long as
// it uses the file, and path.exists, which says that there is a file.
const (
	lockSuffix = ".lock"
	markSuffix = ".exists"
	newSuffix  = ".new"
)

const opOpen = "bolt.Open"

// hold is the right to use a folder.
type hold struct{ lock *flock.Flock }

// holder is what the lock file says.
type holder struct {
	PID     int       `json:"pid"`
	Since   time.Time `json:"since"`
	Address string    `json:"address,omitempty"`
}

// take makes the folder and locks it for this process.
func take(path, address string) (*hold, error) {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, noFolder(dir, err)
	}
	name := path + lockSuffix
	lock := flock.New(name, flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o600))
	got, err := lock.TryLock()
	if err != nil {
		return nil, noFolder(dir, err)
	}
	if !got {
		_ = lock.Close()
		return nil, inUse(dir, name)
	}
	b, err := json.Marshal(holder{os.Getpid(), time.Now().UTC().Truncate(time.Second), address})
	if err == nil {
		err = os.WriteFile(name, append(b, '\n'), 0o600)
	}
	if err != nil {
		_ = lock.Close()
		return nil, noFolder(dir, err)
	}
	return &hold{lock}, nil
}

// release leaves the file, since removing it would race with the next process.
func (h *hold) release() {
	_ = h.lock.Close() // the kernel drops the lock in any case
}

func inUse(dir, lock string) error {
	who := "another process"
	var h holder
	if b, err := os.ReadFile(lock); err == nil && json.Unmarshal(b, &h) == nil && h.PID != 0 {
		who = fmt.Sprintf("process %d", h.PID)
		if h.Address != "" {
			who += " at " + h.Address
		}
		who += fmt.Sprintf(" (since %s)", h.Since.Format(time.RFC3339))
	}
	return mesh.Errorf(mesh.Precondition, opOpen,
		"Data folder %s is in use by %s; stop it or use another --data", dir, who)
}

func noFolder(dir string, err error) error {
	return mesh.Errorf(mesh.Precondition, opOpen,
		"Data folder %s cannot be written (%v); make it writable or use another --data: %w", dir, plain(err), err)
}

// plain takes the path, which the message has already, off the error.
func plain(err error) error {
	var p *fs.PathError
	if errors.As(err, &p) {
		return p.Err
	}
	return err
}

// prepare sees to it that there is a file that is not empty. It makes one only
// where there never was one.
func prepare(path string, all []migration) error {
	st, err := os.Stat(path)
	if err == nil && st.Size() > 0 {
		return nil
	}
	what := "empty"
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			return noFolder(filepath.Dir(path), err)
		}
		what = "missing"
	}
	if _, err := os.Stat(path + markSuffix); err == nil {
		return mesh.Errorf(mesh.Precondition, opOpen,
			"The data file %s is %s, but there was one; restore a copy, or remove %s to start with nothing",
			path, what, path+markSuffix)
	}
	if err := create(path, all); err != nil {
		return noFolder(filepath.Dir(path), err)
	}
	return nil
}

// create makes the file under another name first, so that a process that dies
// here leaves no half-made one.
func create(path string, all []migration) error {
	tmp := path + newSuffix
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	db, err := openFile(tmp, false)
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bolt.Tx) error {
		for _, name := range [][]byte{bucketMeta, bucketLog, bucketState} {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		for _, migrate := range all {
			if err := migrate(tx); err != nil {
				return err
			}
		}
		return errors.Join(putTotals(tx, totals{}), putVersion(tx, len(all)))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		return err
	}
	if err := os.Rename(tmp, path); err != nil {
		return err
	}
	return syncFolder(path)
}

// mark leaves word that there is a file.
func mark(path string) error {
	name := path + markSuffix
	if _, err := os.Stat(name); err == nil {
		return nil
	}
	text := fmt.Sprintf("%s holds data. Remove this file only to start with nothing.\n", filepath.Base(path))
	if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
		return noFolder(filepath.Dir(path), err)
	}
	if err := syncFolder(path); err != nil {
		return noFolder(filepath.Dir(path), err)
	}
	return nil
}

func syncFolder(path string) error {
	dir, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	return errors.Join(dir.Sync(), dir.Close())
}
