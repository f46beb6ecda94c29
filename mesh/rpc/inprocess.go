package rpc

import (
	"context"
	"io"
	"sync"
	"time"

	"agentmesh/mesh"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
)

// A Conn calls the services of a [Server] in its own process. Of a call's context
// its end and its outgoing metadata arrive, and nothing else. Errors are statuses,
// as over the network; trailers are dropped.
//
// A request arrives as a copy. What is answered is the server's, which may share it
// with others: it is read-only, and so is all below it.
type Conn interface {
	// Invoke makes a unary call. NewStream of a Server refuses; Stream is instead of it.
	grpc.ClientConnInterface
	// Known returns who calls by the outgoing metadata of ctx alone, as each call finds it
	// out, so that nobody needs to read what an unknown caller sends.
	Known(ctx context.Context) (mesh.Principal, error)
	// Unfinished counts what arrives for calls, also of requests that calls are made for.
	Unfinished() *Unfinished
	// Stream makes a server-streaming call, whose handler runs in the caller's
	// goroutine, and returns how it ended. It ends at once when out refuses.
	Stream(ctx context.Context, method string, in proto.Message, out Sink) error
	// Feed makes a client-streaming call likewise, of which next has one request after the
	// other, each of which may be changed when the next one is asked for, and then io.EOF.
	Feed(ctx context.Context, method string, next func() (proto.Message, error), out Sink) error
}

// A Sink takes what a streaming call answers, one after the other.
type Sink interface {
	// Header is called before all else, once, if the call is accepted.
	Header(md metadata.MD) error
	// Send reads a message, which stays the server's. Its place in its log is seq, or 0
	// if the message alone tells it, or nobody.
	Send(m proto.Message, seq int64) error
}

// A Server is a gRPC server that is also the [Conn] to its services: who calls them
// without the network comes through the same interceptors, and has the same limits.
type Server struct {
	*grpc.Server
	guard   *guard
	most    int // bytes of a request
	methods map[string]method
	over    context.Context //nolint:containedctx // the end of all calls in the process
	cut     context.CancelFunc

	mu      sync.Mutex
	closing bool
	calls   sync.WaitGroup // in the process
}

// A method is one of the services' and what implements it.
type method struct {
	service any
	unary   grpc.MethodHandler
	stream  grpc.StreamHandler // of the server alone or, if it is fed, of the client alone
	fed     bool
}

var _ Conn = (*Server)(nil)

func newServer(s *grpc.Server, g *guard, most int) *Server {
	over, cut := context.WithCancel(context.Background())
	return &Server{Server: s, guard: g, most: most, methods: map[string]method{}, over: over, cut: cut}
}

// RegisterService registers a service, before any is called.
func (s *Server) RegisterService(d *grpc.ServiceDesc, impl any) {
	s.Server.RegisterService(d, impl)
	for _, m := range d.Methods {
		s.methods["/"+d.ServiceName+"/"+m.MethodName] = method{service: impl, unary: m.Handler}
		s.guard.names["/"+d.ServiceName+"/"+m.MethodName] = d.ServiceName + "/" + m.MethodName
	}
	for _, m := range d.Streams {
		s.guard.names["/"+d.ServiceName+"/"+m.StreamName] = d.ServiceName + "/" + m.StreamName
		if m.ServerStreams != m.ClientStreams {
			s.methods["/"+d.ServiceName+"/"+m.StreamName] = method{service: impl, stream: m.Handler, fed: m.ClientStreams}
		}
	}
}

// Guarded lists the methods of the services by their full names, but those that
// anyone may call.
func (s *Server) Guarded() []string {
	var all []string
	for service, info := range s.GetServiceInfo() {
		for _, m := range info.Methods {
			if name := "/" + service + "/" + m.Name; !s.guard.isOpen(name) {
				all = append(all, name)
			}
		}
	}
	return all
}

// EndCalls ends the calls for which over has an error, with that: as [ErrEnded] when their
// credential ends. They are streams, and unary calls that were made with a credential. The
// call is in its context.
func (s *Server) EndCalls(over func(ctx context.Context, method string) error) {
	s.guard.streams.end(over)
}

// GracefulStop takes no new calls, and returns when those in flight have ended.
func (s *Server) GracefulStop() {
	s.refuse()
	s.Server.GracefulStop()
	s.calls.Wait()
	s.cut()
}

// Stop takes no new calls, ends those in flight, and waits for those in the process.
func (s *Server) Stop() {
	s.refuse()
	s.cut()
	s.Server.Stop()
	s.calls.Wait()
}

// Leave takes no new calls from the network, and ends those in flight that have not ended
// after the time. Calls in the process go on, until Stop or GracefulStop.
func (s *Server) Leave(after time.Duration) {
	cut := time.AfterFunc(after, s.Server.Stop)
	defer cut.Stop()
	s.Server.GracefulStop()
}

func (s *Server) refuse() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing = true
}

// begin returns the call; its caller calls end when it has ended.
func (s *Server) begin(ctx context.Context, name string, in any) (c *localCall, end func(), err error) {
	const op = "rpc.Server"
	if err := ctx.Err(); err != nil {
		return nil, nil, err
	}
	m, ok := s.methods[name]
	if !ok {
		return nil, nil, mesh.Errorf(mesh.Unsupported, op, "there is no method %s", name)
	}
	request, err := s.request(in.(proto.Message))
	if err != nil {
		return nil, nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing {
		return nil, nil, closed()
	}
	s.calls.Add(1)
	md, _ := metadata.FromOutgoingContext(ctx) // a copy
	ctx, cancel := context.WithCancel(withPeer(bare{ctx}, ctx))
	undo := context.AfterFunc(s.over, cancel)
	c = &localCall{method: m, name: name, request: request}
	c.ctx = grpc.NewContextWithServerTransportStream(metadata.NewIncomingContext(ctx, md), transport{c})
	return c, func() {
		undo()
		cancel()
		s.calls.Done()
	}, nil
}

// request is the message as the server gets it.
func (s *Server) request(in proto.Message) ([]byte, error) {
	const op = "rpc.Server"
	request, err := proto.Marshal(in)
	switch {
	case err != nil: // there is but this reason
		return nil, &mesh.Error{Code: mesh.Invalid, Op: op, Detail: "The request has text that is not UTF-8; send UTF-8", Err: err}
	case len(request) > s.most:
		return nil, mesh.Errorf(mesh.Exhausted, op, "the request has %d bytes; the limit is %d", len(request), s.most)
	}
	return request, nil
}

func closed() error {
	return mesh.Errorf(mesh.Unavailable, "rpc.Server", "the node is shutting down; try again soon")
}

// ended is the error of a call that Stop may have cut, or its caller's context:
// whatever its handler made of that.
func (s *Server) ended(ctx context.Context, err error) error {
	switch {
	case ctx.Err() != nil:
		return s.guard.errors.ToStatus(ctx.Err())
	case err != nil && s.over.Err() != nil:
		return s.guard.errors.ToStatus(closed())
	}
	return err
}

// Known implements [Conn].
func (s *Server) Known(ctx context.Context) (mesh.Principal, error) {
	md, _ := metadata.FromOutgoingContext(ctx)
	in := withPeer(metadata.NewIncomingContext(bare{ctx}, md), ctx)
	call, err := s.guard.identify(in, "", time.Now())
	s.guard.refused(mesh.WithCall(in, call), "", nil, err)
	return call.Principal, s.guard.errors.ToStatus(err)
}

// Unfinished implements [Conn].
func (s *Server) Unfinished() *Unfinished { return s.guard.arrivals.unfinished }

// Invoke implements [Conn]. Of the options it heeds [grpc.Header].
func (s *Server) Invoke(ctx context.Context, name string, in, reply any, opts ...grpc.CallOption) error {
	c, end, err := s.begin(ctx, name, in)
	if err == nil && c.method.unary == nil {
		end()
		err = mesh.Errorf(mesh.Unsupported, "rpc.Invoke", "%s is not a unary method", name)
	}
	if err != nil {
		return s.guard.errors.ToStatus(err)
	}
	defer end()
	out, err := c.method.unary(c.method.service, c.ctx, c.RecvMsg, s.guard.unary)
	for _, o := range opts {
		if h, ok := o.(grpc.HeaderCallOption); ok {
			*h.HeaderAddr = c.header
		}
	}
	if err != nil {
		return s.ended(ctx, err)
	}
	return share(reply, out)
}

// share sets the fields of reply to those of out.
func share(reply, out any) error {
	to, ok := reply.(proto.Message)
	from, is := out.(proto.Message)
	if !ok || !is || to.ProtoReflect().Descriptor() != from.ProtoReflect().Descriptor() {
		return status.Errorf(codes.Internal, "the answer is a %T instead of a %T", out, reply)
	}
	into := to.ProtoReflect()
	from.ProtoReflect().Range(func(f protoreflect.FieldDescriptor, v protoreflect.Value) bool {
		into.Set(f, v)
		return true
	})
	return nil
}

// NewStream implements [grpc.ClientConnInterface] by a refusal.
func (s *Server) NewStream(context.Context, *grpc.StreamDesc, string, ...grpc.CallOption) (grpc.ClientStream, error) {
	return nil, status.Error(codes.Unimplemented, "streams in the process are served by Stream")
}

// Stream implements [Conn].
func (s *Server) Stream(ctx context.Context, name string, in proto.Message, out Sink) error {
	return s.stream(ctx, name, in, nil, out)
}

// Feed implements [Conn].
func (s *Server) Feed(ctx context.Context, name string, next func() (proto.Message, error), out Sink) error {
	first, err := next()
	if err != nil {
		return s.guard.errors.ToStatus(mesh.Wrap("rpc.Feed", err))
	}
	return s.stream(ctx, name, first, next, out)
}

// stream makes the call, of which next has further requests if it is fed.
func (s *Server) stream(ctx context.Context, name string, first proto.Message, next func() (proto.Message, error), out Sink) error {
	c, end, err := s.begin(ctx, name, first)
	if err == nil && (c.method.stream == nil || c.method.fed != (next != nil)) {
		end()
		err = mesh.Errorf(mesh.Unsupported, "rpc.Stream", "%s does not stream so", name)
	}
	if err != nil {
		return s.guard.errors.ToStatus(err)
	}
	defer end()
	c.out = out
	if next != nil {
		c.next = func() ([]byte, error) {
			m, err := next()
			if err != nil {
				return nil, err
			}
			return s.request(m)
		}
	}
	err = s.guard.stream(c.method.service, c, &grpc.StreamServerInfo{FullMethod: name, IsServerStream: !c.method.fed, IsClientStream: c.method.fed}, c.method.stream)
	if err == nil {
		err = c.accept()
	}
	return s.ended(ctx, err)
}

// bare is a context without the values of its caller, which no network would carry:
// its outgoing metadata is not for whom the server calls.
type bare struct{ context.Context } //nolint:containedctx // it is one

func (b bare) Value(any) any                         { return nil }
func (b bare) AfterFunc(f func()) (stop func() bool) { return context.AfterFunc(b.Context, f) }

// A localCall is a call in the process as its handler sees it: a
// [grpc.ServerStream].
type localCall struct {
	ctx     context.Context //nolint:containedctx // where gRPC wants it
	method  method
	name    string
	request []byte
	read    bool
	next    func() ([]byte, error) // has what follows the request, or is nil
	out     Sink                   // of a stream

	mu     sync.Mutex
	header metadata.MD
	sent   bool // the header
}

func (c *localCall) Context() context.Context { return c.ctx }
func (c *localCall) SetTrailer(metadata.MD)   {}

func (c *localCall) SetHeader(md metadata.MD) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sent {
		return status.Error(codes.Internal, "the header was sent before")
	}
	c.header = metadata.Join(c.header, md)
	return nil
}

func (c *localCall) SendHeader(md metadata.MD) error {
	if err := c.SetHeader(md); err != nil {
		return err
	}
	return c.accept()
}

// accept sends the header, if that is still to do.
func (c *localCall) accept() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.sent {
		return nil
	}
	c.sent = true
	if c.out == nil {
		return nil
	}
	return c.out.Header(c.header)
}

// RecvMsg reads the request, which is one unless the call is fed.
func (c *localCall) RecvMsg(m any) error {
	if c.read {
		if c.next == nil {
			return io.EOF
		}
		request, err := c.next()
		if err != nil {
			return err
		}
		return proto.Unmarshal(request, m.(proto.Message))
	}
	request := c.request
	c.read, c.request = true, nil // a stream may last
	return proto.Unmarshal(request, m.(proto.Message))
}

func (c *localCall) SendMsg(m any) error {
	if err := c.ctx.Err(); err != nil {
		return status.FromContextError(err).Err()
	}
	if err := c.accept(); err != nil {
		return err
	}
	var seq int64
	if e, ok := m.(*Encoded); ok {
		m, seq = e.Message, e.Seq
	}
	return c.out.Send(m.(proto.Message), seq)
}

// A transport is where [grpc.SetHeader] finds a call.
type transport struct{ c *localCall }

func (t transport) Method() string                  { return t.c.name }
func (t transport) SetHeader(md metadata.MD) error  { return t.c.SetHeader(md) }
func (t transport) SendHeader(md metadata.MD) error { return t.c.SendHeader(md) }
func (t transport) SetTrailer(metadata.MD) error    { return nil }
