package tasks

import (
	"context"
	"iter"

	"agentmesh/mesh"
)

// Forget drops the tasks of threads that were deleted, which [Index.List] would find out by
// itself. Those of a thread that was begun since under the same id stay.
func (x *Index) Forget(ctx context.Context, keys []mesh.ThreadKey) error {
	const op = "tasks.Forget"
	release, err := x.turn(ctx) // what is read meanwhile may be of before
	if err != nil {
		return mesh.Wrap(op, err)
	}
	defer release()
	for _, key := range keys {
		_, there, err := x.log.Info(ctx, key)
		if err != nil {
			return mesh.Wrap(op, err)
		}
		if !there {
			x.mu.Lock()
			x.drop(key)
			x.mu.Unlock()
		}
	}
	return nil
}

// Kept yields nothing: what the index has is made of the log when the process begins.
func (x *Index) Kept(context.Context) iter.Seq2[mesh.ThreadKey, error] {
	return func(func(mesh.ThreadKey, error) bool) {}
}
