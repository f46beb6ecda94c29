package threadlog

import (
	"context"
	"sync"
	"time"

	"agentmesh/mesh"
)

// WithRoom has those who [Log.Hold] wait while the store takes nothing. full returns at once
// where it takes something, or will not until it is opened again, and else when that may have
// changed or ctx is done; it reports whether it waited. By default nobody waits.
func WithRoom(full func(ctx context.Context) bool) Option { return func(l *Log) { l.full = full } }

// A store that took nothing, and seems to take something by now, is tried so often in a row:
// others may have written what needs less room.
const (
	holdTries = 10
	holdWait  = 100 * time.Millisecond
)

// Hold calls add, which appends to the thread, and calls it again as often as there was no room
// for that: what was accepted waits for room, however long, and what is new is refused. add
// must be one that can be called again where it has failed.
func (l *Log) Hold(ctx context.Context, key mesh.ThreadKey, add func() error) error {
	return l.hold(ctx, func() error {
		if l.owed.has(key) {
			return mesh.Errorf(mesh.Unavailable, "threadlog.Hold", "what was accepted before waits for room on the disk")
		}
		return add()
	})
}

// HoldFirst is Hold for what has its place in the thread already: until add has returned without
// an error, or ctx is done, all that is held of the thread waits for it.
func (l *Log) HoldFirst(ctx context.Context, key mesh.ThreadKey, add func() error) error {
	l.owed.note(key, 1)
	defer l.owed.note(key, -1)
	return l.hold(ctx, add)
}

func (l *Log) hold(ctx context.Context, add func() error) error {
	for tries := 0; ; {
		err := add()
		if l.full == nil || !mesh.IsCode(err, mesh.Unavailable) {
			return err
		}
		if tries++; l.full(ctx) {
			tries = 0
		} else if tries == holdTries {
			return err
		}
		select {
		case <-time.After(holdWait):
		case <-ctx.Done():
			return err
		}
	}
}

// A debt says of which threads something waits that comes before all else of them.
type debt struct {
	mu sync.Mutex
	of map[mesh.ThreadKey]int
}

func (d *debt) note(key mesh.ThreadKey, n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.of == nil {
		d.of = map[mesh.ThreadKey]int{}
	}
	if d.of[key] += n; d.of[key] == 0 {
		delete(d.of, key)
	}
}

func (d *debt) has(key mesh.ThreadKey) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.of[key] > 0
}
