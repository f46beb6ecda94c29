package skill

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"time"
)

// A source is one tree of skill files, and what was last read of it. Its
// records are guarded by the lock of the library.
type source struct {
	// rank is the position in the realm: of two skills of one name, that of
	// the lower rank wins.
	rank int
	// open returns the tree; the caller closes it.
	open func() (tree, error)
	// optional says that the tree need not be there: it is empty then.
	optional bool
	records  map[string]*record // by path
}

type tree struct {
	fs.FS
	io.Closer
}

// A record is what is known of one file.
type record struct {
	// skill or index is the file's last good content.
	skill *Skill
	index *Index
	// bad is what is wrong with the file as it is now, and crowded with the
	// files beside it.
	bad     *Problem
	crowded bool
	// twin is a file of the same source that has the same skill and wins.
	twin string
	// sum is the hash of what was read, and the rest how the file looked then.
	sum    [sha256.Size]byte
	unread bool
	size   int64
	mod    time.Time
	at     time.Time
}

// standard reports whether the file makes its folder a skill.
func (r *record) standard() bool { return r != nil && r.skill != nil && isSkillMD(r.skill.Path) }

// settling is how long after a change a file may change again without its time
// showing it.
const settling = 2 * time.Second

// current reports whether the file still is what was read.
func (r *record) current(info fs.FileInfo) bool {
	return r != nil && !r.unread && r.size == info.Size() && r.mod.Equal(info.ModTime()) && r.at.Sub(r.mod) >= settling
}

// fixed is the source of a file system that is there already.
func fixed(fsys fs.FS) *source {
	return &source{open: func() (tree, error) { return tree{fsys, io.NopCloser(nil)}, nil }, records: map[string]*record{}}
}

// folder is the source of a folder on disk. It cannot be left, neither by ".."
// nor by links.
func folder(dir string) *source {
	return &source{records: map[string]*record{}, open: func() (tree, error) {
		root, err := os.OpenRoot(dir)
		if err != nil {
			return tree{}, err
		}
		return tree{root.FS(), root}, nil
	}}
}

// A refreshing brings the records of a source up to date with its files.
type refreshing struct {
	// paths are where files may have changed.
	paths []string
	now   time.Time
	// entered is called with each folder before it is read; it may be nil.
	entered func(dir string)

	fsys  fs.FS
	src   *source
	realm *realm
	seen  map[string]bool
}

// refresh reads what has changed at the paths, and below them. The caller
// settles the realm afterwards.
func (r *realm) refresh(src *source, s refreshing) {
	t, err := src.open()
	if err != nil && src.optional && errors.Is(err, fs.ErrNotExist) {
		for file := range src.records {
			r.set(place{src, file}, nil)
		}
		return
	}
	if err != nil {
		r.set(place{src, "."}, &record{bad: unreadable("."), unread: true})
		return
	}
	defer func() { _ = t.Close() }()
	s.fsys, s.src, s.realm, s.seen = t.FS, src, r, map[string]bool{}
	if src.records["."] != nil {
		s.paths = []string{"."} // the folder could not be read before
	}
	for _, p := range s.paths {
		if p, ok := s.unit(p); ok {
			s.path(p)
		}
	}
}

func unreadable(file string) *Problem {
	return &Problem{Path: file, Detail: "cannot be read; check that it exists and its permissions"}
}

// unit returns what has to be read when something changed at p: the skill's
// folder if p is in one, the folder of a SKILL.md, else p itself. It returns
// false for what is no part of the tree, as files of editors.
func (s *refreshing) unit(p string) (string, bool) {
	parts := strings.Split(p, "/")
	for i, part := range parts {
		dir := path.Join(parts[:i]...)
		switch {
		case s.src.records[path.Join(dir, "SKILL.md")].standard():
			return dir, true
		case part == "..data": // what a mounted ConfigMap swaps to change all files beside it
			return path.Join(".", dir), true
		case part != "." && strings.HasPrefix(part, "."):
			return "", false
		}
	}
	if isSkillMD(p) {
		return path.Dir(p), true
	}
	return p, true
}

// path reads p, whatever it is, and drops what was there and is not any more.
func (s *refreshing) path(p string) {
	known := s.src.records[p] != nil // as a file, so that there was nothing below it
	info, err := fs.Lstat(s.fsys, p)
	switch {
	case p == "." || err == nil && info.IsDir():
		s.dir(p)
		known = false
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		s.keep(p)
	case err == nil && isSkillFile(p):
		s.file(p)
	}
	if !known {
		s.forget(p)
	} else if !s.seen[p] {
		s.realm.set(place{s.src, p}, nil)
	}
}

func isSkillFile(p string) bool {
	return path.Ext(p) == ".md" && path.Base(p) != "README.md" && !strings.HasPrefix(path.Base(p), ".")
}

func (s *refreshing) dir(dir string) {
	if s.entered != nil {
		s.entered(dir)
	}
	list, err := fs.ReadDir(s.fsys, dir)
	if err != nil {
		if dir == "." || !errors.Is(err, fs.ErrNotExist) {
			s.keep(dir)
		}
		return
	}
	index := slices.ContainsFunc(list, func(d fs.DirEntry) bool { return d.Name() == "SKILL.md" && !d.IsDir() })
	if index {
		switch rec := s.file(path.Join(dir, "SKILL.md")); {
		case rec.standard():
			s.files(dir)
			return
		case rec != nil && rec.index == nil && (strings.Contains(dir, "/") || dir != "." && !ValidPart(dir)):
			return // a broken skill, and no domain: what else is here belongs to it
		}
	}
	for _, d := range list {
		p := path.Join(dir, d.Name())
		switch {
		case strings.HasPrefix(d.Name(), "."):
		case d.IsDir():
			s.dir(p)
		case isSkillFile(p) && !isSkillMD(p):
			s.file(p)
		}
	}
}

// keep leaves everything at and below p as it was, because it cannot be read.
func (s *refreshing) keep(p string) {
	for file := range s.src.records {
		if within(file, p) {
			s.seen[file] = true
		}
	}
	s.seen[p] = true
	next := record{}
	if old := s.src.records[p]; old != nil {
		next = *old
	}
	next.bad, next.unread = unreadable(p), true
	s.realm.set(place{s.src, p}, &next)
}

// forget drops what was at or below p and is not any more.
func (s *refreshing) forget(p string) {
	for file := range s.src.records {
		if within(file, p) && !s.seen[file] {
			s.realm.set(place{s.src, file}, nil)
		}
	}
}

func within(file, dir string) bool {
	return dir == "." || file == dir || strings.HasPrefix(file, dir) && file[len(dir)] == '/'
}

// file reads a file unless it is as it was. What it returns is nil if there is
// no file.
func (s *refreshing) file(name string) *record {
	old := s.src.records[name]
	info, err := fs.Stat(s.fsys, name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	s.seen[name] = true
	if err == nil && old.current(info) {
		return old
	}
	next := &record{at: s.now, unread: true}
	if old != nil {
		next.skill, next.index = old.skill, old.index
	}
	var data []byte
	if err != nil {
		next.bad = unreadable(name)
	} else if data, next.bad = readBounded(s.fsys, name, info); next.bad == nil {
		next.unread, next.size, next.mod, next.sum = false, info.Size(), info.ModTime(), sha256.Sum256(data)
		if old != nil && !old.unread && old.sum == next.sum {
			old.mod, old.at = next.mod, next.at
			return old
		}
		next.read(name, data, s.realm)
	}
	s.realm.set(place{s.src, name}, next)
	return next
}

// read takes the content, or says why it does not.
func (r *record) read(name string, data []byte, realm *realm) {
	var skill *Skill
	var index *Index
	if isSkillMD(name) {
		skill, index, r.bad = parseSkillMD(name, data)
	} else {
		skill, r.bad = parse(name, data)
	}
	switch {
	case r.bad != nil || skill == nil || skill.Handler == "":
	case realm.tenant != "":
		r.bad = noTemplate(skill) // as for those that are created
	default:
		r.bad = CheckHandler(skill, realm.handlers)
	}
	if r.bad != nil {
		return
	}
	r.skill, r.index = skill, index
	if skill != nil {
		skill.Tenant = realm.tenant
	}
}

// readBounded reads a regular file of at most MaxFile bytes.
func readBounded(fsys fs.FS, name string, info fs.FileInfo) ([]byte, *Problem) {
	switch {
	case !info.Mode().IsRegular():
		return nil, &Problem{Path: name, Detail: "is not a regular file; replace it by one"}
	case info.Size() > MaxFile:
		return nil, &Problem{Path: name, Detail: "is too long for a skill; split it or shorten it"}
	}
	file, err := fsys.Open(name)
	if err != nil {
		return nil, unreadable(name)
	}
	data, err := io.ReadAll(io.LimitReader(file, MaxFile+1))
	if errors.Join(err, file.Close()) != nil {
		return nil, unreadable(name)
	}
	if len(data) > MaxFile {
		return nil, &Problem{Path: name, Detail: "is too long for a skill; split it or shorten it"}
	}
	return data, nil
}

// files lists what belongs to the skill in the folder.
func (s *refreshing) files(dir string) {
	at := path.Join(dir, "SKILL.md")
	rec := s.src.records[at]
	var list []string
	// The callback returns no other errors than these two.
	_ = fs.WalkDir(s.fsys, dir, func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil || p != dir && strings.HasPrefix(d.Name(), "."):
			if d != nil && d.IsDir() {
				return fs.SkipDir
			}
		case d.IsDir():
			if p != dir && s.entered != nil {
				s.entered(p)
			}
		case len(list) > MaxFiles:
			return fs.SkipAll
		case p != at:
			if info, err := fs.Stat(s.fsys, p); err == nil && info.Mode().IsRegular() {
				list = append(list, strings.TrimPrefix(p, dir+"/"))
			}
		}
		return nil
	})
	crowded := len(list) > MaxFiles
	if crowded {
		list = rec.skill.Files
	}
	slices.Sort(list)
	next := *rec
	next.crowded = crowded
	if !slices.Equal(list, rec.skill.Files) {
		skill := *rec.skill
		skill.Files, next.skill = list, &skill
	}
	if next != *rec {
		s.realm.set(place{s.src, at}, &next)
	}
}

// problem returns what is wrong with the file, or false.
func (r *record) problem(p place) (Problem, bool) {
	switch {
	case r.bad != nil:
		return *r.bad, true
	case r.crowded:
		return Problem{Path: p.path, Detail: fmt.Sprintf("has more than %d files in its folder; remove some", MaxFiles)}, true
	case r.twin != "":
		return Problem{Path: p.path, Line: 1, Detail: "the skill " + r.skill.Name + " is also in " + r.twin + "; remove one"}, true
	}
	return Problem{}, false
}
