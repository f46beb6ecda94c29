// Package testbench runs skills in tests as agents do: through the executor,
// with the pages that the mesh brings along.
//
// A Bench may be used concurrently. It is for tests only.
package testbench

import (
	"cmp"
	"context"
	"io/fs"
	"sync"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/skilltest"
)

// now is the time on every bench: a Friday afternoon.
var now = time.Date(2026, 11, 20, 16, 0, 0, 0, time.FixedZone("CET", 3600))

// A Bench is an executor with handlers. Use [New].
type Bench struct {
	exec *skill.Executor

	mu    sync.Mutex
	now   time.Time
	state skill.State
	user  string // whose data calls work with; "" for what all share
	// Create is where skills go that calls create.
	Create func(ctx context.Context, s *skill.Skill) error
}

// New returns a bench with the handlers and the pages of the file systems, of
// which earlier ones win. It fails the test if a page is not valid.
func New(t testing.TB, handlers map[string]skill.Handler, pages ...fs.FS) *Bench {
	t.Helper()
	c, problems := skill.Load(pages...)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return Over(t, handlers, c)
}

// Over returns a bench with the handlers and the skills of the catalog.
func Over(t testing.TB, handlers map[string]skill.Handler, c *skill.Catalog) *Bench {
	t.Helper()
	b := &Bench{now: now, exec: skill.NewExecutor(skill.Config{Journal: skilltest.Journal{}, Lookup: skill.Lookup(c.Get), Handlers: handlers})}
	t.Cleanup(b.exec.Wait)
	return b
}

// SetState gives the skills a state; without it they have none.
func (b *Bench) SetState(s skill.State) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.state = s
}

// Now returns the bench's time, which stands still but for [Bench.Advance].
func (b *Bench) Now() time.Time {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.now
}

// In has the user's clock be that of the zone.
func (b *Bench) In(zone *time.Location) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now = b.now.In(zone)
}

// Advance puts the clock forward.
func (b *Bench) Advance(d time.Duration) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.now = b.now.Add(d)
}

// As has calls from now on made for the user, with the user's own data. Without it they
// are ann's, with what the users of a tenant share.
func (b *Bench) As(user string) *Bench {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.user = user
	return b
}

// Call runs the skill in the tenant default.
func (b *Bench) Call(name, key string, args map[string]any) *skill.Result {
	return b.CallAs(mesh.DefaultTenant, name, key, args)
}

// CallAs runs the skill for a user of the tenant.
func (b *Bench) CallAs(tenant mesh.TenantID, name, key string, args map[string]any) *skill.Result {
	b.mu.Lock()
	env := &skill.Env{Tenant: tenant, User: cmp.Or(b.user, "ann"), Shared: b.user == "", State: b.state, CreateSkill: b.Create, Now: b.Now}
	b.mu.Unlock()
	return b.exec.Execute(context.Background(), &skill.Call{Skill: name, Args: args, Key: key}, env)
}
