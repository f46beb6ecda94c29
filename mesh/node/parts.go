package node

import (
	"context"
	"errors"
	"net"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/rpc"
)

// startParts starts what works in the background.
func (n *node) startParts(start func(name string, run func(context.Context) error), server *rpc.Server) {
	n.startLogins(start, server)
	start("tls", n.transport.Run)
	start("registry", n.agents.Run)
	start("skills", n.skills.Run)
	for _, source := range n.opts.Sources {
		start("skills", func(ctx context.Context) error { return source(ctx, n.skills) })
	}
	start("store", n.watchStore)
	start("log", n.log.Run)
	start("states", n.states.Run)
	start("tasks", n.tasks.Run)
	start("retention", n.keepThreads)
	start("quotas", n.watchQuotas)
	if on(n.cfg.ModelProbe) {
		start("models", func(ctx context.Context) error { return n.watchModels(ctx, n.cfg.Endpoints()) })
	}
	if on(n.cfg.A2A.Push) && !n.opts.WebhooksElsewhere {
		start("push", n.push.Run)
	}
}

// drain is how long the runs of builtin agents may go on when the node stops, or 0 for as
// long as those of any agent: turns have had their grace by then, and what is cut goes on
// with the next start.
func (n *node) drain() time.Duration {
	if on(n.cfg.Continue) {
		return time.Millisecond
	}
	return 0
}

// startAgents starts the builtin agents and returns when all can be called.
func (n *node) startAgents(ctx context.Context, running *sync.WaitGroup, failed chan error) error {
	ready := make(chan error, len(n.opts.Builtins))
	for _, b := range n.opts.Builtins {
		a, err := b.New(Env{Conns: n.pool, Dialer: n.dialer, Limits: n.cfg.agentLimits(), Budgets: n.cfg.budgets(), Alarms: n.alarms, Logger: n.logger.With("agent", b.Name)})
		if err != nil {
			return mesh.Wrap("node.agent "+b.Name, err)
		}
		running.Go(func() {
			at, secret := "", n.signer.Secret(b.Name)
			err := agent.Serve(ctx, agent.Options{Agent: a, Name: b.Name, Secret: secret, Node: n.services, Verifier: n.verifier, Logger: n.logger.With("agent", b.Name), Drain: n.drain(), Telemetry: n.telemetry,
				Local: func(endpoint string, server rpc.Conn) { at = endpoint; n.builtins.Store(at, server) },
				Ready: func(endpoint string) {
					register := n.agents.RegisterBuiltin
					if b.Inner {
						register = n.agents.RegisterInner
					}
					err := register(b.Name, a.Card(), endpoint, secret)
					if err == nil {
						_, err = n.pool.Get(endpoint) // warm from the start
					}
					ready <- err
				}})
			n.agents.RemoveBuiltin(b.Name)
			n.builtins.Delete(at) // another agent may get the address
			if err != nil {
				failed <- mesh.Wrap("node.agent "+b.Name, err)
			}
		})
	}
	for range n.opts.Builtins {
		select {
		case err := <-ready:
			if err != nil {
				return err
			}
		case err := <-failed:
			return err
		case <-ctx.Done():
			return mesh.Wrap("node.startAgents", ctx.Err())
		}
	}
	return nil
}

// startAudit has what is noted recorded until stop is called.
func (n *node) startAudit(ctx context.Context) (stop func()) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	var running sync.WaitGroup
	running.Go(func() { n.audit.Run(ctx) })
	return func() { cancel(); running.Wait() }
}

func (n *node) skillsDir() string {
	if n.opts.SkillsDir != "" {
		return n.opts.SkillsDir
	}
	return filepath.Join(n.cfg.Data, "skills")
}

// builtin returns the server of the builtin agent at the address; nil if there is none.
func (n *node) builtin(address string) rpc.Conn {
	server, _ := n.builtins.Load(address)
	conn, _ := server.(rpc.Conn)
	return conn
}

// close releases what listen and openStore took.
func (n *node) close() error {
	var errs []error
	if n.local != nil {
		errs = append(errs, n.local.Close())
	}
	if n.keyHosts != nil {
		n.keyHosts.CloseIdleConnections()
	}
	for _, t := range []*http.Transport{n.carrier, n.guarded} {
		if t != nil {
			t.CloseIdleConnections()
		}
	}
	for _, c := range n.voices {
		c.Close()
	}
	if n.showing != nil {
		n.showing.Purge()
	}
	for _, p := range []*rpc.Pool{n.pool, n.guardedPool} {
		if p != nil {
			errs = append(errs, p.Close())
		}
	}
	for _, l := range []net.Listener{n.grpcL, n.httpL} {
		if l != nil {
			if err := l.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
				errs = append(errs, err)
			}
		}
	}
	if n.backend.Close != nil {
		errs = append(errs, n.backend.Close())
	}
	return errors.Join(errs...)
}
