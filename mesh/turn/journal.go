package turn

import (
	"context"

	"agentmesh/mesh"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/threadlog"
)

// A journal is a thread's log under a driver's claim, for what an agent says of an execution.
// It belongs to one goroutine.
type journal struct {
	log   *threadlog.Log
	key   mesh.ThreadKey
	epoch mesh.Epoch
	most  limit.Output // what the log takes of the execution
	has   mesh.Volume  // of what it has, what was there before and what was added here
}

// Append implements [call.Journal]. Of what is beyond the bound nothing is added, and the error
// is its trip. Bytes are known once they are there: the events that come together may exceed
// the bound by as much.
func (j *journal) Append(ctx context.Context, events []*mesh.Event) error {
	fit := events
	for j.most.Check(j.has, mesh.Volume{Events: int64(len(fit))}) != nil && len(fit) > 0 {
		fit = fit[:len(fit)-1]
	}
	if len(fit) > 0 {
		if _, err := j.log.Append(ctx, j.key, fit, threadlog.AppendOptions{Epoch: j.epoch}); err != nil {
			return err
		}
		for _, e := range fit {
			j.has = j.has.Plus(e.Volume())
		}
	}
	if len(fit) < len(events) {
		return j.most.Check(j.has, mesh.Volume{Events: int64(len(events) - len(fit))}).Err("turn.relay")
	}
	return nil
}
