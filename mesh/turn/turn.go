// Package turn works on the turns of threads: it calls the agents that have the
// user's stream, logs what they say, and follows handoffs from one to the next.
//
// # What it guarantees
//
// A message in the log is worked on, whoever took it and whatever became of them:
// by the node that holds the thread's lease, which claims the thread anew with each
// lease and writes under that claim alone. Turns of a thread run one at a time, in
// order. A turn has one terminal update, whichever agents had the stream in
// between. What a driver that died, or stopped, has left behind is taken over by the
// next: turns that had not begun are run, and those that had go on. Agents that are
// still at work are followed from where the log ends, and agents that speak our
// extension and have lost their task get the same message again under the same
// execution; of others nobody knows what became of it. A turn that is taken over three
// times and does not come on is ended as interrupted.
//
// # What runs
//
// A thread that works on a turn has a driver: one goroutine, with one more that
// reads the agent's stream and one that follows the log. An idle thread has none, nor has
// one that waits for one of the [Places]. [Runner.Close] waits for all of them.
//
// # What it is not
//
// It takes no messages (package edge does) and knows no model. Rules of handoff are
// in package handoff; it only follows them.
package turn

import (
	"context"
	"log/slog"
	"sync"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/call"
	"agentmesh/mesh/internal/stack"
	"agentmesh/mesh/lease"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/registry"
	"agentmesh/mesh/security/grant"
	"agentmesh/mesh/thread/cache"
	"agentmesh/mesh/threadlog"
)

// A Directory finds agents: a *registry.Registry.
type Directory interface {
	Resolve(tenant mesh.TenantID, name string) (registry.Entry, error)
	ReportDown(e registry.Entry, err error)
}

// A Dialer makes clients of agents: a *call.Dialer.
type Dialer interface {
	Dial(agent call.Target) (call.Client, error)
}

// Config is what a Runner cannot work without, and what it can choose.
type Config struct {
	Log       *threadlog.Log
	States    *cache.States
	Leases    lease.Store
	Directory Directory
	Dialer    Dialer
	Signer    *grant.Signer
	// Main is the agent that answers new threads.
	Main string
	// Node names this process; two that run must not share a name.
	Node string

	// Limits are how long a turn's agent may take, and say nothing.
	Limits call.Limits
	// Output bounds what the log takes of one of its executions.
	Output limit.Output
	// Files puts the bytes of files into a message for an agent that does not know blobs, as far
	// as there is room; nil leaves the message as it is logged.
	Files func(ctx context.Context, key mesh.ThreadKey, m *a2apb.Message) (*a2apb.Message, error)
	// Speak makes audio of an answer whose user wants to hear it, too; nil speaks nothing.
	Speak func(ctx context.Context, words string) (*a2apb.Part, error)
	// Room returns the trip of the bytes that are kept of a tenant, if so many more would
	// exceed them: what an agent says is not taken then. nil is no bound.
	Room func(t mesh.TenantID, more int64) *limit.Trip
	// HandoffGrace is how long an agent that gave the stream away may go on
	// for the record; default 2 s.
	HandoffGrace time.Duration
	// Quiet is how long the user of a turn is told nothing until the mesh says who is at
	// work; 0 is for ever.
	Quiet time.Duration
	// CancelGrace is how long an agent has to end a canceled task; default 5 s.
	CancelGrace time.Duration
	// AdoptTime is how long a turn waits for its agent to be live again, which was cut off
	// or not there when it was to begin, and was live within as long before; default 30 s.
	AdoptTime time.Duration
	// Interrupt has turns that were cut off end as interrupted, rather than go on.
	Interrupt bool
	// Places are in how many threads turns are worked on at a time, by default in any number.
	Places Places
	// Budget is what turns may use, as their executions in the log say. The default is
	// no limit.
	Budget mesh.Budget
	// Retention is how long what agents noted in a session is kept after they last noted
	// something, once the session is over; 0 keeps nothing.
	Retention time.Duration
	// MaxDepth is how many levels of dispatch are allowed below an orchestrator, whoever
	// called it; default 1. The main agent may consult one besides, unless it is one.
	MaxDepth int
	// Chains are agents that only have others work in stages, with how many levels there
	// are of such, themselves among them: these are allowed besides.
	Chains map[string]int
	// Traced says that the spans of executions are told of: agents are called with those.
	// Else what the client sent goes on to them.
	Traced bool
	Now    func() time.Time
	Logger *slog.Logger
}

func (c *Config) fill() {
	c.HandoffGrace = orDefault(c.HandoffGrace, 2*time.Second)
	c.CancelGrace = orDefault(c.CancelGrace, 5*time.Second)
	c.AdoptTime = orDefault(c.AdoptTime, 30*time.Second)
	c.MaxDepth = orDefault(c.MaxDepth, 1)
	if c.Now == nil {
		c.Now = time.Now
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

// A Runner has the drivers of this node. Use New.
type Runner struct {
	Config

	began time.Time
	turns context.Context //nolint:containedctx // of all drivers; ends in Close when the grace is over
	cut   context.CancelCauseFunc
	wg    sync.WaitGroup

	mu      sync.Mutex
	drivers map[mesh.ThreadKey]*driver
	busy    chan struct{}    // capacity 1: there is a driver again
	closing bool             // only what runs is finished
	left    []mesh.ThreadKey // unfinished, and without a driver when they were looked for
	coming  int              // drivers that were given to such, and are not under way
	last    chan struct{}    // closed when the last of them has entered the line
	line    limit.Line[mesh.ThreadKey]
	waiting map[mesh.ThreadKey]*wait // of those that wait in the line
}

var errShutdown = mesh.Errorf(mesh.Canceled, "turn.Close", "the mesh is shutting down")

// New returns a Runner. Call Recover before messages are taken, Run while they are,
// and Close when they are no more.
func New(c Config) (*Runner, error) {
	if c.Log == nil || c.States == nil || c.Leases == nil || c.Directory == nil || c.Dialer == nil || c.Signer == nil {
		return nil, mesh.Errorf(mesh.Invalid, "turn.New", "the runner of turns needs a log, states, leases, a directory, a dialer and a signer")
	}
	if !mesh.ValidAgentName(c.Main) || c.Node == "" {
		return nil, mesh.Errorf(mesh.Invalid, "turn.New", "the runner of turns needs the name of a main agent and of its node")
	}
	c.fill()
	r := &Runner{Config: c, began: c.Now(), drivers: map[mesh.ThreadKey]*driver{}, busy: make(chan struct{}, 1),
		line: limit.Line[mesh.ThreadKey]{Most: c.Places.Running, User: c.Places.OfUser, Tenant: c.Places.OfTenant}, waiting: map[mesh.ThreadKey]*wait{}}
	r.turns, r.cut = context.WithCancelCause(context.Background())
	return r, nil
}

const (
	// leaseTTL is how long a driver's lease lasts without renewal.
	leaseTTL = 15 * time.Second
	// sweepPage is how many unfinished threads are looked at together.
	sweepPage = 256
	// maxComing is how many threads that were left over are brought under way at a time:
	// enough to fill a commit of the log. A node that starts with a thousand has time for
	// those who come meanwhile, and as much in memory as so many need.
	maxComing = 32
)

// Run tends the threads now and then until ctx is done.
func (r *Runner) Run(ctx context.Context) error {
	var quiet sync.WaitGroup
	defer quiet.Wait()
	quiet.Go(func() { r.tellQuiet(ctx) }) // beside the leases, which wait for no disk
	tick := time.NewTicker(leaseTTL / 3)
	defer tick.Stop()
	for {
		r.Tend(ctx)
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
	}
}

// Tend renews the leases of all drivers, and gives a driver to each thread with
// something unfinished that has none, here or elsewhere, some at a time.
func (r *Runner) Tend(ctx context.Context) {
	r.renew(ctx)
	r.sweep(ctx)
}

// Drives reports whether this node drives the thread, or tries to.
func (r *Runner) Drives(key mesh.ThreadKey) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.drivers[key] != nil
}

// knows reports whether the thread has a driver here, or waits for a place.
func (r *Runner) knows(key mesh.ThreadKey) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.drivers[key] != nil || r.line.Waits(key)
}

// renew keeps the leases of the drivers.
func (r *Runner) renew(ctx context.Context) {
	r.mu.Lock()
	held := make([]*driver, 0, len(r.drivers))
	for _, d := range r.drivers {
		held = append(held, d)
	}
	r.mu.Unlock()
	for _, d := range held {
		d.renew(ctx)
	}
}

// sweep has drivers given to unfinished threads, in the order in which they were left. One
// that is driven elsewhere is left alone for lack of its lease.
func (r *Runner) sweep(ctx context.Context) {
	var left []mesh.ThreadKey
	err := r.unfinished(ctx, func(key mesh.ThreadKey) error {
		if !r.knows(key) {
			left = append(left, key)
		}
		return nil
	})
	if err != nil && ctx.Err() == nil {
		r.Logger.WarnContext(ctx, "unfinished threads not found", "err", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.left = left
	r.adopt()
}

// adopt gives drivers to threads that were left over, the oldest first, as long as there
// are not too many that are not under way. The caller holds mu.
func (r *Runner) adopt() {
	for len(r.left) > 0 && r.coming < maxComing && !r.closing {
		key := r.left[0]
		r.left = r.left[1:]
		if r.drivers[key] == nil {
			d := r.drive(key, nil)
			d.coming = true
			if r.Places != (Places{}) {
				d.ahead, d.inside = r.last, make(chan struct{})
				r.last = d.inside
			}
			r.coming++
		}
	}
}

// underway says that the driver has its agent called, or waits for it, or has nothing to
// do: the next thread that was left over may have one.
func (r *Runner) underway(d *driver) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if d.coming {
		d.coming = false
		r.coming--
		r.adopt()
	}
}

// unfinished calls f with the threads in which something may be left to do.
func (r *Runner) unfinished(ctx context.Context, f func(mesh.ThreadKey) error) error {
	for after := mesh.Pos(0); ; {
		page, err := r.Log.Unfinished(ctx, after, sweepPage)
		if err != nil || len(page) == 0 {
			return err
		}
		for _, u := range page {
			after = u.Pos
			if err := f(u.Key); err != nil {
				return err
			}
		}
	}
}

// Wake says that something was appended to the thread which its driver may have to
// work on. If the thread is driven elsewhere, that driver finds it.
func (r *Runner) Wake(key mesh.ThreadKey) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.drivers[key] != nil || !r.closing {
		r.kick(key)
	}
}

// Close begins no more turns, lets running ones finish until ctx is done, and waits for
// all goroutines. What is not finished then is left to the next node, as it is, or, with
// Interrupt, settled as interrupted as far as it has begun.
func (r *Runner) Close(ctx context.Context) error {
	r.mu.Lock()
	r.closing = true
	r.mu.Unlock()
	done := make(chan struct{})
	go func() { r.wg.Wait(); close(done) }() // ends when the turns do, and we wait for it below
	select {
	case <-done:
	case <-ctx.Done():
	}
	r.cut(errShutdown)
	<-done
	return nil
}

// Running returns how many threads are worked on.
func (r *Runner) Running() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.drivers)
}

// kick makes sure that the thread has a driver that will look at its turns. The
// caller holds mu.
func (r *Runner) kick(key mesh.ThreadKey) {
	if d := r.drivers[key]; d != nil {
		d.woken = true
		select {
		case d.wake <- struct{}{}:
		default:
		}
		return
	}
	r.drive(key, nil)
}

// drive gives the thread, which has none, a driver that begins with what somebody
// wants decided, if anything. The caller holds mu.
func (r *Runner) drive(key mesh.ThreadKey, first *taking) *driver {
	d := &driver{Config: r.Config, runner: r, key: key, wake: make(chan struct{}, 1), first: first,
		given: make(chan *taking), gone: make(chan struct{}), came: r.line.Come()}
	r.drivers[key] = d
	r.stir()
	r.wg.Go(func() { stack.Grow(); d.run(r.turns) }) // Close waits
	return d
}

// leave ends the driver unless it was woken meanwhile. One that could not settle
// its thread then gives way to a new one, which begins afresh.
func (r *Runner) leave(d *driver, settled bool) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if d.woken && settled {
		d.woken = false
		return false
	}
	delete(r.drivers, d.key)
	d.entered()
	if !d.inLine {
		r.vacate(d.key)
	}
	if d.woken && r.turns.Err() == nil && r.drivers[d.key] == nil {
		r.kick(d.key)
	}
	return true
}
