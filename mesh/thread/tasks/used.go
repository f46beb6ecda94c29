package tasks

import (
	"context"
	"math"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/threadlog"
)

// hours is for how many hours it is kept what was used, this one among them.
const hours = int64(threadlog.Day / time.Hour)

// A tally is what a user has, or all users of a tenant, and used within a day.
type tally struct {
	threads, agents int64
	day             *[hours]hour // nil if there is nothing in it
}

// An hour has what was used in it.
type hour struct {
	of         int64 // since 1970
	dispatches int64
	spent      mesh.Budget
}

// tally returns that of the user, or of the whole tenant, "", which is about to change.
func (x *Index) tally(t mesh.TenantID, user string) *tally {
	x.owed[mesh.Owner{Tenant: t, User: user}] = struct{}{}
	of := x.used[t]
	if of == nil {
		of = map[string]*tally{}
		x.used[t] = of
	}
	if of[user] == nil {
		of[user] = new(tally)
	}
	return of[user]
}

// count adds what the event changes of what there is and is used.
func (x *Index) count(p threadlog.Placed, c *conversation) {
	charge := c.Ledger.Apply(p.Event)
	x.charge(p.Thread.Tenant, charge, p.Time)
	x.spend(p.Thread, charge.User, charge.Use, p.Time)
	if len(c.open) == 0 {
		x.close(p.Thread.Tenant, c)
	}
	x.own(p.Thread.Tenant, c, c.Owner)
}

// close ends what the thread has at work.
func (x *Index) close(t mesh.TenantID, c *conversation) {
	for _, charge := range c.Ledger.Close() {
		x.charge(t, charge, time.Time{})
	}
}

// own makes the thread the user's; "" is nobody.
func (x *Index) own(t mesh.TenantID, c *conversation, user string) {
	if c.Counted == user {
		return
	}
	if c.Counted != "" {
		x.tally(t, c.Counted).threads--
		x.tally(t, "").threads--
	}
	if c.Counted = user; user != "" {
		x.tally(t, user).threads++
		x.tally(t, "").threads++
	}
}

func (x *Index) charge(t mesh.TenantID, c thread.Charge, at time.Time) {
	if c == (thread.Charge{}) {
		return
	}
	for _, of := range []*tally{x.tally(t, c.User), x.tally(t, "")} {
		of.agents += c.Agents
		if c.Dispatches != 0 || c.Spent != (mesh.Budget{}) {
			of.add(at.Unix()/3600, c)
		}
	}
}

func (t *tally) add(now int64, c thread.Charge) {
	if t.day == nil {
		t.day = new([hours]hour)
	}
	h := &t.day[now%hours]
	if h.of < now {
		*h = hour{of: now}
	}
	if h.of == now { // else it is older than a day
		h.dispatches += c.Dispatches
		h.spent = h.spent.Add(c.Spent)
	}
}

// sum is what there is at the hour.
func (t *tally) sum(now int64) (u limit.Used) {
	if t == nil {
		return u
	}
	u.Threads, u.Agents = t.threads, t.agents
	if t.day == nil {
		return u
	}
	first := int64(math.MaxInt64)
	for _, h := range t.day {
		if h.of <= now-hours || h.of == 0 {
			continue
		}
		u.Dispatches, u.Tokens, u.Cost = u.Dispatches+h.dispatches, u.Tokens+h.spent.Tokens, u.Cost+h.spent.Cost
		first = min(first, h.of)
	}
	if first < math.MaxInt64 {
		u.Free = time.Unix((first+hours)*3600, 0).UTC()
	}
	return u
}

// Used is what the user has and has used within a day, what the whole tenant has, and up
// to which place in the log that is so. It reads nothing. An hour counts as a whole.
func (x *Index) Used(t mesh.TenantID, user string, now time.Time) (ofUser, ofTenant limit.Used, upTo mesh.Pos) {
	hour := now.Unix() / 3600
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.used[t][user].sum(hour), x.used[t][""].sum(hour), x.applied
}

// Catch reads what the log has, and drops what was deleted in the tenant: after it, Used
// has all that was acknowledged before.
func (x *Index) Catch(ctx context.Context, t mesh.TenantID) error {
	if err := x.catchUp(ctx, t); err != nil {
		return err
	}
	return x.prune(ctx)
}

// Ready waits until the index has once had all that the log had.
func (x *Index) Ready(ctx context.Context) error {
	x.mu.Lock()
	ready := x.ready
	x.mu.Unlock()
	if ready {
		return nil
	}
	if err := x.readAll(ctx); err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.ready = true
	return nil
}

// sweep forgets users of whom there is nothing to know any more, once an hour. The caller
// holds mu.
func (x *Index) sweep(now time.Time) {
	hour := now.Unix() / 3600
	if x.swept == hour {
		return
	}
	x.swept = hour
	x.sweepSums(now)
	for t, users := range x.used {
		for user, of := range users {
			switch u := of.sum(hour); {
			case u == limit.Used{}:
				delete(users, user)
				x.owed[mesh.Owner{Tenant: t, User: user}] = struct{}{}
			case u.Free.IsZero() && of.day != nil:
				of.day = nil
				x.owed[mesh.Owner{Tenant: t, User: user}] = struct{}{}
			}
		}
		if len(users) == 0 {
			delete(x.used, t)
		}
	}
}
