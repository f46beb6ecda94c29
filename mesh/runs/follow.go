package runs

import (
	"context"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
)

// news are changes of the schedules of a tenant.
type news struct {
	tenant mesh.TenantID
	put    []*skill.Skill
	gone   []string
	synced bool // all that there is has been told
	lost   bool // there are no more news
}

// followAll has every tenant followed that has skills.
func (l *loop) followAll(ctx context.Context) {
	l.follow(ctx, l.Tenant)
	for _, t := range l.Library.Tenants() {
		l.follow(ctx, t)
	}
}

// follow starts to follow the schedules of a tenant, unless it is done already.
// It goes on when the tenant has no skills any more: it may get some again.
func (l *loop) follow(ctx context.Context, t mesh.TenantID) {
	if l.followed[t] {
		return
	}
	l.followed[t] = true
	l.tasks.Go(func() { // Run waits
		w := watching{tenant: t, all: t == l.Tenant, known: map[string]bool{}, next: news{tenant: t}}
		for c, err := range l.Library.Watch(ctx, t) {
			if err != nil {
				break
			}
			if n := w.add(c); n != nil && !l.tell(ctx, *n) {
				return
			}
		}
		l.tell(ctx, news{tenant: t, lost: true})
	})
}

// tell gives news to the loop; false if that is over.
func (l *loop) tell(ctx context.Context, n news) bool {
	select {
	case l.news <- n:
		return true
	case <-ctx.Done():
		return false
	}
}

// A watching makes news of what a library tells of a tenant.
type watching struct {
	tenant mesh.TenantID
	all    bool            // shared skills run here too
	known  map[string]bool // skills that have a schedule
	synced bool
	next   news
}

// add takes a change, and returns news if there are any to tell now.
func (w *watching) add(c skill.Change) *news {
	switch {
	case c.Kind == skill.ChangeSynced:
		w.synced, w.next.synced = true, true
	case c.Kind == skill.ChangePut && c.Skill.Schedule != "" && (w.all || c.Skill.Tenant == w.tenant):
		w.known[c.Skill.Name] = true
		w.next.put = append(w.next.put, c.Skill)
	case w.known[c.Skill.Name]: // removed, without a schedule now, or a shared one has taken its place
		delete(w.known, c.Skill.Name)
		w.next.gone = append(w.next.gone, c.Skill.Name)
	default:
		return nil
	}
	if !w.synced {
		return nil
	}
	n := w.next
	w.next = news{tenant: w.tenant}
	return &n
}

// note takes news.
func (l *loop) note(n news) {
	for _, s := range n.put {
		id := jobID{n.tenant, s.Name}
		if j := l.jobs[id]; j == nil || j.schedule != s.Schedule || j.timezone != s.Timezone {
			l.jobs[id] = &job{schedule: s.Schedule, timezone: s.Timezone}
		}
	}
	for _, name := range n.gone {
		l.jobs[jobID{n.tenant, name}] = new(job)
	}
	if n.synced {
		l.unchecked[n.tenant] = true
	}
	if n.lost {
		delete(l.followed, n.tenant)
	}
}

// adopt looks at what an earlier process left: runs that it began, and schedules
// of tenants that have no skills any more.
func (l *loop) adopt(ctx context.Context) {
	all, err := l.journal.plans(ctx, "")
	if err != nil {
		l.failed(ctx, "plans of schedules not read; trying again", err)
		return
	}
	l.adopted = true
	for _, p := range all {
		if !l.followed[p.id.tenant] && p.plan.Schedule != "" && l.jobs[p.id] == nil {
			l.jobs[p.id] = new(job)
		}
		if p.plan.Begun == 0 {
			continue
		}
		rec, version, err := l.journal.begun(ctx, p.id, p.plan)
		if err != nil {
			l.failed(ctx, "a run that an earlier process began cannot be settled", err)
		} else if rec != nil && rec.Status == statusRunning {
			l.fly(ctx, p.id, rec, version)
		}
	}
}

// check finds plans of skills that have no schedule any more.
func (l *loop) check(ctx context.Context, t mesh.TenantID) {
	all, err := l.journal.plans(ctx, string(t)+"/")
	if err != nil {
		l.failed(ctx, "plans of schedules not read; trying again", err)
		return
	}
	delete(l.unchecked, t)
	for _, p := range all {
		if p.plan.Schedule != "" && l.jobs[p.id] == nil {
			l.jobs[p.id] = new(job)
		}
	}
}

// How long what ran of a skill is kept when its schedule is gone, and how often
// such plans are looked for.
const (
	keep       = 30 * 24 * time.Hour
	sweepEvery = 24 * time.Hour
)

// sweep deletes plans of schedules that have been gone for long.
func (l *loop) sweep(ctx context.Context, now time.Time) {
	all, err := l.journal.plans(ctx, "")
	if err != nil {
		l.failed(ctx, "plans of schedules not read; trying again", err)
		return
	}
	l.swept = now
	for _, p := range all {
		if p.plan.Schedule != "" || now.Sub(p.plan.Retired) < keep {
			continue
		}
		if err := l.journal.forget(ctx, p.id, p.plan, p.version); err != nil {
			l.failed(ctx, "records of old runs not deleted", err)
		}
	}
}

// failed logs what failed, unless the end has come.
func (l *loop) failed(ctx context.Context, what string, err error) {
	if ctx.Err() == nil {
		l.Logger.WarnContext(ctx, what, "err", err)
	}
}
