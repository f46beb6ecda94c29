// Package limit says when a caller has had enough, and when a skill has.
//
// [Rate] gives every caller its own token bucket, so that one caller's hurry
// does not slow another one down. It remembers a bounded number of callers and
// forgets the one that has been quiet the longest; a caller that was forgotten
// begins with a full bucket.
//
// [Budgets] say how many calls of skills an agent, a turn, a conversation and a
// user may make; they count nothing themselves but for users, in [Windows], which
// are like Rate in what they remember. A limit that is met is a [Trip], which
// survives as an error on its way to another process.
//
// A [Breaker] stops calls of a skill that keeps failing, and lets one through
// after a while. Its state is kept outside, so that all processes share it and
// restarts keep it.
//
// Everything here is safe for concurrent use. The package knows nothing of
// tenants or users: a caller is a string. It does not wait; it says how long to
// wait, or when there is room.
package limit

import (
	"fmt"
	"math"
	"sync"
	"time"

	"agentmesh/mesh"

	"github.com/hashicorp/golang-lru/v2/simplelru"
	"golang.org/x/time/rate"
)

// A Rate limits calls per caller. The zero value limits nothing.
type Rate struct {
	perSecond float64
	burst     int

	mu      sync.Mutex
	callers *simplelru.LRU[string, *rate.Limiter]
}

// NewRate returns a Rate that allows each caller perSecond calls per second on
// average and burst calls at once, and remembers maxCallers callers. A
// perSecond of 0 turns the limit off. A perSecond that is negative or not a
// number, and, when the limit is on, a burst or maxCallers below 1, are
// Invalid.
func NewRate(perSecond float64, burst, maxCallers int) (*Rate, error) {
	const op = "limit.NewRate"
	switch {
	case perSecond == 0:
		return new(Rate), nil
	case !(perSecond > 0) || math.IsInf(perSecond, 0):
		return nil, mesh.InvalidField(op, "per_second", "must be 0 (no limit) or a positive number, and is %v", perSecond)
	case burst < 1:
		return nil, mesh.InvalidField(op, "burst", "must be at least 1, and is %d", burst)
	}
	callers, err := simplelru.NewLRU[string, *rate.Limiter](maxCallers, nil)
	if err != nil {
		return nil, mesh.InvalidField(op, "max_callers", "must be at least 1, and is %d", maxCallers)
	}
	return &Rate{perSecond: perSecond, burst: burst, callers: callers}, nil
}

// Allow takes a token from the caller's bucket. If there is none it returns
// false and how long the caller should wait for one; such a call costs the
// caller nothing.
func (r *Rate) Allow(name string, now time.Time) (retryAfter time.Duration, ok bool) {
	if r.perSecond == 0 {
		return 0, true
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	reservation := r.bucket(name).ReserveN(now, 1)
	wait := reservation.DelayFrom(now)
	if wait > 0 {
		reservation.CancelAt(now)
		return wait, false
	}
	return 0, true
}

// Burst is how many calls of a caller may come at once.
func (r *Rate) Burst() int { return r.burst }

// String describes the limit, as "5 calls per second, 10 at once".
func (r *Rate) String() string {
	if r.perSecond == 0 {
		return "no limit"
	}
	return fmt.Sprintf("%v calls per second, %d at once", r.perSecond, r.burst)
}

// bucket returns the caller's bucket and notes that it was seen. The caller
// holds mu.
func (r *Rate) bucket(name string) *rate.Limiter {
	if bucket, ok := r.callers.Get(name); ok {
		return bucket
	}
	bucket := rate.NewLimiter(rate.Limit(r.perSecond), r.burst)
	r.callers.Add(name, bucket)
	return bucket
}
