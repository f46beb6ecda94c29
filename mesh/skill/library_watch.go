package skill

import (
	"context"
	"iter"

	"agentmesh/mesh"
)

// ChangeKind says what a [Change] is.
type ChangeKind uint8

// The kinds of changes.
const (
	ChangePut     ChangeKind = iota + 1 // the skill was added or changed
	ChangeRemoved                       // the skill is gone
	ChangeSynced                        // all that there was when the watch began has been told
)

// A Change is one step of a watch. Skill is nil for ChangeSynced.
type Change struct {
	Kind  ChangeKind
	Skill *Skill
}

// Watch yields all skills of the tenant, its own and the shared ones, then
// ChangeSynced, then each change until ctx is done, whose error it yields last.
// Nothing is buffered: a slow reader skips what was replaced meanwhile.
func (l *Library) Watch(ctx context.Context, t mesh.TenantID) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		wake := make(chan struct{}, 1)
		defer l.shared.listen(wake)()
		if own := l.realm(t); own != nil {
			defer own.listen(wake)()
		}
		catalog := l.For(t)
		var told *snapshot
		for synced := false; ; {
			now := catalog.snapshot()
			if !tell(yield, told, now) || !synced && !yield(Change{Kind: ChangeSynced}, nil) {
				return
			}
			told, synced = now, true
			select {
			case <-wake:
			case <-ctx.Done():
				yield(Change{}, mesh.Wrap("skill.Library.Watch", ctx.Err()))
				return
			}
		}
	}
}

// tell yields what is different, and reports whether to go on.
func tell(yield func(Change, error) bool, then, now *snapshot) bool {
	gone, put := now.since(then)
	for _, s := range gone {
		if !yield(Change{ChangeRemoved, s}, nil) {
			return false
		}
	}
	for _, s := range put {
		if !yield(Change{ChangePut, s}, nil) {
			return false
		}
	}
	return true
}
