// Package push delivers the updates of tasks to webhooks (A2A v1.0 §4.3).
//
// A [Dispatcher] keeps push notification configs and reads the log for them.
// It guarantees that every update of a task reaches each of its webhooks at
// least once and in order, also across restarts, until the webhook has failed
// too often; what was delivered is kept on disk with each config, and nothing
// else needs to be, as the log has the rest. A config is there until its task is
// over and all of it was delivered, or its webhook was given up; one that is set
// later, for an hour. A webhook that is slow or dead
// delays no stream and no other webhook: after a moment it waits in a lane of
// its own (see lanes.go). What a webhook is sent is what a client without our
// extension sees.
//
// A config belongs to the user who made it: nobody else sees that there is
// one. It is encrypted at rest, and neither its secrets nor its URL are logged.
// Requests go through a guard (package egress), with credentials only to the
// host that they were given for.
//
// Everything may be called concurrently, but Run only once at a time. Configs
// can be made while it does not run; what they are owed is delivered when it
// does.
//
// It is not a queue for other things, and does not know how a task is written in
// A2A v0.3 (see [Config.EncodeV03]).
package push

import (
	"context"
	"hash/maphash"
	"iter"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/alarm"
	"agentmesh/mesh/security/egress"
	"agentmesh/mesh/security/seal"
	"agentmesh/mesh/state"
	"agentmesh/mesh/thread/cache"
	"agentmesh/mesh/threadlog"
)

// A Log is what the dispatcher reads: a *threadlog.Log.
type Log interface {
	Read(ctx context.Context, key mesh.ThreadKey, after mesh.Seq, limit int) ([]*mesh.Event, error)
	Info(ctx context.Context, key mesh.ThreadKey) (threadlog.Info, bool, error)
	FollowAll(ctx context.Context, after mesh.Pos) iter.Seq2[threadlog.Placed, error]
}

// Config is what a [Dispatcher] is made of. Log, States, KV, Box and Guard are
// required.
type Config struct {
	Log    Log
	States *cache.States
	KV     *state.KV
	// Box encrypts configs. What it cannot open cannot be read, and what it opens under a
	// secret that is to go is sealed anew when it is read.
	Box   *seal.Box
	Guard *egress.Guard
	// Blobs says where a blob of the thread is read; nil shows what the log has.
	Blobs func(key mesh.ThreadKey, b mesh.Blob, filename string) string
	// Contexts know users' own names for threads; nil for none.
	Contexts *a2a.Contexts
	// Shared says that others may make configs in the same store, which they do not
	// deliver. Run then looks once a second.
	Shared bool
	// Standing says whether what the owner proved itself by counts still; what it set is not
	// delivered by else. The default is that it does.
	Standing func(mesh.TenantID, Owner) bool
	// ReadByRole is told of each thread of which somebody has updates delivered because a
	// role allows to read it. The default is nobody.
	ReadByRole func(ctx context.Context, thread string)
	// Transport sends the requests. The default is Guard.Transport.
	Transport http.RoundTripper
	// EncodeV03 makes what webhooks of A2A v0.3 are sent for an update: the whole
	// task as JSON. It does not keep or change the task. Without it they are sent
	// what all others are.
	EncodeV03 func(*a2apb.Task) ([]byte, error)
	// Workers bounds how many requests are under way at once; default 8. As
	// many again, times four, wait for webhooks that are slow.
	Workers int
	// Timeout ends an attempt; default 15 s. After Patience, default 1 s, it
	// makes way for others.
	Timeout  time.Duration
	Patience time.Duration
	// Attempts is how often an update is tried before the config is given up;
	// default 10. The pause after the first failure is Backoff, default 1 s; it
	// doubles up to MaxBackoff, default 5 min. A Retry-After of at most an hour
	// prolongs it.
	Attempts   int
	Backoff    time.Duration
	MaxBackoff time.Duration
	// Jitter returns a number from 0 to below 1 by which pauses are spread; the
	// default is random.
	Jitter func() float64
	// Logger hears of configs that are given up. The default discards.
	Logger *slog.Logger
	// Alarms are told of a store that cannot be read. The default is none.
	Alarms *alarm.Set
}

// A Dispatcher keeps configs and delivers by them. Use [New].
type Dispatcher struct {
	Config

	locks [64]sync.Mutex // by thread; see lock
	seed  maphash.Seed
	idle  func()        // closes idle connections of the default transport
	kick  chan struct{} // capacity 1: look at the lanes and clocks again
	scan  chan struct{} // capacity 1: begin to scan

	mu       sync.Mutex // guards the fields below
	running  bool
	subs     map[string]*sub // by name
	threads  map[mesh.ThreadKey]map[*sub]bool
	hosts    map[string]*host
	lanes    [2]lane
	waiting  waiting
	scanning bool
	from     mesh.Pos // where a scan begins
}

// New returns a Dispatcher. It refuses a Config without something required with
// Invalid.
func New(c Config) (*Dispatcher, error) {
	const op = "push.New"
	switch {
	case c.Log == nil || c.States == nil || c.KV == nil || c.Box == nil || c.Guard == nil:
		return nil, mesh.InvalidField(op, "config", "must have a log, states, a store, a box and a guard")
	case c.Workers < 0 || c.Timeout < 0 || c.Patience < 0 || c.Attempts < 0 || c.Backoff < 0 || c.MaxBackoff < 0:
		return nil, mesh.InvalidField(op, "config", "must not have negative numbers")
	}
	c.setDefaults()
	d := &Dispatcher{
		Config: c, seed: maphash.MakeSeed(), idle: func() {},
		kick: make(chan struct{}, 1), scan: make(chan struct{}, 1),
	}
	if d.Transport == nil {
		tr := c.Guard.Transport()
		d.Transport, d.idle = tr, tr.CloseIdleConnections
	}
	d.reset()
	return d, nil
}

func (c *Config) setDefaults() {
	orInt := func(p *int, def int) {
		if *p == 0 {
			*p = def
		}
	}
	orTime := func(p *time.Duration, def time.Duration) {
		if *p == 0 {
			*p = def
		}
	}
	orInt(&c.Workers, 8)
	orInt(&c.Attempts, 10)
	orTime(&c.Timeout, 15*time.Second)
	orTime(&c.Patience, time.Second)
	orTime(&c.Backoff, time.Second)
	orTime(&c.MaxBackoff, 5*time.Minute)
	if c.Jitter == nil {
		c.Jitter = rand.Float64
	}
	if c.ReadByRole == nil {
		c.ReadByRole = func(context.Context, string) {}
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
}
