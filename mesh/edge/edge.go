// Package edge is the front door of the mesh: one A2A service to which users
// talk, whoever of the agents answers.
//
// # What it guarantees
//
// A message that was accepted is in the thread's log before the caller hears
// of it. Its turn does not depend on the caller's stream: a client that leaves
// changes nothing. Turns of a thread run one at a time, in order. To the user
// a turn is one task with one terminal update, durable before it is shown,
// whichever agents had the stream in between. Updates are read from the log,
// so that every reader of a task sees the same ones, from any cursor.
//
// # What runs
//
// A thread that works on a turn has a driver: one goroutine, with one more
// that reads the agent's stream and one that follows the log. An idle thread
// has none, and a reader of an idle task costs its own goroutine alone.
// [Edge.Close] waits for all of them.
//
// # What it is not
//
// It runs no agent and knows no model; it calls agents over A2A like anyone
// would. Rules of handoff are in package handoff; it only follows them.
package edge

import (
	"context"
	"log/slog"
	"sync"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/call"
	"agentmesh/mesh/lease"
	"agentmesh/mesh/registry"
	"agentmesh/mesh/security/grant"
	"agentmesh/mesh/thread/cache"
	"agentmesh/mesh/thread/tasks"
	"agentmesh/mesh/threadlog"
)

// A Directory finds agents: a *registry.Registry.
type Directory interface {
	Resolve(tenant mesh.TenantID, name string) (registry.Entry, error)
	ReportDown(e registry.Entry, err error)
}

// Conns hands out warm connections: a *rpc.Pool.
type Conns interface {
	Get(endpoint string) (*grpc.ClientConn, error)
}

// A Dialer makes clients of agents: a *call.Dialer.
type Dialer interface {
	Dial(agent call.Target) (call.Client, error)
}

// A Checkpoint keeps the position up to which no turn is unfinished, for
// [Edge.Recover]. Load returns 0 when there is none.
type Checkpoint interface {
	Load(ctx context.Context) (mesh.Pos, error)
	Save(ctx context.Context, pos mesh.Pos) error
}

// Config is what an Edge cannot work without, and what it can choose.
type Config struct {
	Log        *threadlog.Log
	States     *cache.States
	Leases     lease.Store
	Directory  Directory
	Conns      Conns
	Signer     *grant.Signer
	Checkpoint Checkpoint
	// Dialer calls agents; default one that does so over gRPC alone, on Conns.
	Dialer Dialer
	// Tasks lists tasks; its caller runs it. Without it tasks are not listed.
	Tasks *tasks.Index
	// Card returns the edge's own card for a tenant.
	Card func(ctx context.Context, tenant mesh.TenantID) (*a2apb.AgentCard, error)
	// Main is the agent that answers new threads.
	Main string
	// Node names this process; two that run must not share a name.
	Node string

	// TurnTimeout cuts off a turn's agent; default 30 min.
	TurnTimeout time.Duration
	// HandoffGrace is how long an agent that gave the stream away may go on
	// for the record; default 2 s.
	HandoffGrace time.Duration
	// CancelGrace is how long an agent has to end a canceled task; default 5 s.
	CancelGrace time.Duration
	// MaxQueued is how many turns of a thread may wait; default 16.
	MaxQueued int
	// MaxDepth is how many levels of dispatch are allowed below the agent that
	// has the stream; default 2: main may consult an orchestrator, and that
	// may dispatch.
	MaxDepth int
	Now      func() time.Time
	Logger   *slog.Logger
}

func (c *Config) fill() {
	c.TurnTimeout = orDefault(c.TurnTimeout, 30*time.Minute)
	c.HandoffGrace = orDefault(c.HandoffGrace, 2*time.Second)
	c.CancelGrace = orDefault(c.CancelGrace, 5*time.Second)
	c.MaxQueued = orDefault(c.MaxQueued, 16)
	c.MaxDepth = orDefault(c.MaxDepth, 2)
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Dialer == nil {
		c.Dialer = call.NewDialer(c.Conns, call.Options{})
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

func orDefault[T comparable](v, def T) T {
	var zero T
	if v == zero {
		return def
	}
	return v
}

// Edge is an a2a.Service. Use New.
type Edge struct {
	Config

	turns context.Context // of all drivers; ends in Close when the grace is over
	cut   context.CancelCauseFunc
	wg    sync.WaitGroup

	mu      sync.Mutex
	drivers map[mesh.ThreadKey]*driver
	open    map[mesh.ThreadKey]*opened
	last    mesh.Pos // the highest position seen
	saved   mesh.Pos
	closing bool
}

// opened is a thread in which a turn may be unfinished.
type opened struct {
	from  mesh.Pos // nothing unfinished of it stands here or before
	sends int      // calls that are about to append
}

var _ a2a.Service = (*Edge)(nil)

var errShutdown = mesh.Errorf(mesh.Canceled, "edge.Close", "the mesh is shutting down")

// New returns an Edge. Call Recover before it serves, Run while it does, and
// Close when it has served.
func New(c Config) (*Edge, error) {
	if c.Log == nil || c.States == nil || c.Leases == nil || c.Directory == nil || c.Conns == nil || c.Signer == nil || c.Checkpoint == nil || c.Card == nil {
		return nil, mesh.Errorf(mesh.Invalid, "edge.New", "the edge needs a log, states, leases, a directory, connections, a signer, a checkpoint and a card")
	}
	if !mesh.ValidAgentName(c.Main) || c.Node == "" {
		return nil, mesh.Errorf(mesh.Invalid, "edge.New", "the edge needs the name of a main agent and of its node")
	}
	c.fill()
	e := &Edge{Config: c, drivers: map[mesh.ThreadKey]*driver{}, open: map[mesh.ThreadKey]*opened{}}
	e.turns, e.cut = context.WithCancelCause(context.Background())
	return e, nil
}

// Card implements a2a.Service.
func (e *Edge) Card(ctx context.Context) (*a2apb.AgentCard, error) {
	call, _ := mesh.CallFrom(ctx)
	return e.Config.Card(ctx, call.Principal.Tenant)
}

// leaseTTL is how long a driver's lease lasts without renewal.
const leaseTTL = 15 * time.Second

// Run renews the leases of all drivers, tries threads again that had to be
// left, and saves the checkpoint, until ctx is done.
func (e *Edge) Run(ctx context.Context) error {
	tick := time.NewTicker(leaseTTL / 3)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
			e.renew(ctx)
			if err := e.saveCheckpoint(ctx); err != nil && ctx.Err() == nil {
				e.Logger.WarnContext(ctx, "checkpoint not saved", "err", err)
			}
		}
	}
}

// renew keeps the leases of the drivers. A thread with something unfinished
// and without a driver, because its lease was lost or not to be had, gets one.
func (e *Edge) renew(ctx context.Context) {
	e.mu.Lock()
	for key := range e.open {
		if e.drivers[key] == nil && !e.closing {
			e.kick(key)
		}
	}
	held := make([]*driver, 0, len(e.drivers))
	for _, d := range e.drivers {
		held = append(held, d)
	}
	e.mu.Unlock()
	for _, d := range held {
		d.renew(ctx)
	}
}

// Close takes no more messages, lets running turns finish until ctx is done,
// settles the others as interrupted, and waits for all goroutines.
func (e *Edge) Close(ctx context.Context) error {
	e.mu.Lock()
	e.closing = true
	e.mu.Unlock()
	done := make(chan struct{})
	go func() { e.wg.Wait(); close(done) }() // ends when the turns do, and we wait for it below
	select {
	case <-done:
	case <-ctx.Done():
	}
	e.cut(errShutdown)
	<-done
	return e.saveCheckpoint(context.WithoutCancel(ctx))
}

// opening notes, before anything is appended, that the thread may have an
// unfinished turn from here on. The caller calls the function that it returns
// once it has appended, or failed to: then a driver looks, whatever became of
// the caller, and finds out whether there is something to do.
func (e *Edge) opening(key mesh.ThreadKey) (func(), error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closing {
		return nil, mesh.Errorf(mesh.Unavailable, "edge.opening", "the mesh is shutting down; try again in a moment")
	}
	o := e.open[key]
	if o == nil {
		o = &opened{from: e.last}
		e.open[key] = o
	}
	o.sends++
	e.wg.Add(1) // Close waits
	return sync.OnceFunc(func() {
		defer e.wg.Done()
		e.mu.Lock()
		defer e.mu.Unlock()
		o.sends--
		e.kick(key)
	}), nil
}

func (e *Edge) saw(pos mesh.Pos) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.last = max(e.last, pos)
}

// saveCheckpoint saves the position before the oldest turn that may be
// unfinished, if it has moved.
func (e *Edge) saveCheckpoint(ctx context.Context) error {
	e.mu.Lock()
	pos := e.last
	for _, o := range e.open {
		pos = min(pos, o.from)
	}
	same := pos == e.saved
	e.mu.Unlock()
	if same {
		return nil
	}
	if err := e.Checkpoint.Save(ctx, pos); err != nil {
		return mesh.Wrap("edge.saveCheckpoint", err)
	}
	e.mu.Lock()
	e.saved = pos
	e.mu.Unlock()
	return nil
}

// kick makes sure that the thread has a driver that will look at its turns. The
// caller holds mu.
func (e *Edge) kick(key mesh.ThreadKey) {
	if d := e.drivers[key]; d != nil {
		d.again = true
		return
	}
	d := &driver{Edge: e, key: key}
	e.drivers[key] = d
	e.wg.Go(func() { d.run(e.turns) }) // Close waits
}

// leave ends the driver unless it was kicked meanwhile. One that could not
// settle its thread then gives way to a new one, which begins afresh.
func (e *Edge) leave(d *driver, settled bool) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if d.again && settled {
		d.again = false
		return false
	}
	delete(e.drivers, d.key)
	if d.again && e.turns.Err() == nil {
		e.kick(d.key)
	}
	if o := e.open[d.key]; settled && o != nil && o.sends == 0 {
		delete(e.open, d.key)
	}
	return true
}
