// Package lease says who drives a thread.
//
// A lease only decides who may try: it keeps two drivers from working against
// each other, most of the time. What keeps a driver that lost its lease, and
// does not know it yet, from doing harm is the epoch of its claim in the
// thread's log ([mesh.ThreadClaimed]), which fences every append.
//
// Stores are safe for concurrent use. Package leasetest is the other half of
// the contract of [Store].
//
// The package does not renew leases by itself, and it is no lock: a lease runs
// out while its owner still believes to have it.
package lease

import (
	"context"
	"sync"
	"time"

	"agentmesh/mesh"
)

// A Lease is the right to drive a thread for a while. It is a value; only the
// store that made it can tell whether it still stands.
type Lease struct {
	Key   mesh.ThreadKey
	Owner string
	// TTL is how long the lease lasts from its acquisition and from each
	// renewal.
	TTL time.Duration
	// Token tells this acquisition from all others of the store.
	Token int64
}

// A Store keeps leases.
type Store interface {
	// Acquire leases the thread to the owner for ttl. If another owner's lease
	// still runs it returns a Conflict error that names that owner. If the
	// owner's own lease still runs, a new one takes its place and the old one
	// is lost: an owner that came back does not wait for itself. An empty
	// owner and a ttl that is not positive are Invalid.
	Acquire(ctx context.Context, key mesh.ThreadKey, owner string, ttl time.Duration) (Lease, error)

	// Renew makes the lease last its TTL from now on. It returns a Conflict
	// error if the lease is lost: it ran out, was released, or was replaced.
	// A lost lease never comes back; its owner acquires again, or stops.
	Renew(ctx context.Context, l Lease) error

	// Release ends the lease, so that others need not wait until it runs out.
	// Releasing a lease that is lost does nothing and is no error.
	Release(ctx context.Context, l Lease) error
}

// Local is a Store in the memory of this process. That is enough for a node on a
// folder of store/disk, whose lock makes the process the only one that can claim the
// threads in it; nodes that share a database need a Store in it.
type Local struct {
	now func() time.Time

	mu    sync.Mutex
	last  int64
	held  map[mesh.ThreadKey]held
	sweep int // clear out expired leases when held has grown to this many
}

type held struct {
	Lease
	until time.Time
}

var _ Store = (*Local)(nil)

const minSweep = 64

// NewLocal returns an empty store that reads the time from now, which is
// called with no lock held and must be safe for concurrent use; nil is
// time.Now.
func NewLocal(now func() time.Time) *Local {
	if now == nil {
		now = time.Now
	}
	return &Local{now: now, held: make(map[mesh.ThreadKey]held), sweep: minSweep}
}

// Acquire implements [Store].
func (s *Local) Acquire(ctx context.Context, key mesh.ThreadKey, owner string, ttl time.Duration) (Lease, error) {
	const op = "lease.Acquire"
	if err := ctx.Err(); err != nil {
		return Lease{}, mesh.Wrap(op, err)
	}
	if owner == "" {
		return Lease{}, mesh.InvalidField(op, "owner", "must not be empty")
	}
	if ttl <= 0 {
		return Lease{}, mesh.InvalidField(op, "ttl", "must be positive, and is %v", ttl)
	}
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if h, ok := s.held[key]; ok && h.Owner != owner && now.Before(h.until) {
		return Lease{}, mesh.Errorf(mesh.Conflict, op,
			"the thread is driven by %s for another %v; try again later", h.Owner, h.until.Sub(now).Round(time.Millisecond))
	}
	s.clear(now)
	s.last++
	l := Lease{Key: key, Owner: owner, TTL: ttl, Token: s.last}
	s.held[key] = held{Lease: l, until: now.Add(ttl)}
	return l, nil
}

// Renew implements [Store].
func (s *Local) Renew(ctx context.Context, l Lease) error {
	const op = "lease.Renew"
	if err := ctx.Err(); err != nil {
		return mesh.Wrap(op, err)
	}
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	h, ok := s.held[l.Key]
	if !ok || h.Token != l.Token || !now.Before(h.until) {
		return mesh.Errorf(mesh.Conflict, op, "the lease of the thread is lost; acquire it again")
	}
	h.until = now.Add(h.TTL)
	s.held[l.Key] = h
	return nil
}

// Release implements [Store].
func (s *Local) Release(ctx context.Context, l Lease) error {
	if err := ctx.Err(); err != nil {
		return mesh.Wrap("lease.Release", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.held[l.Key].Token == l.Token {
		delete(s.held, l.Key)
	}
	return nil
}

// clear drops leases that ran out, at a cost that is constant per Acquire over
// time. The caller holds mu.
func (s *Local) clear(now time.Time) {
	if len(s.held) < s.sweep {
		return
	}
	for key, h := range s.held {
		if !now.Before(h.until) {
			delete(s.held, key)
		}
	}
	s.sweep = max(minSweep, 2*len(s.held))
}
