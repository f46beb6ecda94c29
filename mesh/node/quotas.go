package node

import (
	"context"
	"maps"
	"math"
	"slices"
	"time"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/alarm"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/quota"
)

// Quotas are how much each user, and each tenant, may have and use.
type Quotas struct {
	User   Quota `yaml:"user"`
	Tenant Quota `yaml:"tenant"`
}

// A Quota has numbers of which 0 is the default, under an auth that knows users, and
// otherwise no limit, as -1 is always.
type Quota struct {
	// Threads are conversations that there are.
	Threads int64 `yaml:"threads"`
	// Agents are those that agents dispatched, and that are at work.
	Agents int64 `yaml:"agents"`
	// Dispatches are those of agents by agents within a day.
	Dispatches int64 `yaml:"dispatches"`
	// Schedules are skills with a schedule that users made.
	Schedules int64 `yaml:"schedules"`
	// Tokens and Cost, in US dollars, are what models use within a day.
	Tokens int64   `yaml:"tokens"`
	Cost   float64 `yaml:"cost"`
	// Turns are those that the node works on at once; further ones wait.
	Turns int64 `yaml:"turns"`
	// Bytes are those that are kept of conversations; of a tenant alone.
	Bytes int64 `yaml:"bytes"`
}

// maxDollars is more than anybody has, and a number of micro-dollars.
const maxDollars = 1e9

// micro is dollars in micro-dollars. What is less than that is no less than one: 0 would be
// no limit.
func micro(dollars float64) int64 {
	if dollars > 0 {
		return max(int64(math.Round(dollars*1e6)), 1)
	}
	return int64(dollars)
}

func (q Quota) limits() limit.Quota {
	return limit.Quota{Threads: q.Threads, Agents: q.Agents, Dispatches: q.Dispatches, Schedules: q.Schedules,
		Tokens: q.Tokens, Cost: micro(q.Cost), Turns: q.Turns, Bytes: q.Bytes}
}

func (q Quota) check(field string) error {
	for _, f := range []struct {
		name string
		n    int64
	}{{"threads", q.Threads}, {"agents", q.Agents}, {"dispatches", q.Dispatches}, {"schedules", q.Schedules}, {"tokens", q.Tokens}, {"turns", q.Turns}, {"bytes", q.Bytes}} {
		if f.n < limit.Unlimited {
			return invalid(field+"."+f.name, "must be a number, 0 for the default or -1 for no limit, and is %d", f.n)
		}
	}
	return checkDollars(field+".cost", q.Cost)
}

func checkDollars(field string, d float64) error {
	if d != limit.Unlimited && !(d >= 0 && d <= maxDollars) {
		return invalid(field, "must be at most %v US dollars, 0 for the default or -1 for no limit, and is %v", maxDollars, d)
	}
	return nil
}

// perSecond is how many calls a second a user may make, where callers say who they are
// and nothing else is said.
const perSecond = 100

// fillQuotas sets the defaults of what users may have and use, and checks it.
func (c *Config) fillQuotas() error {
	for _, err := range []error{c.Quotas.User.check("quotas.user"), c.Quotas.Tenant.check("quotas.tenant"), checkDollars("limits.turn_cost", c.Limits.TurnCost), checkDollars("limits.thread_cost", c.Limits.ThreadCost), c.Turns.check()} {
		if err != nil {
			return err
		}
	}
	if c.Quotas.User.Bytes != 0 {
		return invalid("quotas.user.bytes", "is not counted for users; set quotas.tenant.bytes")
	}
	if c.Limits.TurnTokens < limit.Unlimited {
		return invalid("limits.turn_tokens", "must be a number of tokens, or 0 for no limit, and is %d", c.Limits.TurnTokens)
	}
	if c.RateLimit.PerSecond == 0 && c.Auth != authNone {
		c.RateLimit.PerSecond = perSecond
	}
	for tenant, n := range c.Schedules.Weights {
		if err := mesh.TenantID(tenant).Validate(); err != nil || n < 1 {
			return invalid("schedules.weights", "must have names of tenants and numbers from 1, and has %q: %d", mesh.Clip(tenant, 48), n)
		}
	}
	return nil
}

// quotas are those that the node keeps.
func (c *Config) quotas() limit.Quotas {
	q := limit.Quotas{User: c.Quotas.User.limits(), Tenant: c.Quotas.Tenant.limits()}
	if c.Auth == authNone {
		return q
	}
	std := limit.DefaultQuotas()
	return limit.Quotas{User: q.User.Or(std.User), Tenant: q.Tenant.Or(std.Tenant)}
}

// turnBudget is what a turn may use.
func (c *Config) turnBudget() mesh.Budget {
	return mesh.Budget{Tokens: max(c.Limits.TurnTokens, 0), Cost: max(micro(c.Limits.TurnCost), 0)}
}

// keeper keeps users within what they may have.
func (n *node) keeper() *quota.Keeper {
	return quota.New(n.cfg.quotas(), n.tasks, nil, n.logBytes, n.backend.Blobs.Bytes)
}

// logBytes is how many bytes the log has of the tenant. A log that is closed has none, and takes
// none.
func (n *node) logBytes(t mesh.TenantID) int64 {
	size, _ := n.log.Bytes(context.Background(), t)
	return size
}

// kept is how many bytes are kept of the conversations of each tenant.
func (n *node) kept() map[mesh.TenantID]int64 {
	all := map[mesh.TenantID]int64{}
	tenants, _ := n.log.Tenants(context.Background()) // of a log that is closed there are none
	for t := range tenants {
		all[t] = n.quotas.Bytes(t)
	}
	return all
}

// usage is what is kept of the conversations of each tenant that has some, sorted.
func (n *node) usage(ctx context.Context) (all []*meshv1.TenantUsage, err error) {
	tenants, err := n.log.Tenants(ctx)
	if err != nil {
		return nil, mesh.Wrap("node.usage", err)
	}
	quota := max(n.cfg.quotas().Tenant.Bytes, 0)
	for _, t := range slices.Sorted(maps.Keys(tenants)) {
		u := &meshv1.TenantUsage{Tenant: string(t), Threads: int64(tenants[t]), LogBytes: n.logBytes(t), FileBytes: n.backend.Blobs.Bytes(t), QuotaBytes: quota}
		if quota > 0 {
			u.Used = float64(u.LogBytes+u.FileBytes) / float64(quota)
		}
		all = append(all, u)
	}
	return all, nil
}

// watchEvery is how often is looked at how much is kept of tenants, and what they cost.
const watchEvery = 5 * time.Second

// watchQuotas keeps alarms of the tenants that have little left of what may be kept of them, or of
// what they may cost, until ctx is done.
func (n *node) watchQuotas(ctx context.Context) error {
	tick := time.NewTicker(watchEvery)
	defer tick.Stop()
	scarce := map[mesh.TenantID]bool{} // tenants with an alarm
	for {
		all := n.kept()
		for t := range scarce { // also one of which nothing is left
			all[t] += 0
		}
		for t := range all {
			full, dear := n.quotas.Scarce(t), n.quotas.Dear(t)
			n.alarms.Report(ctx, alarm.Source{Setting: "quotas.tenant.bytes", Of: string(t)},
				"messages of the tenant are taken until there is no room, and then none", full)
			n.alarms.Report(ctx, alarm.Source{Setting: "quotas.tenant.cost", Of: string(t)},
				"messages of the tenant are taken until the day's money is used up, and then none", dear)
			if delete(scarce, t); full != nil || dear != nil {
				scarce[t] = true
			}
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil
		}
	}
}
