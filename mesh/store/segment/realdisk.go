package segment

import "os"

// realDisk is the default [Disk].
type realDisk struct{}

func (realDisk) WriteAt(f *os.File, b []byte, off int64) (int, error) { return f.WriteAt(b, off) }
func (realDisk) Sync(f *os.File) error                                { return datasync(f) }
