package edge

import (
	"context"

	"agentmesh/mesh"
)

// MaxMessage is the longest message of a user, in bytes.
const MaxMessage = maxMessage

// What Run does by the clock, tests do when they want it.

func (e *Edge) SaveCheckpoint(ctx context.Context) error { return e.saveCheckpoint(ctx) }
func (e *Edge) Renew(ctx context.Context)                { e.renew(ctx) }

// Opening is what Send does before it appends, so that a test can be between.
func (e *Edge) Opening(key mesh.ThreadKey) (func(), error) { return e.opening(key) }

// Busy reports whether the thread has a driver.
func (e *Edge) Busy(key mesh.ThreadKey) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.drivers[key] != nil
}
