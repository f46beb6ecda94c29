package skill

import (
	"context"
	"errors"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/alarm"
)

// A Library is all skills of a mesh: those that all tenants share, from folders
// and from what is built into the program, and each tenant's own, from a folder
// of folders, DIR/TENANT/DOMAIN/ACTION.md. While [Library.Run] runs it follows
// the files: what is edited is there within a second. An edit that is not valid
// becomes a [Problem], and the skill stays as it was; so do all skills of a folder
// that goes away, and it is read again within seconds when it comes back. It is safe for concurrent
// use; readers never wait for files.
type Library struct {
	logger *slog.Logger
	now    func() time.Time
	poll   time.Duration
	// watch makes the watcher of Run.
	watch func() (*watcher, error)

	shared    *realm
	folders   []watchedFolder // of shared
	tenantDir string
	tenants   sync.Map // mesh.TenantID to *realm

	mu          sync.Mutex      // held by who reads or writes skill files
	warned      map[string]bool // paths that the log has a warning of
	alarms      *alarm.Set
	tenantsAway bool // tenantDir cannot be read
}

// A watchedFolder is a source of the shared skills that is on disk.
type watchedFolder struct {
	dir string
	src *source
}

// LibraryOptions say where the skills are.
type LibraryOptions struct {
	// Folders are on disk and followed. Of two skills of one name, that of the
	// earlier folder wins. A folder that does not exist is made.
	Folders []string
	// Shared come after Folders. They are read once.
	Shared []fs.FS
	// TenantDir has a folder for each tenant; a tenant's own skill wins over a
	// shared one, and is a template. A capital letter is written as '+' and the small one, a '.' at
	// the beginning as "+."; the tenant Acme's folder is "+acme". Empty is for
	// no skills of tenants.
	TenantDir string
	// Handlers reports whether there is a handler of that name. A file of a shared
	// skill that names another one is a [Problem], and the skill stays as it was.
	// Nil is for not knowing: any will do. It is called concurrently, and must
	// answer the same each time.
	Handlers func(name string) bool
	// Logger is told of changes and problems. Nil discards.
	Logger *slog.Logger
	// Alarms are told of shared skills, and folders, that cannot be read. Nil is none.
	Alarms *alarm.Set
	// Poll is how often the files are looked at where the system does not tell
	// when they change. 0 is 2 seconds.
	Poll time.Duration
	// Now tells the time. Nil is time.Now.
	Now func() time.Time
}

// OpenLibrary reads all skills. Files that cannot be loaded are no error; see
// [Library.Problems]. The error is Precondition if a folder can neither be read
// nor made, and Invalid if TenantDir and a folder overlap, for then tenants
// would share what is their own.
func OpenLibrary(o LibraryOptions) (*Library, error) {
	const op = "skill.OpenLibrary"
	l := &Library{logger: o.Logger, alarms: o.Alarms, now: o.Now, poll: o.Poll, watch: newWatcher, warned: map[string]bool{}}
	if l.logger == nil {
		l.logger = slog.New(slog.DiscardHandler)
	}
	if l.now == nil {
		l.now = time.Now
	}
	if l.poll <= 0 {
		l.poll = defaultPoll
	}
	l.shared = newRealm("", new(Catalog), l.logger)
	l.shared.handlers = o.Handlers
	for _, dir := range o.Folders {
		dir, err := makeFolder(dir)
		if err != nil {
			return nil, mesh.Wrap(op, err)
		}
		src := folder(dir)
		l.shared.add(src)
		l.folders = append(l.folders, watchedFolder{dir, src})
	}
	for _, fsys := range o.Shared {
		src := fixed(fsys)
		l.shared.add(src)
		l.shared.refresh(src, refreshing{paths: []string{"."}, now: l.now()})
	}
	if o.TenantDir != "" {
		dir, err := makeFolder(o.TenantDir)
		if err != nil {
			return nil, mesh.Wrap(op, err)
		}
		l.tenantDir = dir
		if err := l.sweep(); err != nil {
			l.logger.Warn("what was left half written among the skills of tenants cannot be removed", "err", err)
		}
		for _, f := range l.folders {
			if below(f.dir, dir) || below(dir, f.dir) {
				return nil, mesh.InvalidField(op, "TenantDir",
					"the skills of tenants, in %s, overlap with the shared ones in %s; choose another folder", dir, f.dir)
			}
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	_, err := l.refreshAll(context.Background(), nil)
	return l, err
}

// makeFolder returns the folder's true path.
func makeFolder(dir string) (string, error) {
	dir, err := filepath.Abs(dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err == nil {
		dir, err = filepath.EvalSymlinks(dir)
	}
	if err != nil {
		return "", mesh.Errorf(mesh.Precondition, "skill.makeFolder",
			"the skills folder %s cannot be made; check its permissions or choose another: %w", dir, err)
	}
	return dir, nil
}

// below reports whether the file is the folder or in it.
func below(file, dir string) bool {
	_, ok := relative(file, dir)
	return ok
}

// relative returns the path of the file within the folder, with slashes.
func relative(file, dir string) (string, bool) {
	rel, err := filepath.Rel(dir, file)
	if err != nil || !filepath.IsLocal(rel) {
		return "", false
	}
	return filepath.ToSlash(rel), true
}

// For returns the skills of a tenant: the shared ones and its own. The catalog
// stays current. With "", and for what is no tenant, it has the shared ones.
func (l *Library) For(t mesh.TenantID) *Catalog {
	if r := l.realm(t); r != nil {
		return r.catalog
	}
	return l.shared.catalog
}

// realm returns the tenant's own skills, or nil if t cannot have any.
func (l *Library) realm(t mesh.TenantID) *realm {
	if r, ok := l.tenants.Load(t); ok {
		return r.(*realm)
	}
	if l.tenantDir == "" || t.Validate() != nil {
		return nil
	}
	r := newRealm(t, &Catalog{under: l.shared.catalog}, l.logger)
	r.add(l.tenantSource(t))
	kept, _ := l.tenants.LoadOrStore(t, r)
	return kept.(*realm)
}

// tenantSource reads the tenant's folder. A link in its place is not followed:
// it might lead to another tenant's.
func (l *Library) tenantSource(t mesh.TenantID) *source {
	return &source{optional: true, records: map[string]*record{}, open: func() (tree, error) {
		root, err := openTenant(l.tenantDir, t)
		if err != nil {
			return tree{}, err
		}
		return tree{root.FS(), root}, nil
	}}
}

func openTenant(dir string, t mesh.TenantID) (*os.Root, error) {
	all, err := os.OpenRoot(dir)
	if err != nil {
		// Not an error of the tenant's folder, which may rightly be missing.
		return nil, errors.New("the folder of tenants cannot be opened: " + err.Error())
	}
	defer func() { _ = all.Close() }()
	info, err := all.Lstat(tenantFolder(t))
	if err != nil {
		return nil, err
	}
	if !info.IsDir() {
		return nil, errors.New("a tenant's folder is not a folder")
	}
	return all.OpenRoot(tenantFolder(t))
}

// tenantFolder returns the name of the tenant's folder, which is another one
// for each tenant also where the file system does not tell capitals apart.
func tenantFolder(t mesh.TenantID) string {
	var b strings.Builder
	for i, r := range string(t) {
		if r >= 'A' && r <= 'Z' || r == '.' && i == 0 {
			b.WriteByte('+')
		}
		b.WriteRune(r)
	}
	return strings.ToLower(b.String())
}

// tenantOf returns whose folder it is, or false.
func tenantOf(folder string) (mesh.TenantID, bool) {
	var b strings.Builder
	for i, part := range strings.Split(folder, "+") {
		if i > 0 && part != "" {
			part = strings.ToUpper(part[:1]) + part[1:]
		}
		b.WriteString(part)
	}
	t := mesh.TenantID(b.String())
	return t, t.Validate() == nil && tenantFolder(t) == folder
}

// realms yields the shared skills and those of every tenant that has been seen.
func (l *Library) realms() iter.Seq[*realm] {
	return func(yield func(*realm) bool) {
		if !yield(l.shared) {
			return
		}
		l.tenants.Range(func(_, r any) bool { return yield(r.(*realm)) })
	}
}

// Tenants returns the tenants that have skills of their own, by name.
func (l *Library) Tenants() []mesh.TenantID {
	var all []mesh.TenantID
	for r := range l.realms() {
		if r != l.shared && r.catalog.own.Load().size() > 0 {
			all = append(all, r.tenant)
		}
	}
	slices.Sort(all)
	return all
}

// Problems returns the files that could not be loaded: those of the shared
// skills, and then those of the tenant, if t is one. The last good version of
// such a file, if the library has seen one, is still there.
func (l *Library) Problems(t mesh.TenantID) []Problem {
	all := l.shared.list()
	if r := l.realm(t); r != nil {
		all = append(all, r.list()...)
	}
	return all
}

// Put adds shared skills that come from no file, or replaces them, all at once.
// The caller has validated them. A file with a skill of the same name wins. A
// skill that has no Source gets the one that [Render] writes, and its Version.
func (l *Library) Put(skills ...*Skill) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range skills {
		if s.Source == nil || s.Version == "" {
			named := *s
			if named.Source == nil {
				named.Source = Render(s)
			}
			named.Version = versionOf(slices.Concat(named.Source, s.Schema))
			s = &named
		}
		l.shared.put[s.Name] = s
		l.shared.names[s.Name] = true
	}
	l.shared.settle()
}

// Remove takes skills out that Put added, all at once.
func (l *Library) Remove(names ...string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range names {
		delete(l.shared.put, name)
		l.shared.names[name] = true
	}
	l.shared.settle()
}

// ReadFile returns one of the files that belong to a skill of the tenant, by
// its path as in [Skill.Files]. No other file can be read, whatever the path
// says. The error is NotFound, or Invalid for files of more than MaxFile bytes.
func (l *Library) ReadFile(t mesh.TenantID, name, file string) ([]byte, error) {
	const op = "skill.Library.ReadFile"
	e, ok := l.For(t).snapshot().get(name)
	if !ok {
		return nil, notFound(op, name)
	}
	missing := mesh.Errorf(mesh.NotFound, op, "Skill %s has no file %q; it has: %s", name, clip(file), clip(strings.Join(e.skill.Files, ", ")))
	missing.Field = "file"
	if e.from == nil || !slices.Contains(e.skill.Files, file) {
		return nil, missing
	}
	in, err := e.from.open()
	if err != nil {
		return nil, missing
	}
	defer func() { _ = in.Close() }()
	at := strings.TrimSuffix(e.skill.Path, "SKILL.md") + file
	info, err := fs.Stat(in.FS, at)
	if err != nil {
		return nil, missing
	}
	data, bad := readBounded(in.FS, at, info)
	if bad != nil {
		return nil, mesh.InvalidField(op, "file", "%s %s", clip(file), bad.Detail)
	}
	return data, nil
}

func notFound(op, name string) *mesh.Error {
	return &mesh.Error{Code: mesh.NotFound, Op: op, Field: "name",
		Detail: "Skill not found; check the name in the list of skills: " + clip(name)}
}
