package limit_test

import (
	"fmt"
	"math"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/limit"
)

var start = time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)

func newRate(t *testing.T, perSecond float64, burst, callers int) *limit.Rate {
	t.Helper()
	r, err := limit.NewRate(perSecond, burst, callers)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// allowed returns how many of n calls at the time pass.
func allowed(r *limit.Rate, caller string, n int, at time.Time) int {
	passed := 0
	for range n {
		if _, ok := r.Allow(caller, at); ok {
			passed++
		}
	}
	return passed
}

func TestACallerHasItsBurstAndThenItsRate(t *testing.T) {
	r := newRate(t, 2, 5, 10)
	if got := allowed(r, "alice", 100, start); got != 5 {
		t.Errorf("%d calls at once passed, want 5", got)
	}
	if wait, ok := r.Allow("alice", start); ok || wait != 500*time.Millisecond {
		t.Errorf("Allow = %v, %v; want to wait 500ms however often it was refused", wait, ok)
	}
	if wait, ok := r.Allow("alice", start.Add(375*time.Millisecond)); ok || wait != 125*time.Millisecond {
		t.Errorf("125ms early: %v, %v; want to wait 125ms", wait, ok)
	}
	if wait, ok := r.Allow("alice", start.Add(500*time.Millisecond)); !ok || wait != 0 {
		t.Errorf("in time: %v, %v; want to pass", wait, ok)
	}
	if got := allowed(r, "alice", 100, start.Add(time.Hour)); got != 5 {
		t.Errorf("after an hour %d calls at once passed, want 5", got)
	}
}

func TestOneCallersHurryDoesNotSlowAnother(t *testing.T) {
	r := newRate(t, 1, 1, 10)
	allowed(r, "alice", 100, start)
	if got := allowed(r, "bob", 1, start); got != 1 {
		t.Error("bob was refused for what alice did")
	}
}

func TestTheCallerThatIsQuietTheLongestIsForgotten(t *testing.T) {
	r := newRate(t, 1, 1, 2)
	for _, name := range []string{"alice", "bob", "alice", "carol"} { // bob is the oldest, and forgotten for carol
		r.Allow(name, start)
	}
	if _, ok := r.Allow("alice", start); ok {
		t.Error("alice, who is not quiet, was forgotten")
	}
	if _, ok := r.Allow("bob", start); !ok {
		t.Error("bob is still known")
	}
}

func TestZeroIsNoLimit(t *testing.T) {
	for name, r := range map[string]*limit.Rate{"a rate of zero": newRate(t, 0, 0, 0), "the zero value": new(limit.Rate)} {
		if got := allowed(r, "alice", 1000, start); got != 1000 || r.String() != "no limit" {
			t.Errorf("%s: %d of 1000 calls passed, called %q", name, got, r)
		}
	}
}

func TestNewRateRefusesWhatIsNoLimit(t *testing.T) {
	for name, newRate := range map[string]func() (*limit.Rate, error){
		"a negative rate":     func() (*limit.Rate, error) { return limit.NewRate(-1, 1, 1) },
		"no number":           func() (*limit.Rate, error) { return limit.NewRate(math.NaN(), 1, 1) },
		"an infinite rate":    func() (*limit.Rate, error) { return limit.NewRate(math.Inf(1), 1, 1) },
		"a burst of nothing":  func() (*limit.Rate, error) { return limit.NewRate(1, 0, 1) },
		"no room for callers": func() (*limit.Rate, error) { return limit.NewRate(1, 1, 0) },
	} {
		if r, err := newRate(); !mesh.IsCode(err, mesh.Invalid) || r != nil {
			t.Errorf("%s: %v, %v; want invalid", name, r, err)
		}
	}
}

func TestConcurrentCallsShareOneBucket(t *testing.T) {
	r := newRate(t, 1, 50, 3)
	var passed atomic.Int64
	var all sync.WaitGroup
	for range 10 {
		all.Go(func() { passed.Add(int64(allowed(r, "alice", 20, start))) })
	}
	all.Wait()
	if got := passed.Load(); got != 50 {
		t.Errorf("%d of 200 calls passed, want 50", got)
	}
}

func ExampleRate() {
	r, _ := limit.NewRate(0.5, 1, 1000)
	now := time.Unix(0, 0)
	fmt.Println(r)
	fmt.Println(r.Allow("acme/alice", now))
	fmt.Println(r.Allow("acme/alice", now))
	// Output:
	// 0.5 calls per second, 1 at once
	// 0s true
	// 2s false
}
