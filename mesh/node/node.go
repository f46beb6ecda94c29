// Package node puts a mesh together: the store, the log, the registry, the
// services, the edge, the gateway and the agents that run in the process.
//
// [Run] starts everything in an order in which nothing is offered before it
// works, and stops it in the reverse one: first no new messages, then a grace
// period for running turns, then the rest. When it returns, no goroutine that
// it started is left. While it cannot write, it serves what there is and is not
// ready; when nobody can tell what was written, it ends.
//
// The package has no logic of its own; what it composes is documented where it
// is. It does not know which agents there are: its caller hands them over.
package node

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"google.golang.org/grpc"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/admission"
	"agentmesh/mesh/alarm"
	"agentmesh/mesh/api"
	"agentmesh/mesh/audit"
	"agentmesh/mesh/call"
	"agentmesh/mesh/edge"
	"agentmesh/mesh/llm/openai"
	"agentmesh/mesh/push"
	"agentmesh/mesh/quota"
	"agentmesh/mesh/registry"
	"agentmesh/mesh/retention"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/runs"
	"agentmesh/mesh/security/auth"
	"agentmesh/mesh/security/cards"
	"agentmesh/mesh/security/egress"
	"agentmesh/mesh/security/grant"
	"agentmesh/mesh/security/oidc"
	"agentmesh/mesh/security/policy"
	"agentmesh/mesh/security/revocation"
	"agentmesh/mesh/security/transport"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/mcp"
	"agentmesh/mesh/state"
	"agentmesh/mesh/telemetry"
	"agentmesh/mesh/telemetry/observer"
	"agentmesh/mesh/thread/cache"
	"agentmesh/mesh/thread/tasks"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/turn"
)

// Options are what the program sets, beside the operator's Config.
type Options struct {
	Builtins []Builtin
	// Skills are skills that all tenants share, the first one first. Those in
	// the folder SkillsDir, by default skills in the data folder, come before
	// them; the folder is followed while the node runs.
	Skills    []fs.FS
	SkillsDir string
	// Handlers tells whether there is a handler of the name; a skill file that
	// names another one is refused. Nil takes any name.
	Handlers func(name string) bool
	// Sources add skills that come from no file, as tools of MCP servers, and
	// take them away again, until ctx is done.
	Sources []func(ctx context.Context, skills *skill.Library) error
	// Memory is how many bytes the process may have; 0 is not known.
	Memory int64
	// Version is the program's.
	Version string
	// Holders are what skills keep of users beside values, for when one is erased.
	Holders []Holder
	// Runner is the builtin agent that runs skills on request, without a
	// model; default "worker".
	Runner string
	Logger *slog.Logger
	// Now is the clock that schedules go by; default time.Now.
	Now func() time.Time
	// Backend opens where the node keeps what must outlive it. It is given the
	// settings, and the node's address for those who find it in use.
	Backend func(cfg Config, address string) (Backend, error)
	// WebhooksElsewhere says that another node on the backend calls the webhooks of
	// push notifications. This one only keeps what users say of them.
	WebhooksElsewhere bool
	// Turns may change the timing of turns, and Edge what messages are taken with,
	// for tests.
	Turns func(*turn.Config)
	Edge  func(*edge.Config)
	// Ready is called when everything is up.
	Ready func(Addresses)
}

// node is a mesh that is being put together. stop undoes, last first.
type node struct {
	cfg    Config
	opts   Options
	name   string // by which others on the backend tell it
	logger *slog.Logger

	backend   Backend
	telemetry *telemetry.Telemetry // nil if it is off
	observer  *observer.Observer   // likewise
	log       *threadlog.Log
	states    *cache.States

	made
	kv        *state.KV
	signer    *grant.Signer
	verifier  *grant.Verifier
	audit     *audit.Recorder
	mcp       *mcp.Handler // nil if it is not offered
	copies    *api.Node
	alarms    *alarm.Set
	ready     *readiness
	auth      rpc.Authenticator
	logins    rpc.Limiter
	tokens    *auth.Tokens     // nil but under auth tokens
	oidc      *oidc.Issuers    // nil but under auth oidc
	revoked   *revocation.List // and who is being erased
	policies  *policy.Source   // nil for none
	limiter   rpc.Limiter
	agents    *registry.Registry
	issuer    *issuer
	pool      *rpc.Pool
	skills    *skill.Library
	runner    *runs.Runner
	schedules *runs.Scheduler // nil if they are off
	tasks     *tasks.Index
	quotas    *quota.Keeper
	places    *admission.Places
	turns     *turn.Runner
	edge      *edge.Edge
	contexts  *a2a.Contexts

	tokensEnded func() // called when tokens have ended, once they are looked at

	authorizer api.Authority // once there is a server
	transport  *transport.Source
	authority  *transport.Authority // nil without TLS

	keys        *cards.Keys
	verifyCards *cards.Verifier
	keyHosts    *http.Transport // of verifyCards
	guard       *egress.Guard
	push        *push.Dispatcher
	deleter     *retention.Deleter
	dialer      *call.Dialer
	carrier     *http.Transport                    // of calls to agents over HTTP
	guarded     *http.Transport                    // of those to agents of tenants; nil under auth none
	showing     *lru.Cache[shown, *http.Transport] // those that show certificates of agents
	guardedPool *rpc.Pool                          // of those to them over gRPC; nil under auth none
	voices      []*openai.Client                   // by which is heard

	grpcL, httpL net.Listener
	local        *grpc.ClientConn // to this node
	services     rpc.Conn         // of this node, for its agents
	builtins     sync.Map         // rpc.Conn by endpoint
	settled      int
}

// Run runs a node until ctx is done or a part of it fails. It returns nil for
// an orderly stop.
func Run(ctx context.Context, cfg Config, opts Options) (err error) {
	if err := cfg.Fill(); err != nil {
		return err
	}
	n := &node{cfg: cfg, opts: opts, name: mesh.NewEventID(), logger: opts.Logger, ready: newReadiness()}
	if n.logger == nil {
		n.logger = slog.New(slog.DiscardHandler)
	}
	n.logger = slog.New(rpc.LogHandler(n.logger.Handler()))
	if err := n.listen(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, n.close()) }()
	if err := n.buildTelemetry(ctx); err != nil {
		return err
	}
	defer n.closeTelemetry(ctx)
	if err := n.openStore(); err != nil {
		return err
	}
	if err := n.build(ctx); err != nil {
		return err
	}
	defer n.keepRows(ctx)
	return n.serve(ctx)
}

// listen takes the ports first: a port that is taken is the commonest mistake.
func (n *node) listen(ctx context.Context) error {
	gate := rpc.NewGate(n.cfg.Connections.Total, n.cfg.Connections.PerAddress, n.logger)
	for _, p := range []struct {
		l    *net.Listener
		addr string
		flag string
	}{{&n.grpcL, n.cfg.GRPC, "--grpc"}, {&n.httpL, n.cfg.HTTP, "--http"}} {
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", p.addr)
		if err != nil {
			return errors.Join(mesh.Errorf(mesh.Precondition, "node.listen",
				"cannot listen on %s; if a mesh runs there already, use it or stop it, else choose another address with %s: %w", p.addr, p.flag, err), n.close())
		}
		*p.l = gate.Listener(l)
	}
	return nil
}

// build makes the parts that do not run yet.
func (n *node) build(ctx context.Context) (err error) {
	n.kv = state.New(n.backend.State)
	if err := errors.Join(n.buildAuth(ctx), n.buildTLS()); err != nil {
		return err
	}
	if err := n.buildLog(ctx); err != nil {
		return err
	}
	n.pool = rpc.NewPool(n.dialOptions())
	if err := errors.Join(n.buildGuard(), n.buildCards()); err != nil {
		return err
	}
	n.buildDialer()
	registered, err := n.registryOptions()
	if err != nil {
		return err
	}
	if n.agents, err = registry.New(ctx, registered); err != nil {
		return err
	}
	n.issuer = newIssuer(n.agents, n.keys, cards.Mode(n.cfg.Cards.Mode), n.face, n.cfg.Main)
	if err := n.openSkills(); err != nil {
		return err
	}
	n.quotas = n.keeper()
	if err := n.buildEdge(); err != nil {
		return err
	}
	if err := n.buildPush(); err != nil {
		return err
	}
	if err := n.buildRuns(); err != nil {
		return err
	}
	n.buildRetention()
	n.settled, err = n.recover(ctx)
	return err
}

// buildEdge makes what takes messages, and what works on them.
func (n *node) buildEdge() (err error) {
	key, err := n.contextKey()
	if err != nil {
		return err
	}
	if n.contexts, err = a2a.NewContexts(key); err != nil {
		return err
	}
	turns := turn.Config{
		Log: n.log, States: n.states, Leases: n.backend.Leases, Directory: n.agents, Dialer: n.dialer, Signer: n.signer,
		Main: n.cfg.Main, Node: n.name, Logger: n.logger, Budget: n.cfg.turnBudget(), Limits: n.cfg.agentLimits(),
		MaxDepth: n.cfg.Limits.Depth, Chains: n.cfg.chainDepths(), Quiet: n.cfg.Limits.Quiet, AdoptTime: n.cfg.Limits.AgentReturn, Interrupt: !on(n.cfg.Continue), Traced: n.telemetry.Traces(),
		Retention: *n.cfg.Sessions.Retention, Places: n.cfg.places(n.opts.Memory), Output: n.cfg.output(), Files: n.withFiles, Room: n.quotas.Room,
	}
	if turns.Speak, err = n.speaking(); err != nil {
		return err
	}
	if n.opts.Turns != nil {
		n.opts.Turns(&turns)
	}
	if n.turns, err = turn.New(turns); err != nil {
		return err
	}
	if err = errors.Join(n.telemetry.Turns(n.turns.Running, n.turns.Waiting), n.telemetry.Unchecked(n.backend.Unchecked), n.telemetry.Kept(n.kept)); err != nil {
		return err
	}
	cfg := edge.Config{
		Log: n.log, States: n.states, Directory: n.agents, Turns: n.turns, Tasks: n.tasks, Card: n.issuer.extended, Offered: n.capabilities(), Contexts: n.contexts,
		Main: n.cfg.Main, ReadByRole: n.audit.Read, Logger: n.logger, Quotas: n.quotas, Budget: n.cfg.turnBudget(), Budgets: n.cfg.budgets(), Blobs: n.blobURL, Digests: n.digests,
	}
	if cfg.Hear, err = n.hearing(); err != nil {
		return err
	}
	if n.opts.Edge != nil {
		n.opts.Edge(&cfg)
	}
	n.edge, err = edge.New(cfg)
	return err
}

// serve runs all parts. Each has this function as its owner, which waits.
func (n *node) serve(ctx context.Context) (err error) {
	var parts sync.WaitGroup
	failed := make(chan error, 13+len(n.opts.Builtins))
	background, stopBackground := context.WithCancel(context.WithoutCancel(ctx))
	defer parts.Wait()
	defer stopBackground()
	start := func(name string, run func(context.Context) error) {
		parts.Go(func() {
			if err := run(background); err != nil {
				failed <- mesh.Wrap("node."+name, err)
			}
		})
	}

	defer n.startAudit(ctx)() // which is written until the last call has ended
	defer n.startObserver(ctx)()
	server, admits, err := n.grpcServer()
	if err != nil {
		return err
	}
	defer admits.Wait()
	defer n.copies.Wait()
	defer stopServer(server)
	if err := n.dialSelf(); err != nil {
		return err
	}
	n.services = rpc.Local(server, n.local)
	n.startParts(start, server)
	defer n.cutTurns(ctx)

	agents, stopAgents := context.WithCancel(context.WithoutCancel(ctx))
	defer stopAgents()
	var running sync.WaitGroup
	if err := n.startAgents(agents, &running, failed); err != nil {
		stopAgents()
		running.Wait()
		return err
	}
	defer running.Wait()
	defer stopAgents()

	// Who may ask comes when the agents are there, and goes before they do. Until then
	// connections wait.
	start("grpc", func(context.Context) error { return server.Serve(n.grpcL) })
	web, err := n.web(background, server)
	if err != nil {
		return err
	}
	start("http", func(context.Context) error {
		if err := serveWeb(web, n.httpL); !errors.Is(err, http.ErrServerClosed) {
			return err
		}
		return nil
	})
	stopSchedules := n.startSchedules(background)
	defer stopSchedules()
	n.ready.set(true)
	if n.opts.Ready != nil {
		n.opts.Ready(Addresses{GRPC: n.grpcL.Addr().String(), HTTP: n.httpL.Addr().String(), Problems: n.skills.Problems(""), CA: n.ownCA(),
			Interrupted: n.settled, SharedTasks: n.sharedTasks(ctx), MainAway: n.mainAway()})
	}
	start("turns", n.turns.Run) // what was left over is worked on when there are agents, and who asks is served
	select {
	case <-ctx.Done():
		err = nil
	case err = <-failed:
	}
	n.ready.set(false)
	stopSchedules() // nothing new begins
	err = errors.Join(err, n.drainTurns(ctx, errors.Is(err, ErrStoreFailed)))
	stopBackground() // ends the gateway's streams
	n.stopWeb(ctx, web)
	server.Leave(closeTime / 4)
	return err
}

// drainTurns takes no more messages and lets what runs end, within the grace period; not if
// nothing can be written: then it goes on after the next start.
func (n *node) drainTurns(ctx context.Context, atOnce bool) error {
	wait := n.cfg.Grace
	if atOnce {
		wait = 0
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), wait)
	defer cancel()
	n.edge.Close()
	return n.turns.Close(grace)
}

// closeTime is how long calls may take to end when there is nothing more that
// they could wait for.
const closeTime = 2 * time.Second
