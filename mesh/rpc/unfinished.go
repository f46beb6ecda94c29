package rpc

import (
	"cmp"
	"io"
	"runtime"
	"sync"
	"time"

	"agentmesh/mesh"
)

// Bounds of the bytes of requests that have not arrived as a whole.
const (
	// DefaultUnfinished is the memory that all together may take.
	DefaultUnfinished = 256 << 20
	// maxUserUnfinished is that of one user, and maxConnUnfinished that of a connection.
	maxUserUnfinished = 32 << 20
	maxConnUnfinished = 16 << 20

	allCost = 4
)

// Unfinished counts the bytes of requests that have not arrived as a whole, over all
// faces of a server: memory is the process's. It is safe for concurrent use. Use
// NewUnfinished.
type Unfinished struct {
	most int64

	mu    sync.Mutex
	all   int64
	users map[streamUser]int64 // without zeros, as the next
	conns map[string]int64

	collected time.Time
}

// NewUnfinished returns a count of at most so many bytes; 0 is DefaultUnfinished.
func NewUnfinished(most int64) *Unfinished {
	return &Unfinished{most: cmp.Or(most, DefaultUnfinished), users: map[streamUser]int64{}, conns: map[string]int64{}}
}

// errUnfinished refuses a request for which there is no room.
func errUnfinished() error {
	return WithRetryAfter(mesh.Errorf(mesh.Exhausted, "rpc.Unfinished",
		"too many large requests are arriving at the same time; send them one after the other"), time.Second)
}

// add counts n bytes, or n fewer if n is negative; false if there is no room. A byte
// of all costs four: buffers are larger than what is in them, others are kept for what comes
// next, and garbage is collected when the heap has doubled.
func (u *Unfinished) add(user streamUser, conn string, n int64) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	if n > 0 && allCost*(u.all+n) > u.most {
		u.collect(time.Now())
		return false
	}
	if n > 0 && (u.users[user]+n > maxUserUnfinished || u.conns[conn]+n > maxConnUnfinished) {
		return false
	}
	u.all += n
	count(u.users, user, n)
	count(u.conns, conn, n)
	return true
}

// collect has garbage collected, at most once a second: buffers of what was refused are
// kept for later and would add to those of what comes. The caller holds mu.
func (u *Unfinished) collect(now time.Time) {
	if now.Sub(u.collected) >= time.Second {
		u.collected = now
		go runtime.GC() // it ends by itself
	}
}

// count adds n to what is under the key.
func count[K comparable, N int | int64](in map[K]N, key K, n N) {
	if in[key] += n; in[key] == 0 {
		delete(in, key)
	}
}

// Body returns the reader of a body that the principal sends over the connection from the
// address. What is read is counted, until Close, which leaves body as it is. Read fails as
// Exhausted when there is no room for more.
func (u *Unfinished) Body(p mesh.Principal, from string, body io.Reader) io.ReadCloser {
	return &arrivingBody{of: u, user: streamUser{p.Tenant, p.User}, conn: from, body: body}
}

type arrivingBody struct {
	of   *Unfinished
	user streamUser
	conn string
	body io.Reader
	held int64
}

func (b *arrivingBody) Read(p []byte) (int, error) {
	n, err := b.body.Read(p)
	if !b.of.add(b.user, b.conn, int64(n)) {
		return 0, errUnfinished()
	}
	b.held += int64(n)
	return n, err
}

func (b *arrivingBody) Close() error {
	b.of.add(b.user, b.conn, -b.held)
	b.held = 0
	return nil
}
