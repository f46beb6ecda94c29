package quota_test

import (
	"context"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/quota"
	"agentmesh/mesh/text"
)

// index is what has been counted, and what Catch counts.
type index struct {
	mu      sync.Mutex
	user    limit.Used
	tenant  limit.Used
	upTo    mesh.Pos
	catches int
	behind  func(*index)
}

func (x *index) Used(_ mesh.TenantID, user string, _ time.Time) (limit.Used, limit.Used, mesh.Pos) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if user != "ann" {
		return limit.Used{}, x.tenant, x.upTo
	}
	return x.user, x.tenant, x.upTo
}

func (*index) Ready(context.Context) error { return nil }

func (x *index) Catch(context.Context, mesh.TenantID) error {
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.catches++; x.behind != nil {
		x.behind(x)
	}
	return nil
}

var agent = limit.Quota{Agents: 1}

// Of many who ask at once for the last ones, so many get one, and another when one is
// given back or the index says that one has ended.
func TestNoMoreAreAdmittedThanTheQuotaSays(t *testing.T) {
	x := &index{upTo: 10}
	k := quota.New(limit.Quotas{User: limit.Quota{Agents: 5}, Tenant: limit.Quota{Agents: 8}}, x, nil)
	var places sync.Map
	var of [2]atomic.Int32
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			user := []string{"ann", "bob"}[i%2]
			if p, trip := k.Take("acme", user, agent); trip == nil {
				of[i%2].Add(1)
				places.Store(p, user)
			}
		})
	}
	all.Wait()
	if a, b := of[0].Load(), of[1].Load(); a > 5 || b > 5 || a+b != 8 {
		t.Fatalf("%d and %d were admitted; five each are allowed, and eight together", a, b)
	}
	if _, trip := k.Take("globex", "ann", agent); trip != nil {
		t.Errorf("another tenant is refused: %v", trip)
	}
	_, trip := k.Take("acme", "cid", agent)
	if trip == nil || trip.Limit != "tenant.agents" || trip.Used != 8 || trip.Most != 8 {
		t.Errorf("refused with %+v", trip)
	}
	var first *quota.Place
	places.Range(func(p, _ any) bool { first = p.(*quota.Place); return false })
	first.GiveBack()
	p, trip := k.Take("acme", "cid", agent)
	if trip != nil {
		t.Fatalf("what was given back is not free: %v", trip)
	}
	p.Placed(20)
	p.GiveBack() // too late
	if _, trip := k.Take("acme", "dan", agent); trip == nil {
		t.Error("what is in the log was given back")
	}
	x.mu.Lock()
	x.upTo = 20 // which has begun, and ended
	x.mu.Unlock()
	if _, trip := k.Take("acme", "dan", agent); trip != nil {
		t.Errorf("what the index has counts twice: %v", trip)
	}
}

// The index is waited for only if what it has would refuse somebody.
func TestTheIndexIsCaughtUpBeforeAnybodyIsRefused(t *testing.T) {
	x := &index{behind: func(x *index) { x.user.Threads-- }} // one was deleted
	x.user.Threads = 2
	k := quota.New(limit.Quotas{User: limit.Quota{Threads: 2}}, x, nil)
	one := limit.Quota{Threads: 1}
	for i := range 2 {
		if err := k.Prepare(t.Context(), "acme", "ann", one); err != nil || x.catches != 1 {
			t.Fatalf("%v, and it was caught up %d times", err, x.catches)
		}
		if i == 0 {
			if _, trip := k.Take("acme", "ann", limit.Quota{}); trip != nil {
				t.Errorf("who begins nothing that counts is refused: %v", trip)
			}
		}
	}
	if _, trip := k.Take("acme", "ann", one); trip != nil {
		t.Errorf("refused: %v", trip)
	}
}

// Who has used up what a day gives begins nothing, and is told when there is more.
func TestWhoHasUsedADaysTokensIsToldWhen(t *testing.T) {
	x := &index{}
	x.user.Tokens, x.user.Free = 1000, time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	k := quota.New(limit.Quotas{User: limit.Quota{Tokens: 1000}}, x, nil)
	_, trip := k.Take("acme", "ann", limit.Quota{})
	if trip == nil || trip.Limit != "user.tokens" || trip.Used != 1000 || trip.Most != 1000 || !trip.Free.Equal(x.user.Free) {
		t.Errorf("refused with %+v", trip)
	}
	if _, trip := k.Take("acme", "bob", agent); trip != nil {
		t.Errorf("another user is refused: %v", trip)
	}
	var none *quota.Keeper
	if p, trip := none.Take("acme", "ann", agent); p != nil || trip != nil {
		t.Errorf("no quotas refuse: %v", trip)
	}
}

// From four fifths of what a tenant's models may cost within a day on it is said that little is
// left, in dollars; without a quota never.
func TestLittleMoneyIsToldOf(t *testing.T) {
	x := &index{}
	k := quota.New(limit.Quotas{Tenant: limit.Quota{Cost: 10_000_000}}, x, nil)
	for used, want := range map[int64]bool{0: false, 7_999_999: false, 8_000_000: true, 12_500_000: true} {
		x.tenant.Cost = used
		err := k.Dear("acme")
		if (err != nil) != want || want && (!mesh.IsCode(err, mesh.Exhausted) || !strings.Contains(err.Error(), text.Dollars(used)+" within a day for the tenant acme, of $10.00")) {
			t.Errorf("of %d: %v", used, err)
		}
	}
	if err := quota.New(limit.Quotas{}, x, nil).Dear("acme"); err != nil {
		t.Error(err)
	}
}
