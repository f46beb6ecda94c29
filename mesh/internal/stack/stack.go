// Package stack makes room for goroutines that live shortly and call deep.
package stack

import "runtime"

// room is about what the calls of a turn need, of which those into gRPC and into the
// store are the deepest; the runtime takes the next power of two.
const room = 10 << 10

// Grow gives the goroutine, which has just begun, a stack on which it can call deep. A
// stack begins with 2 KiB and is doubled whenever it is full; each time, all calls on
// it are gone through and moved, and at the beginning there are none. The garbage
// collector takes back what a goroutine that waits does not use.
//
//go:noinline
func Grow() {
	var space [room]byte
	runtime.KeepAlive(&space)
}
