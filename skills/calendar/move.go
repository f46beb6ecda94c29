package calendar

import (
	"context"
	"io"
	"path/filepath"

	"agentmesh/mesh"
	"agentmesh/skills/internal/outfile"
)

// Keeps names what a Holder keeps of tenants.
func (Holder) Keeps() string { return "calendar" }

// shelves are the folder of events, and those of what is known of keys, by their kinds in
// exports.
func (dir Holder) shelves() map[string]outfile.Shelf {
	all := map[string]outfile.Shelf{"events": {Dir: filepath.Join(string(dir), Folder), As: outfile.Folder}}
	for _, of := range []string{created, changed} {
		all["keys of "+of] = outfile.Shelf{Dir: filepath.Join(string(dir), ledgers, of), As: outfile.Distinct}
	}
	return all
}

// Export gives put all events of the tenant, with what is known of their keys.
func (dir Holder) Export(ctx context.Context, t mesh.TenantID, put func(mesh.Kept, io.Reader) error) ([]mesh.Left, error) {
	return nil, outfile.ExportAll(ctx, dir.shelves(), t, put)
}

// Import keeps a file that Export gave.
func (dir Holder) Import(_ context.Context, t mesh.TenantID, k mesh.Kept, r io.Reader) (bool, error) {
	return outfile.ImportInto(dir.shelves(), t, k, r)
}
