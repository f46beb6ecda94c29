package turn

import (
	"context"
	"sync"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
)

// EndTasks asks the agents of executions that wait for the user to end their tasks,
// as a courtesy: nobody reads their streams. Close waits for it.
func (r *Runner) EndTasks(ctx context.Context, key mesh.ThreadKey, waiting []thread.Execution) {
	for _, x := range waiting {
		r.wg.Go(func() { r.endTask(context.WithoutCancel(ctx), key, &x) })
	}
}

// stop has the agents of executions that are at work end their tasks, whose streams
// others read and log. An execution of which its agent does not say within the grace that
// it is over is over nevertheless: who reads its stream may be gone too. Its agent is then
// asked once more, since it may not have had the task yet. Close waits for it.
func (r *Runner) stop(ctx context.Context, key mesh.ThreadKey, executions []thread.Execution) {
	ctx = context.WithoutCancel(ctx)
	var asked sync.WaitGroup
	for _, x := range executions {
		asked.Add(1)
		r.wg.Go(func() { defer asked.Done(); r.endTask(ctx, key, &x) })
	}
	r.wg.Go(func() {
		asked.Wait()
		select {
		case <-time.After(r.CancelGrace):
		case <-r.turns.Done(): // who drives the thread next does it
			return
		}
		settled, err := r.settleStopped(ctx, key, executions)
		if err != nil {
			r.Logger.WarnContext(ctx, "executions that were stopped are not settled", "thread", key.ID, "err", err)
		}
		r.EndTasks(ctx, key, settled)
	})
}

// settleStopped ends those of the executions that are not over, and returns them.
func (r *Runner) settleStopped(ctx context.Context, key mesh.ThreadKey, executions []thread.Execution) (settled []thread.Execution, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.CancelGrace)
	defer cancel()
	err = r.States.Decide(ctx, key, func(s *thread.State) (cache.Decision, error) {
		var d cache.Decision
		settled = nil
		for _, o := range executions {
			if x := s.Execution(o.ID); x != nil && !mesh.Terminal(x.State) {
				d.Events = append(d.Events, r.event(x.Parent, "node", mesh.DispatchSettled{
					Child: x.ID, State: a2apb.TaskState_TASK_STATE_CANCELED, Reason: mesh.ReasonCanceled}))
				settled = append(settled, *x)
			}
		}
		return d, nil
	})
	if mesh.IsCode(err, mesh.NotFound) { // it was deleted
		err = nil
	}
	return settled, err
}
