package mail

import (
	"context"
	"path/filepath"

	"agentmesh/mesh"
	"agentmesh/skills/internal/outfile"
)

// A Holder has the mail of all users, below the data folder.
type Holder string

// Erase removes the mail of the owner, who has a user, with what is known of its keys, or
// counts it alone, and returns how many messages there were.
func (dir Holder) Erase(_ context.Context, o mesh.Owner, countOnly bool) ([]mesh.Held, error) {
	n := 0
	for _, folder := range folders() {
		more, err := outfile.EraseAll(filepath.Join(string(dir), folder, outfile.Folder(o)), countOnly)
		if n += more; err != nil {
			return nil, err
		}
	}
	if countOnly {
		return []mesh.Held{{What: "mail", Count: n}}, nil
	}
	return []mesh.Held{{What: "mail", Count: n}}, outfile.EraseLedgers(filepath.Join(string(dir), ledgers), outfile.Distinct(o))
}
