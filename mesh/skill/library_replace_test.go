package skill_test

import (
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"agentmesh/mesh"
)

// A skill of a tenant is replaced as a whole, by who knows it as it is; again with the same
// file changes nothing, and nothing else is touched.
func TestLibrary_Replace_changesWhatTheCallerKnows(t *testing.T) {
	s := library(t, map[string]string{"mail/send.md": page("mail.send", "x", "")})
	made, err := s.Create("acme", []byte(alert))
	if err != nil {
		t.Fatal(err)
	}
	newer := strings.Replace(alert, "an alert", "a louder alert", 1)
	changed, err := s.Replace("acme", []byte(newer), made.Version)
	if err != nil || string(changed.Source) != newer || changed.Version == made.Version {
		t.Fatalf("changed to %+v, %v", changed, err)
	}
	again, err := s.Replace("acme", []byte(newer), made.Version)
	if err != nil || again.Version != changed.Version {
		t.Errorf("again: %+v, %v", again, err)
	}
	_, err = s.Replace("acme", []byte(strings.Replace(alert, "an alert", "a quiet alert", 1)), made.Version)
	wantError(t, err, mesh.Precondition, "replaces", changed.Version, "read it again")
	_, err = s.Replace("other", []byte(newer), made.Version)
	wantError(t, err, mesh.NotFound)
	_, err = s.Replace("acme", []byte(page("mail.send", "y", "")), "x")
	wantError(t, err, mesh.Precondition, "belongs to the mesh")
	_, err = s.Replace("acme", []byte("hello"), made.Version)
	wantError(t, err, mesh.Invalid, "source")
	files := all(t, filepath.Join(s.tenants, "acme"))
	data, err := os.ReadFile(filepath.Join(s.tenants, "acme", "workflows", "slack_alert.md"))
	if err != nil || len(files) != 1 || string(data) != newer {
		t.Errorf("the files are %v, with %q, %v", files, data, err)
	}
}

// Of several who change the same version at a time, one does.
func TestLibrary_Replace_oneOfManyWins(t *testing.T) {
	s := library(t, nil)
	made, err := s.Create("acme", []byte(alert))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	errs := make([]error, 8)
	for i := range errs {
		wg.Go(func() {
			_, errs[i] = s.Replace("acme", []byte(strings.Replace(alert, "an alert", "alert "+strings.Repeat("x", i+1), 1)), made.Version)
		})
	}
	wg.Wait()
	won := 0
	for _, err := range errs {
		if err == nil {
			won++
			continue
		}
		wantError(t, err, mesh.Precondition, "read it again")
	}
	if won != 1 {
		t.Errorf("%d of %d changed it", won, len(errs))
	}
}
