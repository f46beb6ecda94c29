//go:build unix

package main

import "syscall"

// suspends is the signal that suspends a process.
const suspends = syscall.SIGSTOP
