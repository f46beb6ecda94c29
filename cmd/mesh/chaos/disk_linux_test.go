package chaos_test

import (
	"math"
	"os"
	"syscall"
	"unsafe"
)

// full has the process's every write to a file fail, as on a disk that is full.
func (m *target) full() error { return m.limit(0) }

// room ends what full began.
func (m *target) room() error { return m.limit(math.MaxUint64) }

func (m *target) limit(bytes uint64) error {
	m.mu.Lock()
	pid := m.cmd.Process.Pid
	m.mu.Unlock()
	most := syscall.Rlimit{Cur: bytes, Max: math.MaxUint64}
	if _, _, errno := syscall.RawSyscall6(syscall.SYS_PRLIMIT64, uintptr(pid), syscall.RLIMIT_FSIZE, uintptr(unsafe.Pointer(&most)), 0, 0, 0); errno != 0 {
		return os.NewSyscallError("prlimit", errno)
	}
	return nil
}
