package skill

import (
	"cmp"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"agentmesh/mesh"
)

// A Catalog holds skills by name. Readers see a snapshot and never wait;
// writers take turns. The skills in it are shared: nobody changes them. The
// zero Catalog is empty and ready.
type Catalog struct {
	writers sync.Mutex
	current atomic.Pointer[snapshot]
}

// A snapshot is immutable.
type snapshot struct {
	skills  map[string]*Skill
	sorted  []*Skill
	indexes map[string]Index
}

// Load reads the skills of all file systems. Where two have a skill or domain
// of the same name, the earlier one wins. Files that cannot be read or are not
// valid are returned as problems, in the order of their paths; all others are
// in the catalog.
func Load(fsys ...fs.FS) (*Catalog, []Problem) {
	all := snapshot{skills: make(map[string]*Skill), indexes: make(map[string]Index)}
	var problems []Problem
	for _, sys := range fsys {
		l := loader{fsys: sys, found: snapshot{skills: make(map[string]*Skill), indexes: make(map[string]Index)}}
		l.walk()
		problems = append(problems, l.problems...)
		maps.Copy(l.found.skills, all.skills)
		maps.Copy(l.found.indexes, all.indexes)
		all = l.found
	}
	c := new(Catalog)
	c.current.Store(newSnapshot(all.skills, all.indexes))
	return c, problems
}

// A loader reads one file system.
type loader struct {
	fsys     fs.FS
	found    snapshot
	problems []Problem
}

func (l *loader) walk() {
	// The callback returns only SkipDir, so WalkDir has no error of its own.
	_ = fs.WalkDir(l.fsys, ".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			l.problems = append(l.problems, Problem{Path: file, Detail: "cannot be read; check that it exists and its permissions"})
			if d != nil && d.IsDir() {
				return fs.SkipDir
			}
		case file != "." && strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
		case !d.IsDir() && path.Ext(file) == ".md" && d.Name() != "README.md":
			l.read(file)
		}
		return nil
	})
}

func (l *loader) read(file string) {
	data, bad := l.content(file)
	if bad == nil && path.Base(file) == "SKILL.md" {
		var ix *Index
		if ix, bad = parseIndex(file, data); bad == nil {
			l.found.indexes[ix.Domain] = *ix
		}
	} else if bad == nil {
		var s *Skill
		if s, bad = parse(file, data); bad == nil {
			if twin, twice := l.found.skills[s.Name]; twice {
				bad = &Problem{Path: file, Line: 1, Detail: "the skill " + s.Name + " is also in " + twin.Path + "; remove one"}
			} else {
				l.found.skills[s.Name] = s
			}
		}
	}
	if bad != nil {
		l.problems = append(l.problems, *bad)
	}
}

func (l *loader) content(file string) ([]byte, *Problem) {
	info, err := fs.Stat(l.fsys, file)
	switch {
	case err != nil:
		return nil, &Problem{Path: file, Detail: "cannot be read; check that it exists and its permissions"}
	case !info.Mode().IsRegular():
		return nil, &Problem{Path: file, Detail: "is not a regular file; replace it by one"}
	case info.Size() > MaxFile:
		return nil, &Problem{Path: file, Detail: "is too long for a skill; split it or shorten it"}
	}
	data, err := fs.ReadFile(l.fsys, file)
	if err != nil {
		return nil, &Problem{Path: file, Detail: "cannot be read; check its permissions"}
	}
	return data, nil
}

func newSnapshot(skills map[string]*Skill, indexes map[string]Index) *snapshot {
	sorted := slices.SortedFunc(maps.Values(skills), func(a, b *Skill) int { return cmp.Compare(a.Name, b.Name) })
	return &snapshot{skills: skills, sorted: sorted, indexes: indexes}
}

func (c *Catalog) snapshot() *snapshot {
	if s := c.current.Load(); s != nil {
		return s
	}
	return new(snapshot)
}

// Get returns the skill of that name, as "mail.send".
func (c *Catalog) Get(name string) (*Skill, bool) {
	s, ok := c.snapshot().skills[name]
	return s, ok
}

// List returns all skills by name. The slice is the caller's.
func (c *Catalog) List() []*Skill { return slices.Clone(c.snapshot().sorted) }

// Domains returns every domain that has a skill or a SKILL.md, by name. A
// domain without a SKILL.md has no description.
func (c *Catalog) Domains() []Index {
	now := c.snapshot()
	all := maps.Clone(now.indexes)
	if all == nil {
		all = make(map[string]Index)
	}
	for _, s := range now.sorted {
		if _, ok := all[s.Domain]; !ok {
			all[s.Domain] = Index{Domain: s.Domain}
		}
	}
	return slices.SortedFunc(maps.Values(all), func(a, b Index) int { return cmp.Compare(a.Domain, b.Domain) })
}

// Search returns the skills whose name, description or tags contain words of
// the query, in any case: those with the most words first, then by name. An
// empty query finds all.
func (c *Catalog) Search(query string) []*Skill {
	words := strings.Fields(strings.ToLower(query))
	if len(words) == 0 {
		return c.List()
	}
	hits := make(map[*Skill]int)
	var found []*Skill
	for _, s := range c.snapshot().sorted {
		text := strings.ToLower(s.Name + "\n" + s.Description + "\n" + strings.Join(s.Tags, "\n"))
		for _, w := range words {
			if strings.Contains(text, w) {
				hits[s]++
			}
		}
		if hits[s] > 0 {
			found = append(found, s)
		}
	}
	slices.SortStableFunc(found, func(a, b *Skill) int { return cmp.Compare(hits[b], hits[a]) })
	return found
}

// Match returns the skills that any of the patterns includes, by name. A
// pattern is a name, "domain.*" or "*", as in [mesh.SkillMatches].
func (c *Catalog) Match(patterns []string) []*Skill {
	var found []*Skill
	for _, s := range c.snapshot().sorted {
		if slices.ContainsFunc(patterns, func(p string) bool { return mesh.SkillMatches(p, s.Name) }) {
			found = append(found, s)
		}
	}
	return found
}

// Put adds the skill, or replaces the one of the same name. The caller has
// validated it and does not change it any more.
func (c *Catalog) Put(s *Skill) {
	c.change(func(skills map[string]*Skill) { skills[s.Name] = s })
}

// Remove takes the skill out, if it is there.
func (c *Catalog) Remove(name string) {
	c.change(func(skills map[string]*Skill) { delete(skills, name) })
}

func (c *Catalog) change(edit func(map[string]*Skill)) {
	c.writers.Lock()
	defer c.writers.Unlock()
	now := c.snapshot()
	skills := make(map[string]*Skill, len(now.skills)+1)
	maps.Copy(skills, now.skills)
	edit(skills)
	c.current.Store(newSnapshot(skills, now.indexes))
}
