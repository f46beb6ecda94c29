// Package tenantdir keeps the files of tenants and their users: a folder for each
// owner, below one folder of all.
//
// No name leads out of an owner's folder, neither by ".." nor through a link
// (os.Root), and hidden files, whose names begin with a dot, do not exist for
// it. A file changes as a whole or not at all, also in a crash, never through a
// link, also none that is hard, and a change happens once per key. Changes by
// this package, in any process, come one after the other; a program that knows
// nothing of it may write at any time, and a change that was decided on an older
// version is refused where the caller says which version that was. Everything may
// be called concurrently.
//
// Keys are remembered in 256 files of each owner, below .keys beside the
// folders, by the key's hash: in each the last 64, so some 16,000 of an owner. A
// change that is repeated after its key was pushed out is made again.
//
// It does not know what the files mean.
package tenantdir

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"syscall"
	"unicode"
	"unicode/utf8"

	"agentmesh/mesh"
	"agentmesh/skills/internal/outfile"
)

// Bounds.
const (
	MaxFile  = 1 << 20 // bytes of a file that is written, unless its change says otherwise
	MaxFiles = 20_000  // of an owner
	maxPath  = 512     // bytes
	maxName  = 200     // bytes of one part of a path, which leaves room for that of a temporary file
	maxDepth = 32
	maxShown = 60 // bytes of what was given, in messages
)

// A Dir has the folders of all owners.
type Dir struct {
	base  string
	files int // of an owner, at most
}

// New returns a Dir below the folder, which is made when it is needed.
func New(base string) *Dir { return &Dir{base: base, files: MaxFiles} }

// Folder returns the name of the owner's folder. Owners whose names differ in
// case alone have different folders also where the file system knows no case.
func Folder(o mesh.Owner) string {
	o.Tenant = cmp.Or(o.Tenant, mesh.DefaultTenant)
	return outfile.Distinct(o)
}

// A Root is the folder of one owner.
type Root struct {
	root   *os.Root
	tenant mesh.TenantID
	files  int
	// notes is where it is noted which changes were made, outside the folder.
	notes string
}

// Open returns the owner's folder, which it makes if there is none. The caller
// closes it. The error is Unavailable if the disk does not let it.
func (d *Dir) Open(o mesh.Owner) (*Root, error) {
	dir := filepath.Join(d.base, Folder(o))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, failed(err)
	}
	// Folders of before could be read by others on the machine.
	if info, err := os.Stat(dir); err == nil && info.Mode().Perm()&0o077 != 0 {
		if err := os.Chmod(dir, 0o700); err != nil { // #nosec G302 -- a folder
			return nil, failed(err)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, failed(err)
	}
	return &Root{root: root, tenant: o.Tenant, files: d.files, notes: filepath.Join(d.base, ".keys", Folder(o))}, nil
}

// Close releases the folder.
func (r *Root) Close() error { return failed(r.root.Close()) }

// failed is an error of the disk for people. What the user did wrong is found
// before, so that the rest is for the operator.
func failed(err error) error {
	if err == nil {
		return nil
	}
	return mesh.Errorf(mesh.Unavailable, "tenantdir", "The folder cannot be used; check its permissions and the space left: %w", err)
}

// Clean returns the path in the form in which the folder has it, with slashes;
// "" and "." are the folder itself. The error is Invalid and names the field.
func Clean(op, field, name string) (string, error) {
	refuse := func(why string) (string, error) {
		return "", mesh.InvalidField(op, field, "is %q; %s", mesh.Clip(name, maxShown), why)
	}
	clean := path.Clean(strings.TrimSuffix(strings.TrimSpace(name), "/"))
	if strings.TrimSpace(name) == "" || clean == "." {
		return ".", nil
	}
	switch {
	case len(clean) > maxPath || strings.Count(clean, "/") >= maxDepth: // before it is read
		return refuse("it is too long or too deep; choose a shorter one")
	case !utf8.ValidString(name) || strings.ContainsFunc(name, invisible):
		return refuse("write it as visible text")
	case strings.Contains(name, `\`):
		return refuse("separate folders by '/'")
	case path.IsAbs(clean) || strings.Contains("/"+name+"/", "/../") || !filepath.IsLocal(clean):
		return refuse("give the path within the folder, as notes/todo.txt, without '..' and without a '/' in front")
	}
	for part := range strings.SplitSeq(clean, "/") {
		switch {
		case strings.HasPrefix(strings.TrimLeft(part, joiners), "."): // which some file systems do not see
			return refuse("names that begin with a dot are not for use here; choose another one")
		case part != strings.TrimSpace(part):
			return refuse("its names must not begin or end with a space")
		case len(part) > maxName:
			return refuse("one of its names is too long; choose a shorter one")
		}
	}
	return clean, nil
}

// joiners cannot be seen, but belong to words and pictures.
const joiners = "\u200c\u200d"

// invisible reports whether a name with it could look like another one.
func invisible(r rune) bool {
	return !strings.ContainsRune(joiners, r) && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co, unicode.Zl, unicode.Zp)
}

// Version names the content of a file: files of the same version are equal.
func Version(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:6])
}

// Read returns the file, of at most so many bytes. The name is one that Clean
// returned. Errors: NotFound, Invalid for what is no file of that size and for
// links that lead out of the folder, Unavailable.
func (r *Root) Read(name string, most int64) ([]byte, error) {
	const op = "tenantdir.Read"
	info, err := r.root.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		return nil, mesh.Errorf(mesh.NotFound, op, "There is no file %s; look for its name first", mesh.Clip(name, maxShown))
	case err != nil:
		return nil, r.refused(op, name, err)
	case info.IsDir():
		return nil, mesh.Errorf(mesh.Invalid, op, "%s is a folder; name a file in it", mesh.Clip(name, maxShown))
	case !info.Mode().IsRegular():
		return nil, mesh.Errorf(mesh.Invalid, op, "%s is not a file that can be read", mesh.Clip(name, maxShown))
	case info.Size() > most:
		return nil, mesh.Errorf(mesh.Invalid, op, "%s has %d bytes; at most %d are read", mesh.Clip(name, maxShown), info.Size(), most)
	}
	f, err := r.root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, r.refused(op, name, err)
	}
	// It may have become something else meanwhile, as a pipe, for whose writer
	// nobody waits here.
	var data []byte
	if info, err = f.Stat(); err == nil && !info.Mode().IsRegular() {
		err = mesh.Errorf(mesh.Invalid, op, "%s is not a file that can be read", mesh.Clip(name, maxShown))
	} else if err == nil {
		data, err = io.ReadAll(io.LimitReader(f, most+1))
	}
	if err := errors.Join(err, f.Close()); err != nil {
		return nil, r.refused(op, name, err)
	}
	if int64(len(data)) > most {
		return nil, mesh.Errorf(mesh.Invalid, op, "%s is growing beyond %d bytes; try again later", mesh.Clip(name, maxShown), most)
	}
	return data, nil
}

// refused tells what the caller can put right, as a link that leads out of the
// folder, from a fault of the disk.
func (r *Root) refused(op, name string, err error) error {
	var at *fs.PathError
	var known *mesh.Error
	shown := mesh.Clip(name, maxShown)
	switch {
	case errors.As(err, &known):
		return mesh.Wrap(op, err)
	case errors.Is(err, syscall.ENOTDIR):
		return mesh.Errorf(mesh.Invalid, op, "A part of the path %s is a file and no folder; choose another one: %w", shown, err)
	case errors.Is(err, syscall.ENAMETOOLONG):
		return mesh.Errorf(mesh.Invalid, op, "The name %s is too long for the disk; choose a shorter one: %w", shown, err)
	case errors.As(err, &at) && !errors.As(err, new(syscall.Errno)):
		return mesh.Errorf(mesh.Invalid, op, "%s is a link that leads out of the folder; name a file in it: %w", shown, err)
	}
	return failed(err)
}

// Stat tells about the file or folder. The error is NotFound if there is none.
func (r *Root) Stat(name string) (fs.FileInfo, error) {
	const op = "tenantdir.Stat"
	info, err := r.root.Stat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR):
		return nil, mesh.Errorf(mesh.NotFound, op, "There is no %s", mesh.Clip(name, maxShown))
	case err != nil:
		return nil, r.refused(op, name, err)
	}
	return info, nil
}

// Walk calls do for what is in the folder under, by name and with everything
// below it unless do returns fs.SkipDir. It shows no hidden files and follows no
// links. It ends with ctx, and with do's error.
func (r *Root) Walk(ctx context.Context, under string, do func(name string, d fs.DirEntry) error) error {
	const op = "tenantdir.Walk"
	err := fs.WalkDir(r.root.FS(), under, func(name string, d fs.DirEntry, err error) error {
		switch {
		case ctx.Err() != nil:
			return mesh.Wrap(op, ctx.Err())
		case name == under && err != nil:
			return r.refused(op, name, err)
		case name == under:
			return nil
		case strings.HasPrefix(d.Name(), ".") && d.IsDir():
			return fs.SkipDir
		}
		// What cannot be read went away, or is not for us.
		if err == nil && !strings.HasPrefix(d.Name(), ".") {
			return do(name, d)
		}
		return nil
	})
	return err
}

// ready is where the content of a file is that a change is about to put in its
// place. One that a death left there stays until the change is repeated.
func ready(name, key string) string {
	return path.Join(path.Dir(name), ".agentmesh-"+key+".tmp")
}

// prepare writes what is to take the place of the file, on the disk when it
// returns.
func (r *Root) prepare(temp, name string, data []byte) error {
	if err := r.makeDir(path.Dir(name)); err != nil {
		return err
	}
	if err := r.root.Remove(temp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	mode := fs.FileMode(0o640)
	if info, err := r.root.Stat(name); err == nil {
		mode = info.Mode().Perm()
	}
	f, err := r.root.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_EXCL, mode)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	return errors.Join(err, f.Close(), r.sync(path.Dir(name)))
}

// makeDir makes the folder and those above it, and makes their names last.
func (r *Root) makeDir(dir string) error {
	if info, err := r.root.Stat(dir); err == nil && info.IsDir() {
		return nil
	}
	if err := r.root.MkdirAll(dir, 0o700); errors.Is(err, fs.ErrExist) {
		return errors.Join(syscall.ENOTDIR, err) // a file has the name of one of them
	} else if err != nil {
		return err
	}
	for dir != "." {
		dir = path.Dir(dir)
		if err := r.sync(dir); err != nil {
			return err
		}
	}
	return nil
}

// sync makes the names in the folder last.
func (r *Root) sync(dir string) error {
	d, err := r.root.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
