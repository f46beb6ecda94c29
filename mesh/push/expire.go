package push

import (
	"context"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/alarm"
	"agentmesh/mesh/state"
)

const (
	// late is how long is kept of a config that is over what the cursor says of that.
	late = time.Hour
	// clearEvery is how often is looked for what is older.
	clearEvery = 10 * time.Minute
)

// clear removes what is kept no longer of configs that are over, until ctx is done.
func (d *Dispatcher) clear(ctx context.Context) {
	tick := time.NewTicker(clearEvery)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
		if err := d.expire(ctx); ctx.Err() == nil {
			d.Alarms.Report(ctx, alarm.Source{Setting: "push", Of: "that are over"}, "they stay until they can be removed", err)
		}
	}
}

// expire removes configs that are over, as far as somebody was killed who was about to, and
// those that have no cursor, which a program left that kept what was delivered; and after a
// while their cursors.
func (d *Dispatcher) expire(ctx context.Context) error {
	err := d.each(ctx, kindCursor, "", func(it state.Item) error {
		cur, err := decodeCursor(it.Value)
		if err != nil || cur.Over.IsZero() {
			return err
		}
		key, _, _ := parseName(it.Name)
		defer d.lock(key)()
		old := time.Since(cur.Over) > late
		if old || !cur.Late {
			err = d.drop(ctx, kindConfig, it.Name)
		}
		if err == nil && old {
			err = settled(d.KV.Delete(ctx, state.Key{Kind: kindCursor, Name: it.Name}, it.Version))
		}
		return err
	})
	if err != nil {
		return err
	}
	return d.each(ctx, kindConfig, "", func(it state.Item) error {
		key, _, _ := parseName(it.Name)
		defer d.lock(key)()
		if _, err := d.cursorOf(ctx, it.Name); !mesh.IsCode(err, mesh.NotFound) {
			return err
		}
		return settled(d.KV.Delete(ctx, state.Key{Kind: kindConfig, Name: it.Name}, it.Version))
	})
}

// settled is the error of a deletion of what others may have deleted, or set again.
func settled(err error) error {
	if mesh.IsCode(err, mesh.NotFound) || mesh.IsCode(err, mesh.Conflict) {
		return nil
	}
	return err
}
