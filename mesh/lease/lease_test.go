package lease_test

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/lease"
	"agentmesh/mesh/lease/leasetest"
)

func TestLocalIsALeaseStore(t *testing.T) {
	leasetest.Run(t, func(_ *testing.T, c *leasetest.Clock) lease.Store { return lease.NewLocal(c.Now) })
}

func TestWithoutAClockLocalUsesThePresent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := lease.NewLocal(nil)
		key := mesh.ThreadKey{Tenant: "acme", ID: mesh.NewThreadID()}
		if _, err := s.Acquire(t.Context(), key, "node-1", time.Minute); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Minute - 1)
		if _, err := s.Acquire(t.Context(), key, "node-2", time.Minute); !mesh.IsCode(err, mesh.Conflict) {
			t.Errorf("before its end: %v, want conflict", err)
		}
		time.Sleep(1)
		if _, err := s.Acquire(t.Context(), key, "node-2", time.Minute); err != nil {
			t.Errorf("after its end: %v", err)
		}
	})
}

func ExampleLocal() {
	clock := leasetest.NewClock()
	leases := lease.NewLocal(clock.Now)
	key := mesh.ThreadKey{Tenant: "acme", ID: "550e8400-e29b-41d4-a716-446655440000"}

	ctx := context.Background()
	_, _ = leases.Acquire(ctx, key, "node-1", 10*time.Second)
	clock.Advance(4 * time.Second)
	_, err := leases.Acquire(ctx, key, "node-2", 10*time.Second)
	fmt.Println(mesh.DetailOf(err))
	clock.Advance(6 * time.Second)
	l, err := leases.Acquire(ctx, key, "node-2", 10*time.Second)
	fmt.Println(l.Owner, err)
	// Output:
	// the thread is driven by node-1 for another 6s; try again later
	// node-2 <nil>
}
