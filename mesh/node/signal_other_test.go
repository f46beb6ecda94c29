//go:build !unix

package node_test

import (
	"os"
	"syscall"
)

// Processes are not suspended here.
const (
	suspends = syscall.Signal(0)
	goesOn   = syscall.Signal(0)
)

// signals ends a process, which may have ended: there is no other signal.
func signals(pid int, s syscall.Signal) {
	if p, err := os.FindProcess(pid); err == nil && s != suspends {
		_ = p.Kill() // there is no way to ask for more
	}
}
