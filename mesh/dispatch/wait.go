package dispatch

import (
	"context"
	"slices"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
)

// Wait returns the results of the named orders, or of all when there are no
// names, once they are done, or can only go on when the user has said something:
// then some are StatusWaiting, or pending because of such a one. When ctx ends
// before, it returns them as they are.
func (d *Dispatcher) Wait(ctx context.Context, ids []string) ([]Result, error) {
	got, err := d.await(ctx, ids)
	if err == nil {
		d.count(ctx, got)
	}
	return got, err
}

// await is Wait without the tool calls of the results.
func (d *Dispatcher) await(ctx context.Context, ids []string) ([]Result, error) {
	d.mu.Lock()
	if len(ids) == 0 {
		ids = slices.Clone(d.order)
	}
	err := d.lost
	for _, id := range ids {
		if d.jobs[id] == nil && err == nil {
			err = mesh.InvalidField("dispatch.Wait", "agent_ids", "names %q, which was not dispatched", id)
		}
	}
	d.mu.Unlock()
	if err != nil {
		return nil, err
	}
	for {
		d.mu.Lock()
		moves := slices.ContainsFunc(ids, func(id string) bool { return !d.rests(d.jobs[id]) })
		got, changed := d.results(ids), d.changed
		d.mu.Unlock()
		if !moves {
			return got, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return got, nil
		}
	}
}

// Done waits until the order is done and returns its result; false if ctx ends
// before, or the order can only go on when the user has said something. The
// result lacks the tool calls.
func (d *Dispatcher) Done(ctx context.Context, id string) (Result, bool) {
	got, err := d.await(ctx, []string{id})
	if err != nil || len(got) == 0 {
		return Result{}, false
	}
	return got[0], got[0].Terminal()
}

// rests reports whether the job is done, or can only go on when the user has
// said something. d.mu is held.
func (d *Dispatcher) rests(j *job) bool {
	if j.Status == StatusPending {
		return slices.ContainsFunc(j.Order.DependsOn, func(id string) bool {
			dep := d.jobs[id]
			return !dep.Terminal() && d.rests(dep)
		})
	}
	return j.Status != StatusRunning
}

// List returns all results as they are.
func (d *Dispatcher) List() []Result {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.results(d.order)
}

// count adds the skill calls, as the log has them, to results that are done:
// those that were not counted before, with one question to the node.
func (d *Dispatcher) count(ctx context.Context, results []Result) {
	d.mu.Lock()
	want := map[mesh.ExecutionID]*Result{}
	for i, r := range results {
		if j := d.jobs[r.AgentID]; j.issued && !j.counted && r.Terminal() {
			want[r.ExecutionID] = &results[i]
		}
	}
	d.mu.Unlock()
	if len(want) == 0 {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	resp, err := meshv1.NewThreadServiceClient(d.inv.Mesh.Conn()).GetThread(d.inv.Mesh.Context(ctx), &meshv1.GetThreadRequest{ThreadId: d.inv.Thread.ID})
	if err != nil {
		d.opts.Logger.WarnContext(ctx, "skill calls not counted", "execution", d.inv.Execution, "err", err)
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, x := range resp.GetThread().GetExecutions() {
		if r := want[mesh.ExecutionID(x.GetExecution().GetId())]; r != nil {
			r.ToolCalls = int(x.GetSkillCalls())
			j := d.jobs[r.AgentID]
			j.ToolCalls, j.counted = r.ToolCalls, true
		}
	}
}

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
		return "already_completed"
	case j.cancel != nil:
		j.cancel()
	case d.ctx.Err() != nil: // it is left to the execution that goes on
		return "already_completed"
	case j.waiting():
		d.abandon(j)
		d.release(j)
		d.wake()
	default:
		j.Status = StatusCanceled
		d.release(j)
		d.wake()
	}
	return StatusCanceled
}

// waiting reports whether the log says that the job waits for the user.
func (j *job) waiting() bool {
	return j.Status == StatusWaiting || j.Status == StatusPending && j.again != nil
}

// abandon ends a job that waits for the user. d.mu is held.
func (d *Dispatcher) abandon(j *job) {
	j.Status, j.Result.Result = StatusCanceled, saidCanceled
	r, stop := j.Result, j.stop
	d.wg.Go(func() { // Close waits
		ctx, cancel := context.WithTimeout(context.WithoutCancel(d.ctx), settleTime)
		defer cancel()
		d.settle(ctx, j, mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_CANCELED}, r)
		if stop != nil {
			stop(ctx)
		}
	})
}

// suspend notes that the run ends because somebody waits for the user.
func (d *Dispatcher) suspend() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.paused = true
}

// pause waits until nothing is at work, and returns what the user must be asked
// because of the named orders, or of all when there are no names; "" for
// nothing. If it is something, it has the questions of all that wait, for what
// the user answers is for all of them.
func (d *Dispatcher) pause(ctx context.Context, ids []string) string {
	d.mu.Lock()
	if len(ids) == 0 {
		ids = slices.Clone(d.order)
	}
	stuck := slices.ContainsFunc(ids, func(id string) bool { return !d.jobs[id].Terminal() && d.rests(d.jobs[id]) })
	d.paused = d.paused || stuck
	d.mu.Unlock()
	if !stuck {
		return ""
	}
	all, err := d.await(ctx, nil)
	if err != nil {
		return ""
	}
	var asks []string
	for _, r := range all {
		if r.Status == StatusWaiting {
			asks = append(asks, r.Result)
		}
	}
	return agent.Questions(asks)
}
