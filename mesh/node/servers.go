package node

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"time"

	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/admission"
	"agentmesh/mesh/api"
	"agentmesh/mesh/bind/jsonrpc"
	"agentmesh/mesh/bind/rest"
	"agentmesh/mesh/call"
	"agentmesh/mesh/handoff"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/security/authz"
)

// stopServer stops a server; streams that followers keep open are cut.
func stopServer(s *rpc.Server) {
	cut := time.AfterFunc(closeTime/4, s.Stop)
	defer cut.Stop()
	s.GracefulStop()
}

// grpcServer returns the server of all services. It refuses a service that has a
// method of which nobody said who may call it.
func (n *node) grpcServer() (*rpc.Server, *admission.Controller, error) {
	table := authz.Node()
	n.authorizer = api.Authority{Table: table, States: n.states, Holders: n.agents, Policies: n.policies, Main: n.cfg.Main, Standing: n.standing, Erasing: n.erasing}
	server := rpc.NewServer(rpc.Options{Auth: n.auth, Authorizer: n.authorizer, Logger: n.logger, Limiter: n.limiter, Logins: n.logins, Auditor: n.audit, Telemetry: n.telemetry, Open: append(rpc.Infrastructure(), table.Open()...),
		TLS: n.serverTLS("h2"), TrustDomain: n.cfg.TLS.Domain, Stands: n.stands,
		Streams: n.cfg.streamLimit(), Unfinished: n.unfinished(), Errors: n.cfg.errorTable()})
	n.registerA2A(server, a2a.NewServer(n.edge, n.a2aOptions()...))
	opts := []admission.Option{admission.WithBudgets(n.cfg.budgets()), admission.WithQuotas(n.quotas), admission.WithPlaces(n.places), admission.WithOutput(n.cfg.output()),
		admission.WithTrust(n.trusted), admission.WithTerms(n.terms), admission.WithStanding(n.standing), admission.WithPolicy(n.permitted),
		admission.WithSkills(n.skills), admission.WithDelegators(n.cfg.OrchestratorReadSkills, n.delegators()...)}
	breakers := api.Breakers(n.kv, limit.BreakerOptions{Probe: limit.ProbeTime(n.cfg.Limits.Timeout), Logger: n.logger})
	opts = append(opts, admission.WithBreakers(func(t mesh.TenantID, skill string) admission.Breaker {
		if _, ok := n.skills.Find(t, skill); !ok { // an agent may name any
			return nil
		}
		return breakers(t)
	}))
	if !n.backend.Shared {
		opts = append(opts, admission.WithDeferral(n.logger))
	}
	admits := admission.New(n.log, n.states, nil, opts...)
	tickets := api.Tickets{Signer: n.signer, Agents: n.agents, Local: rpc.InProcess}
	threads := api.NewThreads(n.log, n.states, admits, tickets, n.cfg.Main).WithRetention(*n.cfg.Sessions.Retention).WithBlobBytes(n.backend.Blobs.ThreadBytes)
	skills := api.NewSkills(n.skills, n.runner, api.WithBreakers(n.kv), api.WithOwners(api.NewSkillOwners(n.kv)), api.WithScheduleQuotas(n.cfg.quotas()), api.WithEffects(admits))
	tenants := n.movers(skills)
	meshv1.RegisterThreadServiceServer(server, threads.WithDeleter(n.deleter, n.permitted).WithImport(&tenants.Threads).WithAccess(n.tasks.Access).WithSums(n.tasks.Sums).WithAudit(n.audit.Read))
	meshv1.RegisterBlobServiceServer(server, api.NewBlobs(n.backend.Blobs, threads))
	meshv1.RegisterExecutionServiceServer(server, api.NewExecutions(threads, n.turns.EndTasks, n.readsInstructions))
	meshv1.RegisterHandoffServiceServer(server, api.NewHandoffs(handoff.New(n.log, n.states, n.agents, n.turns, nil).With(n.cfg.handoffs())).WithAudit(n.audit.Read))
	meshv1.RegisterRegistryServiceServer(server, api.NewRegistry(n.agents, n.signer.Public()).WithAudit(n.audit.ReadAgent).WithRights(n.states, n.permitted))
	meshv1.RegisterSkillServiceServer(server, skills)
	meshv1.RegisterStateServiceServer(server, api.NewState(n.kv, n.cfg.Shares))
	meshv1.RegisterGrantServiceServer(server, &api.Grants{States: n.states, Admits: admits, Tickets: tickets})
	meshv1.RegisterAccessServiceServer(server, n.access(table.Explain).WithEraser(n.eraser(skills)))
	meshv1.RegisterIdentityServiceServer(server, api.NewIdentities(n.authority, n.kv, rpc.PeerCertificate, nil))
	meshv1.RegisterAuditServiceServer(server, api.NewAudit(n.backend.Audit, api.Conversations{Log: n.log, States: n.states, Redactor: n.cfg.Audit.redactor, Told: n.audit.ReadTrail}))
	n.copies = api.NewNode(n.alarms).WithBackup(n.backend.Backup, n.opts.Version, n.grpcL.Addr().String()).WithTenants(tenants).WithUsage(n.usage)
	meshv1.RegisterNodeServiceServer(server, n.copies)
	healthpb.RegisterHealthServer(server, n.ready.status)
	reflection.Register(server)
	return server, admits, mesh.Wrap("node.grpcServer", table.Check(server.Guarded()))
}

// unfinished bounds the bytes of requests that have not arrived as a whole.
func (n *node) unfinished() int64 {
	if n.opts.Memory == 0 {
		return rpc.DefaultUnfinished
	}
	return min(rpc.DefaultUnfinished, n.opts.Memory/8)
}

// trusted reports whether somebody trusts the agent, or it is the one that the operator
// has answer.
func (n *node) trusted(tenant mesh.TenantID, agent string) bool {
	e, err := n.agents.Get(tenant, agent)
	return err == nil && (e.Trusted || agent == n.cfg.Main)
}

// readsInstructions reports whether the agent reads what it is told while it works: those
// do that speak the mesh's extension.
func (n *node) readsInstructions(tenant mesh.TenantID, agent string) bool {
	e, err := n.agents.Get(tenant, agent)
	return err == nil && call.Speaks(e.Card)
}

// delegators are the builtin agents that have others do their work.
func (n *node) delegators() (names []string) {
	for _, b := range n.opts.Builtins {
		if b.Delegates {
			names = append(names, b.Name)
		}
	}
	return names
}

// maxRequests is how many requests at a time a connection of HTTP/2 may have.
const maxRequests = 128

// web returns the server of HTTP over the services, whose streams end with ctx. It does not limit
// how long a request may take, since streams do not end; the gateway limits its
// parts.
func (n *node) web(ctx context.Context, services rpc.Conn) (*http.Server, error) {
	legacyRPCs, legacyREST, err := n.v03(ctx, services)
	if err != nil {
		return nil, err
	}
	rpcs, err := jsonrpc.New(ctx, services, jsonrpc.Options{V03: legacyRPCs, PlainRefusals: n.cfg.A2A.PlainRefusals, Logger: n.logger})
	if err != nil {
		return nil, err
	}
	var tools http.Handler
	if n.mcp = n.mcpHandler(services); n.mcp != nil {
		tools = n.mcp
	}
	routes, err := rest.New(ctx, services, rest.Options{
		Card: n.publicCard, Keys: n.keys.JWKS(), Health: n.healthy, Ready: n.ready.check, Warnings: n.alarms.Settings,
		Resource: n.resource(), JSONRPC: rpcs, V03: legacyREST, MCP: tools, Metrics: n.telemetry.Handler(), Errors: n.cfg.errorTable(), Logger: n.logger,
	})
	if err != nil {
		return nil, err
	}
	return &http.Server{
		Handler: n.guardHost(routes), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, HTTP2: &http.HTTP2Config{MaxConcurrentStreams: maxRequests},
		MaxHeaderBytes: 64 << 10, TLSConfig: n.serverTLS("h2", "http/1.1"), ErrorLog: slog.NewLogLogger(n.logger.Handler(), slog.LevelDebug),
	}, nil
}

// serveWeb serves HTTP, over TLS if the server has a configuration of it.
func serveWeb(web *http.Server, l net.Listener) error {
	if web.TLSConfig == nil {
		return web.Serve(l)
	}
	return web.ServeTLS(l, "", "")
}

// stopWeb ends the server's requests, which have nothing more to wait for.
func (n *node) stopWeb(ctx context.Context, web *http.Server) {
	if n.mcp != nil {
		n.mcp.Close()
		defer n.mcp.Wait()
	}
	last, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	if web.Shutdown(last) != nil {
		_ = web.Close() // somebody's request would not end
	}
}

// cutTurns ends the turns that are left, before what they are written to. After
// an orderly stop there are none; but the edge takes messages while agents
// start, of which one may fail.
func (n *node) cutTurns(ctx context.Context) {
	over, cancel := context.WithCancel(context.WithoutCancel(ctx))
	cancel()
	n.edge.Close()
	if err := n.turns.Close(over); err != nil {
		n.logger.WarnContext(ctx, "turns did not end well", "err", err)
	}
}
