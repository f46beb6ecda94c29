package rest

import (
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
)

// What arrives at the same time is bounded, of one user and of all, and has room again
// when it is there.
func TestBodiesThatArriveAreBounded(t *testing.T) {
	a := new(arriving)
	ann, bob := mesh.Principal{Tenant: "acme", User: "ann"}, mesh.Principal{Tenant: "other", User: "ann"}
	const piece = maxArrivingUser / 8
	var ends []func()
	for range 8 {
		done, err := a.begin(ann, piece)
		if err != nil {
			t.Fatal(err)
		}
		ends = append(ends, done)
	}
	_, err := a.begin(ann, 1)
	if _, again := rpc.RetryAfter(rpc.FromStatus(err)); !mesh.IsCode(rpc.FromStatus(err), mesh.Exhausted) || !again {
		t.Errorf("one byte too many: %v", err)
	}
	if done, err := a.begin(bob, piece); err != nil {
		t.Errorf("another user: %v", err)
	} else {
		done()
	}
	for _, done := range ends {
		done()
	}
	if a.all != 0 || len(a.users) != 0 {
		t.Errorf("%d bytes of %v are left", a.all, a.users)
	}
	for i := range maxArriving / maxArrivingUser {
		if _, err := a.begin(mesh.Principal{Tenant: "acme", User: string(rune('a' + i))}, maxArrivingUser); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.begin(bob, 1); !mesh.IsCode(rpc.FromStatus(err), mesh.Exhausted) {
		t.Errorf("of all users: %v", err)
	}
}
