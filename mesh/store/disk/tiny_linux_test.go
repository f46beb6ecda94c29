package disk

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/state"
	"agentmesh/mesh/store/tinydisk"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/logtest"
)

// finding R11: a folder on a disk that has no byte left, not even for the words in its lock
// file, is opened: it is read, takes what there is room for in its files, says that it takes no
// more, and heals by itself when there is room.
func TestAFolderOnAFullDiskIsOpened(t *testing.T) {
	dir := t.TempDir()
	tinydisk.Mount(t, dir, "8m")
	path := filepath.Join(dir, "mesh.db")
	s, err := Open(path, Options{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Append(t.Context(), logtest.Key(1), fact("before")); err != nil {
		t.Fatal(err)
	}
	if _, err := s.PutState(t.Context(), state.Key{Kind: "k", Name: "n"}, []byte("v"), 0); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(path+lockSuffix, 0); err != nil { // as a start on a full disk leaves it
		t.Fatal(err)
	}
	room := tinydisk.Fill(t, dir)
	s, err = Open(path, Options{})
	if err != nil {
		t.Fatalf("on a full disk: %v", err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	if recs, err := s.Read(t.Context(), logtest.Key(1), 0, 9); err != nil || len(recs) != 1 {
		t.Errorf("%d events are read, %v", len(recs), err)
	}
	if v, err := s.GetState(t.Context(), state.Key{Kind: "k", Name: "n"}); err != nil || string(v.Data) != "v" {
		t.Errorf("the value is %q, %v", v.Data, err)
	}
	large := fact(strings.Repeat("x", 64<<10))
	for err == nil {
		_, err = s.Append(t.Context(), logtest.Key(1), large)
	}
	h := s.Health()
	if !mesh.IsCode(err, mesh.Unavailable) || !errors.Is(err, syscall.ENOSPC) || h.Fault == nil || h.Final {
		t.Fatalf("an append that there is no room for: %v; its health is %+v", err, h)
	}
	room()
	<-h.Changed
	if h := s.Health(); h.Fault != nil {
		t.Errorf("with room its health is %+v", h)
	}
	if _, err := s.Append(t.Context(), logtest.Key(1), large); err != nil {
		t.Errorf("with room: %v", err)
	}
}

// finding C6: a checkpoint that finds no room, or fails otherwise, costs nothing but a longer
// start, and is made when there is room.
func TestACheckpointThatFailsIsMadeLater(t *testing.T) {
	dir := t.TempDir()
	tinydisk.Mount(t, dir, "1m")
	path := filled(t)
	there := filepath.Join(dir, "mesh.index")
	if err := errors.Join(copyFile(indexPath(path), there), os.Remove(indexPath(path)), os.Symlink(there, indexPath(path))); err != nil {
		t.Fatal(err)
	}
	s := openAt(t, path)
	add := func() {
		t.Helper()
		for i := range 400 {
			if _, err := s.Append(t.Context(), logtest.Key(i), fact("more")); err != nil {
				t.Fatal(err)
			}
		}
	}
	was := keptUpTo(s)
	room := tinydisk.Fill(t, dir)
	add()
	if err := s.Delete(t.Context(), logtest.Key(1), threadlog.AnyPos); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		s.checkpoint()
	}
	if has := keptUpTo(s); has != was || s.Health().Fault != nil {
		t.Fatalf("without room the index came from %d to %d, its health is %+v", was, has, s.Health())
	}
	add()
	wantIndex(t, path)
	room()
	indexOf(t, s)
	wantIndex(t, path)
}
