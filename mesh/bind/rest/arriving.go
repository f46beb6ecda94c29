package rest

import (
	"sync"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/rpc"
)

// Bounds of request bodies that have not arrived as a whole, in bytes.
const (
	maxArriving     = 256 << 20 // of all users
	maxArrivingUser = 32 << 20  // of one
)

// arriving counts the bytes of bodies that are being read, as they were announced.
type arriving struct {
	mu    sync.Mutex
	all   int64
	users map[sender]int64 // without zeros
}

type sender struct {
	tenant mesh.TenantID
	user   string
}

// begin counts a body of the size, or refuses it. The caller calls done when it has
// arrived, or will not.
func (a *arriving) begin(p mesh.Principal, size int64) (done func(), err error) {
	from := sender{p.Tenant, p.User}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.all+size > maxArriving || a.users[from]+size > maxArrivingUser {
		return nil, rpc.ToStatus(rpc.WithRetryAfter(mesh.Errorf(mesh.Exhausted, "rest.arriving",
			"too many large requests are arriving at the same time; send them one after the other"), time.Second))
	}
	if a.users == nil {
		a.users = map[sender]int64{}
	}
	a.all += size
	a.users[from] += size
	return func() { a.end(from, size) }, nil
}

func (a *arriving) end(from sender, size int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.all -= size
	if a.users[from] -= size; a.users[from] == 0 {
		delete(a.users, from)
	}
}
