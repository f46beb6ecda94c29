// Package leasetest is the conformance suite of [lease.Store]: what every
// driver must do, beside what its types say. Drivers call [Run] in a test.
package leasetest

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/lease"
)

// A Clock is a time that moves when the test says so. It is safe for
// concurrent use.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock returns a clock that stands at a fixed time.
func NewClock() *Clock {
	return &Clock{now: time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)}
}

// Now returns the clock's time.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock forward, by whole ticks: finding C16.
func (c *Clock) Advance(d time.Duration) {
	if d%tick != 0 {
		panic("leasetest: a step of " + d.String() + " is finer than what every store keeps")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

const (
	ttl = time.Minute
	// tick is the shortest time that the tests tell apart: databases keep
	// milliseconds, and not all keep more.
	tick = time.Millisecond
)

var key = mesh.ThreadKey{Tenant: "acme", ID: "550e8400-e29b-41d4-a716-446655440000"}

// Run tests the stores that open returns. Each call must yield an empty one
// that reads the time from the clock; open registers its own cleanup with t.
func Run(t *testing.T, open func(t *testing.T, c *Clock) lease.Store) {
	for name, test := range map[string]func(*testing.T, lease.Store, *Clock){
		"OnlyOneOwnerHoldsAThread":            testExclusive,
		"ThreadsAreIndependent":               testIndependent,
		"ALeaseRunsOut":                       testExpiry,
		"RenewingKeepsALease":                 testRenew,
		"ALostLeaseDoesNotComeBack":           testLost,
		"AnOwnerThatCameBackDoesNotWait":      testSameOwner,
		"AReleasedThreadIsFreeAtOnce":         testRelease,
		"ReleasingALostLeaseHarmsNobody":      testReleaseLost,
		"OfManyOneWins":                       testOneWinner,
		"WhatCannotBeALeaseIsRefused":         testInvalid,
		"ACanceledCallChangesNothing":         testCanceled,
		"ManyLeasesThatRanOutAreNoneThatRuns": testMany,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := NewClock()
			test(t, open(t, c), c)
		})
	}
}

func acquire(t *testing.T, s lease.Store, k mesh.ThreadKey, owner string) lease.Lease {
	t.Helper()
	l, err := s.Acquire(t.Context(), k, owner, ttl)
	if err != nil {
		t.Fatalf("Acquire for %s: %v", owner, err)
	}
	if l.Key != k || l.Owner != owner || l.TTL != ttl {
		t.Fatalf("Acquire for %s returned %+v", owner, l)
	}
	return l
}

// mustConflict fails the test unless err is a Conflict whose detail has text.
func mustConflict(t *testing.T, err error, text string) {
	t.Helper()
	if !mesh.IsCode(err, mesh.Conflict) || !strings.Contains(mesh.DetailOf(err), text) {
		t.Errorf("got %v, want a conflict that says %q", err, text)
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

func testExclusive(t *testing.T, s lease.Store, c *Clock) {
	acquire(t, s, key, "node-1")
	c.Advance(ttl - tick)
	_, err := s.Acquire(t.Context(), key, "node-2", ttl)
	mustConflict(t, err, "node-1")
}

func testIndependent(t *testing.T, s lease.Store, _ *Clock) {
	acquire(t, s, key, "node-1")
	acquire(t, s, mesh.ThreadKey{Tenant: "umbrella", ID: key.ID}, "node-2")
	acquire(t, s, mesh.ThreadKey{Tenant: key.Tenant, ID: mesh.NewThreadID()}, "node-3")
}

func testExpiry(t *testing.T, s lease.Store, c *Clock) {
	old := acquire(t, s, key, "node-1")
	c.Advance(ttl)
	acquire(t, s, key, "node-2")
	mustConflict(t, s.Renew(t.Context(), old), "lost")
	_, err := s.Acquire(t.Context(), key, "node-1", ttl)
	mustConflict(t, err, "node-2")
}

func testRenew(t *testing.T, s lease.Store, c *Clock) {
	l := acquire(t, s, key, "node-1")
	for range 5 {
		c.Advance(ttl - tick)
		must(t, s.Renew(t.Context(), l))
	}
	c.Advance(ttl - tick)
	_, err := s.Acquire(t.Context(), key, "node-2", ttl)
	mustConflict(t, err, "node-1")
	c.Advance(tick)
	acquire(t, s, key, "node-2")
}

func testLost(t *testing.T, s lease.Store, c *Clock) {
	l := acquire(t, s, key, "node-1")
	c.Advance(ttl)
	mustConflict(t, s.Renew(t.Context(), l), "lost") // though nobody else took it
	l = acquire(t, s, key, "node-1")
	must(t, s.Release(t.Context(), l))
	mustConflict(t, s.Renew(t.Context(), l), "lost")
	mustConflict(t, s.Renew(t.Context(), lease.Lease{Key: key, Owner: "node-1", TTL: ttl}), "lost")
}

func testSameOwner(t *testing.T, s lease.Store, c *Clock) {
	first := acquire(t, s, key, "node-1")
	c.Advance(ttl / 2)
	second := acquire(t, s, key, "node-1")
	mustConflict(t, s.Renew(t.Context(), first), "lost")
	must(t, s.Release(t.Context(), first)) // does not release the second
	c.Advance(ttl - tick)
	must(t, s.Renew(t.Context(), second))
	_, err := s.Acquire(t.Context(), key, "node-2", ttl)
	mustConflict(t, err, "node-1")
}

func testRelease(t *testing.T, s lease.Store, _ *Clock) {
	l := acquire(t, s, key, "node-1")
	must(t, s.Release(t.Context(), l))
	must(t, s.Release(t.Context(), l))
	acquire(t, s, key, "node-2")
}

func testReleaseLost(t *testing.T, s lease.Store, c *Clock) {
	old := acquire(t, s, key, "node-1")
	c.Advance(ttl)
	l := acquire(t, s, key, "node-2")
	must(t, s.Release(t.Context(), old))
	must(t, s.Renew(t.Context(), l))
	_, err := s.Acquire(t.Context(), key, "node-1", ttl)
	mustConflict(t, err, "node-2")
}

func testOneWinner(t *testing.T, s lease.Store, c *Clock) {
	for range 10 {
		var (
			all    sync.WaitGroup
			mu     sync.Mutex
			tokens []int64
		)
		for i := range 20 {
			all.Go(func() {
				l, err := s.Acquire(t.Context(), key, fmt.Sprintf("node-%d", i), ttl)
				if err == nil {
					mu.Lock()
					tokens = append(tokens, l.Token)
					mu.Unlock()
				} else if !mesh.IsCode(err, mesh.Conflict) {
					t.Error(err)
				}
			})
		}
		all.Wait()
		if len(tokens) != 1 {
			t.Fatalf("%d of 20 hold the thread", len(tokens))
		}
		c.Advance(ttl)
	}
}

func testInvalid(t *testing.T, s lease.Store, _ *Clock) {
	for name, err := range map[string]error{
		"no owner":       second(s.Acquire(t.Context(), key, "", ttl)),
		"no ttl":         second(s.Acquire(t.Context(), key, "node-1", 0)),
		"a negative ttl": second(s.Acquire(t.Context(), key, "node-1", -ttl)),
	} {
		if !mesh.IsCode(err, mesh.Invalid) {
			t.Errorf("%s: %v, want invalid", name, err)
		}
	}
	acquire(t, s, key, "node-1")
}

func testCanceled(t *testing.T, s lease.Store, _ *Clock) {
	l := acquire(t, s, key, "node-1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	other := mesh.ThreadKey{Tenant: key.Tenant, ID: mesh.NewThreadID()}
	for name, err := range map[string]error{
		"Acquire": second(s.Acquire(ctx, other, "node-1", ttl)),
		"Renew":   s.Renew(ctx, l),
		"Release": s.Release(ctx, l),
	} {
		if !mesh.IsCode(err, mesh.Canceled) {
			t.Errorf("%s: %v, want canceled", name, err)
		}
	}
	must(t, s.Renew(t.Context(), l))
	acquire(t, s, other, "node-2")
}

func testMany(t *testing.T, s lease.Store, c *Clock) {
	live := acquire(t, s, key, "node-1")
	for range 20 {
		for range 50 {
			acquire(t, s, mesh.ThreadKey{Tenant: key.Tenant, ID: mesh.NewThreadID()}, "node-1")
		}
		c.Advance(ttl / 2)
		must(t, s.Renew(t.Context(), live))
	}
	_, err := s.Acquire(t.Context(), key, "node-2", ttl)
	mustConflict(t, err, "node-1")
}

func second(_ lease.Lease, err error) error { return err }
