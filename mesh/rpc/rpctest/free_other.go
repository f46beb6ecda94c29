//go:build !linux

package rpctest

import "testing"

// Free is an address of this machine where nobody listens. Where a bound socket keeps others from
// listening, nothing keeps the system from giving it to somebody else.
func Free(t testing.TB) string {
	t.Helper()
	l := ListenAt(t, "127.0.0.1:0")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	return l.Addr().String()
}
