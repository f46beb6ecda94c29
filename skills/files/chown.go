package files

import (
	"agentmesh/mesh"
	"agentmesh/skills/internal/tenantdir"
)

// Chown gives the drive of one owner, of those below dir, to another, and returns how many
// files there were. Names that both have get mark. Nobody else may use the folder; what was
// cut short can be called again.
func Chown(dir string, from, to mesh.Owner, mark string) (int, error) {
	return tenantdir.New(dir).Chown(from, to, mark)
}

// Shared reports whether there are files that the users of a tenant share.
func Shared(dir string) bool { return tenantdir.New(dir).Shared() }
