//go:build unix

package main

import (
	"os"
	"path/filepath"
	"testing"
)

// part of T12: a configuration that lies about in a folder starts programs only if nobody
// else can have put it there.
func TestAStrangersConfigurationIsNotRead(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, defaultConfig)
	writeFile(t, file, "log_level: loud\n")
	up := func(more ...string) finished { return runMesh(t, dir, nil, append([]string{"up"}, more...)...) }
	const refused = `mesh.yaml in this folder belongs to another user.*--config`
	for mode, ours := range map[os.FileMode]bool{0o600: true, 0o644: true, 0o664: false, 0o646: false} {
		if err := os.Chmod(file, mode); err != nil {
			t.Fatal(err)
		}
		if f := up(); ours {
			f.fails(t, exitUsage, "log_level") // it was read
		} else {
			f.fails(t, exitFailure, refused)
		}
	}
	up("--config", file).fails(t, exitUsage, "log_level")
	if os.Geteuid() != 0 {
		return // only root gives files away
	}
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(file, 12345, 12345); err != nil {
		t.Fatal(err)
	}
	up().fails(t, exitFailure, refused)
}
