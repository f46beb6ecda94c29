package rpctest_test

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"agentmesh/mesh/rpc/rpctest"
)

// An address is its owner's while somebody listens there and when nobody does: the system gives
// it to nobody who does not name it, and who calls it is refused.
func TestAnAddressIsNobodyElses(t *testing.T) {
	l := rpctest.Listen(t)
	addr, port := l.Addr().String(), l.Addr().(*net.TCPAddr).Port
	for range 2 {
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		if c, err := new(net.Dialer).DialContext(t.Context(), "tcp", addr); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("who calls gets %v, %v", c, err)
		}
		const rangeOption = 51 // IP_LOCAL_PORT_RANGE of ip(7), which the package syscall lacks
		anybody := net.ListenConfig{Control: func(_, _ string, c syscall.RawConn) (err error) {
			if e := c.Control(func(fd uintptr) {
				err = syscall.SetsockoptInt(int(fd), syscall.IPPROTO_IP, rangeOption, port<<16|port)
			}); e != nil {
				return e
			}
			return err
		}}
		switch other, err := anybody.Listen(t.Context(), "tcp", "127.0.0.1:0"); {
		case errors.Is(err, syscall.ENOPROTOOPT):
			t.Log("this system cannot be asked for a port of a range")
		case !errors.Is(err, syscall.EADDRINUSE):
			t.Errorf("another server gets it: %v, %v", other, err)
		}
		l = rpctest.ListenAt(t, addr)
	}
	_ = l.Close()
}
