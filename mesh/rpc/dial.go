package rpc

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"agentmesh/mesh"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
)

// DialOptions are the choices of Dial. The zero value is right for calls
// between the node and agents.
type DialOptions struct {
	// Bearer is the token of a user's program. It is sent with calls that are
	// not made under a grant.
	Bearer string
	// BearerSource is asked for the token of each call instead, "" for none.
	BearerSource func(context.Context) (string, error)
	// Tenant and User go out with calls whose Call names none.
	Tenant mesh.TenantID
	User   string
	// AllowPlaintextBearer lets Bearer travel unencrypted beyond this machine, and
	// AllowPlaintextGrant grants, tickets and secrets of registrations.
	AllowPlaintextBearer, AllowPlaintextGrant bool
	// TLS returns the configuration with which a connection is made now, to a target
	// that begins with "grpcs://" or "https://". The default believes whom the system
	// does.
	TLS func() *tls.Config
	// MaxMessage bounds a received message, in bytes. The default is
	// DefaultMaxMessage. Of more the server is told.
	MaxMessage int
	// Dialer opens the connections, and is given host:port as the target has it. The
	// default is TCP or, for "unix:" targets, a socket.
	Dialer func(context.Context, string) (net.Conn, error)
}

// Dial returns a connection to a server of the mesh or to an A2A agent. It
// does not wait for the connection to stand and never fails because the server
// is away; calls then do, as Unavailable. Calls carry the [mesh.Call] in their
// context, and fail with *mesh.Error. The caller closes the connection.
//
// Connections are encrypted to targets that [mesh.Endpoint] says it of. Beyond this machine a
// Bearer for another one is refused as Precondition, and so are calls with a grant, a ticket
// or the secret of a registration, unless that is allowed.
func Dial(target string, o DialOptions) (*grpc.ClientConn, error) {
	return dial(target, o)
}

func dial(target string, o DialOptions, extra ...grpc.DialOption) (*grpc.ClientConn, error) {
	const op = "rpc.Dial"
	if target == "" {
		return nil, mesh.InvalidField(op, "target", "must be host:port, and is empty")
	}
	if strings.Contains(target, "@") && !strings.HasPrefix(target, "unix") {
		return nil, mesh.InvalidField(op, "target", "must not hold a user name or password; the address is shown to others")
	}
	address, secure := mesh.Endpoint(target)
	private := secure || isLocal(address)
	if (o.Bearer != "" || o.BearerSource != nil) && !o.AllowPlaintextBearer && !private {
		return nil, mesh.Errorf(mesh.Precondition, op,
			"the connection to %s is not encrypted and would show your token to the network; "+
				"call it over TLS, as %s%s, use a tunnel to this machine, or allow plaintext tokens", address, mesh.SecureScheme, address)
	}
	creds := insecure.NewCredentials()
	if secure {
		creds = newCurrent(o.TLS)
	}
	opts := append([]grpc.DialOption{
		grpc.WithTransportCredentials(creds),
		grpc.WithDefaultCallOptions(grpc.MaxCallRecvMsgSize(orDefault(o.MaxMessage, DefaultMaxMessage)), grpc.ForceCodecV2(newCodec())),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: clientPing, Timeout: 20 * time.Second}),
		grpc.WithConnectParams(grpc.ConnectParams{
			Backoff:           backoff.Config{BaseDelay: 100 * time.Millisecond, Multiplier: 1.6, Jitter: 0.2, MaxDelay: 5 * time.Second},
			MinConnectTimeout: 3 * time.Second,
		}),
	}, extra...)
	c := client{o: o}
	if !private && !o.AllowPlaintextGrant {
		c.exposed = MayShowGrant(address)
	}
	opts = append(opts, grpc.WithChainUnaryInterceptor(c.unary), grpc.WithChainStreamInterceptor(c.stream))
	if o.Dialer != nil {
		opts = append(opts, grpc.WithContextDialer(o.Dialer))
		if _, _, err := net.SplitHostPort(address); err == nil && !strings.Contains(address, "/") {
			address = "passthrough:///" + address // or gRPC would look the name up
		}
	}
	conn, err := grpc.NewClient(address, opts...)
	if err != nil {
		return nil, &mesh.Error{Code: mesh.Invalid, Op: op, Field: "target", Err: err,
			Detail: "must be host:port, and is not understood"}
	}
	return conn, nil
}

func orDefault(n, def int) int {
	if n > 0 {
		return n
	}
	return def
}

// isLocal reports whether what is sent to the target stays on this machine.
func isLocal(target string) bool {
	if strings.HasPrefix(target, "unix:") || strings.HasPrefix(target, "unix-abstract:") {
		return true
	}
	for _, scheme := range []string{"dns:", "passthrough:///", "passthrough:"} {
		target = strings.TrimPrefix(target, scheme)
	}
	host, _, err := net.SplitHostPort(target)
	if err != nil {
		host = strings.Trim(target, "[]")
	}
	addr, err := netip.ParseAddr(host)
	return host == "localhost" || err == nil && addr.IsLoopback()
}

// A client writes identity into calls and reads errors out of them.
type client struct {
	o       DialOptions
	exposed error // why nothing of an agent's work is sent that is secret; nil if it may be
}

// outgoing returns ctx with the metadata of the Call in it, completed by the
// options. Other metadata in ctx stays. It returns the error of who makes tickets.
func (c client) outgoing(ctx context.Context) (context.Context, error) {
	call, _ := mesh.CallFrom(ctx)
	if c.exposed != nil && (call.GrantToken != "" || call.TicketToken != "" || call.Ticket != nil || call.Holder != "") {
		return ctx, c.exposed
	}
	var err error
	if call.TicketToken, err = call.MakeTicket(ctx); err != nil {
		return ctx, mesh.Wrap("rpc.outgoing", err)
	}
	if call.Principal.Tenant == "" {
		call.Principal.Tenant = c.o.Tenant
	}
	if call.Principal.User == "" {
		call.Principal.User = c.o.User
	}
	md, ok := metadata.FromOutgoingContext(ctx) // a copy
	if !ok {
		md = make(metadata.MD, 8)
	}
	bearer := c.o.Bearer
	if c.o.BearerSource != nil && call.GrantToken == "" {
		if bearer, err = c.o.BearerSource(ctx); err != nil {
			return ctx, mesh.Wrap("rpc.outgoing", err)
		}
	}
	write(md, call, bearer)
	if c.o.MaxMessage > DefaultMaxMessage {
		md.Set(KeyMaxAnswer, strconv.Itoa(c.o.MaxMessage))
	}
	return metadata.NewOutgoingContext(ctx, md), nil
}

func (c client) unary(ctx context.Context, method string, req, reply any, cc *grpc.ClientConn, invoke grpc.UnaryInvoker, opts ...grpc.CallOption) error {
	ctx, err := c.outgoing(ctx)
	if err == nil {
		err = invoke(ctx, method, req, reply, cc, opts...)
	}
	return FromStatus(err)
}

func (c client) stream(ctx context.Context, desc *grpc.StreamDesc, cc *grpc.ClientConn, method string, open grpc.Streamer, opts ...grpc.CallOption) (grpc.ClientStream, error) {
	ctx, err := c.outgoing(ctx)
	if err != nil {
		return nil, FromStatus(err)
	}
	s, err := open(ctx, desc, cc, method, opts...)
	if err != nil {
		return nil, FromStatus(err)
	}
	return &clientStream{s}, nil
}

// A clientStream is a stream whose errors are *mesh.Error, but for io.EOF.
type clientStream struct{ grpc.ClientStream }

func (s *clientStream) Header() (metadata.MD, error) {
	md, err := s.ClientStream.Header()
	return md, fromStream(err)
}

func (s *clientStream) SendMsg(m any) error { return fromStream(s.ClientStream.SendMsg(m)) }
func (s *clientStream) RecvMsg(m any) error { return fromStream(s.ClientStream.RecvMsg(m)) }
func (s *clientStream) CloseSend() error    { return fromStream(s.ClientStream.CloseSend()) }

func fromStream(err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return FromStatus(err)
}
