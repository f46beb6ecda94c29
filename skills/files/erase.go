package files

import (
	"context"

	"agentmesh/mesh"
	"agentmesh/skills/internal/tenantdir"
)

// A Holder has the drives of all users, below a folder.
type Holder string

// Erase removes the drive of the owner, who has a user, or counts it alone, and returns how
// many files there were.
func (dir Holder) Erase(ctx context.Context, o mesh.Owner, countOnly bool) ([]mesh.Held, error) {
	n, err := tenantdir.New(string(dir)).Erase(ctx, o, countOnly)
	return []mesh.Held{{What: "files", Count: n}}, err
}
