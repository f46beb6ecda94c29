package main

import (
	"os"
	"path/filepath"
	"testing"

	"agentmesh/mesh/store/tinydisk"
)

// finding U5: a disk without room for a backup, or for what is restored, leaves nothing of
// it, and the mesh goes on.
func TestABackupOntoAFullDiskIsNone(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	tiny := filepath.Join(dir, "tiny")
	if err := os.Mkdir(tiny, 0o700); err != nil {
		t.Fatal(err)
	}
	tinydisk.Mount(t, tiny, "8m")
	padded(t, filepath.Join(dir, "data"))
	m := up(t, dir)
	m.mesh("data", "backup", filepath.Join(tiny, "copy")).fails(t, exitUnavailable, "tiny/copy.partial cannot be written; see that its disk has room")
	m.mesh("data", "backup", filepath.Join(dir, "copy")).succeeds(t)
	m.stop()
	runHere(t, nil, "data", "restore", filepath.Join(dir, "copy"), "--data", filepath.Join(tiny, "data")).fails(t, exitUnavailable, "tiny/data.partial cannot be written")
	if left, err := os.ReadDir(tiny); err != nil || len(left) > 0 {
		t.Errorf("left is %v, %v", left, err)
	}
}
