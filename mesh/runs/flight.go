package runs

import (
	"cmp"
	"context"
	"fmt"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
)

// start runs what was claimed.
func (l *loop) start(ctx context.Context, id jobID, user string, due time.Time) {
	rec := &record{Skill: id.skill, User: user, Due: due.UTC(), Status: statusRunning}
	version, err := l.journal.putRecord(context.WithoutCancel(ctx), id, rec, 0)
	if mesh.IsCode(err, mesh.Conflict) { // another node took us for dead, and looks after it
		return
	}
	if err != nil { // it is recorded when it begins
		l.failed(ctx, "scheduled run not recorded", err)
	}
	l.fly(ctx, id, rec, version)
}

// fly has a goroutine run what the record is of, or settle it.
func (l *loop) fly(ctx context.Context, id jobID, rec *record, version int64) {
	f := flight{id, rec.Due.Unix()}
	if l.flying[f] {
		return
	}
	l.flying[f] = true
	l.tasks.Go(func() { // Run waits
		e := &execution{loop: l, id: id, rec: rec, version: version}
		if err := e.insist(ctx); mesh.IsCode(err, mesh.Conflict) {
			l.Logger.InfoContext(ctx, "scheduled run is looked after elsewhere", "tenant", id.tenant, "skill", id.skill, "due", rec.Due)
		} else if err != nil {
			l.failed(ctx, "scheduled run not settled; the next start does that", err)
		}
		select {
		case l.done <- f:
		case <-ctx.Done():
		}
	})
}

// owner is whose the runs of the skill are: of who made it or, when that is not known,
// the scheduler's.
func (l *loop) owner(ctx context.Context, id jobID) (string, error) {
	if l.Owner == nil {
		return l.User, nil
	}
	user, err := l.Owner(ctx, id.tenant, id.skill)
	return cmp.Or(user, l.User), mesh.Wrap("runs.owner", err)
}

// orderOf is the call of a skill that a due time makes: always the same one.
func (l *loop) orderOf(id jobID, rec *record) (*order, error) {
	call := mesh.Call{Principal: mesh.Principal{Tenant: id.tenant, User: cmp.Or(rec.User, l.User), Roles: l.Roles}}
	return l.Runner.order(call, mesh.SourceSchedule, &meshv1.RunSkillRequest{Name: id.skill, RequestId: id.skill + " " + rec.Due.UTC().Format(time.RFC3339)})
}

// An execution is a record whose run is made, or looked after. Several processes
// may do so; the first one that writes wins.
type execution struct {
	*loop
	id      jobID
	rec     *record
	version int64
}

// insist runs until that is no error, or Conflict, for a while.
func (e *execution) insist(ctx context.Context) error {
	const tries = 10
	for n := 1; ; n++ {
		err := e.run(ctx)
		if err == nil || mesh.IsCode(err, mesh.Conflict) || n == tries || !pass(ctx, retry) {
			return err
		}
	}
}

// pass lets time pass; false if ctx ended before.
func pass(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// run ends when the record says how the run ended, or ctx is done. The error is
// Conflict when another process changed the record.
func (e *execution) run(ctx context.Context) error {
	if e.slots.take(ctx, e.id.tenant, cmp.Or(e.rec.User, e.User)) != nil {
		return nil
	}
	defer e.slots.giveBack(e.id.tenant)
	o, err := e.orderOf(e.id, e.rec)
	if err != nil {
		return e.over(ctx, statusFailed, err)
	}
	found, err := e.Runner.find(ctx, o)
	if err != nil {
		return err
	}
	if found == nil {
		if e.Now().Sub(e.rec.Due) > e.CatchUp {
			return e.over(ctx, statusMissed, mesh.Errorf(mesh.Timeout, "runs.run", "Not run: whoever was to run it did not begin."))
		}
		e.rec.Started = time.Time{}
	}
	if e.rec.Started.IsZero() {
		e.rec.Started = e.Now().UTC()
	}
	e.rec.Thread = o.key.ID
	if err := e.save(ctx); err != nil {
		return err
	}
	return e.make(ctx, o)
}

// make has the run begin, unless it has, and waits for its end.
func (e *execution) make(ctx context.Context, o *order) error {
	limit := e.rec.Started.Add(e.Timeout)
	acc, err := e.begin(ctx, o, limit)
	if err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the next process goes on
		}
		return e.over(ctx, statusFailed, err)
	}
	e.rec.Task = acc.Task.GetId()
	if err := e.save(ctx); err != nil {
		return err
	}
	as := mesh.WithCall(ctx, o.call)
	task, err := e.Runner.wait(as, acc, limit.Sub(e.Now()))
	if err != nil {
		if ctx.Err() != nil {
			return nil //nolint:nilerr // the next process goes on
		}
		return err
	}
	if resting(task.GetStatus().GetState()) {
		return e.ended(ctx, task)
	}
	_, err = e.Runner.Edge.Cancel(as, &a2apb.CancelTaskRequest{Id: task.GetId()})
	if mesh.IsCode(err, mesh.Precondition) { // it has ended just now
		if task, _, err = e.Runner.Edge.Task(as, task.GetId()); err != nil {
			return err
		}
		return e.ended(ctx, task)
	}
	if ctx.Err() != nil {
		return nil //nolint:nilerr // the next process goes on
	}
	if err != nil {
		e.failed(ctx, "a scheduled run that took too long may go on", err)
	}
	return e.over(ctx, statusFailed, mesh.Errorf(mesh.Timeout, "runs.make", "Stopped: it took longer than %s.", e.Timeout))
}

// begin is Runner.begin for who is not in a hurry: what may pass, as that the
// agent is not there yet, is tried again until the limit.
func (e *execution) begin(ctx context.Context, o *order, limit time.Time) (*a2a.Accepted, error) {
	for {
		acc, err := e.Runner.begin(ctx, o)
		if err == nil || mesh.IsCode(err, mesh.Invalid) || mesh.IsCode(err, mesh.Denied) || mesh.IsCode(err, mesh.Exhausted) || e.Now().Add(retry).After(limit) {
			return acc, err
		}
		if !pass(ctx, retry) {
			return nil, ctx.Err()
		}
	}
}

// over settles the record for an error.
func (e *execution) over(ctx context.Context, status string, why error) error {
	e.rec.Status, e.rec.Detail = status, mesh.DetailOf(why)
	if e.rec.Detail == "" {
		e.rec.Detail = fmt.Sprintf("It could not begin (%v).", mesh.CodeOf(why))
	}
	if status != statusMissed {
		e.rec.Ended = e.Now().UTC()
	}
	return e.save(ctx)
}

// ended settles the record for a task at rest.
func (e *execution) ended(ctx context.Context, task *a2apb.Task) error {
	e.rec.end(task, e.Now().UTC())
	return e.save(ctx)
}

// end says how the run ended.
func (r *record) end(task *a2apb.Task, now time.Time) {
	r.Status, r.Ended, r.Detail = statusFailed, now, answer(task).GetContent()
	switch task.GetStatus().GetState() {
	case a2apb.TaskState_TASK_STATE_COMPLETED:
		r.Status = statusCompleted
	case a2apb.TaskState_TASK_STATE_INPUT_REQUIRED, a2apb.TaskState_TASK_STATE_AUTH_REQUIRED:
		r.Status, r.Ended = statusAwaiting, time.Time{}
	}
}

// save writes the record, also when the end has come.
func (e *execution) save(ctx context.Context) (err error) {
	e.version, err = e.journal.putRecord(context.WithoutCancel(ctx), e.id, e.rec, e.version)
	return err
}
