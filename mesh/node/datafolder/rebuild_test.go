package datafolder_test

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/node/datafolder"
	"agentmesh/mesh/store/disk"
	"agentmesh/mesh/threadlog"
)

// finding C6: the index is made of the log again by a command, which tells what is damaged and
// mends nothing; a folder that is not there, or in use, it leaves alone.
func TestRebuildMakesTheIndexOfTheLogAndTellsWhatIsDamaged(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "mesh.db")
	if _, err := datafolder.Rebuild(t.Context(), dir, nil); !mesh.IsCode(err, mesh.NotFound) {
		t.Errorf("without a folder: %v", err)
	}
	s, err := disk.Open(path, disk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 5 { // more than the first segment has room for
		key := mesh.ThreadKey{Tenant: "acme", ID: mesh.NewThreadID()}
		x := mesh.NewExecutionID(key.ID)
		opened := &mesh.Event{Execution: x, Body: mesh.TaskOpened{Execution: mesh.Execution{ID: x, Kind: mesh.KindTurn, Agent: "main", Text: strings.Repeat(string(rune('a'+i)), 300_000)}}}
		if _, err := threadlog.New(s).Append(t.Context(), key, []*mesh.Event{opened}, threadlog.AppendOptions{Expect: map[mesh.Scope]mesh.Seq{mesh.ThreadScope: 0, mesh.Scope(x): 0}}); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := datafolder.Rebuild(t.Context(), dir, nil); !mesh.IsCode(err, mesh.Precondition) {
		t.Errorf("while it is in use: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	index := filepath.Join(dir, "mesh.index")
	rows := filepath.Join(dir, "mesh.rows")
	for _, name := range []string{index, rows} {
		if err := os.WriteFile(name, []byte("spoiled"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if events, err := datafolder.Rebuild(t.Context(), dir, nil); err != nil || events != 5 {
		t.Errorf("%d events, %v", events, err)
	}
	for _, name := range []string{index, rows} {
		if st, err := os.Stat(name); err != nil || st.Size() < 1000 {
			t.Errorf("%s is %v, %v", name, st, err)
		}
	}
	name := filepath.Join(dir, "mesh.log", "0000000000000000001.seg")
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b[100_000] ^= 1
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := datafolder.Rebuild(t.Context(), dir, nil); !mesh.IsCode(err, mesh.Precondition) {
		t.Errorf("with damage: %v", err)
	}
	if now, err := os.ReadFile(name); err != nil || !bytes.Equal(now, b) {
		t.Errorf("it was changed, %v", err)
	}
	s, err = disk.Open(path, disk.Options{})
	if err != nil {
		t.Fatalf("a folder that opened before opens no more: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
