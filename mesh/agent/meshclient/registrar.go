package meshclient

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/security/grant"

	"google.golang.org/grpc"
)

// How long a registrar waits before it tries again, and for answers.
const (
	retryFirst   = 200 * time.Millisecond
	retryMost    = 5 * time.Second
	registerTime = 5 * time.Second // the node probes the agent meanwhile
	leaveTime    = 3 * time.Second
)

// A Registrar keeps an agent registered: it renews the lease, and registers
// again when the node has forgotten it. Its methods are called one at a time.
type Registrar struct {
	client meshv1.RegistryServiceClient
	req    *meshv1.RegisterAgentRequest
	trust  func(v *grant.Verifier, name, secret string)
	logger *slog.Logger

	name  string // as registered
	lease string // the lease's secret
	every time.Duration
}

// NewRegistrar returns the registrar of the agent that the request tells of. trust
// is told by what to check the node's tickets, the agent's name in them, and the secret by
// which it proves that they are its own, each time the agent is registered.
func NewRegistrar(node grpc.ClientConnInterface, req *meshv1.RegisterAgentRequest, trust func(v *grant.Verifier, name, secret string), logger *slog.Logger) *Registrar {
	return &Registrar{client: meshv1.NewRegistryServiceClient(node), req: req, trust: trust, logger: logger}
}

// Register registers the agent, and waits while the node or the agent cannot be
// reached, or the node says when to come again. It returns the node's refusal.
func (g *Registrar) Register(ctx context.Context) error {
	for wait := retryFirst; ; wait = min(2*wait, retryMost) {
		err := g.once(ctx)
		hint, later := rpc.RetryAfter(err) // many register at once, as after a restart
		away := later || mesh.IsCode(err, mesh.Unavailable) || mesh.IsCode(err, mesh.Timeout)
		if !away || ctx.Err() != nil {
			return err
		}
		g.logger.WarnContext(ctx, "the agent could not be registered", "agent", g.req.GetCard().GetName(), "err", err)
		if !sleep(ctx, max(wait, hint)) {
			return mesh.Wrap("meshclient.Register", context.Cause(ctx))
		}
	}
}

// once registers the agent. What has begun is brought to its end when ctx is
// done, so that it can be taken back.
func (g *Registrar) once(ctx context.Context) error {
	const op = "meshclient.Register"
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), registerTime)
	defer cancel()
	res, err := g.client.RegisterAgent(ctx, g.req)
	if err != nil {
		return failed(op, err)
	}
	v, err := grant.NewVerifier(res.GetGrantKeys(), nil)
	if err != nil {
		return mesh.Wrap(op, err)
	}
	g.name, g.lease = res.GetAgent().GetName(), res.GetLeaseId()
	g.trust(v, g.name, res.GetSecret())
	// Three renewals within a lease: one may be lost.
	g.every = cmp.Or(res.GetLease().AsDuration(), 15*time.Second) / 3
	g.logger.InfoContext(ctx, "the agent is registered", "agent", g.name, "endpoint", g.req.GetEndpoint(), "lease", res.GetLease().AsDuration())
	return nil
}

// Keep renews the lease until ctx is done. It registers anew when the node no
// longer knows the lease, as after a restart.
func (g *Registrar) Keep(ctx context.Context) {
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
func (g *Registrar) renew(ctx context.Context) (renewed bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	stream, err := g.client.KeepAlive(ctx)
	if err != nil {
		cancel()
		return false, failed("meshclient.renew", err)
	}
	answers := make(chan error)
	ended := make(chan struct{})
	go func() { // ends with the stream, which cancel ends
		defer close(ended)
		for err := error(nil); err == nil; {
			var res *meshv1.KeepAliveResponse
			if res, err = stream.Recv(); err == nil {
				g.learn(res.GetGrantKeys())
			}
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
				return renewed, failed("meshclient.renew", err)
			}
			renewed, send = true, false
		case <-tick.C:
			send = true
		case <-ctx.Done():
			return renewed, mesh.Wrap("meshclient.renew", context.Cause(ctx))
		}
	}
}

// learn takes the node's keys, which may have changed.
func (g *Registrar) learn(keys [][]byte) {
	if v, err := grant.NewVerifier(keys, nil); err == nil { // none from a node that tells none
		g.trust(v, g.name, "")
	}
}

// Leave removes the agent from the registry, if the node answers soon.
func (g *Registrar) Leave(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTime)
	defer cancel()
	_, err := g.client.DeregisterAgent(ctx, &meshv1.DeregisterAgentRequest{
		Name: g.name, LeaseId: g.lease, Shared: g.req.GetShared(),
	})
	if err != nil {
		g.logger.WarnContext(ctx, "the agent could not be deregistered", "agent", g.name, "err", failed("meshclient.Leave", err))
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
