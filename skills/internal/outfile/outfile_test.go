package outfile_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
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

func TestTenantFolder_staysBelow(t *testing.T) {
	seen := map[string]bool{}
	for _, tenant := range []mesh.TenantID{"default", "acme", "..", ".", "a.b", "Acme", "ACME", "Default"} {
		dir := outfile.TenantFolder(tenant)
		if folded := strings.ToLower(dir); !filepath.IsLocal(dir) || seen[folded] {
			t.Errorf("%q gets %q, where another is if case does not count", tenant, dir)
		}
		seen[strings.ToLower(dir)] = true
	}
	if outfile.Name("a", "k") == outfile.Name("b", "k") || outfile.Name("a", "k") != outfile.Name("a", "k") {
		t.Error("names do not follow tenant and key")
	}
}
