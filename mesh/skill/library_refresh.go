package skill

import (
	"context"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/alarm"
)

// Changes are what came of reading skill files again, by name. Whose skills
// they are, their Tenant says.
type Changes struct {
	// Put were added or changed.
	Put []*Skill
	// Removed are gone, or another file has taken their place.
	Removed []*Skill
}

// For returns the changes that the tenant may know of: the shared ones and its
// own.
func (c Changes) For(t mesh.TenantID) Changes {
	foreign := func(s *Skill) bool { return s.Tenant != "" && s.Tenant != t }
	return Changes{slices.DeleteFunc(slices.Clone(c.Put), foreign), slices.DeleteFunc(slices.Clone(c.Removed), foreign)}
}

// joined returns all changes as one, by name.
func joined(all []Changes) Changes {
	var c Changes
	for _, one := range all {
		c.Put, c.Removed = append(c.Put, one.Put...), append(c.Removed, one.Removed...)
	}
	for _, list := range [][]*Skill{c.Put, c.Removed} {
		slices.SortStableFunc(list, func(a, b *Skill) int { return strings.Compare(a.Name, b.Name) })
	}
	return c
}

// Reload looks for changed files everywhere, reads these, and returns what came
// of it. It is not needed while Run runs. When ctx ends, what has been read so
// far counts, and the error is the context's.
func (l *Library) Reload(ctx context.Context) (Changes, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c, err := l.refreshAll(ctx, nil)
	return c, mesh.Wrap("skill.Library.Reload", err)
}

// refreshAll looks at all files. It calls entered, unless it is nil, with the
// path of each folder before it is read. The caller holds mu.
func (l *Library) refreshAll(ctx context.Context, entered func(dir string)) (Changes, error) {
	var dirty []dirt
	for _, f := range l.folders {
		dirty = append(dirty, dirt{l.shared, f.src, f.dir, []string{"."}})
	}
	dirty = append(dirty, l.tenantDirt(ctx, entered)...)
	return l.refresh(ctx, dirty, entered)
}

// dirt is where files of a source may have changed.
type dirt struct {
	realm *realm
	src   *source
	dir   string
	paths []string
}

// tenantDirt is all folders of tenants that there are or were.
func (l *Library) tenantDirt(ctx context.Context, entered func(dir string)) []dirt {
	if l.tenantDir == "" {
		return nil
	}
	if entered != nil {
		entered(l.tenantDir)
	}
	list, err := os.ReadDir(l.tenantDir)
	l.alarms.Report(ctx, alarm.Source{Setting: "tenant_skills"}, "the skills of tenants stay as they were", err)
	if l.tenantsAway = err != nil; l.tenantsAway {
		return nil
	}
	found := map[mesh.TenantID]bool{}
	for _, d := range list {
		if t, ok := tenantOf(d.Name()); ok && d.IsDir() {
			found[t] = true
		} else if !strings.HasPrefix(d.Name(), ".") {
			l.warnOnce("not the folder of a tenant; see how capitals are written", filepath.Join(l.tenantDir, d.Name()))
		}
	}
	for r := range l.realms() {
		if r != l.shared && len(r.sources[0].records) > 0 {
			found[r.tenant] = true
		}
	}
	var all []dirt
	for _, t := range slices.Sorted(maps.Keys(found)) {
		all = append(all, l.tenantDirtOf(t, "."))
	}
	return all
}

func (l *Library) warnOnce(problem, path string) {
	if !l.warned[path] {
		l.warned[path] = true
		l.logger.Warn(problem, "path", path)
	}
}

func (l *Library) tenantDirtOf(t mesh.TenantID, path string) dirt {
	r := l.realm(t)
	return dirt{r, r.sources[0], filepath.Join(l.tenantDir, tenantFolder(t)), []string{path}}
}

// refresh reads the files anew where they may have changed, and publishes each
// realm once. The caller holds mu.
func (l *Library) refresh(ctx context.Context, dirty []dirt, entered func(dir string)) (Changes, error) {
	realms := map[*realm]bool{l.shared: true}
	var err error
	for _, d := range dirty {
		if err = ctx.Err(); err != nil {
			break
		}
		realms[d.realm] = true
		s := refreshing{paths: d.paths, now: l.now()}
		if entered != nil {
			s.entered = func(dir string) { entered(filepath.Join(d.dir, filepath.FromSlash(dir))) }
		}
		d.realm.refresh(d.src, s)
	}
	var all []Changes
	for r := range realms {
		all = append(all, r.settle())
	}
	c := joined(all)
	if len(c.Put)+len(c.Removed) > 0 {
		l.logger.Info("skills loaded", "put", len(c.Put), "removed", len(c.Removed))
	}
	l.report(ctx)
	return c, err
}

// report tells whether all shared skills can be read. Files of tenants are no matter of the
// operator's.
func (l *Library) report(ctx context.Context) {
	var err error
	if all := l.shared.list(); len(all) > 0 {
		err = mesh.Errorf(mesh.Invalid, "skill.Library", "%d files cannot be loaded; the first is %s, line %d: %s", len(all), all[0].Path, all[0].Line, all[0].Detail)
	}
	l.alarms.Report(ctx, alarm.Source{Setting: "skills"}, "what could be read of these skills before goes on to count", err)
}

// maxPaths is how many changed paths of a source are looked at one by one.
// With more, looking at all its files is less work.
const maxPaths = 64

// locate sorts paths on disk by source. It returns false if it cannot tell, and
// all files have to be looked at.
func (l *Library) locate(paths []string) ([]dirt, bool) {
	bySource := map[*source]*dirt{}
	for _, p := range paths {
		d, ok := l.locateOne(p)
		if !ok {
			return nil, false
		}
		if known := bySource[d.src]; known == nil {
			bySource[d.src] = &d
		} else if len(known.paths) < maxPaths {
			known.paths = append(known.paths, d.paths...)
		} else {
			known.paths = append(known.paths[:0], ".")
		}
	}
	var all []dirt
	for _, d := range bySource {
		if slices.Contains(d.paths, ".") {
			d.paths = []string{"."}
		}
		all = append(all, *d)
	}
	return all, true
}

func (l *Library) locateOne(p string) (dirt, bool) {
	for _, f := range l.folders {
		if rel, ok := relative(p, f.dir); ok {
			return dirt{l.shared, f.src, f.dir, []string{rel}}, true
		}
	}
	if l.tenantDir == "" {
		return dirt{}, false
	}
	if rel, ok := relative(p, l.tenantDir); ok {
		folder, rest, _ := strings.Cut(rel, "/")
		if t, ok := tenantOf(folder); ok {
			if rest == "" {
				rest = "."
			}
			return l.tenantDirtOf(t, rest), true
		}
	}
	return dirt{}, false
}

// refreshOne reads one file of a tenant. The caller holds mu.
func (l *Library) refreshOne(t mesh.TenantID, file string) {
	// Only the end of a context makes refresh fail.
	_, _ = l.refresh(context.Background(), []dirt{l.tenantDirtOf(t, file)}, nil)
}

// Find returns a skill that the tenant may use. It looks at the file of one that it
// does not know, which another process may just have created in the folder.
func (l *Library) Find(t mesh.TenantID, name string) (*Skill, bool) {
	if sk, ok := l.For(t).Get(name); ok || l.tenantDir == "" || t.Validate() != nil {
		return sk, ok
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.find(t, name)
}

// find is Find in the tenant's folder. The caller holds mu.
func (l *Library) find(t mesh.TenantID, name string) (*Skill, bool) {
	catalog := l.realm(t).catalog
	if sk, ok := catalog.Get(name); ok || !validName(name) {
		return sk, ok
	}
	l.refreshOne(t, pathOf(name))
	return catalog.Get(name)
}

// isGone reports whether the error says that there is no such file.
func isGone(err error) bool { return errors.Is(err, fs.ErrNotExist) }
