//go:build linux || darwin

package main

import "syscall"

// freeBytes is the room on the disk of the folder, in bytes.
func freeBytes(folder string) (uint64, error) {
	var s syscall.Statfs_t
	if err := syscall.Statfs(folder, &s); err != nil {
		return 0, err
	}
	return s.Bavail * uint64(s.Bsize), nil // #nosec G115 -- sizes of blocks are positive
}
