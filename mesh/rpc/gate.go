package rpc

import (
	"context"
	"log/slog"
	"net"
	"sync"
	"time"
)

// ownConnections are those beyond all that this machine may have: the node calls itself.
const ownConnections = 64

// A Gate bounds the connections of listeners: of all together, and from one address of
// another machine; a proxy on this one has the connections of many. What is over that is
// closed at once. Use NewGate.
type Gate struct {
	total, perAddress int
	logger            *slog.Logger

	mu   sync.Mutex
	all  int
	from map[string]int // without zeros
	shut int            // since told
	told time.Time
}

// NewGate returns a gate; the logger is told once a minute how many were closed.
func NewGate(total, perAddress int, logger *slog.Logger) *Gate {
	return &Gate{total: total, perAddress: perAddress, logger: logger, from: map[string]int{}}
}

// Listener returns l behind the gate.
func (g *Gate) Listener(l net.Listener) net.Listener { return gated{l, g} }

type gated struct {
	net.Listener
	gate *Gate
}

func (l gated) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		from := hostOf(conn.RemoteAddr())
		if l.gate.enter(from, time.Now()) {
			return &passed{Conn: conn, leave: sync.OnceFunc(func() { l.gate.leave(from) })}, nil
		}
		_ = conn.Close() // nobody is told more
	}
}

// A passed connection makes room when it is closed.
type passed struct {
	net.Conn
	leave func()
}

func (c *passed) Close() error {
	defer c.leave()
	return c.Conn.Close()
}

// CloseWrite lets a client read an answer that came before all that it sends: whoever
// answers so says that no more comes, before it closes.
func (c *passed) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

func (g *Gate) enter(from string, now time.Time) bool {
	here := net.ParseIP(from).IsLoopback()
	g.mu.Lock()
	defer g.mu.Unlock()
	if here && g.all < g.total+ownConnections || g.all < g.total && g.from[from] < g.perAddress {
		g.all++
		g.from[from]++
		return true
	}
	if g.shut++; now.Sub(g.told) >= tellEvery {
		g.logger.WarnContext(context.Background(), "connections were closed, for there are too many", "times", g.shut, "last", from, "from there", g.from[from], "all", g.all)
		g.shut, g.told = 0, now
	}
	return false
}

func (g *Gate) leave(from string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.all--
	count(g.from, from, -1)
}
