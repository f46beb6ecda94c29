package disk

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"

	"agentmesh/mesh"
	"agentmesh/mesh/store/segment"
)

// copySuffix is of the copy of the file of values that a [Copy] is read from. Where the
// system lets it, it has no name longer than it takes to open it.
const copySuffix = ".copy"

// A Copy is what a copy of a store has: all that was acknowledged when it was begun, and
// what was meanwhile up to Last.
type Copy struct {
	Last mesh.Pos
	// Log are the files of the log, in the folder LogName.
	Log     []segment.File
	LogName string
	// Values is the file of values, of so many bytes, which is older than the end of the
	// log and no newer.
	Values io.Reader
	Size   int64
}

// Copy has use read the store at one point, while it serves. Appends do not wait. Until use
// returns, what was deleted stays in the log's files; the file of values is copied beside
// itself before, for which there must be room.
func (s *Store) Copy(ctx context.Context, use func(Copy) error) (err error) {
	const op = "disk.Copy"
	if err := s.readable(ctx, op); err != nil {
		return err
	}
	release := s.log.Hold()
	defer func() {
		release()
		s.mu.Lock()
		defer s.mu.Unlock()
		if !s.closed {
			s.wakeKeeper() // for what it did not sweep
		}
	}()
	values, size, err := s.copyValues()
	if err != nil {
		return mesh.Errorf(mesh.Unavailable, op, "The node could not copy %s beside itself; see that its disk has room for it: %w", filepath.Base(s.path), err)
	}
	defer func() { err = errors.Join(err, values.Close(), s.dropCopy()) }()
	files, last := s.log.Files() // after the values, which must not be ahead of it
	return use(Copy{Last: mesh.Pos(last), Log: files, LogName: filepath.Base(logPath(s.path)), Values: values, Size: size})
}

// copyValues returns a copy of the file of values. No checkpoint is made meanwhile: one
// that had to wait for the file to grow would hold up all readers of values.
func (s *Store) copyValues() (_ *os.File, size int64, err error) {
	s.saving.Lock()
	defer s.saving.Unlock()
	to, err := os.OpenFile(s.path+copySuffix, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, to.Close(), s.dropCopy())
		}
	}()
	_ = s.dropCopy() // else when it is closed
	err = s.lost(guard(func() error {
		tx, err := s.begin(false)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }() // a reader has nothing to lose
		size, err = tx.WriteTo(to)
		return err
	}))
	if err == nil {
		_, err = to.Seek(0, io.SeekStart)
	}
	return to, size, err
}

// dropCopy removes the name of the copy of values, if it has one.
func (s *Store) dropCopy() error {
	if err := os.Remove(s.path + copySuffix); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// CopyUnused is [Store.Copy] of the folder of the file at path, of which it keeps all others
// away meanwhile; it does not know Last. The error is NotFound if there is none, and Precondition if somebody uses it.
func CopyUnused(path string, use func(Copy) error) (err error) {
	const op = "disk.CopyUnused"
	if _, err := os.Stat(path); err != nil {
		return mesh.Errorf(mesh.NotFound, op, "there is no data folder %s; name it with --data: %w", filepath.Dir(path), err)
	}
	h, err := take(path, "")
	if err != nil {
		return err
	}
	defer h.release()
	files, err := segment.List(logPath(path))
	if err != nil {
		return mesh.Errorf(mesh.Precondition, op, "The log %s cannot be read; start the mesh on the folder once, or restore a copy: %w", logPath(path), err)
	}
	values, err := os.Open(filepath.Clean(path))
	if err != nil {
		return noFolder(filepath.Dir(path), err)
	}
	defer func() { err = errors.Join(err, values.Close()) }()
	st, err := values.Stat()
	if err != nil {
		return noFolder(filepath.Dir(path), err)
	}
	return use(Copy{Log: files, LogName: filepath.Base(logPath(path)), Values: values, Size: st.Size()})
}

// Unused returns a Precondition error that says who uses the folder of the file at path, if
// somebody does. It changes nothing.
func Unused(path string) error {
	name := path + lockSuffix
	if _, err := os.Stat(name); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	lock := flock.New(name, flock.SetFlag(os.O_RDONLY))
	got, err := lock.TryRLock()
	_ = lock.Close() // which drops it
	if err == nil && !got {
		return inUse(filepath.Dir(path), name)
	}
	return nil // a lock that cannot be read is no reason not to look
}
