package memory

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
)

// Merge returns what a user has under a name of the kind memory who had had, or nil, and
// is given what another one has under it.
func Merge(to, name string, had, more []byte) ([]byte, error) {
	const op = "memory.Merge"
	if name == settingsKey {
		if had != nil {
			return had, nil
		}
		return more, nil
	}
	if name != journalKey {
		if had != nil {
			return had, nil // the same memory: it came before
		}
		m := new(Memory)
		if json.Unmarshal(more, m) != nil { // nobody can read it
			return more, nil //nolint:nilerr // it is moved as it is
		}
		m.UserID = to
		data, err := json.Marshal(m)
		return data, mesh.Wrap(op, err)
	}
	// It says nothing of what came before: the indexes of both are removed, and new ones
	// read all memories. The number is not a new one, since who is cut short comes twice.
	var one, other journal
	if had != nil {
		if err := json.Unmarshal(had, &one); err != nil {
			return nil, mesh.Errorf(mesh.Unknown, op, "The journal of the memories cannot be read: %w", err)
		}
	}
	if err := json.Unmarshal(more, &other); err != nil {
		return nil, mesh.Errorf(mesh.Unknown, op, "The journal of the memories cannot be read: %w", err)
	}
	data, err := json.Marshal(journal{Seq: max(one.Seq, other.Seq)})
	return data, mesh.Wrap(op, err)
}

// Forget removes the user's index from the folder of a Store that nobody has open.
func Forget(dir string, o mesh.Owner) error {
	s := Open(dir)
	path := s.pool.File(indexOf(&skill.Env{Tenant: o.Tenant, User: o.User}))
	errs := []error{s.Close()}
	for _, suffix := range []string{"", "-wal", "-shm"} {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, mesh.Errorf(mesh.Unavailable, "memory.Forget", "the index of the memories cannot be removed: %w", err))
		}
	}
	return errors.Join(errs...)
}
