package limit

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"sync"
	"time"

	"agentmesh/mesh"
)

// Defaults of a [Breaker] (S3-047, S3-048).
const (
	DefaultFailures = 5
	DefaultOpen     = time.Minute
	// DefaultProbe is longer than a skill may take.
	DefaultProbe = 45 * time.Second
	DefaultFresh = 2 * time.Second
)

// kindBreaker is the kind under which breakers are stored.
const kindBreaker = "breaker"

const (
	// storeTime bounds one visit to the store, for callers wait for it.
	storeTime = 2 * time.Second
	// storeTries bounds how often a lost race is run again.
	storeTries = 8
)

// A BreakerStore keeps circuits. The state of agents has this form: values by
// kind and key, each with a version that rises with every change. It is called
// concurrently.
type BreakerStore interface {
	// Get returns the value and its version; NotFound if there is none.
	Get(ctx context.Context, kind, key string) (data []byte, version int64, err error)
	// Put writes the value if its version is the given one, 0 meaning that
	// there is none, and returns the new version; otherwise Conflict.
	Put(ctx context.Context, kind, key string, data []byte, version int64) (int64, error)
}

// BreakerOptions are the choices of [NewBreaker]. Zero values are defaults.
type BreakerOptions struct {
	// Failures is how many failures in a row open a circuit.
	Failures int
	// Open is how long an open circuit refuses all calls.
	Open time.Duration
	// Probe is how long the one call that is then let through may take before
	// it counts as lost and another one is let through.
	Probe time.Duration
	// Fresh is for how long what was read of the store is believed: a circuit
	// that another process opened or closed is noticed that much later. If it
	// is negative, every call reads.
	Fresh time.Duration
	// Now is the clock. The default is time.Now.
	Now func() time.Time
	// Logger is for the operator. The default discards.
	Logger *slog.Logger
	// Follows has the Breaker write nothing: others say what comes of calls.
	Follows bool
}

// A Breaker stops calls to things that keep failing. It has a circuit for each
// thing, by name, and all Breakers over one store share them, in whatever
// process they are and after a restart too (S3-050, S3-051).
//
// A circuit is closed until Failures calls in a row have failed. It is then
// open and refuses all calls for the time Open. After that it is half open:
// one call is let through, the probe, whose place is claimed in the store, so
// that there is one among all Breakers. Its success closes the circuit, its
// failure opens it again for as long.
//
// A closed circuit costs no more than one read per thing and Fresh, and one
// write per failure and per success after failures. The price is that a
// Breaker notices up to Fresh late what another one did; a probe is never let
// through twice for that.
//
// A Breaker may be used concurrently. It remembers each name that it was asked
// for; they are not to come from callers unchecked.
type Breaker struct {
	store   BreakerStore
	rules   rules
	fresh   time.Duration
	now     func() time.Time
	logger  *slog.Logger
	follows bool

	mu    sync.Mutex
	views map[string]*view
}

// A view is what a Breaker knows of one circuit. Its lock is held while the
// store is asked, so that calls that come at once ask it once.
type view struct {
	mu      sync.Mutex
	circuit circuit
	version int64
	until   time.Time // when it has to be read again
	blind   bool      // the store could not be read
}

// ProbeTime is how long a breaker waits for the one call that it lets through:
// longer than a call of that timeout takes, so that no second one follows while
// it runs (S3-049).
func ProbeTime(timeout time.Duration) time.Duration { return max(DefaultProbe, timeout+timeout/2) }

// NewBreaker returns a Breaker over the store.
func NewBreaker(store BreakerStore, o BreakerOptions) *Breaker {
	b := &Breaker{
		store: store,
		rules: rules{
			failures: cmp.Or(o.Failures, DefaultFailures),
			open:     cmp.Or(o.Open, DefaultOpen),
			probe:    cmp.Or(o.Probe, DefaultProbe),
		},
		fresh: cmp.Or(o.Fresh, DefaultFresh), now: o.Now, logger: o.Logger, follows: o.Follows, views: make(map[string]*view),
	}
	if b.now == nil {
		b.now = time.Now
	}
	if b.logger == nil {
		b.logger = slog.New(slog.DiscardHandler)
	}
	return b
}

// Allow rules on a call to the thing of that name. It returns an Unavailable
// error if its circuit is open; otherwise the caller makes the call and then
// calls done, once, with what came of it. A store that cannot be reached
// allows the call.
func (b *Breaker) Allow(ctx context.Context, name string) (done func(ctx context.Context, o Outcome), err error) {
	if b.follows {
		return func(context.Context, Outcome) {}, b.look(ctx, name)
	}
	call := mesh.NewEventID()
	if err := b.Begin(ctx, name, call); err != nil {
		return nil, err
	}
	return func(ctx context.Context, o Outcome) { b.End(ctx, name, call, o) }, nil
}

// look is Allow for who does not write: of a circuit that is to be probed, it lets all
// calls through, and whoever does write picks the probe.
func (b *Breaker) look(ctx context.Context, name string) error {
	v := b.view(name)
	v.mu.Lock()
	defer v.mu.Unlock()
	b.refresh(ctx, v, name)
	if _, ruling := b.rules.admit(v.circuit, "", b.now()); !v.blind && ruling == refuse {
		return unavailable(name)
	}
	return nil
}

// Begin is Allow for a call that End names again, also in another process, and after
// this one was asked already.
func (b *Breaker) Begin(ctx context.Context, name, call string) error {
	v := b.view(name)
	v.mu.Lock()
	defer v.mu.Unlock()
	for range storeTries {
		b.refresh(ctx, v, name)
		if v.blind {
			break
		}
		next, ruling := b.rules.admit(v.circuit, call, b.now())
		switch ruling {
		case refuse:
			return unavailable(name)
		case pass:
			return nil
		}
		err := b.put(ctx, v, name, next)
		if err == nil {
			return nil
		}
		if !mesh.IsCode(err, mesh.Conflict) {
			b.lost(ctx, v, name, err)
		}
	}
	return nil
}

func unavailable(name string) error {
	return mesh.Errorf(mesh.Unavailable, "limit.Allow", "'%s' is temporarily unavailable. Please try again later.", name)
}

// End says what came of a call that Begin let through. A probe that was given up for
// lost, and whose place is taken, has no say more.
func (b *Breaker) End(ctx context.Context, name, call string, o Outcome) {
	v := b.view(name)
	v.mu.Lock()
	defer v.mu.Unlock()
	probe := false
	for range storeTries {
		b.refresh(ctx, v, name)
		if v.blind || probe && !v.circuit.probes(call) {
			return
		}
		probe = v.circuit.probes(call)
		next := b.rules.settle(v.circuit, call, o, b.now())
		if next == v.circuit || next.closed() && v.circuit.closed() && next.Failures == v.circuit.Failures {
			return
		}
		err := b.put(ctx, v, name, next)
		if err == nil {
			b.report(ctx, name, next)
			return
		}
		if !mesh.IsCode(err, mesh.Conflict) {
			b.lost(ctx, v, name, err)
		}
	}
}

func (b *Breaker) view(name string) *view {
	b.mu.Lock()
	defer b.mu.Unlock()
	v, ok := b.views[name]
	if !ok {
		v = new(view)
		b.views[name] = v
	}
	return v
}

// refresh reads the circuit, unless what is known of it is fresh. The caller
// holds v.mu.
func (b *Breaker) refresh(ctx context.Context, v *view, name string) {
	if b.now().Before(v.until) {
		return
	}
	visit, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	data, version, err := b.store.Get(visit, kindBreaker, name)
	var c circuit
	switch {
	case mesh.IsCode(err, mesh.NotFound):
		version = 0
	case err != nil:
		b.lost(ctx, v, name, err)
		return
	default:
		if err := json.Unmarshal(data, &c); err != nil {
			b.logger.WarnContext(ctx, "a breaker's state cannot be read and is taken as closed", "name", name, "err", err)
			c = circuit{}
		}
	}
	v.circuit, v.version, v.blind, v.until = c, version, false, b.now().Add(b.fresh)
}

// put stores the circuit in the place of the one known. After an error nothing
// is known any more. The caller holds v.mu.
func (b *Breaker) put(ctx context.Context, v *view, name string, next circuit) error {
	data, err := json.Marshal(next)
	if err != nil {
		return mesh.Wrap("limit.put", err)
	}
	ctx, cancel := context.WithTimeout(ctx, storeTime)
	defer cancel()
	version, err := b.store.Put(ctx, kindBreaker, name, data, v.version)
	if err != nil {
		v.until = time.Time{}
		return err
	}
	v.circuit, v.version, v.blind, v.until = next, version, false, b.now().Add(b.fresh)
	return nil
}

// lost notes that the store cannot be reached: calls are allowed, and it is
// left alone for a while, so that they do not wait for it one by one. A caller
// who gave up says nothing about the store.
func (b *Breaker) lost(ctx context.Context, v *view, name string, err error) {
	v.blind, v.until = true, b.now().Add(b.fresh)
	if ctx.Err() != nil {
		v.until = time.Time{}
		return
	}
	b.logger.WarnContext(ctx, "the state of a breaker is out of reach; calls are allowed", "name", name, "err", err)
}

func (b *Breaker) report(ctx context.Context, name string, c circuit) {
	switch {
	case c.State == stateOpen:
		b.logger.WarnContext(ctx, "a circuit is open", "name", name, "failures", c.Failures)
	case c.Failures == 0:
		b.logger.InfoContext(ctx, "a circuit is closed", "name", name)
	}
}
