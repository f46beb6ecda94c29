package rpc

import (
	"context"
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
	open     int // calls of open methods
	arriving int // those of them whose message has not arrived
}

// An arrival is a call whose headers have come.
type arrival struct {
	of    *arrivals
	open  bool
	timer *time.Timer
	done  atomic.Bool
}

type arrivalKey struct{}

// begin returns ctx, the call's as long as its message arrives in time, or refuses the
// call of an open method while there are too many.
func (a *arrivals) begin(ctx context.Context, open bool) (context.Context, error) {
	if open && !a.enter() {
		return ctx, WithRetryAfter(mesh.Errorf(mesh.Exhausted, "rpc.arrivals",
			"the server has as many calls without credentials as it may have; try again in %v", streamRetry), streamRetry)
	}
	one := &arrival{of: a, open: open}
	ctx, cancel := context.WithCancelCause(ctx)
	one.timer = time.AfterFunc(a.within, func() { cancel(errLate) })
	context.AfterFunc(ctx, func() {
		one.arrived()
		if open {
			a.mu.Lock()
			defer a.mu.Unlock()
			a.open--
		}
	})
	return context.WithValue(ctx, arrivalKey{}, one), nil
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

// arrived says that the call in ctx has a message, if it came over the network.
func arrived(ctx context.Context) {
	if one, ok := ctx.Value(arrivalKey{}).(*arrival); ok {
		one.arrived()
	}
}

func (one *arrival) arrived() {
	if one.done.Swap(true) {
		return
	}
	one.timer.Stop()
	if one.open {
		one.of.mu.Lock()
		defer one.of.mu.Unlock()
		one.of.arriving--
	}
}
