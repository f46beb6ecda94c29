package lease

import (
	"testing"
	"time"

	"agentmesh/mesh"
)

func TestLocalForgetsLeasesThatRanOut(t *testing.T) {
	now := time.Unix(0, 0)
	s := NewLocal(func() time.Time { return now })
	most := 0
	for range 10_000 {
		key := mesh.ThreadKey{Tenant: "acme", ID: mesh.NewThreadID()}
		if _, err := s.Acquire(t.Context(), key, "node-1", time.Minute); err != nil {
			t.Fatal(err)
		}
		now = now.Add(time.Second) // so that 60 run at a time
		most = max(most, len(s.held))
	}
	if most > 4*minSweep {
		t.Errorf("%d leases in memory for 60 that run", most)
	}
}
