package memory

import (
	"context"
	"io"

	"agentmesh/mesh"
)

// Keeps names what a Store keeps of tenants.
func (s *Store) Keeps() string { return "memory indexes" }

// Export gives nothing: memories are values of the mesh's State, of which the indexes are made.
func (s *Store) Export(context.Context, mesh.TenantID, func(mesh.Kept, io.Reader) error) ([]mesh.Left, error) {
	return nil, nil
}

// Import takes nothing.
func (s *Store) Import(context.Context, mesh.TenantID, mesh.Kept, io.Reader) (bool, error) {
	return false, mesh.Errorf(mesh.Unsupported, "memory.Import", "indexes are made of the memories, and are not imported")
}
