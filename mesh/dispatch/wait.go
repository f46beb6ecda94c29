package dispatch

import (
	"context"
	"slices"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/call"
	"agentmesh/mesh/text"
)

// Mode says for which of several orders to wait.
type Mode string

// The modes.
const (
	ModeAll  Mode = "all"
	ModeAny  Mode = "any"  // until one more is done than were told of
	ModeNone Mode = "none" // not at all
)

// Wait returns the results of the named orders, or of all when there are no
// names, once they are done, or can only go on when the user has said something:
// then some are StatusWaiting, or pending because of such a one. When ctx ends
// before, it returns them as they are.
func (d *Dispatcher) Wait(ctx context.Context, ids []string) ([]Result, error) {
	return d.await(ctx, ids, ModeAll, false)
}

// await is Wait in the mode. If asks says so, it returns besides when an agent asks for help
// of which the model was not told.
func (d *Dispatcher) await(ctx context.Context, ids []string, mode Mode, asks bool) ([]Result, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	jobs, err := d.jobsOf(ids)
	if err != nil {
		return nil, err
	}
	at := 0
	d.until(ctx, func() bool {
		at = d.moving(jobs, at)
		return at < 0 || mode == ModeNone || mode == ModeAny && d.news(jobs) || asks && len(d.untold()) > 0
	})
	return results(jobs), nil
}

// jobsOf returns the orders with the names, or all when there are no names, in the order of
// dispatch. d.mu is held.
func (d *Dispatcher) jobsOf(ids []string) ([]*job, error) {
	if d.lost != nil {
		return nil, d.lost
	}
	if len(ids) == 0 {
		return slices.Clone(d.order), nil
	}
	jobs := make([]*job, len(ids))
	for i, id := range ids {
		if jobs[i] = d.jobs[id]; jobs[i] == nil {
			return nil, mesh.InvalidField("dispatch.Wait", "agent_ids", "names %q, which was not dispatched", id)
		}
	}
	return inOrder(jobs), nil
}

// news reports whether one of the orders is done and was not told of. d.mu is held.
func (d *Dispatcher) news(jobs []*job) bool {
	return slices.ContainsFunc(d.fresh, func(j *job) bool { return slices.Contains(jobs, j) })
}

// moves reports whether anything may end without a word of the user. When nothing runs, and
// nothing could, all others wait for somebody who waits. d.mu is held.
func (d *Dispatcher) moves() bool {
	return d.running > 0 || slices.ContainsFunc(d.ready, func(j *job) bool { return j.Status == StatusPending })
}

// moving returns the place of an order that may end without a word of the user, or -1. It
// looks at the one at a place first, where it found one before, and then at those after it:
// whoever looks each time that one ends looks at each order about once in all. d.mu is held.
func (d *Dispatcher) moving(jobs []*job, at int) int {
	if !d.moves() {
		return -1
	}
	rests := d.rests()
	for i := range jobs {
		if k := (max(at, 0) + i) % len(jobs); !rests(jobs[k]) {
			return k
		}
	}
	return -1
}

// Done waits until the order is done and returns its result; false if ctx ends
// before, or the order can only go on when the user has said something.
func (d *Dispatcher) Done(ctx context.Context, id string) (Result, bool) {
	got, err := d.await(ctx, []string{id}, ModeAll, false)
	if err != nil || len(got) == 0 {
		return Result{}, false
	}
	return got[0], got[0].Terminal()
}

// Take returns what is done and was not delivered, in the order in which it ended, and
// counts it as delivered: who takes it tells the model. After Close there is nothing.
func (d *Dispatcher) Take() []Result {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx.Err() != nil {
		return nil
	}
	var out []Result
	for _, j := range d.fresh {
		j.told = true
		out = append(out, j.Result)
	}
	d.fresh = nil
	return out
}

// Next waits until there is something to take or to answer, and reports it. There is not
// when nothing is at work, or only the user can have anything go on: then waiting are those
// that wait for the user, and those that the model did not answer.
func (d *Dispatcher) Next(ctx context.Context) (waiting []string, ok bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	some := func() bool { return len(d.fresh) > 0 || len(d.untold()) > 0 }
	if !d.until(ctx, func() bool { return some() || !d.moves() }) {
		return nil, false
	}
	for _, j := range d.waiting() {
		waiting = append(waiting, j.Order.AgentID)
	}
	return waiting, some()
}

// deliver counts those of the results that are done as delivered, and returns the
// executions of which the model was not told before.
func (d *Dispatcher) deliver(results []Result) (first []mesh.ExecutionID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, r := range results {
		if j := d.jobs[r.AgentID]; r.Terminal() && !j.told {
			j.told = true
			first = append(first, r.ExecutionID)
		}
	}
	d.fresh = slices.DeleteFunc(d.fresh, func(j *job) bool { return j.told })
	return first
}

// waiting returns the jobs that wait for the user, or for an answer, in the order of
// dispatch. d.mu is held.
func (d *Dispatcher) waiting() []*job {
	if len(d.asking) == 0 {
		return nil
	}
	d.asking = slices.DeleteFunc(d.asking, func(j *job) bool { return j.Status != StatusWaiting && j.Status != StatusAsks })
	return inOrder(d.asking)
}

// rests returns what reports whether a job is done, or can only go on when the user has
// said something. d.mu is held while it is used.
func (d *Dispatcher) rests() func(*job) bool {
	if len(d.waiting()) == 0 {
		return (*job).atRest
	}
	return behind((*job).atRest)
}

// behind returns what reports whether it is so of a job or, of one that has not begun, of
// one that it depends on. The dispatcher's mu is held while it is used.
func behind(is func(*job) bool) func(*job) bool {
	known := map[*job]bool{}
	var waits func(j *job) bool
	waits = func(j *job) bool {
		if j.Status != StatusPending {
			return is(j)
		}
		so, seen := known[j]
		if !seen {
			so = slices.ContainsFunc(j.deps, func(dep *job) bool { return !dep.Terminal() && waits(dep) })
			known[j] = so
		}
		return so
	}
	return waits
}

// atRest reports whether the job neither runs nor will when others have ended.
func (j *job) atRest() bool { return j.Status != StatusPending && j.Status != StatusRunning }

// List returns all results as they are.
func (d *Dispatcher) List() []Result {
	d.mu.Lock()
	defer d.mu.Unlock()
	return results(d.order)
}

const alreadyCompleted = "already_completed"

// Cancel ends an order: "cancelled", or "already_completed" for one that is
// done, or "not_found" (S1-055).
func (d *Dispatcher) Cancel(id string) string {
	d.mu.Lock()
	defer d.mu.Unlock()
	j := d.jobs[id]
	switch {
	case j == nil:
		return "not_found"
	case j.Terminal():
		return alreadyCompleted
	case j.cancel != nil:
		j.cancel()
	case d.ctx.Err() != nil: // it is left to the execution that goes on
		return alreadyCompleted
	case j.waiting():
		d.abandon(j)
	default:
		d.drop(j)
		d.wake()
	}
	return StatusCanceled
}

// waiting reports whether the log says that the job waits for the user, or for an answer.
func (j *job) waiting() bool {
	return j.Status == StatusWaiting || j.Status == StatusAsks || j.Status == StatusPending && j.resume != nil
}

// abandon ends a job that waits because nobody wants it any more. d.mu is held.
func (d *Dispatcher) abandon(j *job) {
	d.end(j, StatusCanceled, text.AgentCanceled(), mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_CANCELED, Reason: mesh.ReasonDismissed})
}

// end ends a job that waits, and has its agent end it. It is over when the log has it. d.mu
// is held.
func (d *Dispatcher) end(j *job, status, result string, last mesh.TaskMoved) {
	if j.clock != nil {
		j.clock.Stop()
	}
	r, stop := j.Result, j.stop
	r.Status, r.Result = status, result
	if stop == nil && j.resume != nil { // it was not taken up yet
		stop = func(ctx context.Context) { d.dismiss(ctx, j) }
	}
	d.running++
	j.Status, j.began, j.cancel = StatusRunning, time.Now(), func() {}
	d.wg.Go(func() { // Close waits
		ctx := context.WithoutCancel(d.ctx)
		if stop != nil { // first: what the log has as over is not looked after any more
			stop(ctx)
		}
		d.settle(ctx, j, last, r)
		d.after(j, r)
	})
}

// dismiss has the agent end the task that it has from before the run went on.
func (d *Dispatcher) dismiss(ctx context.Context, j *job) {
	ctx, cancel := context.WithTimeout(ctx, settleTime)
	defer cancel()
	found, err := d.choose(ctx, j)
	if err == nil {
		to := callee(found)
		var client call.Client
		if client, err = d.dialer.Dial(to.Target); err == nil {
			as := to.As(d.inv.Thread, j.exec, d.inv.Mesh.Tickets(j.exec.ID, ""))
			err = call.End(mesh.WithCall(ctx, as), client, j.exec.ID, j.resume.task, settleTime)
		}
	}
	if err != nil {
		d.opts.Logger.InfoContext(ctx, "agent did not cancel", "execution", j.exec.ID, "err", err)
	}
}

// maxMission is how much of a mission a report has, in bytes.
const maxMission = 160
