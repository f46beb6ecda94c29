package retention

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/lease"
	"agentmesh/mesh/thread"
)

// A Rule says which threads of a tenant go by themselves. The zero value keeps all.
type Rule struct {
	// Age is how long a thread stays after its last event; 0 is for ever.
	Age time.Duration
	// Count is how many threads stay: of more the longest untouched go; 0 is any number.
	Count int
	// Waiting lets threads go that wait for their user as well. Those on which an agent is
	// at work never go.
	Waiting bool
}

// The names of rules, as the record and metrics have them.
const (
	ByAge   = "retention.age"
	ByCount = "retention.count"
)

// Config is what a [Keeper] is made of. Deleter, Leases and Node are required.
type Config struct {
	Deleter *Deleter
	Leases  lease.Store
	// Node tells the node from others on the backend.
	Node string
	// Rules has the rules of tenants, and Default that of all others.
	Rules   map[mesh.TenantID]Rule
	Default Rule
	// Deleted is told how many threads went by a rule; the default is nobody.
	Deleted func(rule string, n int)
	// Sweep removes what belongs to no thread and is too old; the default is nothing.
	Sweep func(context.Context) error
	// Now is the clock by which ages go; default time.Now.
	Now    func() time.Time
	Logger *slog.Logger
	// Every is how often it is looked for what is to go; default 10 min. Step is how many
	// threads are deleted at a time, default 50, and Pause the time after that; default
	// 200 ms.
	Every, Pause time.Duration
	Step         int
}

// A Keeper deletes threads by rules. Use NewKeeper.
type Keeper struct {
	Config
	reconciled bool // Run's
}

// NewKeeper returns a Keeper. It starts nothing; see [Keeper.Run].
func NewKeeper(c Config) *Keeper {
	if c.Deleted == nil {
		c.Deleted = func(string, int) {}
	}
	if c.Sweep == nil {
		c.Sweep = func(context.Context) error { return nil }
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	if c.Every == 0 {
		c.Every = 10 * time.Minute
	}
	if c.Pause == 0 {
		c.Pause = 200 * time.Millisecond
	}
	if c.Step == 0 {
		c.Step = 50
	}
	return &Keeper{Config: c}
}

// leaseTime is longer than a step takes. Who loses the lease stops before the next one.
const leaseTime = time.Minute

// keeping is what the lease is of: no thread.
var keeping = mesh.ThreadKey{ID: "retention"}

// Run removes what killed processes left of deleted threads, and then deletes by the rules,
// until ctx is done. It starts no goroutine. What fails is logged, and tried again.
func (k *Keeper) Run(ctx context.Context) error {
	for {
		if err := k.pass(ctx); err != nil && ctx.Err() == nil {
			k.Logger.WarnContext(ctx, "threads that are to go stay for now", "err", err)
		}
		if !sleep(ctx, k.Every) {
			return nil
		}
	}
}

// sleep waits; false if ctx ended before.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return ctx.Err() == nil
	case <-ctx.Done():
		return false
	}
}

// pass deletes all that is to go now, unless another node is at it.
func (k *Keeper) pass(ctx context.Context) error {
	if !k.reconciled {
		if err := k.Deleter.Reconcile(ctx); err != nil {
			return err
		}
		k.reconciled = true
	}
	if err := k.Sweep(ctx); err != nil {
		k.Logger.WarnContext(ctx, "what belongs to no conversation could not be removed", "err", err)
	}
	if len(k.Rules) == 0 && k.Default == (Rule{}) {
		return nil
	}
	l, err := k.Leases.Acquire(ctx, keeping, k.Node, leaseTime)
	if mesh.IsCode(err, mesh.Conflict) {
		return nil
	}
	if err != nil {
		return err
	}
	defer func() { _ = k.Leases.Release(context.WithoutCancel(ctx), l) }() // else it runs out
	tenants, err := k.Deleter.log.Tenants(ctx)
	if err != nil {
		return err
	}
	for _, tenant := range slices.Sorted(maps.Keys(tenants)) {
		if err := k.keep(ctx, l, tenant); err != nil {
			return err
		}
	}
	return nil
}

// keep deletes what is to go of the tenant, step by step.
func (k *Keeper) keep(ctx context.Context, l lease.Lease, tenant mesh.TenantID) error {
	rule, own := k.Rules[tenant]
	if !own {
		rule = k.Default
	}
	if rule.Age == 0 && rule.Count == 0 {
		return nil
	}
	for after := mesh.Pos(0); ; {
		if err := k.Leases.Renew(ctx, l); err != nil {
			return err
		}
		found, err := k.step(ctx, tenant, rule, after)
		if after = found.next; err != nil || after == 0 || !sleep(ctx, k.Pause) {
			return err
		}
	}
}

// step deletes the next few threads.
func (k *Keeper) step(ctx context.Context, tenant mesh.TenantID, rule Rule, after mesh.Pos) (found, error) {
	tenants, err := k.Deleter.log.Tenants(ctx)
	if err != nil {
		return found{}, err
	}
	may := func(_ mesh.ThreadKey, st *thread.State) bool { return rule.Waiting || st.InterruptedTurn() == nil }
	oldest, excess := k.Now().Add(-rule.Age), tenants[tenant]-rule.Count
	out, err := k.Deleter.find(ctx, search{tenant: tenant, after: after, limit: k.Step, may: may,
		due: func(last time.Time, found int) string {
			switch {
			case rule.Age > 0 && last.Before(oldest):
				return ByAge
			case rule.Count > 0 && found < excess:
				return ByCount
			}
			return ""
		}})
	if err != nil {
		return out, err
	}
	for _, name := range []string{ByAge, ByCount} {
		of := slices.DeleteFunc(slices.Clone(out.victims), func(v victim) bool { return v.rule != name })
		n, err := k.Deleter.deleteAll(ctx, name, of, may)
		if n > 0 {
			k.Deleted(name, n)
			k.Logger.InfoContext(ctx, "threads deleted", "tenant", tenant, "rule", name, "threads", n, "left", tenants[tenant]-n)
		}
		if err != nil {
			return out, err
		}
	}
	return out, nil
}
