package push

import (
	"context"
	"io"

	"agentmesh/mesh"
	"agentmesh/mesh/state"
)

// Keeps names what a Dispatcher keeps of tenants.
func (d *Dispatcher) Keeps() string { return "webhooks" }

// Export leaves all configs behind: a config is of a task, tasks are over where they are
// imported, and its secret is sealed under a key of this mesh.
func (d *Dispatcher) Export(ctx context.Context, t mesh.TenantID, _ func(mesh.Kept, io.Reader) error) ([]mesh.Left, error) {
	n := 0
	err := d.each(ctx, kindConfig, string(t)+"/", func(state.Item) error {
		n++
		return nil
	})
	return []mesh.Left{{Held: mesh.Held{What: d.Keeps(), Count: n}, Why: "their tasks are over where they are imported, and their secrets are sealed for this mesh alone"}}, mesh.Wrap("push.Export", err)
}

// Import takes none.
func (d *Dispatcher) Import(context.Context, mesh.TenantID, mesh.Kept, io.Reader) (bool, error) {
	return false, mesh.Errorf(mesh.Unsupported, "push.Import", "webhooks are not imported; set them again with the next message")
}
