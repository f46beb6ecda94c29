// Package nodetest runs whole meshes for tests: a node on ephemeral ports, or two in
// one process on the same backend, of which each call goes to any.
//
// What it starts ends with the test. Its methods may be called concurrently.
package nodetest

import (
	"context"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"google.golang.org/grpc"

	"agentmesh/mesh/node"
	"agentmesh/mesh/node/datafolder"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/store/shared"
	"agentmesh/mesh/turn"
)

// A Mesh is a node that runs, or two.
type Mesh struct {
	node.Addresses // the first node's
	All            []node.Addresses
	Nodes          []*Node
	t              testing.TB
	conns          Conns
}

// A Node is one that runs until Stop.
type Node struct {
	node.Addresses
	Stop func()
}

// Config is that of a node on ephemeral ports.
func Config(data string) node.Config {
	return node.Config{GRPC: "127.0.0.1:0", HTTP: "127.0.0.1:0", Data: data, Grace: 5 * time.Second,
		RateLimit: node.RateLimit{PerSecond: -1, FailedLogins: -1}}
}

// Options are those of a node in a data folder, with times that a test waits for.
// MESH_TEST_LOG makes it log to standard error.
func Options() node.Options {
	logs := io.Discard
	if os.Getenv("MESH_TEST_LOG") != "" {
		logs = os.Stderr
	}
	return node.Options{
		Logger:  slog.New(slog.NewTextHandler(logs, nil)),
		Turns:   func(c *turn.Config) { c.HandoffGrace, c.CancelGrace = 300*time.Millisecond, time.Second },
		Backend: datafolder.Opener(nil),
	}
}

// Start runs a mesh, of two nodes when [shared.Pair] says so.
func Start(t testing.TB, cfg node.Config, o node.Options) *Mesh {
	t.Helper()
	if shared.Pair() {
		return StartPair(t, cfg, o, nil)
	}
	return start(t, cfg, o)
}

// StartPair runs a mesh of two nodes on the backend of the options; a node sees
// it as the function returns it, with its number.
func StartPair(t testing.TB, cfg node.Config, o node.Options, seen func(n int, b node.Backend) node.Backend) *Mesh {
	t.Helper()
	o.Backend = (&common{open: o.Backend, seen: seen}).handle
	second, other := cfg, o
	second.Schedules.Off, other.WebhooksElsewhere = true, true
	other.Logger = o.Logger.With("node", "second")
	m := start(t, cfg, o)
	m.add(second, other)
	return m
}

func start(t testing.TB, cfg node.Config, o node.Options) *Mesh {
	t.Helper()
	m := &Mesh{t: t}
	m.add(cfg, o)
	m.Addresses = m.All[0]
	return m
}

// add starts a node and returns when it is ready.
func (m *Mesh) add(cfg node.Config, o node.Options) {
	m.t.Helper()
	ready := make(chan node.Addresses, 1)
	o.Ready = func(a node.Addresses) { ready <- a }
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- node.Run(ctx, cfg, o) }() // Stop waits
	n := &Node{Stop: sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			m.t.Errorf("node: %v", err)
		}
	})}
	select {
	case n.Addresses = <-ready:
	case err := <-done:
		cancel()
		m.t.Fatalf("node did not start: %v", err)
	}
	m.t.Cleanup(n.Stop)
	m.All, m.Nodes = append(m.All, n.Addresses), append(m.Nodes, n)
}

// Stop ends all connections and nodes.
func (m *Mesh) Stop() {
	for _, c := range m.conns {
		_ = c.Close() // it may be closed
	}
	for _, n := range m.Nodes {
		n.Stop()
	}
}

// Any are the addresses of any node.
func (m *Mesh) Any() node.Addresses { return m.All[rand.IntN(len(m.All))] }

// Dial connects to all nodes until the test ends.
func (m *Mesh) Dial(o rpc.DialOptions) Conns {
	m.t.Helper()
	var c Conns
	for _, a := range m.All {
		conn, err := rpc.Dial(a.GRPC, o)
		if err != nil {
			m.t.Fatal(err)
		}
		c = append(c, conn)
	}
	m.conns = append(m.conns, c...)
	m.t.Cleanup(m.Stop)
	return c
}

// Conns are connections to the nodes of a mesh; each call takes any.
type Conns []*grpc.ClientConn

// Invoke implements [grpc.ClientConnInterface].
func (c Conns) Invoke(ctx context.Context, method string, args, reply any, opts ...grpc.CallOption) error {
	return c[rand.IntN(len(c))].Invoke(ctx, method, args, reply, opts...)
}

// NewStream implements [grpc.ClientConnInterface].
func (c Conns) NewStream(ctx context.Context, desc *grpc.StreamDesc, method string, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	return c[rand.IntN(len(c))].NewStream(ctx, desc, method, opts...)
}

// common is a backend that several nodes stand on, each with a handle of its own.
type common struct {
	open func(node.Config, string) (node.Backend, error)
	seen func(int, node.Backend) node.Backend

	mu    sync.Mutex
	nodes int // that have been started
	users int
	base  node.Backend
	log   *shared.Store
}

func (c *common) handle(cfg node.Config, address string) (node.Backend, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users == 0 {
		base, err := c.open(cfg, address)
		if err != nil {
			return base, err
		}
		c.base, c.log = base, shared.New(base.Threads)
	}
	b := node.Backend{Threads: c.log.Handle(), State: c.base.State, Leases: c.base.Leases, Audit: c.base.Audit, Blobs: c.base.Blobs, Head: c.base.Head, Health: c.base.Health, Unchecked: c.base.Unchecked, Shared: true, Close: c.close}
	if c.seen != nil {
		b = c.seen(c.nodes, b)
	}
	c.nodes, c.users = c.nodes+1, c.users+1
	return b, nil
}

// close closes the backend when nobody is left.
func (c *common) close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users--; c.users > 0 {
		return nil
	}
	return c.base.Close()
}
