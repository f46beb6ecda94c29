package calendar

import (
	"context"
	"path/filepath"

	"agentmesh/mesh"
	"agentmesh/skills/internal/outfile"
)

// A Holder has the calendars of all users, below the data folder.
type Holder string

// Erase removes the events of the owner, who has a user, with what is known of their keys, or
// counts them alone, and returns how many there were.
func (dir Holder) Erase(_ context.Context, o mesh.Owner, countOnly bool) ([]mesh.Held, error) {
	n, err := outfile.EraseAll(filepath.Join(string(dir), Folder, outfile.Folder(o)), countOnly)
	held := []mesh.Held{{What: "calendar", Count: n}}
	if countOnly || err != nil {
		return held, err
	}
	return held, outfile.EraseLedgers(filepath.Join(string(dir), ledgers), outfile.Distinct(o))
}
