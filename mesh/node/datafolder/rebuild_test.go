package datafolder_test

import (
	"bytes"
	"os"
	"path/filepath"
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
		b := &threadlog.Batch{Entries: []threadlog.Entry{{Data: bytes.Repeat([]byte{'a' + byte(i)}, 300_000)}}}
		if _, err := s.Append(t.Context(), mesh.ThreadKey{Tenant: "acme", ID: "1"}, b); err != nil {
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
	if err := os.WriteFile(index, []byte("spoiled"), 0o600); err != nil {
		t.Fatal(err)
	}
	if events, err := datafolder.Rebuild(t.Context(), dir, nil); err != nil || events != 5 {
		t.Errorf("%d events, %v", events, err)
	}
	if st, err := os.Stat(index); err != nil || st.Size() < 1000 {
		t.Errorf("the index is %v, %v", st, err)
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
