package limit

import (
	"cmp"
	"time"
)

// How the names of the limits of quotas begin; the rest is the name of a field.
const (
	perUser   = "user."
	perTenant = "tenant."
)

// TenantBytes is the limit of the bytes that are kept of a tenant.
const TenantBytes = perTenant + "bytes"

// A Quota is how much of everything a user may have, or a tenant, or how much there is.
// In one that limits, 0 or less is no limit.
type Quota struct {
	Threads    int64 // that there are
	Agents     int64 // that agents dispatched, and that are at work
	Dispatches int64 // of agents by agents, within a day
	Schedules  int64 // of skills
	Tokens     int64 // of models, within a day
	Cost       int64 // of models, in micro-dollars, within a day
	Bytes      int64 // that are kept of conversations; of a tenant alone
	// Turns are those that are worked on at once. It refuses nobody: the others wait, see
	// [Line].
	Turns int64
}

func (q Quota) parts() [7]part {
	return [...]part{{"bytes", q.Bytes}, {"threads", q.Threads}, {"agents", q.Agents}, {"dispatches", q.Dispatches},
		{"schedules", q.Schedules}, {"tokens", q.Tokens}, {"cost", q.Cost}}
}

type part struct {
	name string
	n    int64
}

// Plus returns the sum.
func (q Quota) Plus(o Quota) Quota {
	return Quota{q.Threads + o.Threads, q.Agents + o.Agents, q.Dispatches + o.Dispatches,
		q.Schedules + o.Schedules, q.Tokens + o.Tokens, q.Cost + o.Cost, q.Bytes + o.Bytes, q.Turns + o.Turns}
}

// Or returns the quota with the other's numbers where it has none.
func (q Quota) Or(o Quota) Quota {
	return Quota{cmp.Or(q.Threads, o.Threads), cmp.Or(q.Agents, o.Agents), cmp.Or(q.Dispatches, o.Dispatches),
		cmp.Or(q.Schedules, o.Schedules), cmp.Or(q.Tokens, o.Tokens), cmp.Or(q.Cost, o.Cost), cmp.Or(q.Bytes, o.Bytes), cmp.Or(q.Turns, o.Turns)}
}

// Quotas are those of each user and of each tenant.
type Quotas struct{ User, Tenant Quota }

// DefaultQuotas are those where callers say who they are.
func DefaultQuotas() Quotas {
	return Quotas{
		User:   Quota{Threads: 100_000, Agents: 32, Dispatches: 5_000, Schedules: 100, Tokens: 20_000_000, Cost: 200_000_000, Turns: 5},
		Tenant: Quota{Threads: 1_000_000, Agents: 256, Dispatches: 50_000, Schedules: 1_000, Tokens: 200_000_000, Cost: 2_000_000_000, Bytes: 64 << 30, Turns: 20},
	}
}

// Used is how much there is, of a user or a tenant.
type Used struct {
	Quota
	// Free is when some of what is counted within a day is counted no more; zero if
	// there is none.
	Free time.Time
}

// Check returns the trip of the first limit that more would exceed, those of the user
// before the tenant's; nil if there is none. Of what is counted as it is used up, as
// tokens, one more is asked for.
func (q Quotas) Check(more Quota, user, tenant Used) *Trip {
	if t := check(perUser, q.User, more, user); t != nil {
		return t
	}
	return check(perTenant, q.Tenant, more, tenant)
}

func check(of string, most, more Quota, used Used) *Trip {
	mosts, useds := most.parts(), used.parts()
	for i, m := range more.parts() {
		if m.n <= 0 || mosts[i].n <= 0 || useds[i].n+m.n <= mosts[i].n {
			continue
		}
		t := &Trip{Limit: of + m.name, Used: useds[i].n, Most: mosts[i].n}
		switch m.name {
		case "dispatches", "tokens", "cost":
			t.Free = used.Free
		}
		return t
	}
	return nil
}

// Left is what the user may still use of agents and models. How many agents are at work at
// once is none of it: who is done makes room.
func (q Quotas) Left(user, tenant Used) Left {
	var l Ledger
	for _, x := range []struct {
		most Quota
		used Used
	}{{q.User, user}, {q.Tenant, tenant}} {
		l = append(l, Account{Of: Agents, Used: x.used.Dispatches, Most: x.most.Dispatches},
			Account{Of: Tokens, Used: x.used.Tokens, Most: x.most.Tokens}, Account{Of: Cost, Used: x.used.Cost, Most: x.most.Cost})
	}
	return l.Left()
}
