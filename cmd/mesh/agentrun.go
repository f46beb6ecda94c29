package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/spf13/cobra"
	"google.golang.org/grpc"

	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/agent/meshclient"
	"agentmesh/mesh/node"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/telemetry"
)

// agentRun are the flags of 'mesh agent run'.
type agentRun struct {
	mesh, name, listen, endpoint, data, docs string
	identity                                 string // folder
	lease                                    time.Duration
	shared, replica                          bool
	logLevel                                 string
	// config is a configuration file, over which flags win that were given.
	config string
	given  func(flag string) bool
}

// agentCommand runs built-in agents in processes of their own.
func (a *app) agentCommand() *cobra.Command {
	var o agentRun
	run := &cobra.Command{
		Use:   "run NAME",
		Short: "Run one of the built-in agents as a process of its own, and register it",
		Long: `run serves one built-in agent over gRPC and registers it with a running mesh
for as long as it lives. Names of agents that the mesh runs itself cannot be
taken: give the agent another one with --name. Several processes share one name, and
the work, if each is started with --replica.

It is granted the skills that its card names. The worker's names all skills that
this program brings along.

With --auth tokens, the token needs the role agent-publisher, and operator to
share the agent with all tenants.`,
		Example: `  mesh agent run worker --name worker-2
  mesh agent run worker --name crunch --replica
  mesh agent run knowledge --name handbook --docs ./handbook --mesh 127.0.0.1:7420`,
		Args: exactly("the NAME of the agent"),
		RunE: a.raw(func(ctx context.Context, args []string) error {
			ctx, stop := a.untilInterrupt(ctx, "Stopping; press Ctrl-C again to end at once.")
			defer stop()
			return a.serveAgent(ctx, args[0], o)
		}),
	}
	f := run.Flags()
	o.given = f.Changed
	f.StringVar(&o.mesh, "mesh", "", "gRPC `address` of the mesh (default: --addr)")
	f.StringVar(&o.name, "name", "", "`name` to register under (default NAME)")
	f.StringVar(&o.listen, "listen", "127.0.0.1:0", "`address` to listen on")
	f.StringVar(&o.endpoint, "endpoint", "", "`host:port` at which the mesh reaches the agent (default: where it listens)")
	f.StringVar(&o.identity, "identity", "", "`folder` with the agent's certificate, see 'mesh agent join': it serves and calls over TLS then")
	f.StringVar(&o.config, "config", "", "configuration `file`, of which the model, telemetry and what skills need count (default none)")
	f.StringVar(&o.data, "data", node.DefaultData, "`folder` of what its skills write")
	f.StringVar(&o.docs, "docs", "docs", "`folder` of documents to answer from")
	f.DurationVar(&o.lease, "lease", 0, "`time` that the mesh remembers the agent without a sign of life (default 30s)")
	f.BoolVar(&o.shared, "shared", false, "offer the agent to all tenants")
	f.BoolVar(&o.replica, "replica", false, "stand beside other processes under the same name, all started so")
	f.StringVar(&o.logLevel, "log-level", "warn", "`level`: debug, info, warn or error")
	return group("agent", "Run an agent as a process of its own", "  mesh agent run worker --name worker-2", run, a.agentJoinCommand())
}

func (a *app) serveAgent(ctx context.Context, name string, o agentRun) (err error) {
	addr := a.secured(orText(o.mesh, a.flags.addr))
	dial, err := a.dialOptions(addr)
	if err != nil {
		return err
	}
	secure, err := a.identity(&o, &dial, &addr)
	if err != nil {
		return err
	}
	if secure != nil {
		dial.BearerSource = nil // the agent is who its certificate says
	}
	registered := orText(o.name, name)
	if !mesh.ValidAgentName(registered) {
		return mesh.InvalidField("mesh.agent", "--name", "is %q; give a name of lower-case letters, digits, '-' and '_' that begins with a letter", registered)
	}
	logger, err := a.logger(o.logLevel)
	if err != nil {
		return err
	}
	logger = slog.New(rpc.LogHandler(logger.Handler()))
	cfg, err := a.agentConfig(o, dial.Bearer != "" || dial.BearerSource != nil)
	if err != nil {
		return err
	}
	c, err := newCrew(cfg, a.now, logger)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	c.apart = true
	conn, err := rpc.Dial(addr, dial)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, conn.Close()) }()
	pool := rpc.NewPool(rpc.DialOptions{TLS: dial.TLS, AllowPlaintextGrant: dial.AllowPlaintextGrant})
	defer func() { err = errors.Join(err, pool.Close()) }()
	made, err := c.agent(name, node.Apart(pool, logger))
	if err != nil {
		return err
	}
	if !answers(ctx, conn) && ctx.Err() == nil {
		a.notef("nobody answers at %s yet; waiting until somebody does. Start the mesh with 'mesh up', or name another address with --mesh\n", addr)
	}
	var calling sync.WaitGroup
	defer calling.Wait()
	connected, disconnect := context.WithCancel(context.WithoutCancel(ctx))
	defer disconnect()
	calling.Go(func() { _ = c.kit.servers.Run(connected, nil) }) // it returns nil
	var serves *tls.Config
	if secure != nil {
		serves = secure.Server("h2")
		calling.Go(func() {
			meshclient.KeepIdentity(connected, func() (*grpc.ClientConn, error) { return rpc.Dial(addr, dial) }, secure, o.identity, logger)
		})
	}
	tells, err := telemetry.New(ctx, cfg.Telemetry, telemetry.Service{Name: "agentmesh-agent", Version: node.Version, Instance: mesh.NewEventID(), Logger: logger})
	if err != nil {
		return err
	}
	defer func() {
		if err := tells.Close(ctx); err != nil {
			logger.WarnContext(ctx, "the last of telemetry was not sent", "err", err)
		}
	}()
	return agent.Serve(ctx, agent.Options{
		Telemetry: tells,
		Agent:     made, Addr: o.listen, Endpoint: o.endpoint, Node: conn, TLS: serves, Logger: logger,
		Register: &agent.Registration{Name: registered, Lease: o.lease, Shared: o.shared, Replica: o.replica},
		Ready: func(endpoint string) {
			_, _ = fmt.Fprintf(a.stdout, "agent %s is registered with %s and listens on %s\nCtrl-C stops it.\n", registered, addr, endpoint)
		},
	})
}

// agentConfig is what of a mesh's settings counts for an agent of its own: the
// file's, over them the environment's, over them the flags that were given. It has a token
// to show, or not.
func (a *app) agentConfig(o agentRun, token bool) (cfg node.Config, err error) {
	if o.config != "" {
		if cfg, err = node.LoadConfig(o.config); err != nil {
			return cfg, err
		}
	}
	if err := a.fromEnv(&cfg); err != nil {
		return cfg, err
	}
	if o.given("data") || cfg.Data == "" {
		cfg.Data = o.data
	}
	switch {
	case o.given("docs"):
		cfg.Docs = o.docs
		cfg.SetBy("docs", "--docs")
	case cfg.Docs == "":
		cfg.Docs = o.docs
	}
	if token && cfg.SharedData == nil { // where it goes, users are known
		cfg.SharedData = []string{}
	}
	return cfg, cfg.Fill()
}
