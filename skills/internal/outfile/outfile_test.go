package outfile_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"agentmesh/mesh"
	"agentmesh/skills/internal/outfile"
)

func TestWriteOnce_keepsTheFirstOfManyWriters(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new", "outbox")
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			if err := outfile.WriteOnce(dir, "x.eml", []byte(fmt.Sprint(i))); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	first, err := os.ReadFile(filepath.Join(dir, "x.eml"))
	if err != nil {
		t.Fatal(err)
	}
	if err := outfile.WriteOnce(dir, "x.eml", []byte("later")); err != nil {
		t.Fatal(err)
	}
	if now, _ := os.ReadFile(filepath.Join(dir, "x.eml")); string(now) != string(first) {
		t.Errorf("the file became %q", now)
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("temporary files are left: %v", entries)
	}
}

func TestWriteOnce_saysThatTheFolderCannotBeWritten(t *testing.T) {
	blocked := filepath.Join(t.TempDir(), "outbox")
	if err := os.WriteFile(blocked, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := outfile.WriteOnce(blocked, "x.eml", []byte("x"))
	if !mesh.IsCode(err, mesh.Unavailable) || mesh.DetailOf(err) == "" {
		t.Errorf("error is %v", err)
	}
}

func TestFolder_staysBelow(t *testing.T) {
	seen := map[string]bool{}
	for _, tenant := range []mesh.TenantID{"default", "acme", "..", ".", "a.b", "Acme", "ACME", "Default"} {
		for _, user := range []string{"", "ann", "Ann", "ann@x.org", "..", "../ann", "a/b", "a%2fb", "A/b", "a b", "a+b", "ännä", "acme@ann", "=", strings.Repeat("x", 300), strings.Repeat("x", 301)} {
			o := mesh.Owner{Tenant: tenant, User: user}
			dir := outfile.Folder(o)
			if folded := strings.ToLower(dir); !filepath.IsLocal(dir) || strings.Contains(dir, "/") || len(dir) > 200 || seen[folded] {
				t.Errorf("%q gets %q, where another is if case does not count", o, dir)
			}
			seen[strings.ToLower(dir)] = true
		}
	}
	if outfile.Name("a", "k") == outfile.Name("b", "k") || outfile.Name("a", "k") != outfile.Name("a", "k") {
		t.Error("names do not follow tenant and key")
	}
}

func TestReplaceMoveAndRemove_leaveNothingBehind(t *testing.T) {
	from, to := filepath.Join(t.TempDir(), "from"), filepath.Join(t.TempDir(), "new", "to")
	if created, err := outfile.Create(from, "x", []byte("1")); !created || err != nil {
		t.Fatal(created, err)
	}
	if created, err := outfile.Create(from, "x", []byte("2")); created || err != nil {
		t.Fatal(created, err)
	}
	if err := outfile.Replace(from, "x", []byte("3")); err != nil {
		t.Fatal(err)
	}
	if err := outfile.Move(from, to, "x"); err != nil {
		t.Fatal(err)
	}
	if data, err := os.ReadFile(filepath.Join(to, "x")); err != nil || string(data) != "3" {
		t.Errorf("moved %q, %v", data, err)
	}
	if err := outfile.Remove(to, "x"); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{from, to} {
		if entries, _ := os.ReadDir(dir); len(entries) != 0 {
			t.Errorf("left behind: %v", entries)
		}
	}
	for name, err := range map[string]error{"move": outfile.Move(from, to, "x"), "remove": outfile.Remove(from, "x"), "replace": outfile.Replace(filepath.Join(from, "none"), "x", nil)} {
		if !mesh.IsCode(err, mesh.Unavailable) {
			t.Errorf("%s of what is not there: %v", name, err)
		}
	}
}

func TestLock_hasOneHolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	var holders atomic.Int32
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			unlock, err := outfile.Lock(t.Context(), dir, "x")
			if err != nil {
				t.Error(err)
				return
			}
			if n := holders.Add(1); n != 1 {
				t.Errorf("%d hold it at once", n)
			}
			holders.Add(-1)
			unlock()
		})
	}
	wg.Wait()
	unlock, err := outfile.Lock(t.Context(), dir, "x")
	if err != nil {
		t.Fatal(err)
	}
	defer unlock()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := outfile.Lock(ctx, dir, "x"); !mesh.IsCode(err, mesh.Canceled) {
		t.Errorf("waiting ended with %v", err)
	}
}

func TestMoveNew_replacesNothing(t *testing.T) {
	from, to := t.TempDir(), filepath.Join(t.TempDir(), "to")
	for name, text := range map[string]string{"mine": "mine", "other": "other"} {
		if err := outfile.WriteOnce(from, name, []byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if moved, err := outfile.MoveNew(from, "other", to, "x"); !moved || err != nil {
		t.Fatalf("moved: %v, %v", moved, err)
	}
	if moved, err := outfile.MoveNew(from, "mine", to, "x"); moved || err != nil {
		t.Errorf("over another one, moved: %v, %v", moved, err)
	}
	if err := os.Link(filepath.Join(from, "mine"), filepath.Join(to, "y")); err != nil { // as a call that died left it
		t.Fatal(err)
	}
	if moved, err := outfile.MoveNew(from, "mine", to, "y"); !moved || err != nil {
		t.Errorf("half moved, moved: %v, %v", moved, err)
	}
	if left, err := os.ReadDir(from); len(left) != 0 {
		t.Errorf("left are %v, %v", left, err)
	}
	for name, want := range map[string]string{"x": "other", "y": "mine"} {
		if got, err := os.ReadFile(filepath.Join(to, name)); string(got) != want {
			t.Errorf("%s is %q: %v", name, got, err)
		}
	}
	if _, err := outfile.MoveNew(from, "none", to, "z"); !mesh.IsCode(err, mesh.Unavailable) {
		t.Errorf("of no file: %v", err)
	}
}
