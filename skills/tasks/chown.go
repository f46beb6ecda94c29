package tasks

import (
	"encoding/json"
	"slices"
	"strings"

	"agentmesh/mesh"
)

// Merge returns what an owner has under a name of the kind tasks who had had, or nil, and
// is given what another one has under it.
func Merge(name string, had, more []byte) ([]byte, error) {
	if had == nil {
		return more, nil
	}
	if !strings.HasPrefix(name, slotPrefix) {
		return had, nil // the same task: it came before
	}
	var notes, others []note
	if json.Unmarshal(had, &notes) != nil { // nobody can read it
		return more, nil //nolint:nilerr // the other may be read
	}
	if json.Unmarshal(more, &others) != nil {
		return had, nil //nolint:nilerr // as above
	}
	for _, n := range others {
		if !slices.Contains(notes, n) {
			notes = append(notes, n)
		}
	}
	data, err := json.Marshal(notes[max(0, len(notes)-maxNotes):])
	return data, mesh.Wrap("tasks.Merge", err)
}
