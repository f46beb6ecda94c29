package skill

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"

	"agentmesh/mesh"
	"agentmesh/mesh/alarm"
)

// leaf is the file of a skill.
func leaf(name, description string) string {
	return "---\nname: " + name + "\ndescription: " + description + "\n---\n\nbody\n"
}

func save(t testing.TB, file, text string) {
	t.Helper()
	if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// A desk is a library that runs, and who looks at the skills of a tenant.
type desk struct {
	*Library
	dir, tenants string
	seen         chan string // "+name description" and "-name"
	warned       chan string // what the log warns of
}

// run runs a library until the test ends. Its watcher is made by watch, or the
// real one if that is nil.
func run(t *testing.T, watch func() (*watcher, error), seed map[string]string) *desk {
	t.Helper()
	d := &desk{dir: filepath.Join(t.TempDir(), "skills"), tenants: filepath.Join(t.TempDir(), "tenants"), seen: make(chan string, 100), warned: make(chan string, 100)}
	for name, text := range seed {
		save(t, filepath.Join(d.dir, name), text)
	}
	logger := slog.New(warnings{slog.DiscardHandler, d.warned})
	var err error
	d.Library, err = OpenLibrary(LibraryOptions{Folders: []string{d.dir}, TenantDir: d.tenants, Poll: 20 * time.Millisecond,
		Logger: logger, Alarms: alarm.New(logger, nil)})
	if err != nil {
		t.Fatal(err)
	}
	if watch != nil {
		d.watch = watch
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() {
		if err := d.Run(ctx); err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	wg.Go(func() {
		for c, err := range d.Watch(ctx, "acme") {
			switch {
			case err != nil:
			case c.Kind == ChangePut:
				d.seen <- "+" + c.Skill.Name + " " + c.Skill.Description
			case c.Kind == ChangeRemoved:
				d.seen <- "-" + c.Skill.Name
			default:
				d.seen <- "synced"
			}
		}
	})
	t.Cleanup(func() { cancel(); wg.Wait() })
	return d
}

// expect waits for changes in this order.
func (d *desk) expect(t *testing.T, want ...string) {
	t.Helper()
	for _, w := range want {
		select {
		case got := <-d.seen:
			if got != w {
				t.Fatalf("saw %q, want %q", got, w)
			}
		case <-time.After(time.Minute):
			t.Fatalf("waited in vain for %q", w)
		}
	}
}

// story edits files in every way, and waits each time for what comes of it.
func (d *desk) story(t *testing.T) {
	t.Helper()
	at := func(name string) string { return filepath.Join(d.dir, name) }
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	d.expect(t, "+mail.send one", "synced")
	save(t, at("mail/send.md"), leaf("mail.send", "two"))
	d.expect(t, "+mail.send two")
	save(t, at("mail/find.md"), leaf("mail.find", "x"))
	d.expect(t, "+mail.find x")
	// As editors save: a new file takes the place of the old one.
	save(t, at("mail/.send.md.swp"), leaf("mail.send", "three"))
	must(os.Rename(at("mail/.send.md.swp"), at("mail/send.md")))
	d.expect(t, "+mail.send three")
	// Folders that are new, one in the other.
	save(t, at("docs/deep/pdf-f/SKILL.md"), leaf("pdf-f", "a folder"))
	d.expect(t, "+docs.pdf_f a folder")
	save(t, at("docs/deep/list.md"), leaf("docs.list", "y"))
	d.expect(t, "+docs.list y")
	// A tenant's first skill, by hand.
	save(t, filepath.Join(d.tenants, "acme", "own", "a.md"), leaf("own.a", "z"))
	d.expect(t, "+own.a z")
	// An edit that is not valid is a problem, and changes nothing else.
	save(t, at("mail/send.md"), "broken")
	for deadline := time.Now().Add(time.Minute); len(d.Problems("")) != 1; time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a broken edit is no problem")
		}
	}
	must(os.Rename(at("mail"), at("post")))
	d.expect(t, "-mail.find", "-mail.send")
	must(os.Rename(at("docs"), filepath.Join(t.TempDir(), "docs"))) // at once, unlike RemoveAll
	d.expect(t, "-docs.list", "-docs.pdf_f")
	must(os.RemoveAll(filepath.Join(d.tenants, "acme")))
	d.expect(t, "-own.a")
}

// S3-010, S3-076, S3-124: while the library runs, files are followed: new ones,
// edited and removed ones, in new folders too.
func TestRun_followsFiles(t *testing.T) {
	run(t, nil, map[string]string{"mail/send.md": leaf("mail.send", "one")}).story(t)
}

// S3-124: where no watcher can be made, as in some containers, the files are
// followed all the same.
func TestRun_pollsWithoutAWatcher(t *testing.T) {
	none := func() (*watcher, error) { return nil, syscall.EMFILE }
	run(t, none, map[string]string{"mail/send.md": leaf("mail.send", "one")}).story(t)
}

// A limit on watched folders is met while skills come and go.
func TestRun_pollsWhenNoMoreFoldersCanBeWatched(t *testing.T) {
	var closed atomic.Bool
	limited := func() (*watcher, error) {
		w, err := newWatcher()
		if err != nil {
			return nil, err
		}
		left := 4
		add, end := w.add, w.close
		w.add = func(dir string) error {
			if left--; left < 0 {
				return syscall.ENOSPC
			}
			return add(dir)
		}
		w.close = func() error { closed.Store(true); return end() }
		return w, nil
	}
	run(t, limited, map[string]string{"mail/send.md": leaf("mail.send", "one")}).story(t)
	if !closed.Load() {
		t.Error("the watcher is still there, or the limit was never met")
	}
}

// A watcher that a test tells what to say.
func dummy() (*watcher, chan fsnotify.Event, chan error) {
	events, failures := make(chan fsnotify.Event), make(chan error)
	return &watcher{
		add:    func(string) error { return nil },
		close:  func() error { close(events); close(failures); return nil },
		events: events, errors: failures,
	}, events, failures
}

func TestRun_looksEverywhereWhenEventsWereLost(t *testing.T) {
	w, events, failures := dummy()
	d := run(t, func() (*watcher, error) { return w, nil }, map[string]string{"mail/send.md": leaf("mail.send", "one")})
	d.expect(t, "+mail.send one", "synced")
	save(t, filepath.Join(d.dir, "mail/send.md"), leaf("mail.send", "two, longer"))
	events <- fsnotify.Event{Name: filepath.Join(d.dir, "mail/other.md"), Op: fsnotify.Create}
	failures <- fsnotify.ErrEventOverflow
	d.expect(t, "+mail.send two, longer")
	failures <- errors.New("broken") // polls from now on
	save(t, filepath.Join(d.dir, "mail/send.md"), leaf("mail.send", "three, longer still"))
	d.expect(t, "+mail.send three, longer still")
}

// A mounted ConfigMap changes all its files at once by swapping a link.
func TestRun_followsASwappedLink(t *testing.T) {
	d := run(t, nil, nil)
	d.expect(t, "synced")
	mail := filepath.Join(d.dir, "mail")
	for version, description := range map[string]string{"..1": "one", "..2": "two"} {
		save(t, filepath.Join(mail, version, "send.md"), leaf("mail.send", description))
	}
	swap := func(to string) {
		t.Helper()
		if err := os.Symlink(to, filepath.Join(mail, "..data_tmp")); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(filepath.Join(mail, "..data_tmp"), filepath.Join(mail, "..data")); err != nil {
			t.Fatal(err)
		}
	}
	swap("..1")
	if err := os.Symlink("..data/send.md", filepath.Join(mail, "send.md")); err != nil {
		t.Fatal(err)
	}
	d.expect(t, "+mail.send one")
	swap("..2")
	d.expect(t, "+mail.send two")
}

// A reading counts which files of a source are opened.
type reading struct {
	fs.FS
	opened *[]string
}

func (r reading) Open(name string) (fs.File, error) {
	if strings.HasSuffix(name, ".md") {
		*r.opened = append(*r.opened, name)
	}
	return r.FS.Open(name)
}

func (r reading) Lstat(name string) (fs.FileInfo, error)     { return fs.Lstat(r.FS, name) }
func (r reading) Stat(name string) (fs.FileInfo, error)      { return fs.Stat(r.FS, name) }
func (r reading) ReadDir(name string) ([]fs.DirEntry, error) { return fs.ReadDir(r.FS, name) }
func (r reading) ReadLink(name string) (string, error)       { return fs.ReadLink(r.FS, name) }

func TestFollow_readsOnlyWhatChanged(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-time.Hour)
	for _, name := range []string{"a/a", "a/b", "b/a", "b/b"} {
		file := filepath.Join(dir, name+".md")
		save(t, file, leaf(strings.ReplaceAll(name, "/", "."), "x"))
		if err := os.Chtimes(file, old, old); err != nil {
			t.Fatal(err)
		}
	}
	l, err := OpenLibrary(LibraryOptions{Folders: []string{dir}})
	if err != nil {
		t.Fatal(err)
	}
	var opened []string
	src := l.shared.sources[0]
	open := src.open
	src.open = func() (tree, error) {
		t, err := open()
		return tree{reading{t.FS, &opened}, t.Closer}, err
	}
	check := func(when string, want ...string) {
		t.Helper()
		if slices.Sort(opened); !slices.Equal(opened, want) {
			t.Errorf("%s, %q were read, want %q", when, opened, want)
		}
		opened = nil
	}
	reload := func() {
		t.Helper()
		if _, err := l.Reload(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	reload()
	check("nothing has changed")
	save(t, filepath.Join(dir, "a/b.md"), leaf("a.b", "another"))
	reload()
	check("one file has changed", "a/b.md")
	l.follow(t.Context(), []string{filepath.Join(l.folders[0].dir, "b/a.md"), filepath.Join(l.folders[0].dir, "b/b.md")}, false, nil)
	check("an event was about two files that look the same")
	// It changes again within the clock's tick, and to the same length.
	now := time.Now()
	for _, description := range []string{"1", "2"} {
		save(t, filepath.Join(dir, "b/a.md"), leaf("b.a", description))
		if err := os.Chtimes(filepath.Join(dir, "b/a.md"), now, now); err != nil {
			t.Fatal(err)
		}
		reload()
	}
	if s, _ := l.For("").Get("b.a"); s.Description != "2" {
		t.Error("a change within the clock's tick is not seen")
	}
}

// S3-073: many read while files change, and see no skill that never was. A
// skill that a reader holds stays as it is.
func TestLibrary_isReadWhileItReloads(t *testing.T) {
	const skills, rounds = 20, 8
	dir := t.TempDir()
	write := func(round string) {
		for i := range skills {
			name := "d" + string(rune('a'+i%4)) + ".s" + string(rune('a'+i))
			save(t, filepath.Join(dir, strings.Replace(name, ".", "/", 1)+".md"), leaf(name, "round "+round))
		}
	}
	write("0")
	l, err := OpenLibrary(LibraryOptions{Folders: []string{dir}, TenantDir: filepath.Join(t.TempDir(), "t")})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for _, tenant := range []mesh.TenantID{"", "acme", "beta"} {
		wg.Go(func() {
			for ctx.Err() == nil {
				c := l.For(tenant)
				held, ok := c.Get("da.sa")
				if !ok {
					t.Error("a skill is not there for a moment")
					return
				}
				version, list := held.Version, c.List()
				if !slices.IsSortedFunc(list, func(a, b *Skill) int { return strings.Compare(a.Name, b.Name) }) || len(list) < skills {
					t.Errorf("saw %d skills", len(list))
				}
				if found := c.Search("round"); len(found) < skills || len(c.Domains()) < 4 || len(c.Match([]string{"da.*"})) != skills/4 {
					t.Errorf("found %d", len(found))
				}
				if held.Version != version || versionOf(held.Source) != version {
					t.Error("a skill that is held has changed")
				}
			}
		})
	}
	wg.Go(func() {
		for c, err := range l.Watch(ctx, "acme") {
			if err == nil && c.Kind == ChangeRemoved && c.Skill.Tenant == "" {
				t.Errorf("%s is told to be gone", c.Skill.Name)
			}
		}
	})
	for round := range rounds {
		write(string(rune('0' + round)))
		if _, err := l.Reload(ctx); err != nil {
			t.Fatal(err)
		}
		if _, err := l.Create("acme", []byte(leaf("own.x", "mine"))); err != nil {
			t.Fatal(err)
		}
		if err := l.Delete("acme", "own.x"); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	wg.Wait()
}
