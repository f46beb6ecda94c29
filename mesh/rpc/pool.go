package rpc

import (
	"context"
	"sync"

	"agentmesh/mesh"

	"google.golang.org/grpc"
)

// A Pool keeps one warm connection to each endpoint that was asked for. A
// connection connects at once, stays connected while idle, and reconnects by
// itself with backoff. The zero value is not usable; NewPool makes one.
type Pool struct {
	options DialOptions

	mu     sync.Mutex
	conns  map[string]*pooled
	old    map[*pooled]bool // forgotten, with calls still in flight
	closed bool
}

// A pooled connection counts its calls, so that it can be closed after them.
type pooled struct {
	pool     *Pool
	conn     *grpc.ClientConn
	calls    int  // guarded by pool.mu
	retiring bool // guarded by pool.mu
}

// NewPool returns a pool whose connections are made with the options.
func NewPool(o DialOptions) *Pool {
	return &Pool{options: o, conns: make(map[string]*pooled), old: make(map[*pooled]bool)}
}

// Get returns the connection to the endpoint, host:port. It does not wait for
// the connection to stand. The connection belongs to the pool: callers do not
// close it, and ask again for each piece of work instead of keeping it. Errors
// are those of Dial, and Unavailable after Close.
func (p *Pool) Get(endpoint string) (*grpc.ClientConn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, mesh.Errorf(mesh.Unavailable, "rpc.Pool.Get", "the mesh is shutting down; try again later")
	}
	if c, ok := p.conns[endpoint]; ok {
		return c.conn, nil
	}
	c := &pooled{pool: p}
	conn, err := dial(endpoint, p.options, grpc.WithIdleTimeout(0),
		grpc.WithChainUnaryInterceptor(c.unary), grpc.WithChainStreamInterceptor(c.stream))
	if err != nil {
		return nil, err
	}
	c.conn = conn
	conn.Connect()
	p.conns[endpoint] = c
	return conn, nil
}

// Forget drops the endpoint: the next Get connects anew. Calls in flight on
// the old connection go on, and it is closed after the last one. Forgetting
// what is not known does nothing.
func (p *Pool) Forget(endpoint string) {
	p.mu.Lock()
	c, ok := p.conns[endpoint]
	if !ok {
		p.mu.Unlock()
		return
	}
	delete(p.conns, endpoint)
	c.retiring = true
	idle := c.calls == 0
	if !idle {
		p.old[c] = true
	}
	p.mu.Unlock()
	if idle {
		c.close()
	}
}

// Close closes all connections, which ends the calls that are still in flight
// as Canceled, and waits until that is done. It may be called twice.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	var all []*pooled
	for _, c := range p.conns {
		all = append(all, c)
	}
	for c := range p.old {
		all = append(all, c)
	}
	clear(p.conns)
	clear(p.old)
	for _, c := range all {
		c.retiring = true
	}
	p.mu.Unlock()
	for _, c := range all {
		c.close()
	}
	return nil
}

// close closes the connection. Closing twice, which Close and the last call of
// a forgotten connection can do, is harmless, and so is the error that says so.
func (c *pooled) close() { _ = c.conn.Close() }

// begin counts a call; false if the connection was forgotten in the meantime.
func (c *pooled) begin() bool {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	if c.retiring {
		return false
	}
	c.calls++
	return true
}

// end uncounts a call and closes a forgotten connection after its last one.
func (c *pooled) end() {
	c.pool.mu.Lock()
	c.calls--
	last := c.retiring && c.calls == 0
	if last {
		delete(c.pool.old, c)
	}
	c.pool.mu.Unlock()
	if last {
		c.close()
	}
}

func errForgotten() error {
	return mesh.Errorf(mesh.Unavailable, "rpc.Pool", "the agent has moved; try again")
}

func (c *pooled) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if !c.begin() {
		return errForgotten()
	}
	defer c.end()
	return invoke(ctx, method, req, reply, cc, opts...)
}

func (c *pooled) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if !c.begin() {
		return nil, errForgotten()
	}
	s, err := open(ctx, desc, cc, method, opts...)
	if err != nil {
		c.end()
		return nil, err
	}
	end := sync.OnceFunc(c.end)
	// A caller that is done with a stream has seen its end or cancels ctx.
	stop := context.AfterFunc(ctx, end)
	return &countedStream{s, !desc.ServerStreams, func() { stop(); end() }}, nil
}

// A countedStream tells when its last message was read.
type countedStream struct {
	grpc.ClientStream
	single bool // one message ends it
	end    func()
}

func (s *countedStream) RecvMsg(m any) error {
	err := s.ClientStream.RecvMsg(m)
	if err != nil || s.single {
		s.end()
	}
	return err
}
