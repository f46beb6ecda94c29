package rpc

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"strings"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/telemetry"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
)

// Credentials is what the metadata of a call claims about its caller, checked
// for form only. Absent claims are "".
type Credentials struct {
	// Method is the full name of the RPC, as "/lf.a2a.v1.A2AService/GetTask".
	Method string
	// Authorization is the header of that name as it came; Grant and Ticket the tokens
	// in mesh-grant and mesh-ticket.
	Authorization string
	Grant, Ticket string
	// Certificate is the one of the connection, verified; nil for none.
	Certificate *x509.Certificate
	Tenant      mesh.TenantID
	User        string
	Thread      string
	Execution   mesh.ExecutionID
}

// An Authenticator finds out who is calling. It is called concurrently.
type Authenticator interface {
	// Authenticate returns the caller without waiting for anything, or an Unauthenticated, Denied, Invalid
	// or NotFound error whose text is the same for things that do not exist
	// and things of others. When c.Grant or c.Ticket is not empty it is checked,
	// and the Principal has a Grant with which the other claims agree. With an error the
	// Principal is who the credential belongs to, if anybody, for the record alone.
	Authenticate(ctx context.Context, c Credentials) (mesh.Principal, error)
}

// An Authorizer says who may call what. It is called concurrently.
type Authorizer interface {
	// Authorize returns nil if the caller may call the method, by its full name, or a
	// Denied or Unauthenticated error. The message is nil for streams. A policy of the
	// operator that allowed the call is named.
	Authorize(ctx context.Context, p mesh.Principal, method string, message any) (policy string, err error)
}

// A Limiter bounds how often a caller may call. It is called concurrently.
type Limiter interface {
	// Allow reports whether the caller may call now, and if not, how long it
	// should wait.
	Allow(caller string, now time.Time) (retryAfter time.Duration, ok bool)
	// Burst is how many calls of a caller may come at once.
	Burst() int
	// String describes the limit to users, as "5 calls per second, 10 at once".
	String() string
}

// Defaults of Options.
const (
	DefaultMaxMessage = mesh.MaxWire
	DefaultMaxStreams = 16384
)

// Options are the choices of NewServer.
type Options struct {
	// Auth says who is calling. Without it, calls to methods that are not
	// open are refused.
	Auth Authenticator
	// Authorizer says who may call what. Without it, whoever is known may call all.
	Authorizer Authorizer
	// TLS is the configuration of connections, of which there are no others then.
	// TrustDomain is that of the SPIFFE IDs by which certificates name agents: see
	// [mesh.Call].
	TLS         *tls.Config
	TrustDomain string
	// Stands says whether the certificate by which an agent connected counts still. The
	// default is that all do.
	Stands func(mesh.AgentID, *x509.Certificate) bool
	// Logger gets one record per call. The default discards them.
	Logger *slog.Logger
	// Auditor keeps a record of administrative acts and of refusals. The default is none.
	Auditor Auditor
	// Telemetry tells of the calls, and is what [telemetry.From] returns of their contexts.
	// The default is none.
	Telemetry *telemetry.Telemetry
	// MaxMessage bounds a received message, in bytes. The default is
	// DefaultMaxMessage.
	MaxMessage int
	// MaxStreams bounds the calls in flight per connection. The default is
	// DefaultMaxStreams.
	MaxStreams uint32
	// Limiter bounds the calls of each user. Calls under a grant and open
	// methods are exempt. The default is no limit.
	Limiter Limiter
	// Logins bounds the log-ins that fail, by the address that they come from. It bounds
	// nobody who can log in. The default is no limit.
	Logins Limiter
	// Streams bounds the streaming calls that are open at a time. Calls under
	// a grant and open methods are exempt. The default is no limit.
	Streams StreamLimit
	// Arrive is how long the first message of a call may take to arrive after its
	// headers; the default is 30 s.
	Arrive time.Duration
	// Idle is how long a connection may have no calls before it is closed; the default is
	// 5 min.
	Idle time.Duration
	// Unfinished bounds the bytes of requests that have not arrived as a whole; the
	// default is DefaultUnfinished. A user has 32 MiB of them, and a connection 16.
	Unfinished int64
	// Errors is the table of A2A errors. The default is that of A2A v1.0.1.
	Errors ErrorTable
	// Open are the methods that anyone may call, by full name, or a prefix
	// that ends with "/" for a whole service. Who calls them is not found out:
	// their Call has no tenant. See Infrastructure.
	Open []string
}

// Infrastructure returns the services that tools call without credentials,
// for Options.Open: health and reflection.
func Infrastructure() []string {
	return []string{"/grpc.health.v1.Health/", "/grpc.reflection.v1.ServerReflection/",
		"/grpc.reflection.v1alpha.ServerReflection/"}
}

// workers is the number of goroutines that wait for calls; each call over that
// gets a goroutine of its own. Reusing their grown stacks saves about a third
// of the CPU of short calls.
const workers = 64

// handshakeTime is how long a connection may take until calls can be made over it, and
// idleTime how long it is kept when there are none. After connectionAge new calls go over a
// new one, which shows the certificate of the day.
const (
	handshakeTime = 10 * time.Second
	idleTime      = 5 * time.Minute
	connectionAge = time.Hour
)

// maxHeaders bounds the metadata of a call, in bytes: room for the longest
// values that parse accepts.
const maxHeaders = 128 << 10

// NewServer returns a server whose handlers find the caller's identity in
// their context ([mesh.CallFrom]) and whose errors reach the caller as
// [ToStatus] makes them. The caller registers services, serves and stops it.
func NewServer(o Options) *Server {
	if o.MaxMessage <= 0 {
		o.MaxMessage = DefaultMaxMessage
	}
	if o.MaxStreams == 0 {
		o.MaxStreams = DefaultMaxStreams
	}
	logger := slog.New(slog.DiscardHandler)
	if o.Logger != nil {
		logger = slog.New(LogHandler(o.Logger.Handler()))
	}
	creds := insecure.NewCredentials()
	if o.TLS != nil {
		creds = credentials.NewTLS(o.TLS)
	}
	calls := &arrivals{within: cmp.Or(o.Arrive, arriveTime), unfinished: NewUnfinished(o.Unfinished)}
	g := &guard{auth: o.Auth, domain: o.TrustDomain, stands: o.Stands, authorizer: o.Authorizer, auditor: o.Auditor, limiter: o.Limiter, logins: newLogins(o.Logins, logger), logger: logger, telemetry: o.Telemetry, names: map[string]string{}, open: o.Open, streams: newStreams(o.Streams), arrivals: calls, errors: o.Errors}
	return newServer(grpc.NewServer(
		grpc.Creds(inboundCredentials{creds, calls}),
		grpc.ReadBufferSize(0), // an inbound has one
		grpc.ConnectionTimeout(handshakeTime),
		grpc.InTapHandle(g.tap),
		grpc.UnaryInterceptor(g.unary),
		grpc.StreamInterceptor(g.stream),
		grpc.ForceServerCodecV2(newCodec()),
		grpc.NumStreamWorkers(workers),
		grpc.MaxRecvMsgSize(o.MaxMessage),
		grpc.MaxHeaderListSize(maxHeaders),
		grpc.MaxConcurrentStreams(o.MaxStreams),
		grpc.KeepaliveParams(keepalive.ServerParameters{MaxConnectionIdle: cmp.Or(o.Idle, idleTime), MaxConnectionAge: connectionAge, Time: time.Minute, Timeout: 20 * time.Second}),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing, PermitWithoutStream: true}),
	), g, o.MaxMessage)
}

// minPing is how often a client may ping; clientPing, how often ours do.
const (
	minPing    = 10 * time.Second
	clientPing = 30 * time.Second
)

// isOpen reports whether the method is in the list of open ones.
func (g *guard) isOpen(method string) bool {
	for _, o := range g.open {
		if method == o || (strings.HasSuffix(o, "/") && strings.HasPrefix(method, o)) {
			return true
		}
	}
	return false
}
