package markdown

import (
	"context"

	"agentmesh/mesh"
	"agentmesh/skills/internal/tenantdir"
)

// Erase removes the vault of the owner, who has a user, with its index, or counts it alone,
// and returns how many files there were.
func (v *Vaults) Erase(ctx context.Context, o mesh.Owner, countOnly bool) ([]mesh.Held, error) {
	if !countOnly { // the notes are in it
		if err := v.pool.Drop(ctx, tenantdir.Folder(o)); err != nil {
			return nil, err
		}
	}
	n, err := v.dir.Erase(ctx, o, countOnly)
	return []mesh.Held{{What: "notes", Count: n}}, err
}
