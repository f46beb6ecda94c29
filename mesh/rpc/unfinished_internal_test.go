package rpc

import (
	"fmt"
	"io"
	"log/slog"
	"net"
	"testing"

	"agentmesh/mesh"
)

// endless is a body of any length.
type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

// What arrives at the same time is bounded, of one user, of a connection and of all, by what
// has come and not by what may come; and there is room again when it is there.
func TestWhatArrivesIsBounded(t *testing.T) {
	u := NewUnfinished(0)
	ann, bob := mesh.Principal{Tenant: "acme", User: "ann"}, mesh.Principal{Tenant: "other", User: "ann"}
	conns := 0
	take := func(p mesh.Principal, n int64) io.ReadCloser {
		t.Helper()
		conns++
		x := u.Body(p, fmt.Sprint(conns), endless{})
		if _, err := io.CopyN(io.Discard, x, n); err != nil {
			t.Fatal(err)
		}
		return x
	}
	full := func(p mesh.Principal, conn string) {
		t.Helper()
		_, err := u.Body(p, conn, endless{}).Read(make([]byte, 1))
		if _, again := RetryAfter(err); !mesh.IsCode(err, mesh.Exhausted) || !again {
			t.Errorf("one byte too many: %v", err)
		}
	}
	var all []io.Closer
	for range 1000 { // of which nothing has come yet
		all = append(all, u.Body(ann, "", endless{}))
	}
	for range 8 {
		all = append(all, take(ann, maxUserUnfinished/8))
	}
	full(ann, "of a user")
	all = append(all, take(bob, maxConnUnfinished))
	full(bob, fmt.Sprint(conns))
	for _, x := range all {
		if err := x.Close(); err != nil {
			t.Error(err)
		}
	}
	if u.all != 0 || len(u.users) != 0 || len(u.conns) != 0 {
		t.Errorf("%d bytes of %v over %v are left", u.all, u.users, u.conns)
	}
	for i := range DefaultUnfinished / allCost / maxConnUnfinished {
		take(mesh.Principal{Tenant: "acme", User: fmt.Sprint(i)}, maxConnUnfinished)
	}
	take(bob, DefaultUnfinished/allCost%maxConnUnfinished)
	full(bob, "of all")
}

// A listener of as many connections as there are addresses.
type arrivingConns chan net.Conn

func (l arrivingConns) Accept() (net.Conn, error) {
	if c, ok := <-l; ok {
		return c, nil
	}
	return nil, net.ErrClosed
}
func (arrivingConns) Close() error   { return nil }
func (arrivingConns) Addr() net.Addr { return address("here:1") }

type connFrom struct {
	net.Conn
	from   address
	closed *int
}

func (c connFrom) RemoteAddr() net.Addr { return c.from }
func (c connFrom) Close() error         { *c.closed++; return nil }

// Connections are bounded from one address and altogether; this machine has some more, and
// those that are closed make room.
func TestConnectionsAreBounded(t *testing.T) {
	in, closed := make(arrivingConns, 1000), 0
	l := NewGate(10, 4, slog.New(slog.DiscardHandler)).Listener(in)
	connect := func(host string, n int) {
		for i := range n {
			in <- connFrom{from: address(fmt.Sprintf("%s:%d", host, i)), closed: &closed}
		}
	}
	accept := func(n int) (all []net.Conn) {
		t.Helper()
		for range n {
			c, err := l.Accept()
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, c)
		}
		return all
	}
	connect("192.0.2.1", 6)
	connect("192.0.2.2", 1)
	first := accept(5)
	if closed != 2 {
		t.Errorf("%d connections from an address are closed, want 2", closed)
	}
	connect("127.0.0.1", 5) // of a proxy
	accept(5)
	connect("192.0.2.3", 1)
	connect("127.0.0.1", ownConnections)
	accept(ownConnections)
	if closed != 3 {
		t.Errorf("%d connections are closed, want 3", closed)
	}
	for range 2 {
		if err := first[0].Close(); err != nil { // twice is once
			t.Error(err)
		}
	}
	connect("127.0.0.1", 2)
	close(in)
	accept(1)
	if _, err := l.Accept(); err == nil {
		t.Error("there was room for one more")
	}
}
