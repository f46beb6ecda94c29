package service

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path"
	"strconv"
	"strings"
	"sync"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
)

// A SkillFolder is a catalog whose new skills are files below a folder, each at
// DOMAIN/ACTION.md. It is safe for concurrent use. Whoever changes the catalog
// past it is not noticed by watchers until the next change through it.
type SkillFolder struct {
	catalog  *skill.Catalog
	problems []skill.Problem
	dir      string

	mu       sync.Mutex // held by who writes files; guards watchers too
	watchers map[chan struct{}]struct{}
}

// NewSkillFolder returns the skills of the catalog, with the problems that
// loading it found. New ones go below dir, which is made when it is needed.
func NewSkillFolder(dir string, catalog *skill.Catalog, problems []skill.Problem) *SkillFolder {
	return &SkillFolder{catalog: catalog, problems: problems, dir: dir, watchers: map[chan struct{}]struct{}{}}
}

var _ Skills = (*SkillFolder)(nil)

// Get implements [Skills].
func (f *SkillFolder) Get(name string) (*skill.Skill, bool) { return f.catalog.Get(name) }

// List implements [Skills].
func (f *SkillFolder) List() []*skill.Skill { return f.catalog.List() }

// Search implements [Skills].
func (f *SkillFolder) Search(query string) []*skill.Skill { return f.catalog.Search(query) }

// Problems implements [Skills].
func (f *SkillFolder) Problems() []skill.Problem { return f.problems }

// Create implements [Skills]. The skill must be a template: a handler is code
// of the mesh, and a second name for it would evade the grants that name the
// first. When Create returns, the file is on disk, whole; when it fails, there
// is none.
func (f *SkillFolder) Create(source []byte) (*skill.Skill, error) {
	const op = "service.SkillFolder.Create"
	sk, problem := checkSource(source)
	if problem != nil {
		where := ""
		if problem.Line > 0 {
			where = fmt.Sprintf("line %d: ", problem.Line)
		}
		return nil, mesh.InvalidField(op, "source", "%s%s", where, problem.Detail)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if _, exists := f.catalog.Get(sk.Name); exists {
		return nil, skillExists(op, sk.Name)
	}
	if err := f.write(sk); err != nil {
		if errors.Is(err, fs.ErrExist) {
			return nil, skillExists(op, sk.Name)
		}
		return nil, mesh.Errorf(mesh.Unavailable, op,
			"Skill %s could not be written into the skills folder; check that the folder is writable and has space: %w", sk.Name, err)
	}
	f.catalog.Put(sk)
	f.wake()
	return sk, nil
}

// checkSource reads the file of a skill that is to be created.
func checkSource(source []byte) (*skill.Skill, *skill.Problem) {
	sk, err := skill.Parse("", source)
	if err != nil {
		p := problemOf(err)
		return nil, &p
	}
	if sk.Handler != "" {
		return nil, &skill.Problem{Path: sk.Path,
			Detail: "names a handler, which only skills of the mesh itself may; remove the line \"handler\" and describe the steps instead"}
	}
	return sk, nil
}

// problemOf takes the line out of an error of [skill.Parse], whose detail is a
// [skill.Problem] in text form.
func problemOf(err error) skill.Problem {
	detail := strings.TrimPrefix(mesh.DetailOf(err), ":")
	if number, rest, ok := strings.Cut(detail, ": "); ok {
		if line, err := strconv.Atoi(number); err == nil {
			return skill.Problem{Line: line, Detail: rest}
		}
	}
	return skill.Problem{Detail: strings.TrimSpace(detail)}
}

func skillExists(op, name string) *mesh.Error {
	return &mesh.Error{Code: mesh.Precondition, Op: op, Field: "name",
		Detail: fmt.Sprintf("There is a skill %s already; choose another name, or delete that one first", name)}
}

// write puts the skill's file in its place, durably and as a whole. It returns
// fs.ErrExist if there is one. The caller holds mu.
func (f *SkillFolder) write(sk *skill.Skill) error {
	if err := os.MkdirAll(f.dir, 0o755); err != nil {
		return err
	}
	// A root cannot be left, neither by ".." nor by links.
	root, err := os.OpenRoot(f.dir)
	if err != nil {
		return err
	}
	defer func() { _ = root.Close() }()
	folder := path.Dir(sk.Path)
	if err := root.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	if _, err := root.Lstat(sk.Path); err == nil {
		return fs.ErrExist
	} else if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	// A leading dot keeps a file that a crash left from being loaded.
	temp := path.Join(folder, "."+path.Base(sk.Path)+".new")
	if err := writeSynced(root, temp, sk.Source); err != nil {
		return errors.Join(err, root.Remove(temp))
	}
	if err := root.Rename(temp, sk.Path); err != nil {
		return errors.Join(err, root.Remove(temp))
	}
	if err := errors.Join(syncFolder(root, folder), syncFolder(root, ".")); err != nil {
		return errors.Join(err, root.Remove(sk.Path))
	}
	return nil
}

func writeSynced(root *os.Root, name string, data []byte) error {
	file, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o644)
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

// Delete implements [Skills].
func (f *SkillFolder) Delete(name string) error {
	const op = "service.SkillFolder.Delete"
	f.mu.Lock()
	defer f.mu.Unlock()
	sk, ok := f.catalog.Get(name)
	if !ok {
		return skillNotFound(op, name)
	}
	own := &mesh.Error{Code: mesh.Precondition, Op: op, Field: "name",
		Detail: fmt.Sprintf("Skill %s belongs to the mesh and cannot be deleted; only created skills can", name)}
	if sk.Handler != "" {
		return own
	}
	root, err := os.OpenRoot(f.dir)
	if err == nil {
		defer func() { _ = root.Close() }()
		if err = root.Remove(sk.Path); err == nil {
			err = syncFolder(root, path.Dir(sk.Path))
		}
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return own
	case err != nil:
		return mesh.Errorf(mesh.Unavailable, op, "The file of skill %s could not be removed; check that the skills folder is writable: %w", name, err)
	}
	f.catalog.Remove(name)
	f.wake()
	return nil
}

// wake tells the watchers to look again. The caller holds mu.
func (f *SkillFolder) wake() {
	for w := range f.watchers {
		select {
		case w <- struct{}{}:
		default:
		}
	}
}

// Watch implements [Skills]. Nothing is buffered: a slow reader skips what was
// replaced meanwhile.
func (f *SkillFolder) Watch(ctx context.Context) iter.Seq2[SkillChange, error] {
	return func(yield func(SkillChange, error) bool) {
		wake := make(chan struct{}, 1)
		f.mu.Lock()
		f.watchers[wake] = struct{}{}
		f.mu.Unlock()
		defer func() {
			f.mu.Lock()
			delete(f.watchers, wake)
			f.mu.Unlock()
		}()
		told := map[string]*skill.Skill{}
		for synced := false; ; {
			for _, c := range skillNews(told, f.catalog.List()) {
				if !yield(c, nil) {
					return
				}
			}
			if !synced && !yield(SkillChange{Kind: SkillsSynced}, nil) {
				return
			}
			synced = true
			select {
			case <-wake:
			case <-ctx.Done():
				yield(SkillChange{}, mesh.Wrap("service.SkillFolder.Watch", ctx.Err()))
				return
			}
		}
	}
}

// skillNews brings told up to date with now and returns what is to be told.
func skillNews(told map[string]*skill.Skill, now []*skill.Skill) []SkillChange {
	var changes []SkillChange
	there := make(map[string]bool, len(now))
	for _, s := range now {
		there[s.Name] = true
	}
	for name, s := range told {
		if !there[name] {
			delete(told, name)
			changes = append(changes, SkillChange{SkillRemoved, s})
		}
	}
	for _, s := range now {
		if told[s.Name] != s {
			told[s.Name] = s
			changes = append(changes, SkillChange{SkillPut, s})
		}
	}
	return changes
}
