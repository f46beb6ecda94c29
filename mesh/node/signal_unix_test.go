//go:build unix

package node_test

import "syscall"

// What suspends a process, and lets it go on.
const (
	suspends = syscall.SIGSTOP
	goesOn   = syscall.SIGCONT
)

// signals sends a signal to a process, which may have ended.
func signals(pid int, s syscall.Signal) { _ = syscall.Kill(pid, s) }
