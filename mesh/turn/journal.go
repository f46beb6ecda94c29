package turn

import (
	"context"

	"agentmesh/mesh"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
	"agentmesh/mesh/threadlog"
)

// A journal is a thread's log under a driver's claim, for what an agent says of an execution.
// It belongs to one goroutine.
type journal struct {
	log       *threadlog.Log
	states    *cache.States
	key       mesh.ThreadKey
	epoch     mesh.Epoch
	execution mesh.ExecutionID
	most      limit.Output // what the log takes of the execution
	has       mesh.Volume  // of what it had when that was counted, and what was added here since
	added     mesh.Volume  // here, since then
}

// Append implements [call.Journal]. Of what is beyond the bound nothing is added, and the error
// is its trip. Bytes are known once they are there: the events that come together may exceed
// the bound by as much.
func (j *journal) Append(ctx context.Context, events []*mesh.Event) error {
	if err := j.count(ctx); err != nil {
		return err
	}
	fit := events
	for j.most.Check(j.has, mesh.Volume{Events: int64(len(fit))}) != nil && len(fit) > 0 {
		fit = fit[:len(fit)-1]
	}
	if len(fit) > 0 {
		err := j.log.Hold(ctx, j.key, func() error {
			_, err := j.log.Append(ctx, j.key, fit, threadlog.AppendOptions{Epoch: j.epoch})
			return err
		})
		if err != nil {
			return err
		}
		for _, e := range fit {
			j.has, j.added = j.has.Plus(e.Volume()), j.added.Plus(e.Volume())
		}
	}
	if len(fit) < len(events) {
		return j.most.Check(j.has, mesh.Volume{Events: int64(len(events) - len(fit))}).Err("turn.relay")
	}
	return nil
}

// perCount is into how many parts the bound is divided, after each of which is counted anew:
// who streams waits for nobody's look at the thread's state each time.
const perCount = 10

// count counts what the log has of the execution, if enough was added here since that was
// done: the agent appends too, which is not added here.
func (j *journal) count(ctx context.Context) error {
	part := limit.Output{Events: j.most.Events / perCount, Bytes: j.most.Bytes / perCount}
	if part.Check(mesh.Volume{}, j.added) == nil {
		return nil
	}
	return j.states.With(ctx, j.key, func(s *thread.State) error {
		if x := s.Execution(j.execution); x != nil { // else the thread was deleted
			j.has, j.added = x.Logged, mesh.Volume{}
		}
		return nil
	})
}
