package outfile_test

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/skills/internal/outfile"
)

// Of whichever tenant files are exported, those of its users and of all of them go, and nobody
// else's; where they are imported they are as they were, and what is there stays.
func TestFilesOfOneTenantAreExported(t *testing.T) {
	for name, as := range map[string]func(mesh.Owner) string{"folder": outfile.Folder, "distinct": outfile.Distinct} {
		from := outfile.Shelf{Dir: t.TempDir(), As: as}
		all := append(slices.Clone(owners), mesh.Owner{Tenant: "acme2", User: "ann"}, mesh.Owner{Tenant: "defaults"}, mesh.Owner{Tenant: "tenant-acme"})
		when := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
		want := map[mesh.TenantID]map[string]bool{}
		for _, o := range all {
			for _, file := range []string{"0", "sub/1", ".hidden", ".lock-all", "sub/.tmp.1"} {
				path := filepath.Join(from.Dir, as(o), file)
				err := errors.Join(os.MkdirAll(filepath.Dir(path), 0o700), os.WriteFile(path, []byte(path), 0o600), os.Chtimes(path, when, when))
				if err != nil {
					t.Fatal(err)
				}
				if as(o) == "." && file == "sub/1" { // no skill makes a folder there
					if err := os.RemoveAll(filepath.Dir(path)); err != nil {
						t.Fatal(err)
					}
					continue
				}
				if !strings.Contains(file, ".") {
					if want[o.Tenant] == nil {
						want[o.Tenant] = map[string]bool{}
					}
					want[o.Tenant][filepath.ToSlash(filepath.Join(as(o), file))] = true
				}
			}
		}
		for tenant, files := range want {
			to := outfile.Shelf{Dir: t.TempDir(), As: as}
			for round := range 2 {
				n := 0
				err := from.Export(t.Context(), "mail", tenant, func(k mesh.Kept, r io.Reader) error {
					n++
					if !files[k.Name] || !k.Modified.Equal(when) || k.Kind != "mail" {
						t.Errorf("%s: of %s, %+v goes", name, tenant, k)
					}
					fresh, err := to.Import(tenant, k, r)
					if fresh != (round == 0) {
						t.Errorf("%s: %s is new: %v", name, k.Name, fresh)
					}
					return err
				})
				if err != nil || n != len(files) {
					t.Errorf("%s: of %s, %d of %d files went: %v", name, tenant, n, len(files), err)
				}
			}
			for file := range files {
				data, err := os.ReadFile(filepath.Join(to.Dir, filepath.FromSlash(file)))
				st, _ := os.Stat(filepath.Join(to.Dir, filepath.FromSlash(file)))
				if err != nil || string(data) != filepath.Join(from.Dir, filepath.FromSlash(file)) || !st.ModTime().Equal(when) {
					t.Errorf("%s: %s is %q, %v", name, file, data, err)
				}
			}
		}
	}
}

// Nothing is written outside of the tenant's folders, and nothing half.
func TestFilesOfOthersAreNotImported(t *testing.T) {
	for _, as := range []func(mesh.Owner) string{outfile.Folder, outfile.Distinct} {
		s := outfile.Shelf{Dir: t.TempDir(), As: as}
		own := as(mesh.Owner{Tenant: "acme", User: "ann"})
		for _, name := range []string{"", ".", "..", "../x", "/x", own, own + "/../../x", own + "/.lock-all", ".keys/x", as(mesh.Owner{Tenant: "rival"}) + "/x", as(mesh.Owner{Tenant: "acme2", User: "ann"}) + "/x", "x"} {
			if _, err := s.Import("acme", mesh.Kept{Name: name, Size: 1}, strings.NewReader("x")); !mesh.IsCode(err, mesh.Invalid) {
				t.Errorf("%q: %v", name, err)
			}
		}
		if _, err := s.Import("acme", mesh.Kept{Name: own + "/half", Size: 5}, bytes.NewReader([]byte("half"))); err == nil {
			t.Error("half a file is taken")
		}
		err := fs.WalkDir(os.DirFS(s.Dir), ".", func(name string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				t.Errorf("there is %s", name)
			}
			return err
		})
		if err != nil {
			t.Error(err)
		}
	}
}
