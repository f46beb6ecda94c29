package agent

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"sync"
	"sync/atomic"
	"time"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/agent/meshclient"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/security/auth"
	"agentmesh/mesh/security/grant"
	"agentmesh/mesh/telemetry"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"
	"google.golang.org/protobuf/types/known/durationpb"
)

// closeTime is how long calls may take to end once the runtime has stopped.
const closeTime = 2 * time.Second

// Options are the choices of Serve. Agent, and one of Node and NodeAddr, are
// required, and one of Verifier and Register.
type Options struct {
	Agent Agent
	// Listener takes the agent's calls; Serve closes it. Without it, Serve
	// listens on Addr, by default 127.0.0.1:0.
	Listener net.Listener
	Addr     string
	// Node is a connection of package rpc to the node, which stays open.
	// Without it, Serve dials NodeAddr with Dial.
	Node     grpc.ClientConnInterface
	NodeAddr string
	Dial     rpc.DialOptions
	// TLS is the configuration of the agent's server, which is then called over nothing
	// else.
	TLS *tls.Config
	// Verifier checks the tickets of callers. An agent that registers gets it
	// from the node.
	Verifier *grant.Verifier
	// Name is the agent's name in the mesh: tickets of others are refused. By default it
	// is that under which the agent registers itself, and without that any ticket will do.
	Name string
	// Secret is that of the agent's registration, by which it proves that tickets and
	// grants are its own. An agent that registers gets it from the node.
	Secret string
	// Register makes the agent known to the node as long as it is served. It
	// is for agents in a process of their own.
	Register *Registration
	// Endpoint is the host:port that the card names, by default the
	// listener's address; with TLS as "grpcs://host:port".
	Endpoint string
	// Grace and Drain are those of the runtime.
	Grace, Drain time.Duration
	// Logger is for the operator. The default discards.
	Logger *slog.Logger
	// Telemetry tells of what the agent does. The default is none.
	Telemetry *telemetry.Telemetry
	// Ready is called once when the agent can be called: with its endpoint,
	// and after the registration if there is one.
	Ready func(endpoint string)
	// Local is called before Ready, with the server at the endpoint, for callers in
	// this process.
	Local func(endpoint string, server rpc.Conn)
}

// A Registration says how an agent is known to the node.
type Registration struct {
	// Name is the agent's name; by default it is made from the card's.
	Name string
	// Lease is how long the agent is known after it vanished: 5 s to 10 min.
	// The default is the node's.
	Lease time.Duration
	// Shared offers the agent to all tenants, which needs an operator.
	Shared bool
	// Replica says that the agent may have other processes beside this one, which register
	// under the same name in the same way.
	Replica bool
}

// Serve serves the agent over gRPC, with health and reflection, until ctx is
// done: then it leaves the registry, lets runs finish for a while, and returns
// nil when nothing that it started is left. It returns an error at once when
// the agent cannot be served or the node refuses it.
func Serve(ctx context.Context, o Options) error {
	const op = "agent.Serve"
	s, err := newService(ctx, &o)
	if err != nil {
		if o.Listener != nil {
			_ = o.Listener.Close()
		}
		return mesh.Wrap(op, err)
	}
	defer s.closeNode()

	var parts sync.WaitGroup
	defer parts.Wait()
	served := make(chan error, 1)
	parts.Go(func() { served <- s.server.Serve(s.listener) })
	running, stop := context.WithCancel(context.WithoutCancel(ctx))
	stopped := make(chan error, 1)
	parts.Go(func() { stopped <- s.runtime.Run(running) })

	if o.Local != nil {
		o.Local(s.endpoint, s.server)
	}
	err = s.present(ctx, o.Ready, served)
	stop()
	err = errors.Join(err, <-stopped)
	s.health.Shutdown()
	cut := time.AfterFunc(closeTime, s.server.Stop)
	s.server.GracefulStop()
	cut.Stop()
	return mesh.Wrap(op, err)
}

// service is the parts of one Serve.
type service struct {
	runtime   *Runtime
	server    *rpc.Server
	health    *health.Server
	listener  net.Listener
	endpoint  string
	registrar *meshclient.Registrar // nil when the agent does not register itself
	closeNode func()
}

func newService(ctx context.Context, o *Options) (*service, error) {
	const op = "agent.Serve"
	switch {
	case o.Agent == nil:
		return nil, mesh.InvalidField(op, "agent", "is missing")
	case o.Node == nil && o.NodeAddr == "":
		return nil, mesh.InvalidField(op, "node_addr", "is missing; say where the node listens, as 127.0.0.1:7420")
	case o.Verifier == nil && o.Register == nil:
		return nil, mesh.InvalidField(op, "verifier", "is missing; register the agent, or give it the node's grant key")
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	s := &service{closeNode: func() {}, health: health.NewServer(), listener: o.Listener}
	node := o.Node
	if node == nil {
		conn, err := rpc.Dial(o.NodeAddr, o.Dial)
		if err != nil {
			return nil, err
		}
		node = conn
		s.closeNode = func() { _ = conn.Close() }
	}
	if s.listener == nil {
		addr := cmp.Or(o.Addr, "127.0.0.1:0")
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
		if err != nil {
			s.closeNode()
			return nil, mesh.Errorf(mesh.Precondition, op, "The agent cannot listen on %s; free the port or choose another: %w", addr, err)
		}
		s.listener = l
	}
	s.endpoint = cmp.Or(o.Endpoint, s.listener.Addr().String())
	if _, secure := mesh.Endpoint(s.endpoint); o.TLS != nil && !secure {
		s.endpoint = mesh.SecureScheme + s.endpoint
	}
	s.runtime = NewRuntime(o.Agent, node, WithLogger(o.Logger), WithEndpoint(s.endpoint),
		WithGrace(cmp.Or(o.Grace, DefaultGrace)), WithDrain(cmp.Or(o.Drain, DefaultDrain)))
	gate := new(gate)
	gate.open(o.Verifier, o.Name, o.Secret)
	s.runtime.secret, s.runtime.keys = gate.held, gate.keys.Load
	if o.Register != nil {
		req := &meshv1.RegisterAgentRequest{
			Name: o.Register.Name, Card: s.runtime.card, Endpoint: s.endpoint, Shared: o.Register.Shared, Replica: o.Register.Replica,
		}
		if o.Register.Lease > 0 {
			req.Lease = durationpb.New(o.Register.Lease)
		}
		s.registrar = meshclient.NewRegistrar(node, req, gate.open, o.Logger)
	}
	s.server = rpc.NewServer(rpc.Options{Auth: gate, Logger: o.Logger, Open: rpc.Infrastructure(), TLS: o.TLS, Telemetry: o.Telemetry})
	a2apb.RegisterA2AServiceServer(s.server, a2a.NewServer(s.runtime))
	healthpb.RegisterHealthServer(s.server, s.health)
	reflection.Register(s.server)
	return s, nil
}

// present keeps the agent known until ctx is done or its server fails.
func (s *service) present(ctx context.Context, ready func(string), served <-chan error) error {
	if s.registrar != nil {
		if err := s.registrar.Register(ctx); err != nil {
			if ctx.Err() != nil {
				return nil
			}
			return err
		}
		defer s.registrar.Leave(ctx)
	}
	if ready != nil {
		ready(s.endpoint)
	}
	ctx, cancel := context.WithCancel(ctx)
	var keeping sync.WaitGroup
	defer keeping.Wait()
	defer cancel()
	if s.registrar != nil {
		keeping.Go(func() { s.registrar.Keep(ctx) })
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-served:
		return mesh.Errorf(mesh.Unavailable, "agent.Serve", "The agent's server failed: %w", err)
	}
}

// gate is an Authenticator that demands tickets, once it knows how to check them; and it
// has the secret of the registration.
type gate struct {
	auth   atomic.Pointer[rpc.Authenticator]
	secret atomic.Pointer[string]
	keys   atomic.Pointer[grant.Verifier]
}

// open lets calls in with the tickets that the verifier accepts, for the agent of that
// name. Nil changes nothing, nor does an empty secret change that.
func (g *gate) open(v *grant.Verifier, name, secret string) {
	if v != nil {
		a := auth.TicketOnly(v, name)
		g.auth.Store(&a)
		g.keys.Store(v)
	}
	if secret != "" {
		g.secret.Store(&secret)
	}
}

func (g *gate) held() string {
	if s := g.secret.Load(); s != nil {
		return *s
	}
	return ""
}

func (g *gate) Authenticate(ctx context.Context, c rpc.Credentials) (mesh.Principal, error) {
	a := g.auth.Load()
	if a == nil {
		return mesh.Principal{}, mesh.Errorf(mesh.Unavailable, "agent.Serve", "The agent is not registered yet; try again")
	}
	return (*a).Authenticate(ctx, c)
}
