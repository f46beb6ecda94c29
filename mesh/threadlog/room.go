package threadlog

import (
	"context"
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

// Hold calls add, which appends to the log, and calls it again as often as there was no room
// for that: what was accepted waits for room, however long, and what is new is refused. add
// must be one that can be called again where it has failed.
func (l *Log) Hold(ctx context.Context, add func() error) error {
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
