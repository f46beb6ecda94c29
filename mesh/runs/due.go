package runs

import (
	"context"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
)

// maxMissed is how many due times that were missed in a row have a record each;
// the first of these tells of those before.
const maxMissed = 10

// overdue returns the last due times after from and up to now, at most
// maxMissed and one, and whether there are earlier ones. It looks back step by
// step, since there may be very many.
func overdue(j *job, from, now time.Time) (dues []time.Time, earlier bool, err error) {
	const most, ages = maxMissed + 1, 20 * 365 * 24 * time.Hour
	for window := time.Hour; ; window *= 4 {
		begin := now.Add(-window)
		if begin.Before(from) || window > ages {
			begin = from
		}
		dues = dues[:0]
		for at := begin; ; {
			if at, err = skill.Next(j.schedule, j.timezone, at); err != nil {
				return nil, false, err
			}
			if at.IsZero() || at.After(now) {
				break
			}
			dues = append(dues, at)
		}
		if len(dues) > most {
			return dues[len(dues)-most:], true, nil
		}
		if begin.Equal(from) {
			return dues, false, nil
		}
	}
}

// settle does all that is due of a job. The error is Conflict when somebody else
// did something in the meantime.
func (l *loop) settle(ctx context.Context, id jobID, j *job, now time.Time) error {
	p, version, err := l.journal.plan(ctx, id)
	if err != nil {
		return err
	}
	if p.Schedule != j.schedule || p.Timezone != j.timezone {
		return l.replan(ctx, id, j, p, version, now)
	}
	if j.schedule == "" {
		return nil
	}
	if p.from().Sub(now) > maxAhead {
		return l.rewind(ctx, id, p, version, now)
	}
	dues, earlier, err := overdue(j, p.from(), now)
	if err != nil || len(dues) == 0 {
		return err
	}
	if j.user, err = l.owner(ctx, id); err != nil {
		return err
	}
	return l.claim(ctx, id, j.user, claim{plan: p, version: version, dues: dues, earlier: earlier, now: now})
}

// replan puts the plan of a schedule in the place of another one's.
func (l *loop) replan(ctx context.Context, id jobID, j *job, p *plan, version int64, now time.Time) error {
	p.Schedule, p.Timezone, p.Since, p.Retired = j.schedule, j.timezone, now.UTC(), time.Time{}
	if j.schedule == "" {
		p.Timezone, p.Retired = "", now.UTC()
	} else if _, err := skill.Next(j.schedule, j.timezone, now); err != nil {
		return err
	}
	if err := l.journal.putPlan(ctx, id, p, version); err != nil {
		return err
	}
	l.Logger.InfoContext(ctx, "schedule", "tenant", id.tenant, "skill", id.skill, "schedule", j.schedule, "timezone", j.timezone)
	return nil
}

// maxAhead is how far in the future the last settled due time of a plan may be:
// clocks of nodes differ, and are set. What is farther was settled by a clock that
// was wrong, and would keep the skill from running until then.
const maxAhead = 24 * time.Hour

// rewind has the schedule count from now on again.
func (l *loop) rewind(ctx context.Context, id jobID, p *plan, version int64, now time.Time) error {
	l.Logger.WarnContext(ctx, "due times were settled by a clock that was wrong; counting from now on again",
		"tenant", id.tenant, "skill", id.skill, "settled", p.from(), "now", now)
	dropped := p.rewind(now)
	if err := l.journal.putPlan(ctx, id, p, version); err != nil {
		return err
	}
	if err := l.journal.drop(context.WithoutCancel(ctx), id, dropped); err != nil {
		l.failed(ctx, "records of runs of the future not deleted", err)
	}
	return nil
}

// A claim is due times that are to be settled, of which the last one may run.
type claim struct {
	plan    *plan
	version int64
	dues    []time.Time
	earlier bool // there are more before these
	now     time.Time
}

// claim settles due times: it is the one who runs what is to run, or the error
// is Conflict.
func (l *loop) claim(ctx context.Context, id jobID, user string, c claim) error {
	last := c.dues[len(c.dues)-1]
	why := ""
	if late := c.now.Sub(last); late > l.CatchUp {
		why = "Not run: there was no node to run it, and now it is " + late.Round(time.Second).String() + " late."
	} else if busy, err := l.busy(ctx, id, c.plan); err != nil {
		return err
	} else if busy != "" {
		why = "Not run: the run that was due at " + time.Unix(c.plan.Begun, 0).UTC().Format(time.RFC3339) + " " + busy + "."
	}
	dropped := c.plan.settle(c.dues...)
	if why == "" {
		c.plan.Begun, c.plan.User = last.Unix(), user
	}
	if err := l.journal.putPlan(ctx, id, c.plan, c.version); err != nil {
		return err
	}
	// From here on it is ours: neither errors nor the end of ctx undo that.
	ours := context.WithoutCancel(ctx)
	for i, due := range c.dues[:len(c.dues)-1] {
		detail := "Not run: there was no node to run it, and then it was due again."
		if i == 0 && c.earlier {
			detail += " Nor were earlier ones run."
		}
		l.miss(ours, id, user, due, detail)
	}
	if why != "" {
		l.miss(ours, id, user, last, why)
	} else {
		l.start(ctx, id, user, last)
	}
	if err := l.journal.drop(ours, id, dropped); err != nil {
		l.failed(ctx, "records of old runs not deleted", err)
	}
	return nil
}

// miss records that a due time was missed.
func (l *loop) miss(ctx context.Context, id jobID, user string, due time.Time, why string) {
	rec := &record{Skill: id.skill, User: user, Due: due.UTC(), Status: statusMissed, Detail: why}
	l.Logger.WarnContext(ctx, "scheduled run missed", "tenant", id.tenant, "skill", id.skill, "due", due, "why", why)
	if _, err := l.journal.putRecord(ctx, id, rec, 0); err != nil {
		l.failed(ctx, "missed run not recorded", err)
	}
}

// What keeps a skill from running again, as records say it.
const (
	goesOn = "still went on"
	asks   = "still waited for an answer"
)

// busy says that the last run of the skill still goes on, is yet to begin or
// waits for the user, or "". One that goes on is looked after here from now on,
// for its process may be dead.
func (l *loop) busy(ctx context.Context, id jobID, p *plan) (string, error) {
	if p.Begun == 0 {
		return "", nil
	}
	rec, version, err := l.journal.begun(ctx, id, p)
	if err != nil || rec == nil || rec.Status != statusRunning && rec.Status != statusAwaiting {
		return "", err
	}
	o, err := l.orderOf(id, rec)
	if err != nil {
		return "", err
	}
	acc, err := l.Runner.find(ctx, o)
	if err != nil {
		return "", err
	}
	if rec.Status == statusRunning {
		ours := l.flying[flight{id, p.Begun}]
		l.fly(ctx, id, rec, version)
		if acc == nil { // and whoever looks after it only now begins it in time or not at all
			if ours || l.Now().Sub(rec.Due) <= l.CatchUp {
				return goesOn, nil
			}
			return "", nil
		}
	}
	if acc == nil { // the thread is gone, and the question with it
		return "", nil
	}
	switch state := acc.Task.GetStatus().GetState(); {
	case mesh.Interrupted(state):
		return asks, nil
	case mesh.Terminal(state):
		return "", nil
	}
	return goesOn, nil
}
