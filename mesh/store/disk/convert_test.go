package disk

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/state"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/logtest"
)

// checkContents checks that what the folder of version 1 had is there: where it
// was, what is left to do, and of which versions the values are.
func checkContents(t *testing.T, s *Store) {
	t.Helper()
	raw, err := os.ReadFile("testdata/version-1.json")
	if err != nil {
		t.Fatal(err)
	}
	type contents struct {
		Records    []threadlog.Record
		Infos      []threadlog.Info
		Unfinished []threadlog.Unfinished
		Values     map[string][]state.Item
	}
	var want contents
	if err := json.Unmarshal(raw, &want); err != nil {
		t.Fatal(err)
	}
	got := contents{Values: map[string][]state.Item{}}
	var errs [5]error
	got.Records, errs[0] = s.Scan(t.Context(), 0, 1000)
	got.Infos, errs[1] = s.Threads(t.Context(), logtest.Key(1).Tenant, 0, 100)
	for i := range got.Infos { // which those before did not tell
		if got.Infos[i].Bytes == 0 {
			t.Errorf("the thread %s has no bytes", got.Infos[i].Key)
		}
		got.Infos[i].Bytes = 0
	}
	got.Unfinished, errs[2] = s.Unfinished(t.Context(), 0, 100)
	for i, tenant := range []string{"", "acme"} {
		page := state.Page{Tenant: mesh.TenantID(tenant), Kind: "tasks", Limit: 100}
		got.Values[tenant], _, errs[3+i] = s.ListState(t.Context(), page)
	}
	if err := errors.Join(errs[:]...); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatal(diff)
	}
	// What was deleted keeps its positions.
	if last := want.Records[len(want.Records)-1].Pos; s.book.Last() <= last {
		t.Errorf("position %d is given again", s.book.Last()+1)
	}
}

// A conversion that kill -9 cut off, wherever it was, has not happened or is
// whole, and the next start has all that was there.
func TestAConversionThatIsKilledLosesNothing(t *testing.T) {
	seed := rand.Uint64()
	r := rand.New(rand.NewPCG(seed, 0))
	for _, step := range []string{"log", "file", "before the file", "after the file", "", "", ""} {
		path := old(t, 1)
		line, more := step, time.Duration(0)
		if step == "" {
			line, more = "log", time.Duration(r.IntN(12000))*time.Microsecond
		}
		killMigration(t, path, line, step, more)
		if version := versionOf(t, path); step != "" && (version >= firstVersion) != (step == "after the file") {
			t.Fatalf("killed at %q, it is of version %d", step, version)
		}
		s, err := Open(path, Options{migrations: slow(func(int) {})}) // as the child did
		if err != nil {
			t.Fatal(err)
		}
		checkContents(t, s)
		if _, err := s.Append(t.Context(), logtest.Key(1), &threadlog.Batch{Entries: []threadlog.Entry{{Data: []byte("more")}}}); err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
}

// A conversion that finds no room changes nothing, and is begun again.
func TestAConversionThatFailsIsBegunAgain(t *testing.T) {
	path := old(t, 1)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	d := &testDisk{}
	for calls := range 100 {
		left := calls
		d.on(func(call) error {
			if left--; left < 0 {
				return errDisk
			}
			return nil
		})
		s, err := Open(path, Options{disk: d})
		if err == nil {
			checkContents(t, s)
			if err := s.Close(); err != nil || calls < 5 {
				t.Errorf("after %d calls, %v", calls, err)
			}
			return
		}
		if !mesh.IsCode(err, mesh.Precondition) || !errors.Is(err, errDisk) {
			t.Fatal(err)
		}
		if after, err := os.ReadFile(path); err != nil || !bytes.Equal(raw, after) {
			t.Fatalf("after %d calls the old file is changed, %v", calls, err)
		}
	}
	t.Error("it never had room")
}

// A folder into which an old file was put has a log that is not that file's.
func TestAnOldFileBesideALogIsRefused(t *testing.T) {
	path := old(t, 1)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(s.Close(), os.WriteFile(path, raw, 0o600)); err != nil {
		t.Fatal(err)
	}
	wantRefused(t, path, path, logPath(path), "one copy")
	if after, err := os.ReadFile(path); err != nil || !bytes.Equal(raw, after) {
		t.Errorf("the file was changed, %v", err)
	}
	logFiles(t, path)
}
