package skill

import (
	"cmp"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"agentmesh/mesh"
)

// A Catalog holds skills by name. Readers see a snapshot and never wait;
// writers take turns. The skills in it are shared: nobody changes them, and who
// has got one keeps that version, whatever the catalog says later. The zero
// Catalog is empty and ready. One of a [Library] is changed through that only.
type Catalog struct {
	// under has what the catalog itself has not, or is nil.
	under   *Catalog
	writers sync.Mutex
	own     atomic.Pointer[snapshot]
	// joined is the snapshot of both, as of when it was last needed.
	joined atomic.Pointer[joint]
}

type joint struct{ own, under, both *snapshot }

// Load reads the skills of all file systems. Where two have a skill or domain
// of the same name, the earlier one wins. Files that cannot be read or are not
// valid are returned as problems, in the order of their paths; all others are
// in the catalog.
func Load(fsys ...fs.FS) (*Catalog, []Problem) {
	r := newRealm("", new(Catalog), slog.New(slog.DiscardHandler))
	for _, sys := range fsys {
		r.add(fixed(sys))
	}
	for _, src := range r.sources {
		r.refresh(src, refreshing{paths: []string{"."}, now: time.Now()})
	}
	r.settle()
	return r.catalog, r.list()
}

func (c *Catalog) snapshot() *snapshot {
	own := c.own.Load()
	if c.under == nil {
		return own
	}
	under := c.under.snapshot()
	if own == nil {
		return under
	}
	if j := c.joined.Load(); j != nil && j.own == own && j.under == under {
		return j.both
	}
	j := &joint{own, under, own.over(under)}
	c.joined.Store(j)
	return j.both
}

// Get returns the skill of that name, as "mail.send". It allocates nothing.
func (c *Catalog) Get(name string) (*Skill, bool) {
	e, ok := c.snapshot().get(name)
	return e.skill, ok
}

// Len returns how many skills there are.
func (c *Catalog) Len() int { return c.snapshot().size() }

// List returns all skills by name. The slice is the caller's.
func (c *Catalog) List() []*Skill {
	now := c.snapshot()
	list := make([]*Skill, 0, now.size())
	for e := range now.entries() {
		list = append(list, e.skill)
	}
	return list
}

// InDomain returns the skills of a domain by name. The slice is the caller's.
func (c *Catalog) InDomain(domain string) []*Skill {
	shelf := c.snapshot().shelf(domain)
	if shelf == nil {
		return nil
	}
	return shelf.skills()
}

func (s *shelf) skills() []*Skill {
	list := make([]*Skill, len(s.entries))
	for i, e := range s.entries {
		list[i] = e.skill
	}
	return list
}

// Domains returns every domain that has a skill or a SKILL.md, by name. A
// domain without a SKILL.md has a description made of those of its skills, and
// no body.
func (c *Catalog) Domains() []Index {
	var all []Index
	for _, shelf := range c.snapshot().all() {
		all = append(all, shelf.describe(shelf.skills()))
	}
	return all
}

// Domain returns one of Domains.
func (c *Catalog) Domain(name string) (Index, bool) {
	shelf := c.snapshot().shelf(name)
	if shelf == nil {
		return Index{}, false
	}
	return shelf.describe(shelf.skills()), true
}

// MatchDomains returns the domains that have skills which any of the patterns
// includes, by name, each with the number of these skills.
func (c *Catalog) MatchDomains(patterns []string) []Index {
	var all []Index
	for _, shelf := range c.snapshot().all() {
		if found := shelf.match(patterns); len(found) > 0 {
			all = append(all, shelf.describe(found))
		}
	}
	return all
}

// describe tells of the domain to who sees those of its skills.
func (s *shelf) describe(seen []*Skill) Index {
	const shown, most = 3, 160
	ix := Index{Domain: s.domain}
	if s.index != nil {
		ix = *s.index
	} else {
		var does []string
		for _, skill := range seen[:min(len(seen), shown)] {
			does = append(does, strings.TrimRight(skill.Description, "."))
		}
		ix.Description = mesh.Clip(strings.Join(does, "; "), most)
	}
	ix.Skills = len(seen)
	return ix
}

// Search returns the skills whose name, description or tags contain words of
// the query, in any case: those with the most words first, then by name. An
// empty query finds all; of a long one, the first 32 words count.
func (c *Catalog) Search(query string) []*Skill {
	const most = 32
	words := strings.Fields(strings.ToLower(query))
	if len(words) == 0 {
		return c.List()
	}
	words = words[:min(len(words), most)]
	ranks := make([][]*Skill, len(words)) // by how many words are missing
	for e := range c.snapshot().entries() {
		missing := 0
		for _, w := range words {
			if !strings.Contains(e.text, w) {
				missing++
			}
		}
		if missing < len(words) {
			ranks[missing] = append(ranks[missing], e.skill)
		}
	}
	return slices.Concat(ranks...)
}

// Match returns the skills that any of the patterns includes, by name. A
// pattern is a name, "domain.*" or "*", as in [mesh.SkillMatches].
func (c *Catalog) Match(patterns []string) []*Skill {
	var found []*Skill
	for _, shelf := range c.snapshot().all() {
		found = append(found, shelf.match(patterns)...)
	}
	return found
}

func (s *shelf) match(patterns []string) []*Skill {
	var found []*Skill
	for _, p := range patterns {
		if domain, ok := strings.CutSuffix(p, ".*"); p == "*" || ok && domain == s.domain {
			return s.skills()
		}
		if e, ok := s.get(p); ok {
			found = append(found, e.skill)
		}
	}
	slices.SortFunc(found, func(a, b *Skill) int { return cmp.Compare(a.Name, b.Name) })
	return slices.Compact(found)
}

// Put adds the skills, or replaces those of the same names, all at once. The
// caller has validated them and does not change them any more.
func (c *Catalog) Put(skills ...*Skill) {
	e := edits{entries: make(map[string]entry, len(skills))}
	for _, s := range skills {
		e.entries[s.Name] = newEntry(s, nil)
	}
	c.edit(e)
}

// Remove takes the skills out that are there, all at once.
func (c *Catalog) Remove(names ...string) {
	e := edits{entries: make(map[string]entry, len(names))}
	for _, name := range names {
		e.entries[name] = entry{}
	}
	c.edit(e)
}

func (c *Catalog) edit(e edits) {
	c.writers.Lock()
	defer c.writers.Unlock()
	c.own.Store(c.own.Load().with(e))
}
