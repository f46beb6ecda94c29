package rpc

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"agentmesh/mesh"
)

// Bounds of calls of which the headers have come and nothing else, perhaps.
const (
	// arriveTime is how long the first message of a call may take to arrive.
	arriveTime = 30 * time.Second
	// maxOpen bounds the calls of open methods, whose callers nobody knows, and
	// maxArriving those of them whose message has not arrived: each may have so many
	// bytes in memory.
	maxOpen     = 1024
	maxArriving = 64
)

// arrivals watch over calls until their first message has arrived.
type arrivals struct {
	within time.Duration

	mu       sync.Mutex
	pending  []*arrival // by when they began; those that arrived or ended stay until the next sweep
	sweepAt  int        // the number of pending ones at which they are swept
	timed    bool       // a timer will sweep
	open     int        // calls of open methods
	arriving int        // those of them whose message has not arrived
}

// An arrival is the context of a call whose headers have come over the network. It has
// the call, and can be ended. There is one for each, so it is all that a call needs.
type arrival struct {
	context.Context //nolint:containedctx // it is one
	end             context.CancelCauseFunc
	of              *arrivals
	begun           time.Time
	open            bool
	done            atomic.Bool
}

type arrivalKey struct{}

// Value implements context.Context.
func (a *arrival) Value(key any) any {
	if key == (arrivalKey{}) {
		return a
	}
	return a.Context.Value(key)
}

// arrivalOf returns the arrival of the call in ctx, or nil if it was made in the process.
func arrivalOf(ctx context.Context) *arrival {
	a, _ := ctx.Value(arrivalKey{}).(*arrival)
	return a
}

// begin returns the context of a call as long as its message arrives in time, or refuses
// the call of an open method while there are too many.
func (a *arrivals) begin(ctx context.Context, call mesh.Call, open bool, now time.Time) (context.Context, error) {
	if open && !a.enter() {
		return ctx, WithRetryAfter(mesh.Errorf(mesh.Exhausted, "rpc.arrivals",
			"the server has as many calls without credentials as it may have; try again in %v", streamRetry), streamRetry)
	}
	ctx, end := context.WithCancelCause(ctx)
	one := &arrival{Context: mesh.WithCall(ctx, call), end: end, of: a, begun: now, open: open}
	if open {
		context.AfterFunc(ctx, func() {
			one.arrived()
			a.mu.Lock()
			defer a.mu.Unlock()
			a.open--
		})
	}
	a.watch(one)
	return one, nil
}

// errLate ends calls whose message does not come.
var errLate = &mesh.Error{Code: mesh.Timeout, Op: "rpc.arrivals", Detail: "the call's message has not arrived in time; send it again"}

func (a *arrivals) enter() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.open >= maxOpen || a.arriving >= maxArriving {
		return false
	}
	a.open++
	a.arriving++
	return true
}

// minPending is how many calls there are before those that arrived are looked for among
// them.
const minPending = 64

// watch ends the call unless its message arrives in time. There is one timer for all, and
// not one for each, which nearly all calls would only stop again.
func (a *arrivals) watch(one *arrival) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.pending) >= max(a.sweepAt, minPending) {
		a.sweep(one.begun)
		a.sweepAt = 2 * len(a.pending) // so that sweeping costs each call the same
	}
	a.pending = append(a.pending, one)
	a.timer(a.within)
}

// timer has the pending calls swept after a time, if nothing else does. Called with mu held.
func (a *arrivals) timer(after time.Duration) {
	if a.timed {
		return
	}
	a.timed = true
	time.AfterFunc(after, func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		now := time.Now()
		a.sweep(now)
		if a.timed = false; len(a.pending) > 0 {
			a.timer(a.pending[0].begun.Add(a.within).Sub(now))
		}
	})
}

// sweep ends those that are late, and forgets those with which nothing is to be done any
// more. Called with mu held.
func (a *arrivals) sweep(now time.Time) {
	a.pending = slices.DeleteFunc(a.pending, func(one *arrival) bool {
		if one.done.Load() || one.Err() != nil {
			return true
		}
		late := now.Sub(one.begun) >= a.within
		if late {
			one.end(errLate)
		}
		return late
	})
}

// arrived says that the call in ctx has a message, if it came over the network.
func arrived(ctx context.Context) {
	if one := arrivalOf(ctx); one != nil {
		one.arrived()
	}
}

func (a *arrival) arrived() {
	if a.done.Swap(true) || !a.open {
		return
	}
	a.of.mu.Lock()
	defer a.of.mu.Unlock()
	a.of.arriving--
}
