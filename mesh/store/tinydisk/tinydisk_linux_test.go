package tinydisk_test

import (
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"agentmesh/mesh/store/tinydisk"
)

// A disk that was filled has no room for a byte, and has it when that was given back.
func TestAFullDiskTakesNoByte(t *testing.T) {
	dir := t.TempDir()
	tinydisk.Mount(t, dir, "1m")
	room := tinydisk.Fill(t, dir)
	file := filepath.Join(dir, "byte")
	if err := os.WriteFile(file, []byte{1}, 0o600); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("on a full disk: %v", err)
	}
	room()
	if err := os.WriteFile(file, []byte{1}, 0o600); err != nil {
		t.Errorf("with room: %v", err)
	}
}
