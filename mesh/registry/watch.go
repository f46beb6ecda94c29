package registry

import (
	"context"
	"iter"

	"agentmesh/mesh"
)

// Watch yields all that the tenant sees, then Synced, and then each change
// until ctx is done, whose error it yields last. Nothing is buffered: a slow
// reader skips what was replaced meanwhile and costs nobody but itself.
func (r *Registry) Watch(ctx context.Context, tenant mesh.TenantID) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		wake := make(chan struct{}, 1)
		r.mu.Lock()
		r.watchers[wake] = struct{}{}
		r.mu.Unlock()
		defer func() {
			r.mu.Lock()
			delete(r.watchers, wake)
			r.mu.Unlock()
		}()

		told := map[string]versioned{}
		for synced := false; ; {
			for _, ch := range news(told, r.visible(tenant)) {
				if !yield(ch, nil) {
					return
				}
			}
			if !synced && !yield(Change{Kind: Synced}, nil) {
				return
			}
			synced = true
			select {
			case <-wake:
			case <-ctx.Done():
				yield(Change{}, mesh.Wrap("registry.Watch", ctx.Err()))
				return
			}
		}
	}
}

// news brings told up to date with now, which is sorted by name, and returns
// what is to be told: what is gone first.
func news(told map[string]versioned, now []versioned) []Change {
	var changes []Change
	there := make(map[string]bool, len(now))
	for _, v := range now {
		there[v.Name] = true
	}
	for name, v := range told {
		if !there[name] {
			delete(told, name)
			changes = append(changes, Change{Removed, v.Entry})
		}
	}
	for _, v := range now {
		if old, ok := told[v.Name]; !ok || old.rev != v.rev {
			told[v.Name] = v
			changes = append(changes, Change{Put, v.Entry})
		}
	}
	return changes
}
