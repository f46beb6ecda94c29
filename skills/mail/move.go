package mail

import (
	"context"
	"io"
	"path/filepath"

	"agentmesh/mesh"
	"agentmesh/skills/internal/outfile"
)

// Keeps names what a Holder keeps of tenants.
func (Holder) Keeps() string { return "mail" }

// shelves are the folders of messages, and of what is known of keys, by their kinds in exports.
func (dir Holder) shelves() map[string]outfile.Shelf {
	all := map[string]outfile.Shelf{}
	for _, folder := range folders() {
		all[folder] = outfile.Shelf{Dir: filepath.Join(string(dir), folder), As: outfile.Folder}
		all["keys of "+folder] = outfile.Shelf{Dir: filepath.Join(string(dir), ledgers, folder), As: outfile.Distinct}
	}
	all["keys of "+moved] = outfile.Shelf{Dir: filepath.Join(string(dir), ledgers, moved), As: outfile.Distinct}
	return all
}

// Export gives put all messages of the tenant, with what is known of their keys.
func (dir Holder) Export(ctx context.Context, t mesh.TenantID, put func(mesh.Kept, io.Reader) error) ([]mesh.Left, error) {
	return nil, outfile.ExportAll(ctx, dir.shelves(), t, put)
}

// Import keeps a file that Export gave. Nothing is sent.
func (dir Holder) Import(_ context.Context, t mesh.TenantID, k mesh.Kept, r io.Reader) (bool, error) {
	return outfile.ImportInto(dir.shelves(), t, k, r)
}
