package tenantdir_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/skills/internal/outfile"
	"agentmesh/skills/internal/tenantdir"
)

func open(t *testing.T, dir string) *tenantdir.Root {
	t.Helper()
	r, err := tenantdir.New(dir).Open(mesh.Owner{Tenant: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

func add(text string) func([]byte, bool) ([]byte, error) {
	return func(old []byte, _ bool) ([]byte, error) { return append(old, text...), nil }
}

// S3-054: a change happens once per key, in whichever process it is repeated,
// also when the file has changed since.
func TestChange_happensOncePerKey(t *testing.T) {
	dir := t.TempDir()
	var wg sync.WaitGroup
	for i := range 12 {
		r := open(t, dir)
		wg.Go(func() {
			if _, err := r.Change(t.Context(), tenantdir.Change{Name: "a/b.txt", Key: fmt.Sprint(i % 3), Edit: add("x")}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	r := open(t, dir)
	if data, err := r.Read("a/b.txt", 100); err != nil || string(data) != "xxx" {
		t.Errorf("%q, %v", data, err)
	}
	done, err := r.Change(t.Context(), tenantdir.Change{Name: "a/b.txt", Key: "0", Edit: add("y")})
	if err != nil || done.Name != "a/b.txt" || done.Size > 3 {
		t.Errorf("%+v, %v", done, err)
	}
	if entries, _ := os.ReadDir(filepath.Join(dir, "acme", "a")); len(entries) != 1 {
		t.Errorf("temporary files are left: %v", entries)
	}
}

// S3-054: a change that died before it was made is made by its repetition, also
// when others have changed the file since; and one that was made is not.
func TestChange_isMadeAfterADeath(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	file := filepath.Join(dir, "acme", "log")
	change := func(key, text string) tenantdir.Done {
		t.Helper()
		done, err := r.Change(t.Context(), tenantdir.Change{Name: "log", Key: key, Edit: add(text)})
		if err != nil {
			t.Fatal(err)
		}
		return done
	}
	expect := func(want string) {
		t.Helper()
		data, err := r.Read("log", 100)
		if err != nil || string(data) != want {
			t.Errorf("%q, %v, want %q", data, err, want)
		}
	}
	change("1", "one ")
	want := change("2", "two ")
	// As if the process had died before the file was replaced.
	die := func(before string) {
		t.Helper()
		temp := filepath.Join(dir, "acme", ".agentmesh-"+outfile.Name("acme", "2")+".tmp")
		if err := errors.Join(os.Rename(file, temp), os.WriteFile(file, []byte(before), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	die("one ")
	for range 2 {
		if diff := cmp.Diff(want, change("2", "two ")); diff != "" {
			t.Error(diff)
		}
		expect("one two ")
	}
	die("one ")
	change("3", "three ")
	expect("one three ")
	change("2", "two ")
	change("3", "three ")
	change("2", "two ")
	expect("one three two ")
	if entries, _ := os.ReadDir(filepath.Join(dir, "acme")); len(entries) != 1 {
		t.Errorf("temporary files are left: %v", entries)
	}
}

// A change that had nothing to change counts as made: repeated, it does not
// take away what others did since.
func TestChange_thatChangesNothingIsMade(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	set := func(key, text string) {
		t.Helper()
		if _, err := r.Change(t.Context(), tenantdir.Change{Name: "f", Key: key, Edit: func([]byte, bool) ([]byte, error) { return []byte(text), nil }}); err != nil {
			t.Fatal(err)
		}
	}
	set("1", "x")
	// Also where a death under its key left something behind.
	temp := filepath.Join(dir, "acme", ".agentmesh-"+outfile.Name("acme", "2")+".tmp")
	if err := os.WriteFile(temp, []byte("z"), 0o600); err != nil {
		t.Fatal(err)
	}
	set("2", "x")
	set("3", "y")
	set("2", "x")
	if data, err := r.Read("f", 100); err != nil || string(data) != "y" {
		t.Errorf("%q, %v", data, err)
	}
}

// A file that has another name elsewhere is replaced, not written to.
func TestChange_writesThroughNoHardLink(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	outside := filepath.Join(t.TempDir(), "outside")
	if err := errors.Join(os.WriteFile(outside, []byte("theirs"), 0o600), os.Link(outside, filepath.Join(dir, "acme", "f"))); err != nil {
		t.Fatal(err)
	}
	if _, err := r.Change(t.Context(), tenantdir.Change{Name: "f", Key: "1", Edit: add(" and mine")}); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(outside); err != nil || string(data) != "theirs" {
		t.Errorf("%q, %v", data, err)
	}
}

// What is known of changes does not grow for ever, and the latest is known.
func TestChange_remembersALimitedNumberOfKeys(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	var keys []string // that share a file of notes
	for i := 0; len(keys) < 80; i++ {
		if key := fmt.Sprint(i); outfile.Name("acme", key)[:2] == "00" {
			keys = append(keys, key)
		}
	}
	for _, key := range slices.Concat(keys, keys[len(keys)-64:]) {
		if _, err := r.Change(t.Context(), tenantdir.Change{Name: "f", Key: key, Edit: add("x")}); err != nil {
			t.Fatal(err)
		}
	}
	if data, err := r.Read("f", 100); err != nil || len(data) != len(keys) {
		t.Errorf("%d changes were made of %d, %v", len(data), len(keys), err)
	}
	notes, err := os.ReadFile(filepath.Join(dir, ".keys", "acme", "00.json"))
	if n := strings.Count(string(notes), `"Key"`); err != nil || n != 64 {
		t.Errorf("%d keys are remembered, %v", n, err)
	}
}

// What a process left beside the notes that died while it wrote them goes with the owner's
// next change.
func TestWhatADeathLeftBesideTheNotesGoes(t *testing.T) {
	dir := t.TempDir()
	r := open(t, dir)
	left := filepath.Join(dir, ".keys", "acme", ".00.json.4711")
	for _, key := range []string{"0", "1"} {
		if _, err := r.Change(t.Context(), tenantdir.Change{Name: "f", Key: key, Edit: add("x")}); err != nil {
			t.Fatal(err)
		}
		if _, err := os.Stat(left); key == "1" && !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("it is there still: %v", err)
		}
		if err := os.WriteFile(left, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func TestChange_refusesAndLeavesTheFile(t *testing.T) {
	r := open(t, t.TempDir())
	if _, err := r.Change(t.Context(), tenantdir.Change{Name: "f", Key: "0", Edit: add("text")}); err != nil {
		t.Fatal(err)
	}
	canceled, cancel := context.WithCancel(t.Context())
	cancel()
	sick := errors.New("sick")
	for name, tt := range map[string]struct {
		ctx    context.Context
		change tenantdir.Change
		want   mesh.Code
	}{
		"an old version":   {t.Context(), tenantdir.Change{Name: "f", Version: "000000000000", Edit: add("x")}, mesh.Conflict},
		"no file any more": {t.Context(), tenantdir.Change{Name: "g", Version: "000000000000", Edit: add("x")}, mesh.Conflict},
		"too long":         {t.Context(), tenantdir.Change{Name: "f", Edit: add(strings.Repeat("x", tenantdir.MaxFile))}, mesh.Invalid},
		"the edit":         {t.Context(), tenantdir.Change{Name: "f", Edit: func([]byte, bool) ([]byte, error) { return nil, sick }}, mesh.Unknown},
		"below a file":     {t.Context(), tenantdir.Change{Name: "f/g/h", Edit: add("x")}, mesh.Invalid},
		"the folder":       {t.Context(), tenantdir.Change{Name: ".", Edit: add("x")}, mesh.Invalid},
		"canceled":         {canceled, tenantdir.Change{Name: "f", Edit: add("x")}, mesh.Canceled},
	} {
		tt.change.Key = name
		if _, err := r.Change(tt.ctx, tt.change); !mesh.IsCode(err, tt.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if data, err := r.Read("f", 100); err != nil || string(data) != "text" {
		t.Errorf("%q, %v", data, err)
	}
}

func TestRoot_takesNoMoreThanSoManyFiles(t *testing.T) {
	r, err := tenantdir.NewOf(t.TempDir(), 3).Open(mesh.Owner{Tenant: "acme"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Close() }()
	for i := range 3 {
		if _, err := r.Change(t.Context(), tenantdir.Change{Name: fmt.Sprint(i), Key: "made" + fmt.Sprint(i), Edit: add("x")}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Change(t.Context(), tenantdir.Change{Name: "more", Key: "1", Edit: add("x")}); !mesh.IsCode(err, mesh.Exhausted) {
		t.Errorf("one more: %v", err)
	}
	if _, err := r.Change(t.Context(), tenantdir.Change{Name: "2", Key: "2", Edit: add("x")}); err != nil {
		t.Errorf("one of them: %v", err)
	}
}

// A name looks like what it is.
func TestClean_refusesWhatCannotBeSeen(t *testing.T) {
	for name, ok := range map[string]bool{"fig\u202etxt.exe": false, "a\u200bb": false, "a\ufeff": false, "a\u2028b": false, "\u200d.keys/x": false, "a/\u200c.b": false, "👩\u200d🚀.txt": true, "ä/b c.txt": true} {
		if _, err := tenantdir.Clean("op", "path", name); (err == nil) != ok || err != nil && mesh.FieldOf(err) != "path" {
			t.Errorf("%q: %v", name, err)
		}
	}
}

// S3-054: whatever is taken for a path stays below, and means the same again.
func FuzzClean(f *testing.F) {
	for _, seed := range []string{"a/b.txt", "../x", "/etc", "a//b/./c/", `a\..\b`, ".hidden", "a/../../b", "C:x", "\x00", "ä/ö", "0 / ", " a "} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, name string) {
		clean, err := tenantdir.Clean("op", "path", name)
		if err != nil {
			if !mesh.IsCode(err, mesh.Invalid) || mesh.FieldOf(err) != "path" {
				t.Fatal(err)
			}
			return
		}
		again, err := tenantdir.Clean("op", "path", clean)
		if !fs.ValidPath(clean) || !filepath.IsLocal(clean) || again != clean || err != nil {
			t.Fatalf("%q became %q, then %q, %v", name, clean, again, err)
		}
		for part := range strings.SplitSeq(clean, "/") {
			if clean != "." && strings.HasPrefix(part, ".") {
				t.Fatalf("%q became %q", name, clean)
			}
		}
	})
}

func TestFolder_isUniqueAndBelow(t *testing.T) {
	seen := map[string]bool{}
	for _, tenant := range []mesh.TenantID{"default", "Default", "acme", "ACME", "Acme", "..", ".", "...", ".keys", "keys", "a.", "a"} {
		for _, user := range []string{"", "..", "ann", "Ann"} {
			dir := tenantdir.Folder(mesh.Owner{Tenant: tenant, User: user})
			if !filepath.IsLocal(dir) || dir == "." || strings.HasPrefix(dir, ".") || seen[strings.ToLower(dir)] {
				t.Errorf("%q of %q gets %q", user, tenant, dir)
			}
			seen[strings.ToLower(dir)] = true
		}
	}
	if tenantdir.Folder(mesh.Owner{}) != tenantdir.Folder(mesh.Owner{Tenant: mesh.DefaultTenant}) {
		t.Error("no tenant is another one than the default")
	}
}
