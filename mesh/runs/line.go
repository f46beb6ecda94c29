package runs

import (
	"context"
	"slices"
	"sync"

	"agentmesh/mesh"
)

// A line has those that wait, and lets tenants go in turns, each as often in a row as it
// weighs, and the users of a tenant in turns, one each. A tenant with a thousand in the
// line and one with a single one are each a turn away from the front. The zero value is
// empty.
type line[T comparable] struct {
	// weight is how often a tenant goes in a row; nil is once.
	weight  func(mesh.TenantID) int
	tenants []*tenantLine[T] // the next one first
}

type tenantLine[T comparable] struct {
	id    mesh.TenantID
	left  int // of this turn
	users []*userLine[T]
}

type userLine[T comparable] struct {
	name    string
	waiting []T
}

func (l *line[T]) weigh(t mesh.TenantID) int {
	if l.weight == nil {
		return 1
	}
	return max(l.weight(t), 1)
}

// push adds one at the end of its user's.
func (l *line[T]) push(tenant mesh.TenantID, user string, v T) {
	at := slices.IndexFunc(l.tenants, func(t *tenantLine[T]) bool { return t.id == tenant })
	if at < 0 {
		at = len(l.tenants)
		l.tenants = append(l.tenants, &tenantLine[T]{id: tenant, left: l.weigh(tenant)})
	}
	t := l.tenants[at]
	u := slices.IndexFunc(t.users, func(u *userLine[T]) bool { return u.name == user })
	if u < 0 {
		u = len(t.users)
		t.users = append(t.users, &userLine[T]{name: user})
	}
	t.users[u].waiting = append(t.users[u].waiting, v)
}

// pop takes out who is next among the tenants that may go.
func (l *line[T]) pop(may func(mesh.TenantID) bool) (v T, tenant mesh.TenantID, ok bool) {
	at := slices.IndexFunc(l.tenants, func(t *tenantLine[T]) bool { return may(t.id) })
	if at < 0 {
		return v, "", false
	}
	t := l.tenants[at]
	u := t.users[0]
	v, u.waiting = u.waiting[0], u.waiting[1:]
	if t.users = t.users[1:]; len(u.waiting) > 0 {
		t.users = append(t.users, u)
	}
	t.left--
	switch {
	case len(t.users) == 0:
		l.tenants = slices.Delete(l.tenants, at, at+1)
	case t.left == 0:
		t.left = l.weigh(t.id)
		l.tenants = append(slices.Delete(l.tenants, at, at+1), t)
	}
	return v, t.id, true
}

// remove takes one out that does not wait any more; false if it is not there.
func (l *line[T]) remove(v T) bool {
	for i, t := range l.tenants {
		for j, u := range t.users {
			k := slices.Index(u.waiting, v)
			if k < 0 {
				continue
			}
			if u.waiting = slices.Delete(u.waiting, k, k+1); len(u.waiting) == 0 {
				t.users = slices.Delete(t.users, j, j+1)
			}
			if len(t.users) == 0 {
				l.tenants = slices.Delete(l.tenants, i, i+1)
			}
			return true
		}
	}
	return false
}

// Of how many slots one is kept for tenants that have none: one tenant's runs, which may
// take long, never have them all.
const keepOneOf = 4

// slots are how many runs may go on at a time. Whoever waits for one waits in a line.
type slots struct {
	all int

	mu      sync.Mutex
	taken   map[mesh.TenantID]int
	sum     int
	waiting line[chan struct{}]
}

func newSlots(all int, weight func(mesh.TenantID) int) *slots {
	return &slots{all: all, taken: map[mesh.TenantID]int{}, waiting: line[chan struct{}]{weight: weight}}
}

// take waits for a slot, which the caller gives back; its error is that of ctx.
func (s *slots) take(ctx context.Context, tenant mesh.TenantID, user string) error {
	ready := make(chan struct{})
	s.mu.Lock()
	s.waiting.push(tenant, user, ready)
	s.next()
	s.mu.Unlock()
	select {
	case <-ready:
		return nil
	case <-ctx.Done():
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.waiting.remove(ready) { // it got one meanwhile
		s.leave(tenant)
	}
	return ctx.Err()
}

func (s *slots) giveBack(tenant mesh.TenantID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.leave(tenant)
}

func (s *slots) leave(tenant mesh.TenantID) {
	s.sum--
	if s.taken[tenant]--; s.taken[tenant] == 0 {
		delete(s.taken, tenant)
	}
	s.next()
}

// next gives out what is free. The caller holds mu.
func (s *slots) next() {
	for s.sum < s.all {
		few := s.all-s.sum <= s.all/keepOneOf
		ready, tenant, ok := s.waiting.pop(func(t mesh.TenantID) bool { return !few || s.taken[t] == 0 })
		if !ok {
			return
		}
		s.sum++
		s.taken[tenant]++
		close(ready)
	}
}
