// Package outfile writes the files by which skills have their effects.
//
// A file is complete or absent, also after a crash, and is on the disk before
// the call returns, with the folders that were made for it. A name that is
// taken is left as it is unless it is to be replaced, and what was done under a
// key is in a [Ledger], which is what makes effects happen once per key. All
// functions may be called concurrently, also from several processes on one
// folder.
//
// It does not decide what the files say.
package outfile

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/gofrs/flock"

	"agentmesh/mesh"
)

// Name returns a file name, without suffix, for the idempotency key: 32
// hexadecimal digits, equal for equal keys of one tenant and otherwise not.
func Name(tenant mesh.TenantID, key string) string {
	sum := sha256.Sum256([]byte(string(tenant) + "\x00" + key))
	return hex.EncodeToString(sum[:16])
}

// Folder returns the folder of the owner, below a folder of all. It is "." for what
// the default tenant shares. Owners whose names differ in case alone have different
// folders also where the file system knows no case.
func Folder(o mesh.Owner) string {
	if o.Tenant == "" || o.Tenant == mesh.DefaultTenant {
		return cmp.Or(userPart(o.User), ".")
	}
	return "tenant-" + Distinct(o)
}

// Distinct returns a file name for the owner that is no other's, also where
// the file system knows no case, and that does not begin with a dot.
func Distinct(o mesh.Owner) string {
	name := string(o.Tenant)
	low := strings.Trim(strings.ToLower(name), ".")
	if low != name || low == "" {
		low += "=" + Name(o.Tenant, "")[:8] // no tenant's name has a '=', or a '@'
	}
	return low + userPart(o.User)
}

// maxUser is how many bytes of a user's name are shown in a name on the disk.
const maxUser = 100

// userPart is the part of an owner's name that is the user's, "" without one.
func userPart(user string) string {
	if user == "" {
		return ""
	}
	name := strings.ToLower(url.QueryEscape(user)) // without '/', '=' and '@'
	if strings.ToLower(user) != user || len(name) > maxUser {
		name = name[:min(len(name), maxUser)] + "=" + Name("", user)[:16]
	}
	return "@" + name
}

// WriteOnce writes the file dir/name, making dir if need be, unless there is
// one of that name. The error is Unavailable if the disk does not let it.
func WriteOnce(dir, name string, data []byte) error {
	_, err := Create(dir, name, data)
	return err
}

// Create is [WriteOnce] that reports whether it wrote the file; false without
// an error means that there was one of that name.
func Create(dir, name string, data []byte) (created bool, err error) {
	return create(dir, name, whole(data))
}

// create is Create of what write writes.
func create(dir, name string, write func(*os.File) error) (created bool, err error) {
	final := filepath.Join(dir, name)
	if _, err := os.Lstat(final); err == nil {
		return false, nil
	}
	if err := makeDir(dir); err != nil {
		return false, failed(dir, err)
	}
	temp, err := writeTemp(dir, name, write)
	if err != nil {
		return false, failed(dir, err)
	}
	defer func() { _ = os.Remove(temp) }() // gone already after a rename
	// A link, unlike a rename, does not replace what another call wrote.
	err = os.Link(temp, final)
	if errors.Is(err, fs.ErrExist) {
		return false, nil
	}
	if err != nil {
		err = os.Rename(temp, final) // a file system without links
	}
	if err := errors.Join(err, syncDir(dir)); err != nil {
		return false, failed(dir, err)
	}
	return true, nil
}

// Replace writes the file dir/name in place of the one that is there. Readers
// see the old or the new one. The error is as that of WriteOnce.
func Replace(dir, name string, data []byte) error {
	temp, err := writeTemp(dir, name, whole(data))
	if err != nil {
		return failed(dir, err)
	}
	defer func() { _ = os.Remove(temp) }() // gone already after the rename
	if err := errors.Join(os.Rename(temp, filepath.Join(dir, name)), syncDir(dir)); err != nil {
		return failed(dir, err)
	}
	return nil
}

// Stage writes the file dir/name where nobody looks for it: hidden, until
// [Publish] shows it. What is staged and not published was not made, which
// tells a call that died before its effect from one that died after it.
func Stage(dir, name string, data []byte) error {
	if err := makeDir(dir); err != nil {
		return failed(dir, err)
	}
	temp, err := writeTemp(dir, name, whole(data))
	if err != nil {
		return failed(dir, err)
	}
	defer func() { _ = os.Remove(temp) }() // gone already after the rename
	if err := errors.Join(os.Rename(temp, staged(dir, name)), syncDir(dir)); err != nil {
		return failed(dir, err)
	}
	return nil
}

// Publish shows the file dir/name if it is staged, and reports whether it was.
func Publish(dir, name string) (was bool, err error) {
	err = os.Rename(staged(dir, name), filepath.Join(dir, name))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err := errors.Join(err, syncDir(dir)); err != nil {
		return false, failed(dir, err)
	}
	return true, nil
}

func staged(dir, name string) string { return filepath.Join(dir, "."+name+".staged") }

// Open opens the file dir/name for reading. It must be a regular file of that
// folder: no link is followed, and nothing is waited for. Errors are those of
// package os.
func Open(dir, name string) (*os.File, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = root.Close() }() // only read
	before, err := root.Lstat(name)
	if err != nil {
		return nil, err
	}
	if !before.Mode().IsRegular() {
		return nil, &fs.PathError{Op: "open", Path: name, Err: errNoFile}
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	// It may have become something else meanwhile, as a link or a pipe.
	if now, err := f.Stat(); err != nil || !os.SameFile(before, now) {
		return nil, errors.Join(&fs.PathError{Op: "open", Path: name, Err: errNoFile}, err, f.Close())
	}
	return f, nil
}

var errNoFile = errors.New("not a regular file")

// Move puts the file from/name into the folder to, which it makes if need be. What has that name
// there is replaced.
func Move(from, to, name string) error {
	if err := makeDir(to); err != nil {
		return failed(to, err)
	}
	if err := errors.Join(os.Rename(filepath.Join(from, name), filepath.Join(to, name)), syncDir(to), syncDir(from)); err != nil {
		return failed(to, err)
	}
	return nil
}

// MoveNew is Move to a name that no other file has, and reports whether it moved the file; false
// without an error means that another one has the name. One that a call which died had there
// already, and not taken away yet, is moved.
func MoveNew(from, name, to, as string) (moved bool, err error) {
	if err := makeDir(to); err != nil {
		return false, failed(to, err)
	}
	source, target := filepath.Join(from, name), filepath.Join(to, as)
	err = os.Link(source, target)
	there, taken := os.Lstat(target)
	switch {
	case err == nil:
	case taken == nil:
		if here, err := os.Lstat(source); err != nil {
			return false, failed(from, err)
		} else if !os.SameFile(here, there) {
			return false, nil
		}
	default: // a file system without links
		err = os.Rename(source, target)
		if err := errors.Join(err, syncDir(to), syncDir(from)); err != nil {
			return false, failed(to, err)
		}
		return true, nil
	}
	if err := syncDir(to); err != nil {
		return false, failed(to, err)
	}
	return true, Remove(from, name)
}

// Remove deletes the file dir/name.
func Remove(dir, name string) error {
	if err := errors.Join(os.Remove(filepath.Join(dir, name)), syncDir(dir)); err != nil {
		return failed(dir, err)
	}
	return nil
}

// Lock waits until nobody else, in this process or another, holds the lock of
// a file of that name in dir, and takes it. It ends with its holder's process.
// Few files share a lock with others, which costs time and nothing else. Who holds the
// file .lock-all of the folder, as a backup does for a moment, keeps all others from
// taking one.
func Lock(ctx context.Context, dir, name string) (unlock func(), err error) {
	if err := makeDir(dir); err != nil {
		return nil, failed(dir, err)
	}
	sum := sha256.Sum256([]byte(name))
	l, all := flock.New(filepath.Join(dir, ".lock-"+hex.EncodeToString(sum[:1]))), flock.New(filepath.Join(dir, ".lock-all"))
	for {
		if ctx.Err() != nil {
			return nil, mesh.Wrap("outfile.Lock", ctx.Err())
		}
		got, err := tryLock(l, all)
		if got {
			return func() { _ = l.Close() }, nil // a file that is closed is not locked any more
		}
		if err != nil {
			return nil, failed(dir, err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(lockRetry):
		}
	}
}

// tryLock takes the lock if nobody holds it, or all.
func tryLock(l, all *flock.Flock) (got bool, err error) {
	if got, err = all.TryRLock(); !got || err != nil {
		return false, err
	}
	defer func() { _ = all.Close() }() // which drops it
	return l.TryLock()
}

// lockRetry is how often a lock is tried that another holds.
const lockRetry = 10 * time.Millisecond

func failed(dir string, err error) error {
	return mesh.Errorf(mesh.Unavailable, "outfile", "The folder %s cannot be written; check its permissions and the space left: %w", filepath.Base(dir), err)
}

// Sweep removes what calls left in the folder that died while they wrote to it. Nobody else
// writes to it meanwhile: the caller has its lock.
func Sweep(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		if digits := e.Name()[strings.LastIndexByte(e.Name(), '.')+1:]; e.Type().IsRegular() && e.Name()[0] == '.' && digits != "" && strings.Trim(digits, "0123456789") == "" {
			err = errors.Join(err, os.Remove(filepath.Join(dir, e.Name())))
		}
	}
	if err != nil {
		return failed(dir, err)
	}
	return nil
}

// whole writes the data.
func whole(data []byte) func(*os.File) error {
	return func(f *os.File) error {
		_, err := f.Write(data)
		return err
	}
}

func writeTemp(dir, name string, write func(*os.File) error) (path string, err error) {
	f, err := os.CreateTemp(dir, "."+name+".*")
	if err != nil {
		return "", err
	}
	err = write(f)
	if err == nil {
		err = f.Sync()
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}

// makeDir makes the folder and those above it, and makes their names last.
func makeDir(dir string) error {
	if info, err := os.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	parent := filepath.Dir(dir)
	if parent != dir {
		if err := makeDir(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(dir, 0o700); err != nil {
		if info, err2 := os.Stat(dir); err2 == nil && info.IsDir() {
			return nil // another call made it
		}
		return err
	}
	return syncDir(parent)
}

func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
