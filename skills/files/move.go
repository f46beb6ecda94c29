package files

import (
	"context"
	"io"

	"agentmesh/mesh"
	"agentmesh/skills/internal/tenantdir"
)

// Keeps names what a Holder keeps of tenants.
func (Holder) Keeps() string { return "files" }

// Export gives put all files of the tenant.
func (dir Holder) Export(ctx context.Context, t mesh.TenantID, put func(mesh.Kept, io.Reader) error) ([]mesh.Left, error) {
	return tenantdir.New(string(dir)).Export(ctx, t, put)
}

// Import keeps a file that Export gave.
func (dir Holder) Import(_ context.Context, t mesh.TenantID, k mesh.Kept, r io.Reader) (bool, error) {
	return tenantdir.New(string(dir)).Import(t, k, r)
}
