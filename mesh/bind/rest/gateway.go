// Package rest serves the mesh over HTTP: the A2A HTTP+JSON binding
// (A2A v1.0 §11), the mesh.v1 services under /mesh/v1/, event streams as
// server-sent events, the agent card, health and the OpenAPI document.
//
// # What it guarantees
//
// Every call goes through one [rpc.Conn] to the services, so that a request over
// HTTP passes the same interceptors as one over gRPC. Of a request's headers those in [rpc.Keys] become metadata, under the same names and without
// a prefix, and Last-Event-ID becomes after-seq; nothing else is passed.
//
// A call that fails before the service accepted it is an HTTP error with a
// JSON body, also for streams; a stream that fails later ends with one event
// that carries the same body. An accepted stream sends its response header at
// once, a comment when it is idle, and, for each event that has a place in a
// log, that place as the event's id, which comes back as Last-Event-ID.
//
// # Streams
//
// A service says that it accepted a streaming call by sending its gRPC header
// (SendHeader); it must set no header on a call that it then refuses. Each
// event is encoded once, when it is sent, into a buffer that is used again, and
// the connection is flushed when no further event is waiting. The service waits
// for a client that does not take what was sent. A client that leaves cancels
// the call behind its stream, and so does the end of the context of [New].
//
// # Concurrency
//
// The handler is safe for concurrent use. The service runs in the request's own
// goroutine. A stream has another one while it writes, which ends before the
// request does.
//
// # What it is not
//
// It does not decide who may do what, does not know tasks or threads, and
// stores nothing. Limits on request headers belong to the http.Server around
// it, which must not limit the time of whole requests.
package rest

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	a2agw "agentmesh/gen/gw"
	meshgw "agentmesh/gen/gw/mesh/v1"
	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/gen/openapi"
	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
)

const (
	defaultMaxBody   = mesh.MaxBody
	defaultHeartbeat = 15 * time.Second
	// writeTimeout is how long a client may refuse to take any bytes.
	writeTimeout = 30 * time.Second
)

// Options are the choices of a gateway. The zero value of each has the default
// that it names.
type Options struct {
	// Card returns the JSON of the agent card of the mesh as a tenant sees it or,
	// if an agent is named, of that agent for those who call it through the
	// mesh: below "/agents/{agent}/", where all of A2A is served as at "/". The
	// tenant is the one that the request names, valid but not proved; it is
	// [mesh.DefaultTenant] if the request names none. The client speaks version
	// 1.x alone if v1 is set, and may speak an older one else. It is NotFound
	// for an agent that the tenant does not see. Without Card there is no agent
	// card (404), and "agents" is a tenant as any other first part of a path.
	Card func(ctx context.Context, tenant mesh.TenantID, agent string, v1 bool) ([]byte, error)
	// Keys is the JWK set at "/.well-known/jwks.json" by which cards are
	// verified. Without Keys there is none.
	Keys []byte
	// Health returns why the node cannot serve, or nil. Without Health the
	// node is healthy as long as it answers.
	Health func(ctx context.Context) error
	// Ready returns why the node is not to be given work now, or nil. Without Ready it
	// is ready as long as it answers.
	Ready func(ctx context.Context) error
	// Warnings names what is wrong while the node serves, for anybody. Without Warnings
	// there is nothing.
	Warnings func() []string
	// JSONRPC serves POST on "/", where clients expect the JSON-RPC binding of
	// A2A (package jsonrpc). Without JSONRPC there is nothing at "/".
	JSONRPC http.Handler
	// V03 serves everything below "/v1/", where clients expect the HTTP+JSON
	// binding of A2A v0.3 (package v03). Without V03 "v1" is a tenant there,
	// as any other first part of a path of A2A v1.0.
	V03 http.Handler
	// MCP serves "/mcp", where clients of the Model Context Protocol call the
	// mesh's skills. Its calls to the node, over [Conn], carry what the request
	// says of who makes it. Without MCP there is nothing.
	MCP http.Handler
	// Metrics serves "/metrics" to callers who may act for the whole node, as tools do that
	// watch it. Without Metrics there is nothing.
	Metrics http.Handler
	// Resource says how to log in; nil where nobody has to.
	Resource *Resource
	// MaxBody is the longest request body in bytes; the default is [mesh.MaxBody].
	MaxBody int64
	// Heartbeat is how long a stream is silent before it sends a comment; the
	// default is 15 s.
	Heartbeat time.Duration
	// Errors is the node's table of A2A errors, which says their HTTP status
	// codes; the default is that of A2A v1.0.1.
	Errors rpc.ErrorTable
	// Logger gets what clients are not told; the default discards it.
	Logger *slog.Logger
}

// complete returns the options with their defaults, or an error that names the
// one that is wrong.
func (o Options) complete(op string) (Options, error) {
	if o.MaxBody < 0 {
		return o, mesh.InvalidField(op, "MaxBody", "must be positive, and is %d", o.MaxBody)
	}
	if o.Heartbeat < 0 {
		return o, mesh.InvalidField(op, "Heartbeat", "must be positive, and is %v", o.Heartbeat)
	}
	if o.MaxBody == 0 {
		o.MaxBody = defaultMaxBody
	}
	if o.Heartbeat == 0 {
		o.Heartbeat = defaultHeartbeat
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return o, nil
}

// gateway is what the handlers share.
type gateway struct {
	conn    rpc.Conn
	opts    Options
	mux     *runtime.ServeMux
	queries queries
	cards   cardShelf
	docs    document
	keys    document
}

// New returns the handler of all routes over conn, which leads to the services.
// When ctx ends, open streams end with an UNAVAILABLE event, so that a server can
// shut down; other requests go on.
//
// New refuses negative options with [mesh.Invalid].
func New(ctx context.Context, conn rpc.Conn, opts Options) (http.Handler, error) {
	const op = "rest.New"
	opts, err := opts.complete(op)
	if err != nil {
		return nil, err
	}
	g := &gateway{conn: hop{conn}, opts: opts, queries: queriesOf(), cards: newCardShelf(), docs: newDocument(openapi.JSON), keys: newDocument(opts.Keys)}
	g.mux = g.newMux()
	if err := g.registerUnary(ctx); err != nil {
		return nil, mesh.Errorf(mesh.Unknown, op, "the routes do not fit together: %w", err)
	}
	if err := g.registerStreams(ctx); err != nil {
		return nil, mesh.Errorf(mesh.Unknown, op, "the streams do not fit together: %w", err)
	}
	return g.handler(), nil
}

// newMux returns grpc-gateway's router with this package's framing, errors and
// admission.
func (g *gateway) newMux() *runtime.ServeMux {
	return runtime.NewServeMux(
		runtime.WithMarshalerOption(runtime.MIMEWildcard, codec{contentType: mimeJSON}),
		runtime.WithMarshalerOption(mimeA2A, codec{contentType: mimeA2A}),
		runtime.WithMiddlewares(g.admit),
		runtime.WithOutgoingHeaderMatcher(func(h string) (string, bool) {
			return headerExtensions, h == rpc.KeyExtensions
		}),
		runtime.WithForwardResponseOption(private),
		runtime.WithErrorHandler(g.onError),
		runtime.WithRoutingErrorHandler(g.onRoutingError),
		runtime.WithDisablePathLengthFallback(),
		runtime.WithDisableHTTPMethodOverride(),
		runtime.WithUnescapingMode(runtime.UnescapingModeAllExceptReserved),
	)
}

// private keeps the extended agent card, which is for its caller, out of caches that others
// use (A2A v1.0 §13.3).
func private(_ context.Context, w http.ResponseWriter, m proto.Message) error {
	if _, ok := m.(*a2apb.AgentCard); ok {
		w.Header().Set("Cache-Control", "private, max-age=60")
		w.Header().Add("Vary", "Authorization, Tenant-Id, User-Id, A2A-Version")
	}
	return nil
}

// registerUnary adds the generated handlers. Those of streams are covered by
// registerStreams.
func (g *gateway) registerUnary(ctx context.Context) error {
	for _, register := range []func() error{
		func() error {
			return a2agw.RegisterA2AServiceHandlerClient(ctx, g.mux, a2apb.NewA2AServiceClient(g.conn))
		},
		func() error {
			return meshgw.RegisterRegistryServiceHandlerClient(ctx, g.mux, meshv1.NewRegistryServiceClient(g.conn))
		},
		func() error {
			return meshgw.RegisterThreadServiceHandlerClient(ctx, g.mux, meshv1.NewThreadServiceClient(g.conn))
		},
		func() error {
			return meshgw.RegisterBlobServiceHandlerClient(ctx, g.mux, meshv1.NewBlobServiceClient(g.conn))
		},
		func() error {
			return meshgw.RegisterExecutionServiceHandlerClient(ctx, g.mux, meshv1.NewExecutionServiceClient(g.conn))
		},
		func() error {
			return meshgw.RegisterHandoffServiceHandlerClient(ctx, g.mux, meshv1.NewHandoffServiceClient(g.conn))
		},
		func() error {
			return meshgw.RegisterSkillServiceHandlerClient(ctx, g.mux, meshv1.NewSkillServiceClient(g.conn))
		},
		func() error {
			return meshgw.RegisterStateServiceHandlerClient(ctx, g.mux, meshv1.NewStateServiceClient(g.conn))
		},
		func() error {
			return meshgw.RegisterAccessServiceHandlerClient(ctx, g.mux, meshv1.NewAccessServiceClient(g.conn))
		},
		func() error {
			return meshgw.RegisterAuditServiceHandlerClient(ctx, g.mux, meshv1.NewAuditServiceClient(g.conn))
		},
		func() error {
			return meshgw.RegisterNodeServiceHandlerClient(ctx, g.mux, meshv1.NewNodeServiceClient(g.conn))
		},
		func() error {
			return meshgw.RegisterIdentityServiceHandlerClient(ctx, g.mux, meshv1.NewIdentityServiceClient(g.conn))
		},
	} {
		if err := register(); err != nil {
			return err
		}
	}
	return nil
}

// handler puts the fixed paths before the router. It refuses what another web
// site makes a browser send, because under auth none the caller's machine is
// the only credential; programs send none of the headers that this looks at.
func (g *gateway) handler() http.Handler {
	routes := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case cardPath:
			g.readOnly(w, r, g.serveCard)
		case "/.well-known/jwks.json":
			g.readOnly(w, r, g.serveKeys)
		case "/healthz":
			g.readOnly(w, r, g.serveHealth(g.opts.Health))
		case "/readyz":
			g.readOnly(w, r, g.serveHealth(g.opts.Ready))
		case "/openapi.json":
			g.readOnly(w, r, g.serveOpenAPI)
		case metricsPath:
			g.readOnly(w, r, g.serveMetrics)
		case mcpPath:
			g.serveMCP(w, r)
		case resourcePath, resourcePath + mcpPath:
			g.readOnly(w, r, g.serveResource)
		default:
			if thread, hash, ok := blobOf(r.URL.Path); ok {
				g.serveBlob(w, r, thread, hash)
				return
			}
			if g.opts.Card != nil && strings.HasPrefix(r.URL.Path, agentsPath) {
				g.serveAgent(w, r)
				return
			}
			g.serveA2A(w, r)
		}
	})
	sameSite := http.NewCrossOriginProtection()
	sameSite.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		g.fail(w, http.StatusForbidden, status.New(codes.PermissionDenied,
			"requests from other web sites are refused; call from a program or from a page of this origin"))
	}))
	guarded := sameSite.Handler(routes)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("X-Content-Type-Options", "nosniff")
		guarded.ServeHTTP(w, r.WithContext(rpc.WithRemote(r.Context(), r.RemoteAddr, r.TLS)))
	})
}

// metricsPath is where metrics are served.
const metricsPath = "/metrics"

// serveMetrics serves metrics, which are of all tenants.
func (g *gateway) serveMetrics(w http.ResponseWriter, r *http.Request) {
	if g.opts.Metrics == nil {
		g.fail(w, http.StatusNotFound, status.New(codes.NotFound, "this mesh serves no metrics; set telemetry.metrics"))
		return
	}
	md, bad := incoming(r, nil)
	if bad != nil {
		g.fail(w, g.httpCode(bad), bad)
		return
	}
	who, err := g.conn.Known(context.WithValue(r.Context(), metadataKey{}, md))
	switch st := status.Convert(err); {
	case st.Code() == codes.Unauthenticated:
		g.challenge(w.Header(), "")
		fallthrough
	case err != nil:
		g.fail(w, g.httpCode(st), st)
	case who.Grant != nil || !who.Can(mesh.ActAdminNode):
		g.fail(w, http.StatusForbidden, status.New(codes.PermissionDenied, "metrics are of the whole mesh; call with a token of the role "+string(mesh.RoleOperator)))
	default:
		g.opts.Metrics.ServeHTTP(w, r)
	}
}

// mcpPath is where MCP is served.
const mcpPath = "/mcp"

// serveMCP serves MCP for whom the request's headers name.
func (g *gateway) serveMCP(w http.ResponseWriter, r *http.Request) {
	if g.opts.MCP == nil {
		g.fail(w, http.StatusNotFound, status.New(codes.NotFound, "this mesh offers no MCP server; set mcp.offer"))
		return
	}
	asked := r.Clone(r.Context())
	asked.Header.Del(headerLastEvent) // MCP has ids of its own
	md, bad := incoming(asked, nil)
	if bad != nil {
		g.fail(w, runtime.HTTPStatusFromCode(bad.Code()), bad)
		return
	}
	md.Set(rpc.KeyVersion, "1.0") // in which the calls come that are made for it
	ctx := context.WithValue(r.Context(), metadataKey{}, md)
	// MCP clients learn from HTTP that they have to log in, or come again, and not
	// from the answer to a call.
	if _, err := meshv1.NewSkillServiceClient(g.conn).ListSkillDomains(ctx, &meshv1.ListSkillDomainsRequest{Patterns: []string{"-"}}); err != nil {
		st := status.Convert(err)
		if st.Code() == codes.Unauthenticated {
			g.challenge(w.Header(), mcpPath)
		}
		g.fail(w, g.httpCode(st), st)
		return
	}
	b, code, bad := g.readBody(w, r.WithContext(ctx))
	if bad != nil {
		g.fail(w, code, bad)
		return
	}
	r = r.WithContext(ctx)
	r.Body = b
	g.opts.MCP.ServeHTTP(w, r)
}

// serveA2A serves the bindings of A2A, and what else the router has.
func (g *gateway) serveA2A(w http.ResponseWriter, r *http.Request) {
	path := r.URL.Path
	switch {
	case g.opts.JSONRPC != nil && r.Method == http.MethodPost && (path == "/" || path == ""):
		g.opts.JSONRPC.ServeHTTP(w, r)
	case g.opts.V03 != nil && strings.HasPrefix(path, "/v1/"):
		g.opts.V03.ServeHTTP(w, r)
	default:
		g.mux.ServeHTTP(w, r)
	}
}

// readOnly lets GET and HEAD through.
func (g *gateway) readOnly(w http.ResponseWriter, r *http.Request, serve http.HandlerFunc) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		g.fail(w, http.StatusMethodNotAllowed, status.New(codes.Unimplemented,
			fmt.Sprintf("%s is not possible on %s; use GET", clip(r.Method), r.URL.Path)))
		return
	}
	serve(w, r)
}
