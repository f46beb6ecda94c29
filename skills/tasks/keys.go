package tasks

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
)

const (
	// slotPrefix begins the State's keys of the values that say for which
	// tasks calls were. They are of the same kind as the tasks, because a grant
	// reaches no other, and few enough to leave the room to the tasks.
	slotPrefix = "keys-"
	// oldPrefix begins those of earlier versions, one for each call. They are
	// not read any more.
	oldPrefix = "k-"
	// maxNotes bounds the notes of each of the 256 slots, the latest.
	maxNotes = 64
	// maxFreed bounds how many values are removed at once to make room.
	maxFreed = 500
)

// A note says for which task a call is. It is stored before the call changes
// the task.
type note struct {
	Key string `json:"key"` // hashed
	ID  string `json:"id"`
	Rev int    `json:"rev"` // of the task at that time
}

// claim notes that the call is for this task. It refuses a call whose key was
// for another task, and one that was begun before, if the task cannot tell any
// more whether it was carried out. The error is Exhausted if the State has no
// room for the note.
func claim(ctx context.Context, call *skill.Call, env *skill.Env, t *Task) error {
	const op = "tasks.claim"
	if call.Key == "" { // it is not to be told from other calls
		return nil
	}
	sum := sha256.Sum256([]byte(call.Key))
	mine := note{Key: hex.EncodeToString(sum[:16]), ID: t.ID, Rev: t.Rev}
	slot := slotPrefix + mine.Key[:2]
	for range maxAttempts {
		notes, version, err := noted(ctx, env, slot)
		if err != nil {
			return err
		}
		if i := slices.IndexFunc(notes, func(n note) bool { return n.Key == mine.Key }); i >= 0 {
			return notes[i].allows(t)
		}
		notes = append(notes, mine)
		data, err := json.Marshal(notes[max(0, len(notes)-maxNotes):])
		if err != nil {
			return mesh.Wrap(op, err)
		}
		if _, err = env.State.Put(ctx, Kind, slot, data, version); mesh.IsCode(err, mesh.Exhausted) && makeRoom(ctx, env) {
			_, err = env.State.Put(ctx, Kind, slot, data, version)
		}
		if !mesh.IsCode(err, mesh.Conflict) {
			return mesh.Wrap(op, err)
		}
	}
	return contended(call)
}

// noted returns the notes of the slot and its version, 0 if there is none yet.
// A slot that cannot be read is logged and begun anew, lest no call whose key
// falls into it could change anything any more.
func noted(ctx context.Context, env *skill.Env, slot string) (notes []note, version int64, err error) {
	data, version, err := env.State.Get(ctx, Kind, slot)
	if mesh.IsCode(err, mesh.NotFound) {
		return nil, 0, nil
	}
	if err != nil {
		return nil, 0, mesh.Wrap("tasks.noted", err)
	}
	if err := json.Unmarshal(data, &notes); err != nil {
		env.Logger.WarnContext(ctx, "stored keys of task calls cannot be read and are forgotten", "key", slot, "err", err)
		return nil, version, nil
	}
	return notes, version, nil
}

// allows reports whether a call that was noted may change the task now.
func (n note) allows(t *Task) error {
	const op = "tasks.claim"
	switch {
	case n.ID != t.ID:
		return mesh.Errorf(mesh.Precondition, op, "Under this key, the task %s was named before; nothing was changed now. Make another call", n.ID)
	case t.Rev-n.Rev >= maxKeys:
		return mesh.Errorf(mesh.Precondition, op, "This call was begun before, and the task %s was changed too often since to tell whether it was carried out; look at it with tasks.get, then decide again", t.ID)
	}
	return nil
}

// makeRoom removes values that are of no use any more, or of the least: those
// of earlier versions, else what was left first of deleted tasks. It reports
// whether it removed any.
func makeRoom(ctx context.Context, env *skill.Env) bool {
	old, err := env.State.List(ctx, Kind, oldPrefix, "", maxFreed)
	if err == nil && len(old) == 0 {
		old, err = leftBehind(ctx, env)
	}
	if err != nil {
		env.Logger.WarnContext(ctx, "no room can be made for tasks", "err", err)
		return false
	}
	freed := false
	for _, it := range old {
		err := env.State.Delete(ctx, Kind, it.Key, it.Version)
		freed = freed || err == nil
		if err != nil && !mesh.IsCode(err, mesh.Conflict) && !mesh.IsCode(err, mesh.NotFound) { // others make room as well
			env.Logger.WarnContext(ctx, "no room can be made for tasks", "key", it.Key, "err", err)
			break
		}
	}
	return freed
}

// leftBehind returns what is left of the tasks that were deleted first, at most
// maxFreed of them.
func leftBehind(ctx context.Context, env *skill.Env) ([]skill.Item, error) {
	type left struct {
		skill.Item
		task Task
	}
	var all []left
	for after := ""; ; {
		items, err := env.State.List(ctx, Kind, idPrefix, after, pageSize)
		if err != nil {
			return nil, err
		}
		if len(items) == 0 {
			break
		}
		for _, it := range items {
			after = it.Key
			one := left{Item: it}
			if err := json.Unmarshal(it.Data, &one.task); err == nil && one.task.Deleted != "" {
				all = append(all, one)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b left) int { return a.task.Updated.Compare(b.task.Updated) })
	var out []skill.Item
	for _, one := range all[:min(len(all), maxFreed)] {
		out = append(out, one.Item)
	}
	return out, nil
}
