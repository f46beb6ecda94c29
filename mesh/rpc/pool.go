package rpc

import (
	"bytes"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"sync"

	"agentmesh/mesh"

	"google.golang.org/grpc"
)

// MaxIdle is how many connections without calls a Pool keeps: enough that those
// in use stay warm, and few enough that agents that come and go under ever new
// addresses do not add up.
const MaxIdle = 256

// A Pool keeps one warm connection to each endpoint that was asked for. A
// connection connects at once, stays connected while idle, and reconnects by
// itself with backoff. Beyond MaxIdle, those that were asked for the longest
// time ago are closed. The zero value is not usable; NewPool makes one.
type Pool struct {
	options DialOptions

	mu     sync.Mutex
	conns  map[string]*pooled // by endpoint, and by the certificate if there is one
	asked  uint64             // counts calls of Get
	closed bool
}

// A pooled connection counts its calls, so that it is not closed under them.
type pooled struct {
	pool *Pool
	conn *grpc.ClientConn
	// Guarded by pool.mu: when it was asked for last, by Pool.asked; the calls
	// in flight; and whether the pool closed it.
	asked  uint64
	calls  int
	closed bool
}

// NewPool returns a pool whose connections are made with the options.
func NewPool(o DialOptions) *Pool {
	return &Pool{options: o, conns: make(map[string]*pooled)}
}

// Get returns the connection to the endpoint, host:port. It does not wait for
// the connection to stand. The connection belongs to the pool: callers do not
// close it, and ask again for each piece of work instead of keeping it. Errors
// are those of Dial, and Unavailable after Close.
func (p *Pool) Get(endpoint string) (*grpc.ClientConn, error) {
	return p.get(endpoint, endpoint, p.options)
}

// GetAs is Get for a connection that shows the certificate, and is for those alone who give
// the same.
func (p *Pool) GetAs(endpoint string, cert *tls.Certificate) (*grpc.ClientConn, error) {
	key, o := sha256.Sum256(bytes.Join(cert.Certificate, nil)), p.options
	believes := o.TLS
	o.TLS = func() *tls.Config {
		c := &tls.Config{MinVersion: tls.VersionTLS12}
		if believes != nil {
			c = believes()
		}
		c.Certificates = []tls.Certificate{*cert}
		return c
	}
	return p.get(endpoint+" "+hex.EncodeToString(key[:]), endpoint, o)
}

func (p *Pool) get(key, endpoint string, o DialOptions) (*grpc.ClientConn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return nil, mesh.Errorf(mesh.Unavailable, "rpc.Pool.Get", "the mesh is shutting down; try again later")
	}
	p.asked++
	if c, ok := p.conns[key]; ok {
		c.asked = p.asked
		return c.conn, nil
	}
	if len(p.conns) >= MaxIdle {
		p.makeRoom()
	}
	c := &pooled{pool: p, asked: p.asked}
	conn, err := dial(endpoint, o, grpc.WithIdleTimeout(0),
		grpc.WithChainUnaryInterceptor(c.unary), grpc.WithChainStreamInterceptor(c.stream))
	if err != nil {
		return nil, err
	}
	c.conn = conn
	conn.Connect()
	p.conns[key] = c
	return conn, nil
}

// makeRoom drops the idle connection that was asked for the longest time ago, if
// there is one. The caller holds mu.
func (p *Pool) makeRoom() {
	var oldest string
	for endpoint, c := range p.conns {
		if c.calls == 0 && (oldest == "" || c.asked < p.conns[oldest].asked) {
			oldest = endpoint
		}
	}
	if oldest == "" {
		return
	}
	p.conns[oldest].close()
	delete(p.conns, oldest)
}

// Close closes all connections, which ends the calls that are still in flight
// as Canceled, and waits until that is done. It may be called twice.
func (p *Pool) Close() error {
	p.mu.Lock()
	p.closed = true
	conns := p.conns
	p.conns = nil
	p.mu.Unlock()
	for _, c := range conns { // ending calls take mu
		_ = c.conn.Close()
	}
	return nil
}

// close closes the connection, which has no calls. The caller holds pool.mu.
func (c *pooled) close() {
	c.closed = true
	_ = c.conn.Close() // fails when it is closed already
}

// begin counts a call; false if the connection was closed in the meantime.
func (c *pooled) begin() bool {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	if c.closed {
		return false
	}
	c.calls++
	return true
}

func (c *pooled) end() {
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	c.calls--
}

func errClosed() error {
	return mesh.Errorf(mesh.Unavailable, "rpc.Pool", "the connection to the agent was given up; try again")
}

func (c *pooled) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	if !c.begin() {
		return errClosed()
	}
	defer c.end()
	return invoke(ctx, method, req, reply, cc, opts...)
}

func (c *pooled) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	if !c.begin() {
		return nil, errClosed()
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
