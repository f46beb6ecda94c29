package rest

import (
	"errors"
	"io"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
)

// endless is a body of any length.
type endless struct{}

func (endless) Read(b []byte) (int, error) { return len(b), nil }

// What arrives at the same time is bounded, of one user and of all, by what has come and
// not by what may come; and there is room again when it is there.
func TestBodiesThatArriveAreBounded(t *testing.T) {
	a := new(arriving)
	ann, bob := mesh.Principal{Tenant: "acme", User: "ann"}, mesh.Principal{Tenant: "other", User: "ann"}
	take := func(p mesh.Principal, n int64) *arrival {
		t.Helper()
		x := a.begin(p, endless{})
		if _, err := io.CopyN(io.Discard, x, n); err != nil {
			t.Fatal(err)
		}
		return x
	}
	var all []*arrival
	for range 1000 { // of which nothing has come yet
		all = append(all, a.begin(ann, endless{}))
	}
	for range 8 {
		all = append(all, take(ann, maxArrivingUser/8))
	}
	_, err := all[0].Read(make([]byte, 1))
	if _, again := rpc.RetryAfter(rpc.FromStatus(err)); !errors.Is(err, errArriving) || !mesh.IsCode(rpc.FromStatus(err), mesh.Exhausted) || !again {
		t.Errorf("one byte too many: %v", err)
	}
	take(bob, maxArrivingUser).end() // another user
	for _, x := range all {
		x.end()
	}
	if a.all != 0 || len(a.users) != 0 {
		t.Errorf("%d bytes of %v are left", a.all, a.users)
	}
	for i := range maxArriving / maxArrivingUser {
		take(mesh.Principal{Tenant: "acme", User: string(rune('a' + i))}, maxArrivingUser)
	}
	if _, err := a.begin(bob, endless{}).Read(make([]byte, 1)); !errors.Is(err, errArriving) {
		t.Errorf("of all users: %v", err)
	}
}
