// Package edge is the front door of the mesh: one A2A service to which users
// talk, whoever of the agents answers.
//
// # What it guarantees
//
// A message that was accepted is in the thread's log before the caller hears of
// it, and is worked on whatever becomes of the caller. Receiving is not driving: a
// message or a cancel is appended under what it expects of the thread, at whichever
// node, and disturbs nobody who works on it. To the user a turn is one task.
// Updates are read from the log, so that every reader of a task sees the same ones,
// from any cursor, and a reader of an idle task costs its own goroutine alone.
//
// # What it is not
//
// It works on no turn and calls no agent; package turn does.
package edge

import (
	"context"
	"log/slog"
	"sync"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	lru "github.com/hashicorp/golang-lru/v2"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/quota"
	"agentmesh/mesh/registry"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
	"agentmesh/mesh/thread/tasks"
	"agentmesh/mesh/threadlog"
)

// A Directory knows agents: a *registry.Registry.
type Directory interface {
	Resolve(tenant mesh.TenantID, name string) (registry.Entry, error)
	List(tenant mesh.TenantID, f registry.Filter) []registry.Entry
}

// Turns work on what the edge takes: a *turn.Runner.
type Turns interface {
	// Take appends what f decides and sees to it that it is worked on; at once, if
	// the thread is at rest. Its errors are those of cache.States.Decide.
	Take(ctx context.Context, key mesh.ThreadKey, f func(*thread.State) (cache.Decision, error)) error
	// Wake says that something was appended to the thread which is to be worked on.
	Wake(key mesh.ThreadKey)
	// Expects reports whether a turn that begins now waits for its agent, of which the
	// directory has the entry and the error.
	Expects(e registry.Entry, err error) bool
	// EndTasks tells the agents of executions that waited, and were canceled.
	EndTasks(ctx context.Context, key mesh.ThreadKey, waiting []thread.Execution)
}

// Digests are a *digest.Keeper.
type Digests interface {
	// Read yields the events of which a snapshot of the turn is made, after the Seq, until
	// yield returns false, and returns up to where.
	Read(ctx context.Context, key mesh.ThreadKey, t thread.Long, after mesh.Seq, yield func(*mesh.Event) bool) (mesh.Seq, error)
}

// Config is what an Edge cannot work without, and what it can choose.
type Config struct {
	Log       *threadlog.Log
	States    *cache.States
	Directory Directory
	Turns     Turns
	// Tasks lists tasks; its caller runs it. Without it tasks are not listed.
	Tasks *tasks.Index
	// Digests have what long tasks are made of; nil reads them from the log.
	Digests Digests
	// Contexts find threads by the names that users give them; nil for a mesh in which
	// context ids are thread ids.
	Contexts *a2a.Contexts
	// Blobs says where a blob of the thread is read over HTTP; nil shows what the log has.
	Blobs func(key mesh.ThreadKey, b mesh.Blob, filename string) string
	// Hear returns the parts of a message, which are the edge's own, with the words of those that are
	// ours to transcribe before these; see package voice. Its error is that of ctx. nil transcribes
	// nothing.
	Hear func(ctx context.Context, key mesh.ThreadKey, parts []*a2apb.Part, ours func(*a2apb.Part) bool) ([]*a2apb.Part, error)
	// Offered are the capabilities of all cards of Card.
	Offered *a2apb.AgentCapabilities
	// Card returns the edge's own card for a tenant, for those who ask for it.
	Card func(ctx context.Context, tenant mesh.TenantID) (*a2apb.AgentCard, error)
	// Main is the agent that answers new threads.
	Main string
	// ReadByRole is told of each thread of which somebody reads tasks because a role allows
	// it; the default tells nobody.
	ReadByRole func(ctx context.Context, thread string)

	// Quotas limit what users begin; nil limits nothing.
	Quotas *quota.Keeper
	// Budget is what a turn may use, with all agents that work on it; the default is no
	// limit.
	Budget mesh.Budget
	// Budgets have what a conversation may cost; the default is no limit.
	Budgets limit.Budgets
	// MaxQueued is how many turns of a thread may wait; default 16.
	MaxQueued int
	// CancelWait is how long a caller waits for the end of the task that it
	// cancels; default 10 s.
	CancelWait time.Duration
	Now        func() time.Time
	Logger     *slog.Logger
}

func (c *Config) fill() {
	if c.MaxQueued == 0 {
		c.MaxQueued = 16
	}
	if c.CancelWait == 0 {
		c.CancelWait = 10 * time.Second
	}
	if c.ReadByRole == nil {
		c.ReadByRole = func(context.Context, string) {}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}

// Edge is an a2a.Service. Use New.
type Edge struct {
	Config
	kept *lru.Cache[finishedKey, *finished]

	mu      sync.Mutex
	closing bool
	taking  sync.WaitGroup // calls that are about to append
}

var _ a2a.Service = (*Edge)(nil)

// New returns an Edge. Close it when it has served.
func New(c Config) (*Edge, error) {
	if c.Log == nil || c.States == nil || c.Directory == nil || c.Turns == nil || c.Card == nil {
		return nil, mesh.Errorf(mesh.Invalid, "edge.New", "the edge needs a log, states, a directory, somebody who works on turns, and a card")
	}
	if !mesh.ValidAgentName(c.Main) {
		return nil, mesh.Errorf(mesh.Invalid, "edge.New", "the edge needs the name of a main agent")
	}
	c.fill()
	kept, err := lru.New[finishedKey, *finished](maxFinished)
	if err != nil {
		return nil, mesh.Wrap("edge.New", err)
	}
	return &Edge{Config: c, kept: kept}, nil
}

// Capabilities implements a2a.Service.
func (e *Edge) Capabilities() *a2apb.AgentCapabilities { return e.Offered }

// Close takes no more messages and cancels, and returns when those that were being
// taken are in the log, or refused.
func (e *Edge) Close() {
	e.mu.Lock()
	e.closing = true
	e.mu.Unlock()
	e.taking.Wait()
}

// take begins to append to a thread. The caller calls the function that it returns
// once it has appended, or failed to.
func (e *Edge) take() (func(), error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closing {
		return nil, mesh.Errorf(mesh.Unavailable, "edge.take", "the mesh is shutting down; try again in a moment")
	}
	e.taking.Add(1) // Close waits
	return sync.OnceFunc(e.taking.Done), nil
}
