package push

import (
	"context"
	"iter"
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/state"
	"agentmesh/mesh/thread"
)

// Forget removes the configs of threads that were deleted, but for those of tasks that are
// there: of a thread that was begun since under the same id.
func (d *Dispatcher) Forget(ctx context.Context, keys []mesh.ThreadKey) error {
	for _, key := range keys {
		if err := d.forgetThread(ctx, key); err != nil {
			return mesh.Wrap("push.Forget", err)
		}
	}
	return nil
}

func (d *Dispatcher) forgetThread(ctx context.Context, key mesh.ThreadKey) error {
	defer d.lock(key)()
	prefix := string(key.Tenant) + "/" + strings.ReplaceAll(key.ID, "-", "") + "-"
	dead := map[string]bool{}
	for _, kind := range []string{kindConfig, kindCursor} {
		err := d.each(ctx, kind, prefix, func(it state.Item) error {
			dead[it.Name] = true
			return nil
		})
		if err != nil {
			return err
		}
	}
	if len(dead) == 0 {
		return nil
	}
	err := d.States.With(ctx, key, func(st *thread.State) error {
		for name := range dead {
			if _, task, _ := parseName(name); st.Turn(task) != nil {
				delete(dead, name)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	for name := range dead {
		if err := d.remove(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// Kept yields the threads that have configs, some more than once.
func (d *Dispatcher) Kept(ctx context.Context) iter.Seq2[mesh.ThreadKey, error] {
	return func(yield func(mesh.ThreadKey, error) bool) {
		for _, kind := range []string{kindConfig, kindCursor} {
			enough := false
			err := d.each(ctx, kind, "", func(it state.Item) error {
				if key, _, ok := parseName(it.Name); ok && !enough {
					enough = !yield(key, nil)
				}
				return nil
			})
			if enough {
				return
			}
			if err != nil {
				yield(mesh.ThreadKey{}, mesh.Wrap("push.Kept", err))
				return
			}
		}
	}
}
