package agent

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/security/grant"

	"google.golang.org/grpc"
	"google.golang.org/protobuf/types/known/durationpb"
)

// A Registration says how an agent is known to the node.
type Registration struct {
	// Name is the agent's name; by default it is made from the card's.
	Name string
	// Lease is how long the agent is known after it vanished: 5 s to 10 min.
	// The default is the node's.
	Lease time.Duration
	// Shared offers the agent to all tenants, which needs an operator.
	Shared bool
}

// How long a registrar waits before it tries again, and for answers.
const (
	retryFirst   = 200 * time.Millisecond
	retryMost    = 5 * time.Second
	registerTime = 5 * time.Second // the node probes the agent meanwhile
	leaveTime    = 3 * time.Second
)

// A registrar keeps an agent registered: it renews the lease, and registers
// again when the node has forgotten it. Its methods are called one at a time.
type registrar struct {
	client meshv1.RegistryServiceClient
	req    *meshv1.RegisterAgentRequest
	gate   *gate
	logger *slog.Logger

	name  string // as registered
	lease string // the lease's secret
	every time.Duration
}

func newRegistrar(o *Options, node grpc.ClientConnInterface, s *service, g *gate) *registrar {
	req := &meshv1.RegisterAgentRequest{
		Name: o.Register.Name, Card: s.runtime.card, Endpoint: s.endpoint, Shared: o.Register.Shared,
	}
	if o.Register.Lease > 0 {
		req.Lease = durationpb.New(o.Register.Lease)
	}
	return &registrar{client: meshv1.NewRegistryServiceClient(node), req: req, gate: g, logger: o.Logger}
}

// register registers the agent, and waits while the node or the agent cannot be
// reached. It returns the node's refusal.
func (g *registrar) register(ctx context.Context) error {
	for wait := retryFirst; ; wait = min(2*wait, retryMost) {
		err := g.once(ctx)
		away := mesh.IsCode(err, mesh.Unavailable) || mesh.IsCode(err, mesh.Timeout)
		if !away || ctx.Err() != nil {
			return err
		}
		g.logger.WarnContext(ctx, "the agent could not be registered", "agent", g.req.GetCard().GetName(), "err", err)
		if !sleep(ctx, wait) {
			return mesh.Wrap("agent.register", context.Cause(ctx))
		}
	}
}

// once registers the agent. What has begun is brought to its end when ctx is
// done, so that it can be taken back.
func (g *registrar) once(ctx context.Context) error {
	const op = "agent.register"
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), registerTime)
	defer cancel()
	res, err := g.client.RegisterAgent(ctx, g.req)
	if err != nil {
		return failed(op, err)
	}
	v, err := grant.NewVerifier(res.GetGrantKey(), nil)
	if err != nil {
		return mesh.Wrap(op, err)
	}
	g.gate.open(v)
	g.name, g.lease = res.GetAgent().GetName(), res.GetLeaseId()
	// Three renewals within a lease: one may be lost.
	g.every = cmp.Or(res.GetLease().AsDuration(), 15*time.Second) / 3
	g.logger.InfoContext(ctx, "the agent is registered", "agent", g.name, "endpoint", g.req.GetEndpoint(), "lease", res.GetLease().AsDuration())
	return nil
}

// keep renews the lease until ctx is done. It registers anew when the node no
// longer knows the lease, as after a restart.
func (g *registrar) keep(ctx context.Context) {
	wait := retryFirst
	for ctx.Err() == nil {
		renewed, err := g.renew(ctx)
		if renewed {
			wait = retryFirst
		}
		if ctx.Err() != nil || !sleep(ctx, wait) {
			return
		}
		wait = min(2*wait, retryMost)
		g.logger.WarnContext(ctx, "the agent's lease could not be renewed", "agent", g.name, "err", err)
		if mesh.IsCode(err, mesh.Unavailable) {
			continue
		}
		if err := g.once(ctx); err != nil {
			g.logger.WarnContext(ctx, "the agent could not be registered", "agent", g.name, "err", err)
		}
	}
}

// renew renews the lease over one stream until that breaks. It reports whether
// it did so at least once, and why the stream broke.
func (g *registrar) renew(ctx context.Context) (renewed bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := g.client.KeepAlive(ctx)
	if err != nil {
		cancel()
		return false, failed("agent.renew", err)
	}
	answers := make(chan error)
	ended := make(chan struct{})
	go func() { // ends with the stream, which cancel ends
		defer close(ended)
		for err := error(nil); err == nil; {
			_, err = stream.Recv()
			select {
			case answers <- err:
			case <-ctx.Done():
				return
			}
		}
	}()
	defer func() { cancel(); <-ended }()

	tick := time.NewTicker(g.every)
	defer tick.Stop()
	send := true
	for {
		if send {
			// A failure to send is what Recv tells.
			_ = stream.Send(&meshv1.KeepAliveRequest{Name: g.name, LeaseId: g.lease})
		}
		select {
		case err := <-answers:
			if err != nil {
				return renewed, failed("agent.renew", err)
			}
			renewed, send = true, false
		case <-tick.C:
			send = true
		case <-ctx.Done():
			return renewed, mesh.Wrap("agent.renew", context.Cause(ctx))
		}
	}
}

// leave removes the agent from the registry, if the node answers soon.
func (g *registrar) leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
	defer cancel()
	_, err := g.client.DeregisterAgent(ctx, &meshv1.DeregisterAgentRequest{
		Name: g.name, LeaseId: g.lease, Shared: g.req.GetShared(),
	})
	if err != nil {
		g.logger.WarnContext(ctx, "the agent could not be deregistered", "agent", g.name, "err", failed("agent.leave", err))
	}
}

// sleep waits for d; it returns false when ctx is done first.
func sleep(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}
