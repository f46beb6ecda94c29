package tenantdir

import (
	"context"
	"path/filepath"

	"agentmesh/mesh"
	"agentmesh/skills/internal/outfile"
)

// Erase removes the files of the owner, who has a user, with what is known of the keys of
// changes, or counts them alone, and returns how many there were.
func (d *Dir) Erase(ctx context.Context, o mesh.Owner, countOnly bool) (int, error) {
	files, notes := filepath.Join(d.base, Folder(o)), filepath.Join(d.base, ".keys", Folder(o))
	if countOnly {
		return outfile.EraseAll(files, true)
	}
	unlock, err := outfile.Lock(ctx, notes, "change")
	if err != nil {
		return 0, err
	}
	defer unlock()
	n, err := outfile.EraseAll(files, false)
	if err != nil {
		return n, err
	}
	_, err = outfile.EraseAll(notes, false)
	return n, err
}
