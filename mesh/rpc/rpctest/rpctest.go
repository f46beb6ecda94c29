// Package rpctest gives the servers of tests their addresses.
//
// A port that a test gives back is soon another test's. Who ends a server and expects to find
// nobody at its address, or lets a process begin there that may begin once more, needs one that
// stays its own: those of this package are nobody else's until the test ends.
package rpctest

import (
	"context"
	"net"
	"testing"
)

// Listen listens at an address of this machine that nobody else is given until the test ends:
// when the listener is closed, who calls is refused. It fails the test if it cannot.
func Listen(t testing.TB) net.Listener {
	t.Helper()
	return ListenAt(t, Free(t))
}

// ListenAt listens at an address that [Free] gave, or that of a listener which was closed. It
// fails the test if it cannot.
func ListenAt(t testing.TB, addr string) net.Listener {
	t.Helper()
	l, err := new(net.ListenConfig).Listen(context.Background(), "tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	return l
}
