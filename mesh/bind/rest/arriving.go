package rest

import (
	"io"
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

// arriving counts the bytes of bodies that are being read.
type arriving struct {
	mu    sync.Mutex
	all   int64
	users map[sender]int64 // without zeros
}

// inProcess counts for all bindings together: memory is the process's.
var inProcess arriving

type sender struct {
	tenant mesh.TenantID
	user   string
}

// errArriving is why a body is not read on.
var errArriving = rpc.ToStatus(rpc.WithRetryAfter(mesh.Errorf(mesh.Exhausted, "rest.arriving",
	"too many large requests are arriving at the same time; send them one after the other"), time.Second))

// An arrival is a body whose bytes are counted as they come. Its reader calls end.
type arrival struct {
	of   *arriving
	from sender
	body io.Reader
	read int64
}

func (a *arriving) begin(p mesh.Principal, body io.Reader) *arrival {
	return &arrival{of: a, from: sender{p.Tenant, p.User}, body: body}
}

// Read returns errArriving when there is no room for more.
func (x *arrival) Read(b []byte) (int, error) {
	n, err := x.body.Read(b)
	if !x.of.add(x.from, int64(n)) {
		return 0, errArriving
	}
	x.read += int64(n)
	return n, err
}

// end says that the body is there, or will not come.
func (x *arrival) end() { x.of.add(x.from, -x.read) }

// add counts n bytes, fewer than before if n is negative; false if there is no room.
func (a *arriving) add(from sender, n int64) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	if n > 0 && (a.all+n > maxArriving || a.users[from]+n > maxArrivingUser) {
		return false
	}
	if a.users == nil {
		a.users = map[sender]int64{}
	}
	a.all += n
	if a.users[from] += n; a.users[from] == 0 {
		delete(a.users, from)
	}
	return true
}
