package turn

import (
	"context"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
)

// decide appends what f decides under the driver's claim, which is made with its
// first decision, and waits while there is no room in the log. Once a later claim stands it
// returns Conflict.
func (d *driver) decide(ctx context.Context, f func(*thread.State, *cache.Decision) error) error {
	return d.Log.Hold(ctx, d.key, func() error { return d.decideNow(ctx, f) })
}

func (d *driver) decideNow(ctx context.Context, f func(*thread.State, *cache.Decision) error) error {
	var claimed mesh.Epoch
	err := d.States.Decide(ctx, d.key, func(s *thread.State) (cache.Decision, error) {
		claimed = 0
		if s.Seq == 0 || s.Epoch < d.epoch { // it is gone, or another one has its id
			return cache.Decision{}, mesh.ThreadNotFound("turn.decide")
		}
		dec := cache.Decision{Epoch: d.epoch}
		if d.epoch == 0 {
			dec.Epoch = s.Epoch + 1
			dec.Events = append(dec.Events, d.event("", "node", mesh.ThreadClaimed{Epoch: dec.Epoch, Node: d.Node}))
		}
		before := len(dec.Events)
		if err := f(s, &dec); err != nil {
			return cache.Decision{}, err
		}
		if len(dec.Events) == before { // a claim alone says nothing
			return cache.Decision{}, nil
		}
		claimed = dec.Epoch
		return dec, nil
	})
	if err == nil && claimed != 0 && d.epoch == 0 { // it is read by drains once it stands
		d.epoch = claimed
	}
	return err
}

// event is one about the execution, now.
func (c *Config) event(id mesh.ExecutionID, actor string, b mesh.Body) *mesh.Event {
	return &mesh.Event{Time: c.Now().UTC().Truncate(time.Millisecond), Execution: id, Actor: actor, Body: b}
}
