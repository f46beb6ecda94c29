package markdown

import (
	"context"
	"io"

	"agentmesh/mesh"
)

// Keeps names what Vaults keep of tenants.
func (v *Vaults) Keeps() string { return "notes" }

// Export gives put all notes of the tenant. Their indexes are made of them.
func (v *Vaults) Export(ctx context.Context, t mesh.TenantID, put func(mesh.Kept, io.Reader) error) ([]mesh.Left, error) {
	return v.dir.Export(ctx, t, put)
}

// Import keeps a note that Export gave; the next search finds it.
func (v *Vaults) Import(_ context.Context, t mesh.TenantID, k mesh.Kept, r io.Reader) (bool, error) {
	return v.dir.Import(t, k, r)
}
