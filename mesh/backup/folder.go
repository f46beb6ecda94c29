package backup

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gofrs/flock"
	"google.golang.org/protobuf/encoding/protojson"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

// What is in NAME.partial: the copy as far as it is, the file that is being written, and
// what who writes it has locked.
const (
	partialSuffix = ".partial"
	incomingName  = "incoming"
	lockName      = "lock"
)

// A Folder takes the pieces of a copy. Use [Create] or [Restore], and then [Folder.Done] or
// [Folder.Abandon].
type Folder struct {
	dir, tmp string
	restores bool
	lock     *flock.Flock
	root     *os.Root // tmp, out of which no name leads

	total, taken int64
	manifest     *meshv1.BackupManifest
	files        map[string]*meshv1.BackupFile
	current      *meshv1.BackupFile // whose data come
	file         *os.File           // of it; nil for a link
	sum          hash.Hash
}

// Create makes a folder for a copy, which is not there before [Folder.Done]. The error is
// Precondition if there is something of that name, or another process makes it.
func Create(dir string) (*Folder, error) { return create(dir, false) }

// Restore makes a data folder, which is not there before [Folder.Done]. The error is as that
// of Create; a folder that is empty is no hindrance.
func Restore(dir string) (*Folder, error) { return create(dir, true) }

func create(dir string, restores bool) (_ *Folder, err error) {
	const op = "backup.Create"
	dir = filepath.Clean(dir)
	if err := vacant(op, dir); err != nil {
		return nil, err
	}
	f := &Folder{dir: dir, tmp: dir + partialSuffix, restores: restores, files: map[string]*meshv1.BackupFile{}}
	if err := f.begin(); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			_ = f.Abandon()
		}
	}()
	if f.root, err = os.OpenRoot(f.tmp); err == nil {
		err = f.root.Mkdir(Data, 0o700)
	}
	if err != nil {
		return nil, f.unwritable(op, err)
	}
	return f, nil
}

// vacant returns an error if there is something of that name that is not an empty folder.
func vacant(op, dir string) error {
	entries, err := os.ReadDir(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil
	case err != nil:
		return mesh.Errorf(mesh.Precondition, op, "%s cannot be a folder for it; name another one: %w", dir, err)
	case len(entries) > 0:
		return mesh.Errorf(mesh.Precondition, op, "%s is not empty; name a folder that is not there yet", dir)
	}
	return nil
}

// begin makes the folder tmp, in place of one that a process left that was killed.
func (f *Folder) begin() error {
	const op = "backup.Create"
	if err := os.MkdirAll(filepath.Dir(f.tmp), 0o700); err != nil {
		return f.unwritable(op, err)
	}
	err := os.Mkdir(f.tmp, 0o700)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return f.unwritable(op, err)
	}
	was := errors.Is(err, fs.ErrExist)
	if was && !ours(f.tmp) {
		return mesh.Errorf(mesh.Precondition, op, "%s is in the way, and is not what a backup left that was cut off; move it away", f.tmp)
	}
	f.lock = flock.New(filepath.Join(f.tmp, lockName), flock.SetPermissions(0o600))
	if got, err := f.lock.TryLock(); err != nil {
		return f.unwritable(op, err)
	} else if !got {
		_ = f.lock.Close()
		return mesh.Errorf(mesh.Precondition, op, "another process is writing %s; wait for it, or name another folder", f.tmp)
	}
	if !was {
		return nil
	}
	if err := errors.Join(os.RemoveAll(filepath.Join(f.tmp, Data)), remove(filepath.Join(f.tmp, incomingName)), remove(filepath.Join(f.tmp, manifestName))); err != nil {
		_ = f.lock.Close()
		return f.unwritable(op, err)
	}
	return nil
}

// ours reports whether the folder has nothing but what this package writes.
func ours(dir string) bool {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		switch e.Name() {
		case Data, incomingName, manifestName, lockName:
		default:
			return false
		}
	}
	return err == nil
}

// remove is os.Remove of what may not be there.
func remove(name string) error {
	if err := os.Remove(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (f *Folder) unwritable(op string, err error) error {
	return mesh.Errorf(mesh.Unavailable, op, "%s cannot be written; see that its disk has room and that you may write there: %w", f.tmp, err)
}

// Progress is how many bytes have been taken, and about how many there will be.
func (f *Folder) Progress() (taken, total int64) { return f.taken, max(f.taken, f.total) }

// Take implements [Take].
func (f *Folder) Take(p *meshv1.BackupDataResponse) error {
	const op = "backup.Take"
	if f.manifest != nil {
		return mesh.Errorf(mesh.Unknown, op, "something comes after the end of the backup")
	}
	if data, ok := p.GetPiece().(*meshv1.BackupDataResponse_Data); ok {
		return f.write(data.Data)
	}
	if p.GetManifest() != nil { // the last file, which makes it a mesh, gets its name after that
		if err := f.sync(); err != nil {
			return f.unwritable(op, err)
		}
	}
	if err := f.finish(); err != nil {
		return err
	}
	switch piece := p.GetPiece().(type) {
	case *meshv1.BackupDataResponse_Begun:
		f.total = piece.Begun.GetBytes()
	case *meshv1.BackupDataResponse_File:
		return f.start(piece.File)
	case *meshv1.BackupDataResponse_Removed:
		if f.files[piece.Removed] == nil {
			return mesh.Errorf(mesh.Unknown, op, "a file is taken away that did not come: %q", mesh.Clip(piece.Removed, 64))
		}
		delete(f.files, piece.Removed)
		if err := f.root.Remove(at(piece.Removed)); err != nil {
			return f.unwritable(op, err)
		}
	case *meshv1.BackupDataResponse_Manifest:
		f.manifest = piece.Manifest
	}
	return nil // also for what this version does not know, without which a manifest will not fit
}

// start begins a file.
func (f *Folder) start(of *meshv1.BackupFile) (err error) {
	const op = "backup.Take"
	if !sound(of.GetPath()) {
		return mesh.Errorf(mesh.Unknown, op, "the backup names the file %q, which is not in it", mesh.Clip(of.GetPath(), 64))
	}
	f.current, f.sum = of, sha256.New()
	of.Size = 0
	if of.GetLink() != "" {
		return nil
	}
	f.file, err = f.root.OpenFile(incomingName, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return f.unwritable(op, err)
	}
	return nil
}

func (f *Folder) write(b []byte) error {
	const op = "backup.Take"
	if f.file == nil {
		return mesh.Errorf(mesh.Unknown, op, "data come that are of no file")
	}
	if _, err := f.file.Write(b); err != nil {
		return f.unwritable(op, err)
	}
	_, _ = f.sum.Write(b) // it never fails
	f.current.Size += int64(len(b))
	f.taken += int64(len(b))
	return nil
}

// finish gives the file that was written its name.
func (f *Folder) finish() error {
	const op = "backup.Take"
	of := f.current
	if of == nil {
		return nil
	}
	name := at(of.GetPath())
	err := errors.Join(f.root.MkdirAll(filepath.Dir(name), 0o700), f.root.RemoveAll(name))
	switch {
	case err != nil:
	case f.file == nil:
		err = f.root.Symlink(of.GetLink(), name)
	default:
		if f.restores {
			err = f.file.Chmod(fs.FileMode(of.GetMode()) & fs.ModePerm)
		}
		err = errors.Join(err, f.file.Close())
		if was := of.GetModified().AsTime(); err == nil && of.GetModified().IsValid() {
			err = f.root.Chtimes(incomingName, was, was)
		}
		if err == nil {
			err = f.root.Rename(incomingName, name)
		}
	}
	if err != nil {
		return f.unwritable(op, err)
	}
	of.Sha256 = hex.EncodeToString(f.sum.Sum(nil))
	f.files[of.GetPath()] = of
	f.current, f.file = nil, nil
	return nil
}

// Done gives the folder its name, once look, which may be nil, has looked at the data folder
// in it. It returns what the copy is. After an error there is nothing of that name.
func (f *Folder) Done(look func(data string) error) (*meshv1.BackupManifest, error) {
	const op = "backup.Done"
	if err := f.complete(); err != nil {
		return nil, err
	}
	if look != nil {
		if err := look(filepath.Join(f.tmp, Data)); err != nil {
			return nil, err
		}
	}
	if err := f.settle(); err != nil {
		return nil, f.unwritable(op, err)
	}
	from := f.tmp
	if f.restores {
		from = filepath.Join(f.tmp, Data)
	}
	err := remove(f.dir) // if it is empty
	if err == nil {
		err = os.Rename(from, f.dir)
	}
	if err != nil {
		return nil, mesh.Errorf(mesh.Precondition, op, "%s cannot get that name; name a folder that is not there yet and no mount point, as one below it: %w", f.dir, err)
	}
	if f.restores {
		_ = os.RemoveAll(f.tmp) // nothing of the mesh is left in it
	} else {
		_ = os.Remove(filepath.Join(f.dir, lockName)) // likewise
	}
	f.dir = "" // it is not to be abandoned any more
	if err := syncFile(filepath.Dir(f.tmp)); err != nil {
		return nil, f.unwritable(op, err)
	}
	return f.manifest, errors.Join(f.root.Close(), f.lock.Close())
}

// at is where a file of the copy is in tmp.
func at(path string) string { return filepath.Join(Data, filepath.FromSlash(path)) }

// complete returns an error unless all came that the manifest names, and nothing else.
func (f *Folder) complete() error {
	const op = "backup.Done"
	if f.manifest == nil {
		return mesh.Errorf(mesh.Unavailable, op, "the backup ended before it was whole; try again")
	}
	left := len(f.files)
	for _, want := range f.manifest.GetFiles() {
		left--
		if is := f.files[want.GetPath()]; is == nil || is.GetSize() != want.GetSize() || is.GetLink() != want.GetLink() || is.GetSha256() != want.GetSha256() {
			return mesh.Errorf(mesh.Unavailable, op, "the file %s of the backup did not come as it was; try again", want.GetPath())
		}
	}
	if left != 0 {
		return mesh.Errorf(mesh.Unavailable, op, "the backup has files that its manifest does not name; try again")
	}
	return nil
}

// syncs is how many files are synced at a time: a disk syncs many as fast as one.
const syncs = 16

// sync returns when all files that came are on the disk.
func (f *Folder) sync() error {
	names, errs := make(chan string), make(chan error, syncs)
	for range syncs {
		go func() { // ends with names, and is waited for below
			var failed error
			for name := range names {
				failed = errors.Join(failed, syncFile(name))
			}
			errs <- failed
		}()
	}
	err := filepath.WalkDir(f.tmp, func(at string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			names <- at
		}
		return err
	})
	close(names)
	for range syncs {
		err = errors.Join(err, <-errs)
	}
	return err
}

// settle has all of the copy on the disk, with its manifest if it is kept.
func (f *Folder) settle() error {
	if !f.restores {
		text, err := protojson.MarshalOptions{Multiline: true}.Marshal(f.manifest)
		if err != nil {
			return err
		}
		if err := writeFile(filepath.Join(f.tmp, manifestName), append(text, '\n')); err != nil {
			return err
		}
	}
	return filepath.WalkDir(f.tmp, func(at string, d fs.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			err = syncFile(at)
		}
		return err
	})
}

// Abandon removes what was written. After Done it does nothing.
func (f *Folder) Abandon() error {
	if f.dir == "" {
		return nil
	}
	f.dir = ""
	var errs []error
	if f.file != nil {
		errs = append(errs, f.file.Close())
	}
	if f.root != nil {
		errs = append(errs, f.root.Close())
	}
	if err := errors.Join(append(errs, os.RemoveAll(f.tmp), f.lock.Close())...); err != nil {
		return f.unwritable("backup.Abandon", err)
	}
	return nil
}

func writeFile(name string, text []byte) error {
	file, err := os.OpenFile(filepath.Clean(name), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(text)
	return errors.Join(err, file.Sync(), file.Close())
}

// syncFile returns when the file, or the names in a folder, are on the disk.
func syncFile(name string) error {
	file, err := os.Open(filepath.Clean(name))
	if err != nil {
		return err
	}
	return errors.Join(file.Sync(), file.Close())
}
