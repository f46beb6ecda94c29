package skill

import (
	"bytes"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"time"

	"agentmesh/mesh"
)

// MaxOwn is how many skills a tenant may create.
const MaxOwn = 10_000

// Create writes a skill into the tenant's folder and offers it. The skill must
// be a template; see [ParseNew]. When Create returns, the file is on disk,
// whole; when it fails, there is none. Errors: Invalid naming the line and, as
// "source.description", the field; Precondition when the tenant has or shares a skill of that name, Exhausted
// beyond MaxOwn, Unavailable when the file cannot be written, Unsupported
// without a folder of tenants.
func (l *Library) Create(t mesh.TenantID, source []byte) (*Skill, error) {
	const op = "skill.Library.Create"
	sk, err := newSkill(op, source)
	if err != nil {
		return nil, err
	}
	if err := l.mayWrite(op, t); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.realm(t)
	if _, exists := own.catalog.Get(sk.Name); exists {
		return nil, skillExists(op, sk.Name)
	}
	if own.catalog.own.Load().size() >= MaxOwn {
		return nil, mesh.Errorf(mesh.Exhausted, op, "There are %d skills already, and no more can be created; delete some first", MaxOwn)
	}
	switch taken, err := l.write(t, sk); {
	case taken:
		return nil, skillExists(op, sk.Name)
	case err != nil:
		return nil, unwritable(op, sk.Name, err)
	}
	l.refreshOne(t, sk.Path)
	made, ok := own.catalog.Get(sk.Name)
	if !ok || made.Version != sk.Version {
		// What is in the folder keeps it from being a skill.
		err := l.erase(t, sk.Path, sk.Source)
		l.refreshOne(t, sk.Path)
		return nil, unwritable(op, sk.Name, err)
	}
	return made, nil
}

// Replace writes the file in the place of a skill that the tenant created, if it has the
// version; one that has the new file already is left as it is. When Replace returns, the new
// file is on disk, whole; when it fails, the old one is. Errors: those of Create,
// NotFound, and Precondition for another version or a skill that belongs to the mesh.
func (l *Library) Replace(t mesh.TenantID, source []byte, version string) (*Skill, error) {
	const op = "skill.Library.Replace"
	sk, err := newSkill(op, source)
	if err != nil {
		return nil, err
	}
	if err := l.mayWrite(op, t); err != nil {
		return nil, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.refreshOne(t, sk.Path) // as it is on disk
	old, ok := l.find(t, sk.Name)
	switch {
	case !ok:
		return nil, notFound(op, sk.Name)
	case old.Tenant != t || isSkillMD(old.Path):
		return nil, &mesh.Error{Code: mesh.Precondition, Op: op, Field: "name",
			Detail: fmt.Sprintf("Skill %s belongs to the mesh and cannot be changed; only created skills can", sk.Name)}
	case old.Version == sk.Version:
		return old, nil
	case old.Version != version:
		return nil, &mesh.Error{Code: mesh.Precondition, Op: op, Field: "replaces",
			Detail: fmt.Sprintf("Skill %s was changed since, and has the version %s; read it again", sk.Name, old.Version)}
	}
	if err := l.rewrite(t, old.Path, sk.Source); err != nil {
		return nil, unwritable(op, sk.Name, err)
	}
	l.refreshOne(t, old.Path)
	made, ok := l.realm(t).catalog.Get(sk.Name)
	if !ok || made.Version != sk.Version {
		return nil, unwritable(op, sk.Name, nil)
	}
	return made, nil
}

// rewrite puts the content in the place of the tenant's file, durably and as a whole. The
// caller holds mu.
func (l *Library) rewrite(t mesh.TenantID, file string, content []byte) error {
	root, err := openTenant(l.tenantDir, t)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	temp := tempFor(file)
	if err = writeSynced(root, temp, content); err == nil {
		err = root.Rename(temp, file)
	}
	if err != nil {
		_ = root.Remove(temp) // it may not be there
		return err
	}
	return syncFolder(root, path.Dir(file))
}

// tempFor is a name beside the file's. A leading dot keeps a file that a crash left from
// being loaded.
func tempFor(file string) string {
	return path.Join(path.Dir(file), "."+path.Base(file)+"."+rand.Text()+".new")
}

// abandoned is how old a file of [tempFor] is that nobody writes any more. Another process may
// write to the folder; one that lost its file to this tells its caller to try again.
const abandoned = 2 * time.Second

// sweep removes what processes left that died while they wrote a skill: nobody else would, and it
// may be what a user has erased since.
func (l *Library) sweep() error {
	root, err := os.OpenRoot(l.tenantDir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	left, err := fs.Glob(root.FS(), "*/*/.*.md.*.new")
	for _, name := range left {
		if info, gone := root.Lstat(name); gone == nil && info.Mode().IsRegular() && time.Since(info.ModTime()) > abandoned {
			err = errors.Join(err, root.Remove(name))
		}
	}
	return err
}

// newSkill reads the file of a skill that a tenant may have.
func newSkill(op string, source []byte) (*Skill, error) {
	sk, problem := ParseNew(source)
	if problem == nil {
		return sk, nil
	}
	where := ""
	if problem.Line > 0 {
		where = fmt.Sprintf("line %d: ", problem.Line)
	}
	field := "source"
	if problem.Field != "" {
		field += "." + problem.Field
	}
	return nil, mesh.InvalidField(op, field, "%s%s", where, problem.Detail)
}

func (l *Library) mayWrite(op string, t mesh.TenantID) error {
	if l.tenantDir == "" {
		return mesh.Errorf(mesh.Unsupported, op, "This mesh keeps no skills of tenants; ask the operator")
	}
	return mesh.Wrap(op, t.Validate())
}

func skillExists(op, name string) *mesh.Error {
	return &mesh.Error{Code: mesh.Precondition, Op: op, Field: "name",
		Detail: fmt.Sprintf("There is a skill %s already; choose another name, or delete that one first", name)}
}

func unwritable(op, name string, err error) *mesh.Error {
	return mesh.Errorf(mesh.Unavailable, op,
		"Skill %s could not be written into the skills folder; check that the folder is writable and has space: %w", name, err)
}

// write puts the skill's file in its place, durably and as a whole, or reports
// that the place is taken. The caller holds mu.
func (l *Library) write(t mesh.TenantID, sk *Skill) (taken bool, err error) {
	if err := l.makeTenant(t); err != nil {
		return false, err
	}
	root, err := openTenant(l.tenantDir, t)
	if err != nil {
		return false, err
	}
	defer func() { _ = root.Close() }()
	dir := path.Dir(sk.Path)
	if err := root.MkdirAll(dir, 0o700); err != nil {
		return false, err
	}
	if _, err := root.Lstat(sk.Path); !isGone(err) {
		return err == nil, err
	}
	temp := tempFor(sk.Path)
	err = writeSynced(root, temp, sk.Source)
	if err == nil {
		err = putThere(root, temp, sk.Path)
	}
	if err != nil {
		_ = root.Remove(temp) // it may not be there
		return errors.Is(err, fs.ErrExist), err
	}
	if err := errors.Join(syncFolder(root, dir), syncFolder(root, ".")); err != nil {
		return false, errors.Join(err, root.Remove(sk.Path))
	}
	return false, nil
}

// putThere gives the file its name. A link, unlike a rename, does not replace
// what another process has put there; not all file systems have links.
func putThere(root *os.Root, temp, name string) error {
	err := root.Link(temp, name)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return root.Rename(temp, name)
	}
	return errors.Join(err, root.Remove(temp))
}

// makeTenant makes the tenant's folder if it is not there.
func (l *Library) makeTenant(t mesh.TenantID) error {
	if err := os.MkdirAll(l.tenantDir, 0o700); err != nil {
		return err
	}
	all, err := os.OpenRoot(l.tenantDir)
	if err != nil {
		return err
	}
	defer func() { _ = all.Close() }()
	if err := all.Mkdir(tenantFolder(t), 0o700); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil
		}
		return err
	}
	return syncFolder(all, ".")
}

func writeSynced(root *os.Root, name string, data []byte) error {
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(data)
	return errors.Join(err, file.Sync(), file.Close())
}

func syncFolder(root *os.Root, name string) error {
	d, err := root.Open(name)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// Delete removes a skill that the tenant created, with its file, durably.
// Errors: NotFound, Precondition for skills that no tenant can delete,
// Unavailable when the file cannot be removed.
func (l *Library) Delete(t mesh.TenantID, name string) error {
	const op = "skill.Library.Delete"
	if err := l.mayWrite(op, t); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	sk, ok := l.find(t, name)
	switch {
	case !ok:
		return notFound(op, name)
	case sk.Tenant != t || isSkillMD(sk.Path):
		return &mesh.Error{Code: mesh.Precondition, Op: op, Field: "name",
			Detail: fmt.Sprintf("Skill %s belongs to the mesh and cannot be deleted; only created skills can", name)}
	}
	err := l.erase(t, sk.Path, nil)
	l.refreshOne(t, sk.Path)
	if err != nil && !isGone(err) {
		return mesh.Errorf(mesh.Unavailable, op, "The file of skill %s could not be removed; check that the skills folder is writable: %w", name, err)
	}
	return nil
}

// erase removes a file of the tenant's, durably, unless it has another content
// than the one given, if one is. The caller holds mu.
func (l *Library) erase(t mesh.TenantID, file string, content []byte) error {
	root, err := openTenant(l.tenantDir, t)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	if content != nil {
		if now, err := root.ReadFile(file); err != nil || !bytes.Equal(now, content) {
			return err
		}
	}
	if err := root.Remove(file); err != nil {
		return err
	}
	return syncFolder(root, path.Dir(file))
}
