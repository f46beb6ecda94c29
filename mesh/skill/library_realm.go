package skill

import (
	"cmp"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"agentmesh/mesh"
)

// A realm is the skills that all tenants share, or those of one tenant: some
// sources, and the catalog of what wins among them. All but the catalog, the
// problems and the listeners is guarded by the lock of the library.
type realm struct {
	tenant  mesh.TenantID
	catalog *Catalog
	logger  *slog.Logger
	// handlers reports whether there is such a handler; nil if that is not known.
	handlers func(name string) bool
	sources  []*source
	// skills and indexes say where there is a skill of a name and a SKILL.md of
	// a domain, the winner first.
	skills  map[string][]place
	indexes map[string][]place
	// put are skills that come from no file. Files win.
	put map[string]*Skill
	// names and domains are those whose winner may be another one now.
	names, domains map[string]bool
	trouble        map[place]Problem
	troubled       bool // trouble is newer than problems
	problems       atomic.Pointer[[]Problem]

	listening sync.Mutex
	listeners map[chan struct{}]struct{}
}

// A place is a file of a source.
type place struct {
	src  *source
	path string
}

func (p place) compare(q place) int {
	return cmp.Or(cmp.Compare(p.src.rank, q.src.rank), strings.Compare(p.path, q.path))
}

func newRealm(t mesh.TenantID, c *Catalog, logger *slog.Logger) *realm {
	return &realm{tenant: t, catalog: c, logger: logger,
		skills: map[string][]place{}, indexes: map[string][]place{}, put: map[string]*Skill{},
		names: map[string]bool{}, domains: map[string]bool{}, trouble: map[place]Problem{},
		listeners: map[chan struct{}]struct{}{}}
}

func (r *realm) add(src *source) {
	src.rank = len(r.sources)
	r.sources = append(r.sources, src)
}

// set notes what a file is now; nil is gone.
func (r *realm) set(p place, next *record) {
	if old := p.src.records[p.path]; old != nil {
		r.claim(p, old, false)
	}
	if next == nil {
		delete(p.src.records, p.path)
	} else {
		p.src.records[p.path] = next
		r.claim(p, next, true)
	}
	r.judge(p)
}

// claim says that the skill or domain of the record is at p, or is not.
func (r *realm) claim(p place, rec *record, is bool) {
	edit := func(at map[string][]place, key string, stale map[string]bool) {
		stale[key] = true
		i, found := slices.BinarySearchFunc(at[key], p, place.compare)
		switch {
		case is && !found:
			at[key] = slices.Insert(at[key], i, p)
		case !is && found && len(at[key]) == 1:
			delete(at, key)
		case !is && found:
			at[key] = slices.Delete(at[key], i, i+1)
		}
	}
	if rec.skill != nil {
		edit(r.skills, rec.skill.Name, r.names)
	}
	if rec.index != nil {
		edit(r.indexes, rec.index.Domain, r.domains)
	}
}

// judge keeps the problems up to date with one file.
func (r *realm) judge(p place) {
	if rec := p.src.records[p.path]; rec != nil {
		if bad, is := rec.problem(p); is {
			if r.trouble[p] != bad {
				r.logger.Warn("skill file not loaded", "tenant", r.tenant, "path", bad.Path, "line", bad.Line, "problem", bad.Detail)
				r.troubled = true
			}
			r.trouble[p] = bad
			return
		}
	}
	if _, was := r.trouble[p]; was {
		delete(r.trouble, p)
		r.troubled = true
	}
}

// settle publishes what has changed, and tells the listeners.
func (r *realm) settle() Changes {
	e := edits{entries: map[string]entry{}, indexes: map[string]*Index{}}
	var c Changes
	before := r.catalog.own.Load()
	for name := range r.names {
		is, was := r.winner(name), entry{}
		if e, ok := before.get(name); ok {
			was = e
		}
		switch {
		case is.skill == was.skill && is.from == was.from:
			continue
		case is.skill == nil:
			c.Removed = append(c.Removed, was.skill)
		default:
			c.Put = append(c.Put, is.skill)
		}
		e.entries[name] = is
	}
	for domain := range r.domains {
		var index *Index
		if at := r.indexes[domain]; len(at) > 0 {
			index = at[0].src.records[at[0].path].index
		}
		e.indexes[domain] = index
	}
	clear(r.names)
	clear(r.domains)
	if r.troubled { // before anybody is woken, who may look at them
		r.troubled = false
		r.publishProblems()
	}
	if len(e.entries) > 0 || len(e.indexes) > 0 {
		r.catalog.edit(e)
		r.wake()
	}
	return c
}

// winner returns the skill of that name, and marks the files that lose to
// another of their own source.
func (r *realm) winner(name string) entry {
	at := r.skills[name]
	for i, p := range at {
		rec, twin := p.src.records[p.path], ""
		if i > 0 && at[i-1].src == p.src {
			twin = at[i-1].path
		}
		if rec.twin != twin {
			rec.twin = twin
			r.judge(p)
		}
	}
	put := r.put[name]
	if len(at) > 0 {
		if put != nil {
			r.logger.Warn("a skill cannot be used, for a file has one of the same name; rename one of them",
				"skill", name, "file", at[0].path, "handler of the other", put.Handler)
		}
		return newEntry(at[0].src.records[at[0].path].skill, at[0].src)
	}
	if put != nil {
		return newEntry(put, nil)
	}
	return entry{}
}

func (r *realm) publishProblems() {
	places := slices.SortedFunc(maps.Keys(r.trouble), place.compare)
	all := make([]Problem, len(places))
	for i, p := range places {
		all[i] = r.trouble[p]
	}
	r.problems.Store(&all)
}

// list returns the problems as of when the realm last settled.
func (r *realm) list() []Problem {
	if all := r.problems.Load(); all != nil {
		return slices.Clone(*all)
	}
	return nil
}

// listen has the channel told of each change until stop is called.
func (r *realm) listen(wake chan struct{}) (stop func()) {
	r.listening.Lock()
	defer r.listening.Unlock()
	r.listeners[wake] = struct{}{}
	return func() {
		r.listening.Lock()
		defer r.listening.Unlock()
		delete(r.listeners, wake)
	}
}

func (r *realm) wake() {
	r.listening.Lock()
	defer r.listening.Unlock()
	for w := range r.listeners {
		select {
		case w <- struct{}{}:
		default:
		}
	}
}
