package outfile

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"agentmesh/mesh"
)

// A Shelf is a folder in which each owner has a folder, as As names it: [Folder] or [Distinct],
// or what adds something to them.
type Shelf struct {
	Dir string
	As  func(mesh.Owner) string
}

// has reports whether what is in the folder under the name is of a user of the tenant, or of all.
func (s Shelf) has(t mesh.TenantID, name string, isDir bool) bool {
	all := s.As(mesh.Owner{Tenant: t})
	if all == "." { // beside the folders of others
		return !isDir || strings.HasPrefix(name, "@")
	}
	return isDir && (name == all || strings.HasPrefix(name, all+"@"))
}

// Export gives put the tenant's files on the shelf, by the kind, under their paths with slashes.
// Files that are hidden are none. A folder that does not exist has none.
func (s Shelf) Export(ctx context.Context, kind string, t mesh.TenantID, put func(mesh.Kept, io.Reader) error) error {
	err := fs.WalkDir(os.DirFS(s.Dir), ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case errors.Is(err, fs.ErrNotExist): // it went away
			return nil
		case err != nil:
			return failed(s.Dir, err)
		case ctx.Err() != nil:
			return mesh.Wrap("outfile.Export", ctx.Err())
		case name == ".":
			return nil
		case strings.HasPrefix(d.Name(), "."), !strings.Contains(name, "/") && !s.has(t, name, d.IsDir()):
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		case !d.Type().IsRegular():
			return nil
		}
		return s.give(kind, name, put)
	})
	return err
}

// give gives put one file as it is now, if it is there.
func (s Shelf) give(kind, name string, put func(mesh.Kept, io.Reader) error) error {
	f, err := Open(filepath.Join(s.Dir, filepath.FromSlash(path.Dir(name))), path.Base(name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return failed(s.Dir, err)
	}
	defer func() { _ = f.Close() }() // only read
	st, err := f.Stat()
	if err != nil {
		return failed(s.Dir, err)
	}
	return put(mesh.Kept{Kind: kind, Name: name, Size: st.Size(), Modified: st.ModTime()}, f)
}

// Import keeps a file that Export gave, unless there is one of its path: as a whole, with its
// time. The error is Invalid for a path that is no file's of the tenant.
func (s Shelf) Import(t mesh.TenantID, k mesh.Kept, r io.Reader) (bool, error) {
	top, _, below := strings.Cut(k.Name, "/")
	if !fs.ValidPath(k.Name) || k.Name == "." || !filepath.IsLocal(filepath.FromSlash(k.Name)) || strings.HasPrefix(k.Name, ".") || strings.Contains(k.Name, "/.") || !s.has(t, top, below) {
		return false, mesh.InvalidField("outfile.Import", "name", "is no file of the tenant: %q", mesh.Clip(k.Name, 64))
	}
	name := filepath.FromSlash(k.Name)
	return create(filepath.Join(s.Dir, filepath.Dir(name)), filepath.Base(name), func(f *os.File) error {
		if n, err := io.Copy(f, r); err != nil || n != k.Size {
			return errors.Join(err, io.ErrUnexpectedEOF)
		}
		return os.Chtimes(f.Name(), time.Time{}, k.Modified)
	})
}

// ExportAll is Export of several shelves, by their kinds.
func ExportAll(ctx context.Context, shelves map[string]Shelf, t mesh.TenantID, put func(mesh.Kept, io.Reader) error) error {
	for _, kind := range slices.Sorted(maps.Keys(shelves)) {
		if err := shelves[kind].Export(ctx, kind, t, put); err != nil {
			return err
		}
	}
	return nil
}

// ImportInto is Import into the shelf of the kind.
func ImportInto(shelves map[string]Shelf, t mesh.TenantID, k mesh.Kept, r io.Reader) (bool, error) {
	s, ok := shelves[k.Kind]
	if !ok {
		return false, mesh.InvalidField("outfile.Import", "kind", "is unknown: %q", mesh.Clip(k.Kind, 64))
	}
	return s.Import(t, k, r)
}
