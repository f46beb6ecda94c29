// Package quota keeps users and tenants within their quotas of conversations, of agents at
// work and of what is used within a day.
//
// A [Keeper] goes by an index of the log, which has counted what the log has, at whichever
// node it was written, and by what it has admitted itself that the index does not have
// yet. So nothing is counted by whoever asks, a restart forgets nothing that the log has,
// and of many who ask this node at once for the last of something one gets it. What
// another node admits counts here when the index has read it, a moment later: between
// nodes a quota may be exceeded by what they admit at the same moment.
//
// A Keeper is safe for concurrent use. A nil one limits nothing. The package counts
// nothing that happened, and does not know what happens to who is refused.
package quota

import (
	"context"
	"sync"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/text"
)

// Index has counted what is in the log: a *tasks.Index.
type Index interface {
	// Used is what the user has and has used, what the tenant has, and up to which
	// place in the log that is so. It reads nothing.
	Used(t mesh.TenantID, user string, now time.Time) (ofUser, ofTenant limit.Used, upTo mesh.Pos)
	// Ready returns when all has been counted that there was at the start.
	Ready(ctx context.Context) error
	// Catch returns when all has been counted that the tenant has.
	Catch(ctx context.Context, t mesh.TenantID) error
}

// A Keeper keeps quotas. Use New.
type Keeper struct {
	quotas limit.Quotas
	index  Index
	now    func() time.Time
	stocks []Stock

	mu    sync.Mutex
	ahead map[*Place]bool // what the index does not have yet
}

// A Stock says how many bytes are kept of the tenant's conversations, in the log or beside it. It
// is asked often, and must not wait.
type Stock func(t mesh.TenantID) int64

// New returns a Keeper of the quotas, by which what all stocks have together is bounded. A nil
// now is time.Now.
func New(quotas limit.Quotas, index Index, now func() time.Time, stocks ...Stock) *Keeper {
	if now == nil {
		now = time.Now
	}
	return &Keeper{quotas: quotas, index: index, now: now, stocks: stocks, ahead: map[*Place]bool{}}
}

// A Place is what somebody was admitted with, which counts from then on. A nil one is of
// nothing.
type Place struct {
	keeper *Keeper
	tenant mesh.TenantID
	user   string
	of     limit.Quota
	at     mesh.Pos // in the log; 0 until it is there
}

// begins is what is asked for besides by who begins anything: that something is left of
// what is counted as it is used up.
var begins = limit.Quota{Tokens: 1, Cost: 1, Bytes: 1}

// Prepare waits until the index is ready and, if more would be refused by what it has,
// until it has all that the tenant has. It is for whoever takes that while it must not
// wait.
func (k *Keeper) Prepare(ctx context.Context, t mesh.TenantID, user string, more limit.Quota) error {
	if k == nil || k.quotas == (limit.Quotas{}) {
		return nil
	}
	if err := k.index.Ready(ctx); err != nil {
		return mesh.Wrap("quota.Prepare", err)
	}
	k.mu.Lock()
	trip := k.check(t, user, more)
	k.mu.Unlock()
	if trip == nil {
		return nil
	}
	return mesh.Wrap("quota.Prepare", k.index.Catch(ctx, t))
}

// Take admits the user with more, who then says what became of it, or returns the trip of
// the quota that it would exceed.
func (k *Keeper) Take(t mesh.TenantID, user string, more limit.Quota) (*Place, *limit.Trip) {
	if k == nil || k.quotas == (limit.Quotas{}) {
		return nil, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if trip := k.check(t, user, more); trip != nil {
		return nil, trip
	}
	if more == (limit.Quota{}) {
		return nil, nil
	}
	p := &Place{keeper: k, tenant: t, user: user, of: more}
	k.ahead[p] = true
	return p, nil
}

// Left is what the user may still use.
func (k *Keeper) Left(t mesh.TenantID, user string) limit.Left {
	if k == nil || k.quotas == (limit.Quotas{}) {
		return limit.NoLimit()
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	ofUser, ofTenant := k.used(t, user)
	return k.quotas.Left(ofUser, ofTenant)
}

// Bytes is how many bytes are kept of the tenant's conversations.
func (k *Keeper) Bytes(t mesh.TenantID) (n int64) {
	for _, stock := range k.stocks {
		n += stock(t)
	}
	return n
}

// Room returns the trip of the bytes that are kept of the tenant, if so many more would exceed
// them. What ends something that was begun is not asked about: it is let in.
func (k *Keeper) Room(t mesh.TenantID, more int64) *limit.Trip {
	if k == nil || k.quotas.Tenant.Bytes <= 0 {
		return nil
	}
	return limit.Quotas{Tenant: limit.Quota{Bytes: k.quotas.Tenant.Bytes}}.Check(limit.Quota{Bytes: more}, limit.Used{}, limit.Used{Quota: limit.Quota{Bytes: k.Bytes(t)}})
}

// scarce is the part of a tenant's bytes, or of its money, from which on there is little left.
const scarce = 0.8

// Scarce says that little room is left for what is kept of the tenant, or none, as Exhausted; nil
// if there is room.
func (k *Keeper) Scarce(t mesh.TenantID) error {
	if k == nil || k.quotas.Tenant.Bytes <= 0 {
		return nil
	}
	used, most := k.Bytes(t), k.quotas.Tenant.Bytes
	if float64(used) < scarce*float64(most) {
		return nil
	}
	return mesh.Errorf(mesh.Exhausted, "quota.Scarce", "%d of %d bytes are used that may be kept of conversations of the tenant %s; "+
		"delete some, as with mesh threads delete --before, set retention, or raise quotas.tenant.bytes", used, most, t)
}

// Dear says that little is left of what models may cost within a day for the tenant, or nothing,
// as Exhausted; nil if there is more.
func (k *Keeper) Dear(t mesh.TenantID) error {
	if k == nil || k.quotas.Tenant.Cost <= 0 {
		return nil
	}
	_, used, _ := k.index.Used(t, "", k.now())
	most := k.quotas.Tenant.Cost
	if float64(used.Cost) < scarce*float64(most) {
		return nil
	}
	return mesh.Errorf(mesh.Exhausted, "quota.Dear", "models have cost %s within a day for the tenant %s, of %s that they may; "+
		"mesh usage --by user says for whom, and quotas.tenant.cost bounds it", text.Dollars(used.Cost), t, text.Dollars(most))
}

// check returns the trip of the quota that more would exceed. The caller holds mu.
func (k *Keeper) check(t mesh.TenantID, user string, more limit.Quota) *limit.Trip {
	ofUser, ofTenant := k.used(t, user)
	return k.quotas.Check(more.Plus(begins), ofUser, ofTenant)
}

// used is what is used with what the index does not have yet. The caller holds mu.
func (k *Keeper) used(t mesh.TenantID, user string) (ofUser, ofTenant limit.Used) {
	ofUser, ofTenant, upTo := k.index.Used(t, user, k.now())
	ofTenant.Bytes = k.Bytes(t)
	for p := range k.ahead {
		switch {
		case p.at > 0 && p.at <= upTo:
			delete(k.ahead, p)
		case p.tenant == t:
			ofTenant.Quota = ofTenant.Plus(p.of)
			if p.user == user {
				ofUser.Quota = ofUser.Plus(p.of)
			}
		}
	}
	return ofUser, ofTenant
}

// Placed says that it is in the log, at that place.
func (p *Place) Placed(at mesh.Pos) {
	if p == nil {
		return
	}
	p.keeper.mu.Lock()
	defer p.keeper.mu.Unlock()
	p.at = at
}

// GiveBack says that it did not come to that.
func (p *Place) GiveBack() {
	if p == nil {
		return
	}
	p.keeper.mu.Lock()
	defer p.keeper.mu.Unlock()
	if p.at == 0 {
		delete(p.keeper.ahead, p)
	}
}
