package dispatch

import (
	"cmp"
	"context"
	"slices"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/text"
)

// link counts what the job waits for, and skips it if that failed already.
// d.mu is held.
func (d *Dispatcher) link(j *job) {
	if len(j.deps) < len(j.Order.DependsOn) { // restored from a log that does not have them all
		d.skip(j, "")
	}
	for _, dep := range inOrder(j.deps) {
		switch {
		case !dep.Terminal():
			j.waits++
			dep.then = append(dep.then, j)
		case dep.Status != StatusCompleted:
			d.skip(j, dep.Order.AgentID)
		}
	}
	d.queue(j)
}

// queue has the job run when there is room, if it waits for nobody: in the order of
// dispatch, and first those that were at work before the run was cut off, for they may
// still be. d.mu is held.
func (d *Dispatcher) queue(j *job) {
	if j.Status == StatusPending && j.waits == 0 && !j.queued {
		j.queued = true
		d.ready.push(j)
	}
}

// cutOff reports whether the job was at work before the run went on.
func (j *job) cutOff() bool { return j.resume != nil && j.resume.continued }

// A queue is a heap of jobs whose first one was cut off or, where none was, dispatched
// first.
type queue []*job

// before reports whether the job comes before the other one.
func (j *job) before(other *job) bool {
	if cut := j.cutOff(); cut != other.cutOff() {
		return cut
	}
	return j.at < other.at
}

func (q *queue) push(j *job) {
	jobs := append(*q, j)
	for i := len(jobs) - 1; i > 0; {
		up := (i - 1) / 2
		if !jobs[i].before(jobs[up]) {
			break
		}
		jobs[i], jobs[up] = jobs[up], jobs[i]
		i = up
	}
	*q = jobs
}

// pop takes the first one.
func (q *queue) pop() *job {
	jobs, n := *q, len(*q)-1
	first := jobs[0]
	jobs[0], jobs[n] = jobs[n], nil
	for i := 0; ; {
		down := 2*i + 1
		if down+1 < n && jobs[down+1].before(jobs[down]) {
			down++
		}
		if down >= n || !jobs[down].before(jobs[i]) {
			break
		}
		jobs[i], jobs[down] = jobs[down], jobs[i]
		i = down
	}
	*q = jobs[:n]
	return first
}

// start runs every job that is ready, as far as the limit allows. d.mu is held.
func (d *Dispatcher) start() {
	for a := d.next(); a.job != nil; a = d.next() {
		d.wg.Go(func() { d.after(a.job, a.do(d.run)) }) // Close waits
	}
}

// after notes how a job ended, and runs those that begin in its place.
func (d *Dispatcher) after(j *job, r Result) {
	for a := d.finish(j, r); a.job != nil; {
		a = d.finish(a.job, a.do(d.run))
	}
}

// An attempt is a job that begins.
type attempt struct {
	*job

	ctx context.Context //nolint:containedctx // of the job: it ends with its time
}

// do runs the job. While it runs, nobody changes what is known of its result.
func (a attempt) do(run func(context.Context, *job, Result) Result) Result {
	defer a.cancel()
	return run(a.ctx, a.job, a.job.Result)
}

// next takes the job from the queue that begins now, if one may. d.mu is held.
func (d *Dispatcher) next() attempt {
	for len(d.ready) > 0 && d.running < d.opts.MaxConcurrent && d.ctx.Err() == nil {
		j := d.ready.pop()
		if j.Status != StatusPending { // it was dropped
			continue
		}
		return d.begin(j)
	}
	return attempt{}
}

// begin has the job be at work. d.mu is held.
func (d *Dispatcher) begin(j *job) (a attempt) {
	d.running++
	j.Status, j.began = StatusRunning, time.Now()
	a = attempt{job: j}
	a.ctx, j.cancel = context.WithDeadline(d.ctx, j.began.Add(cmp.Or(j.left, d.timeout(&j.Order))))
	return a
}

// finish notes how a job ended, starts what waited for it, and returns the next job, which
// whoever ran this one runs.
func (d *Dispatcher) finish(j *job, r Result) (next attempt) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r.DurationMS = time.Since(j.began).Milliseconds()
	j.Result, j.cancel = r, nil
	d.running--
	switch {
	case d.leaves(): // it goes on elsewhere, and what depends on it waits for that
	case r.Terminal():
		d.over(j)
	case r.Status == StatusAsks && d.ctx.Err() == nil:
		d.asks(j, false)
	default:
		d.asking = append(d.asking, j)
	}
	next = d.next()
	d.start()
	d.wake()
	return next
}

// over notes that j is done, and lets go of the jobs that depend on it. d.mu is held.
func (d *Dispatcher) over(j *job) {
	if !j.told {
		d.fresh = append(d.fresh, j)
	}
	for _, next := range j.then {
		next.waits--
		if j.Status != StatusCompleted {
			d.skip(next, j.Order.AgentID)
		}
		d.queue(next)
	}
}

// skip ends a job whose dependency did not complete, and all that depend on it
// (S0-092). d.mu is held.
func (d *Dispatcher) skip(j *job, dep string) {
	if j.Status != StatusPending {
		return
	}
	j.Status = StatusSkipped
	j.Result.Result = text.AgentSkipped(dep)
	d.settle(d.ctx, j, mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_REJECTED, Reason: mesh.ReasonDependency}, j.Result)
	d.over(j)
}

// drop ends a job that has not begun. d.mu is held.
func (d *Dispatcher) drop(j *job) {
	if j.Status != StatusPending {
		return
	}
	j.Status, j.Result.Result = StatusCanceled, text.AgentCanceled()
	d.settle(d.ctx, j, mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_CANCELED}, j.Result)
	d.over(j)
}

// inOrder sorts jobs by the order of dispatch.
func inOrder(jobs []*job) []*job {
	slices.SortFunc(jobs, func(a, b *job) int { return a.at - b.at })
	return jobs
}

// prior returns the results of those that the job depends on, in the order of dispatch.
// When it begins they are done, and change no more.
func (j *job) prior() []Result { return results(j.deps) }

// results returns those of the jobs. The dispatcher's mu is held, or they are done.
func results(jobs []*job) []Result {
	if len(jobs) == 0 {
		return nil
	}
	out := make([]Result, len(jobs))
	for i, j := range jobs {
		out[i] = j.Result
	}
	return out
}
