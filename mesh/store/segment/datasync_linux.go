package segment

import (
	"errors"
	"os"
	"syscall"
)

// datasync leaves the file's times to later: they are not read, and its length
// does not change.
func datasync(f *os.File) error {
	for {
		err := syscall.Fdatasync(int(f.Fd()))
		if !errors.Is(err, syscall.EINTR) {
			return os.NewSyscallError("fdatasync", err)
		}
	}
}
