package limit

import (
	"cmp"
	"slices"

	"agentmesh/mesh"
)

// A Line has who holds one of a number of places, and who waits for one. A place that is
// free goes to whoever's tenant holds the fewest, then whose user does, then who came
// first; and to nobody whose user or tenant holds as many as it may.
//
// The zero value has places for all. A Line is not safe for concurrent use. To find who is
// next costs as much as there are users who wait.
type Line[K comparable] struct {
	// Most is how many places there are, and User and Tenant how many one of them may hold;
	// 0 or less for no limit.
	Most, User, Tenant int

	came    uint64
	held    map[K]Party
	tenants map[mesh.TenantID]int // places held
	users   map[Party]int         // likewise
	waiting map[K]*waiter
	lines   map[mesh.TenantID]map[string][]*waiter // as they came
	waits   map[mesh.TenantID]int                  // how many wait
	of      map[*waiter]K
}

// A Party is for whom a place is.
type Party struct {
	Tenant mesh.TenantID
	User   string
}

type waiter struct {
	Party
	came uint64
}

// Come returns a number for [Line.Wait] that is greater than all before it.
func (l *Line[K]) Come() uint64 {
	l.came++
	return l.came
}

// Free reports whether there is a place that the party may hold. Who waits is not asked.
func (l *Line[K]) Free(p Party) bool {
	return (l.Most <= 0 || len(l.held) < l.Most) && below(l.tenants[p.Tenant], l.Tenant) && below(l.users[p], l.User)
}

func below(n, most int) bool { return most <= 0 || n < most }

// Hold has k hold a place, for the party and for no other, whether one is free or not. It
// waits no more.
func (l *Line[K]) Hold(k K, p Party) {
	l.Leave(k)
	if l.held == nil {
		l.held, l.tenants, l.users = map[K]Party{}, map[mesh.TenantID]int{}, map[Party]int{}
	}
	l.held[k] = p
	l.tenants[p.Tenant]++
	l.users[p]++
}

// Wait has k wait, unless it does or holds a place, as who came at that number.
func (l *Line[K]) Wait(k K, p Party, came uint64) {
	if l.Holds(k) || l.Waits(k) {
		return
	}
	if l.waiting == nil {
		l.waiting, l.lines, l.waits, l.of = map[K]*waiter{}, map[mesh.TenantID]map[string][]*waiter{}, map[mesh.TenantID]int{}, map[*waiter]K{}
	}
	w := &waiter{p, came}
	l.waiting[k], l.of[w] = w, k
	l.waits[p.Tenant]++
	if l.lines[p.Tenant] == nil {
		l.lines[p.Tenant] = map[string][]*waiter{}
	}
	at, _ := l.at(w)
	l.lines[p.Tenant][p.User] = slices.Insert(l.lines[p.Tenant][p.User], at, w)
}

// at is where w is in its user's line, or belongs.
func (l *Line[K]) at(w *waiter) (int, bool) {
	return slices.BinarySearchFunc(l.lines[w.Tenant][w.User], w.came, func(o *waiter, came uint64) int { return cmp.Compare(o.came, came) })
}

// Leave has k neither hold a place nor wait for one.
func (l *Line[K]) Leave(k K) {
	if p, ok := l.held[k]; ok {
		delete(l.held, k)
		less(l.tenants, p.Tenant)
		less(l.users, p)
	}
	w := l.waiting[k]
	if w == nil {
		return
	}
	delete(l.waiting, k)
	delete(l.of, w)
	less(l.waits, w.Tenant)
	at, _ := l.at(w)
	lines := l.lines[w.Tenant]
	if lines[w.User] = slices.Delete(lines[w.User], at, at+1); len(lines[w.User]) == 0 {
		delete(lines, w.User)
	}
	if len(lines) == 0 {
		delete(l.lines, w.Tenant)
	}
}

func less[K comparable](counts map[K]int, k K) {
	if counts[k]--; counts[k] == 0 {
		delete(counts, k)
	}
}

// Holds reports whether k holds a place.
func (l *Line[K]) Holds(k K) bool { _, ok := l.held[k]; return ok }

// Waits reports whether k waits for one.
func (l *Line[K]) Waits(k K) bool { return l.waiting[k] != nil }

// Held is how many places are held.
func (l *Line[K]) Held() int { return len(l.held) }

// Waiting is how many wait for one.
func (l *Line[K]) Waiting() int { return len(l.waiting) }

// First are those that would get the places that are free now, n at most, in their turns.
func (l *Line[K]) First(n int) []K {
	if l.Most > 0 {
		n = min(n, l.Most-len(l.held))
	}
	var first []K
	tenants, users := map[mesh.TenantID]int{}, map[Party]int{} // that these would hold besides
	for len(first) < n && len(first) < len(l.waiting) {
		w := l.next(tenants, users)
		if w == nil {
			break
		}
		tenants[w.Tenant]++
		users[w.Party]++
		first = append(first, l.of[w])
	}
	return first
}

// next is who is next where so many places more are held; nil if nobody may hold one.
func (l *Line[K]) next(tenants map[mesh.TenantID]int, users map[Party]int) (next *waiter) {
	var ofTenant, ofUser int
	for t, lines := range l.lines {
		byTenant := l.tenants[t] + tenants[t]
		if !below(byTenant, l.Tenant) || next != nil && byTenant > ofTenant {
			continue
		}
		for user, line := range lines {
			p := Party{t, user}
			byUser := l.users[p] + users[p]
			if users[p] >= len(line) || !below(byUser, l.User) {
				continue
			}
			w := line[users[p]]
			if next == nil || cmp.Or(byTenant-ofTenant, byUser-ofUser, cmp.Compare(w.came, next.came)) < 0 {
				next, ofTenant, ofUser = w, byTenant, byUser
			}
		}
	}
	return next
}

// Next has who is next hold a place, and returns it; false if none is free, or nobody who
// waits may hold one.
func (l *Line[K]) Next() (k K, ok bool) {
	if len(l.waiting) == 0 {
		return k, false
	}
	first := l.First(1)
	if len(first) == 0 {
		return k, false
	}
	l.Hold(first[0], l.waiting[first[0]].Party)
	return first[0], true
}

// Place is at which place k waits, from 1 on, or 0: how many places have to come free until
// it has one, if all tenants that wait hold as many as each other, and all users. It may be
// fewer, where others hold more than its own; and with [Line.User] and [Line.Tenant] one of
// its own.
func (l *Line[K]) Place(k K) int {
	w := l.waiting[k]
	if w == nil {
		return 0
	}
	at, _ := l.at(w)
	ofTenant := 0
	for _, line := range l.lines[w.Tenant] {
		ofTenant += min(len(line), at)
		if len(line) > at && line[at].came <= w.came {
			ofTenant++
		}
	}
	place := 0
	for _, n := range l.waits { // of its own tenant there are as many at least
		place += min(n, ofTenant)
	}
	return place
}
