//go:build unix

package main

import (
	"os"
	"syscall"
)

// ours reports whether nobody but the user of this process, and root, can have written
// the file.
func ours(info os.FileInfo) bool {
	of, ok := info.Sys().(*syscall.Stat_t)
	return ok && (int(of.Uid) == os.Geteuid() || of.Uid == 0) && info.Mode().Perm()&0o022 == 0
}
