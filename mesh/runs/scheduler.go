package runs

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
)

// SchedulerConfig is what a Scheduler cannot work without (Runner, Library),
// and what it can choose.
type SchedulerConfig struct {
	Runner  *Runner
	Library Library
	// Tenant is where the schedules of skills run that all tenants share;
	// default mesh.DefaultTenant. A tenant's own skills run in that tenant.
	Tenant mesh.TenantID
	// Owner returns whose the runs of a skill are, or "" if that is not known.
	Owner func(ctx context.Context, tenant mesh.TenantID, skill string) (string, error)
	// User is who runs those of others, default "scheduler", and Roles what users may
	// do in runs, default mesh.RoleUser.
	User  string
	Roles []mesh.Role
	// CatchUp is how late a run may begin that could not begin in time; default
	// 1 h, and not less than a minute.
	CatchUp time.Duration
	// Timeout cuts off a run; default 10 min. A run that asks for an approval
	// has ended, as far as this is concerned.
	Timeout time.Duration
	// Parallel is how many runs go on at a time; default 16. Others wait, and begin in
	// turns, of tenants and of the users of each. Each fourth is kept for tenants of
	// which none goes on.
	Parallel int
	// Weight is how many runs of the tenant begin in its turn; nil is one of each.
	Weight func(mesh.TenantID) int
	// Poll is how often the clock is looked at, which may be set, and tenants are
	// looked for that had no skills before; default 2 s.
	Poll time.Duration
	// Now tells the time; default time.Now.
	Now func() time.Time
	// Logger is for the operator; the default discards.
	Logger *slog.Logger
}

// A Scheduler runs skills when their schedules are due. Use NewScheduler.
type Scheduler struct {
	SchedulerConfig
	journal journal
}

// NewScheduler returns a Scheduler. The error is Invalid.
func NewScheduler(c SchedulerConfig) (*Scheduler, error) {
	const op = "runs.NewScheduler"
	if c.Runner == nil || c.Library == nil {
		return nil, mesh.Errorf(mesh.Invalid, op, "a scheduler needs a runner and a library")
	}
	c.Tenant, c.User = cmp.Or(c.Tenant, mesh.DefaultTenant), cmp.Or(c.User, "scheduler")
	c.CatchUp, c.Timeout = max(cmp.Or(c.CatchUp, time.Hour), time.Minute), cmp.Or(c.Timeout, 10*time.Minute)
	c.Parallel, c.Poll = cmp.Or(c.Parallel, 16), cmp.Or(c.Poll, 2*time.Second)
	if err := c.Tenant.Validate(); err != nil {
		return nil, mesh.Wrap(op, err)
	}
	if c.Timeout < 0 || c.Parallel < 0 || c.Poll < 0 {
		return nil, mesh.Errorf(mesh.Invalid, op, "no bound of a scheduler may be negative")
	}
	if c.Roles == nil {
		c.Roles = []mesh.Role{mesh.RoleUser}
	}
	if c.Now == nil {
		c.Now = time.Now
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return &Scheduler{SchedulerConfig: c, journal: c.Runner.journal}, nil
}

// Run runs skills when they are due until ctx is done, and returns nil. Runs
// that go on then go on; the next scheduler that starts settles them. It is
// called once.
func (s *Scheduler) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	l := &loop{
		Scheduler: s, news: make(chan news), done: make(chan flight), slots: newSlots(s.Parallel, s.Weight),
		followed: map[mesh.TenantID]bool{}, unchecked: map[mesh.TenantID]bool{}, jobs: map[jobID]*job{}, flying: map[flight]bool{},
	}
	defer l.tasks.Wait()
	defer stop()
	wake := time.NewTimer(0)
	defer wake.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case f := <-l.done:
			delete(l.flying, f)
			continue
		case n := <-l.news:
			l.note(n)
		case <-wake.C:
			l.followAll(ctx)
		}
		l.step(ctx)
		wake.Reset(l.pause())
	}
}

// A loop is the state of a Run. Its goroutine alone touches the maps.
type loop struct {
	*Scheduler
	tasks sync.WaitGroup // watches and runs
	news  chan news
	done  chan flight
	slots *slots

	followed  map[mesh.TenantID]bool
	unchecked map[mesh.TenantID]bool // tenants that may have plans without a skill
	jobs      map[jobID]*job
	flying    map[flight]bool
	adopted   bool      // what an earlier process left has been looked at
	swept     time.Time // when old plans were last looked for
	seen      time.Time // what the clock showed in the last step
}

// A job is a schedule of a skill; an empty one is of a skill that has none any
// more.
type job struct {
	schedule, timezone string
	look               time.Time // when there may be something to do
	user               string    // whose runs it makes, as far as is known
}

// A flight is a run that a goroutine of this process works on.
type flight struct {
	id  jobID
	due int64
}

// retry is how long to wait before what failed is tried again.
const retry = 5 * time.Second

// inTurn is how many due schedules of a tenant are looked at before those of others
// that came meanwhile, times what it weighs.
const inTurn = 8

// step does what there is to do now, but of many schedules that are due only the first
// of each tenant: what is left is due in the next step.
func (l *loop) step(ctx context.Context) {
	now := l.Now().Round(0) // as the clock on the wall, which can be set
	if now.Before(l.seen) {
		l.swept = time.Time{}
		for _, j := range l.jobs {
			j.look = time.Time{}
		}
	}
	l.seen = now
	if !l.adopted {
		l.adopt(ctx)
	}
	for t := range l.unchecked {
		l.check(ctx, t)
	}
	if now.Sub(l.swept) > sweepEvery {
		l.sweep(ctx, now)
	}
	due, left := line[jobID]{weight: l.Weight}, map[mesh.TenantID]int{}
	for id, j := range l.jobs {
		if !j.look.After(now) {
			due.push(id.tenant, j.user, id)
			left[id.tenant] = inTurn * due.weigh(id.tenant)
		}
	}
	for {
		id, tenant, ok := due.pop(func(t mesh.TenantID) bool { return left[t] > 0 })
		if !ok {
			return
		}
		left[tenant]--
		l.look(ctx, id, l.jobs[id], now)
	}
}

// pause is how long there is nothing to do, as far as is known.
func (l *loop) pause() time.Duration {
	now, wait := l.Now(), l.Poll
	for _, j := range l.jobs {
		wait = min(wait, j.look.Sub(now))
	}
	return max(0, wait)
}

// look does what is to be done about a job, and finds out when to look again.
func (l *loop) look(ctx context.Context, id jobID, j *job, now time.Time) {
	const tries = 4
	var err error
	for range tries {
		if err = l.settle(ctx, id, j, now); !mesh.IsCode(err, mesh.Conflict) {
			break
		}
	}
	var next time.Time
	if err == nil && j.schedule != "" {
		next, err = skill.Next(j.schedule, j.timezone, now)
	}
	switch {
	case mesh.IsCode(err, mesh.Invalid):
		l.Logger.WarnContext(ctx, "schedule that is none; the skill runs on request only", "tenant", id.tenant, "skill", id.skill, "err", err)
		*j = job{}
	case err != nil:
		if ctx.Err() == nil {
			l.Logger.WarnContext(ctx, "schedule not looked at; trying again", "tenant", id.tenant, "skill", id.skill, "err", err)
		}
		j.look = now.Add(retry)
	case j.schedule == "":
		delete(l.jobs, id)
	case next.IsZero():
		j.look = now.Add(sweepEvery)
	default:
		j.look = next
	}
}
