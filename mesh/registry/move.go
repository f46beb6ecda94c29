package registry

import (
	"context"
	"io"

	"agentmesh/mesh"
)

// Keeps names what a Registry keeps of tenants.
func (r *Registry) Keeps() string { return "agents" }

// Export leaves all agents behind: whoever runs one proves that with a secret of this mesh, and
// the credentials that it wants are sealed here.
func (r *Registry) Export(ctx context.Context, t mesh.TenantID, _ func(mesh.Kept, io.Reader) error) ([]mesh.Left, error) {
	r.writes.Lock()
	defer r.writes.Unlock()
	if err := r.refresh(ctx); err != nil {
		return nil, mesh.Wrap("registry.Export", err)
	}
	r.lock()
	defer r.mu.Unlock()
	n := 0
	for c := range r.all() {
		if c.Tenant == t && !c.Builtin {
			n++
		}
	}
	return []mesh.Left{{Held: mesh.Held{What: r.Keeps(), Count: n}, Why: "their secrets and credentials are this mesh's; register them where the tenant goes"}}, nil
}

// Import takes none.
func (r *Registry) Import(context.Context, mesh.TenantID, mesh.Kept, io.Reader) (bool, error) {
	return false, mesh.Errorf(mesh.Unsupported, "registry.Import", "agents are not imported; register them")
}
