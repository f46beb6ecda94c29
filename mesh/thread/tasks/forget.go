package tasks

import (
	"context"
	"iter"

	"agentmesh/mesh"
)

// Forget drops the tasks of threads that were deleted, which [Index.List] would find out by
// itself, also from where rows are kept. Those of a thread that was begun since under the same
// id stay.
func (x *Index) Forget(ctx context.Context, keys []mesh.ThreadKey) error {
	const op = "tasks.Forget"
	release, err := x.turn(ctx) // what is read meanwhile may be of before
	if err != nil {
		return mesh.Wrap(op, err)
	}
	err = x.dropDead(ctx, keys)
	release()
	if err != nil {
		return mesh.Wrap(op, err)
	}
	return mesh.Wrap(op, x.Keep(ctx))
}

// Kept yields nothing: rows that are kept have no thread that was deleted before their
// position, and those that were deleted since are dropped when they are begun with.
func (x *Index) Kept(context.Context) iter.Seq2[mesh.ThreadKey, error] {
	return func(func(mesh.ThreadKey, error) bool) {}
}
