package outfile_test

import (
	"os"
	"path/filepath"
	"testing"

	"agentmesh/mesh"
	"agentmesh/skills/internal/outfile"
)

// owners are such as might be taken for one another.
var owners = []mesh.Owner{
	{Tenant: "default", User: "ann"}, {Tenant: "default", User: "Ann"}, {Tenant: "default", User: "anna"}, {Tenant: "default", User: "."}, {Tenant: "default", User: ".."},
	{Tenant: "default", User: "../acme@ann"}, {Tenant: "default", User: "*"}, {Tenant: "default"}, {Tenant: "acme", User: "ann"}, {Tenant: "Acme", User: "ann"}, {Tenant: "acme"},
}

// Of whoever all files are removed, those of everybody else stay, and what users share does.
func TestFilesOfOneOwnerAreErased(t *testing.T) {
	for _, gone := range owners {
		if gone.User == "" { // is nobody's
			continue
		}
		dir := t.TempDir()
		places := map[mesh.Owner][]string{}
		for _, o := range owners {
			places[o] = []string{filepath.Join(dir, "mail", outfile.Folder(o)), filepath.Join(dir, "drive", outfile.Distinct(o)), filepath.Join(dir, "keys", "sent", outfile.Distinct(o), "ab")}
			for _, place := range places[o] {
				if err := os.MkdirAll(place, 0o700); err != nil {
					t.Fatal(err)
				}
				for _, name := range []string{"0", "1", ".hidden"} {
					if err := os.WriteFile(filepath.Join(place, name), nil, 0o600); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		for _, countOnly := range []bool{true, false, false} {
			want := 2
			if _, err := os.Stat(places[gone][0]); err != nil {
				want = 0
			}
			for _, place := range places[gone][:2] {
				if n, err := outfile.EraseAll(place, countOnly); err != nil || n != want {
					t.Errorf("%v: %d files, %v, want %d", gone, n, err, want)
				}
			}
			if countOnly {
				continue
			}
			if err := outfile.EraseLedgers(filepath.Join(dir, "keys"), outfile.Distinct(gone)); err != nil {
				t.Error(err)
			}
		}
		for o, all := range places {
			for _, place := range all {
				if _, err := os.Stat(filepath.Join(place, "1")); (err == nil) == (o == gone) {
					t.Errorf("erased was %v, and of %v in %s: %v", gone, o, place, err)
				}
			}
		}
	}
	if err := outfile.EraseLedgers(filepath.Join(t.TempDir(), "none"), "x"); err != nil {
		t.Error(err)
	}
}
