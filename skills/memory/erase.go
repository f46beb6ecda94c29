package memory

import (
	"context"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
)

// Erase removes the index of the owner's memories, which are values of the mesh's State.
// There is nothing in it that is not there, so it counts nothing.
func (s *Store) Erase(ctx context.Context, o mesh.Owner, countOnly bool) ([]mesh.Held, error) {
	if countOnly {
		return nil, nil
	}
	return nil, s.pool.Drop(ctx, indexOf(&skill.Env{Tenant: o.Tenant, User: o.User}))
}
