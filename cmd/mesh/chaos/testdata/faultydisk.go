// Package segment has here, in place of realdisk.go, the disk of a mesh that chaos
// breaks: it fails as long as a file says so.
package segment

import (
	"io/fs"
	"math/rand/v2"
	"os"
	"syscall"
)

// realDisk fails as the file that MESH_CHAOS_DISK names wants: "sync" has some of
// the syncs fail, "write" some of the writes, after a part of them.
type realDisk struct{}

func (realDisk) WriteAt(f *os.File, b []byte, off int64) (int, error) {
	if fails("write") {
		n, _ := f.WriteAt(b[:rand.IntN(len(b)+1)], off)
		return n, &fs.PathError{Op: "write", Path: f.Name(), Err: syscall.EIO}
	}
	return f.WriteAt(b, off)
}

func (realDisk) Sync(f *os.File) error {
	if fails("sync") {
		return &fs.PathError{Op: "fdatasync", Path: f.Name(), Err: syscall.EIO}
	}
	return datasync(f)
}

func fails(what string) bool {
	wanted, err := os.ReadFile(os.Getenv("MESH_CHAOS_DISK"))
	return err == nil && string(wanted) == what && rand.IntN(2) == 0
}
