package disk

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/gofrs/flock"

	bolt "go.etcd.io/bbolt"

	"agentmesh/mesh"
	"agentmesh/mesh/store/segment"
)

// Beside the data file at path, which has the values, lie the folder of the log,
// path.lock, which a process locks as long as it uses both, and path.exists,
// which says that they are there.
const (
	lockSuffix = ".lock"
	markSuffix = ".exists"
	newSuffix  = ".new"
)

const opOpen = "disk.Open"

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
	if b, err := json.Marshal(holder{os.Getpid(), time.Now().UTC().Truncate(time.Second), address}); err == nil {
		_ = os.WriteFile(name, append(b, '\n'), 0o600) // it is but words, for which a full disk has no room
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

// prepare sees to it that there is a file that is not empty. It makes one, and an
// empty log, only where there never was one.
func (s *Store) prepare() error {
	st, err := os.Stat(s.path)
	if err == nil && st.Size() > 0 {
		return nil
	}
	what := "empty"
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			return noFolder(filepath.Dir(s.path), err)
		}
		what = "missing"
	}
	marked, err := exists(s.path + markSuffix)
	logged, logErr := exists(logPath(s.path))
	if err := errors.Join(err, logErr); err != nil {
		return noFolder(filepath.Dir(s.path), err)
	}
	if marked || logged {
		return mesh.Errorf(mesh.Precondition, opOpen,
			"The data file %s is %s, but there was one; restore a copy, or remove %s and %s to start with nothing",
			s.path, what, s.path+markSuffix, logPath(s.path))
	}
	if err := s.create(); err != nil {
		return noFolder(filepath.Dir(s.path), err)
	}
	return nil
}

func exists(path string) (bool, error) {
	_, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

// logPath is the folder of the log.
func logPath(path string) string {
	return strings.TrimSuffix(path, filepath.Ext(path)) + ".log"
}

// create makes an empty log and file.
func (s *Store) create() error {
	if err := s.newLog(func(*segment.Log) error { return nil }); err != nil {
		return err
	}
	return s.newFile(0, len(s.opts.migrations), func(tx *bolt.Tx) error {
		for _, migrate := range s.opts.migrations {
			if err := migrate(tx); err != nil {
				return err
			}
		}
		return nil
	})
}

// newLog makes a log, which fill fills, under another name: it gets its own when
// there is a file that says so, in findLog.
func (s *Store) newLog(fill func(*segment.Log) error) error {
	dir := logPath(s.path) + newSuffix
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	opts := segment.Options{Size: s.opts.size, Disk: s.opts.disk}
	if err := segment.Create(dir, opts); err != nil {
		return err
	}
	log, err := segment.Open(dir, opts, func(int64, segment.Record) error { return nil })
	if err != nil {
		return err
	}
	return errors.Join(fill(log), log.Close(), segment.SyncFolder(filepath.Dir(s.path)))
}

// newFile makes a file with what fill puts there, in place of the one there is.
// It gets its name when it is whole, and on disk.
func (s *Store) newFile(saved mesh.Pos, later int, fill func(*bolt.Tx) error) error {
	tmp := s.path + newSuffix
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	db, err := openFile(tmp, valuesPage, false)
	if err != nil {
		return err
	}
	err = db.Update(func(tx *bolt.Tx) error {
		for _, name := range [][]byte{bucketMeta, bucketState} {
			if _, err := tx.CreateBucket(name); err != nil {
				return err
			}
		}
		return errors.Join(fill(tx), putNumber(tx, keyCheckpoint, uint64(saved)), putNumber(tx, keyVersion, uint64(firstVersion+later)))
	})
	if err := errors.Join(err, db.Close()); err != nil {
		return err
	}
	s.step("before the file")
	if err := os.Rename(tmp, s.path); err != nil {
		return err
	}
	s.step("after the file")
	return segment.SyncFolder(filepath.Dir(s.path))
}

// findLog sees to it that the log is there that belongs to the file: one that
// was made with it gets its name now.
func (s *Store) findLog() error {
	dir := logPath(s.path)
	there, err := exists(dir)
	if err == nil && !there {
		err = os.Rename(dir+newSuffix, dir)
		if errors.Is(err, fs.ErrNotExist) {
			return mesh.Errorf(mesh.Precondition, opOpen, "The data folder %s is missing; restore a copy, with %s", dir, s.path)
		}
		if err == nil {
			err = segment.SyncFolder(filepath.Dir(s.path))
		}
	}
	if err != nil {
		return noFolder(filepath.Dir(s.path), err)
	}
	return nil
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
	if err := segment.SyncFolder(filepath.Dir(path)); err != nil {
		return noFolder(filepath.Dir(path), err)
	}
	return nil
}
