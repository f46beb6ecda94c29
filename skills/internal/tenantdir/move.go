package tenantdir

import (
	"context"
	"io"
	"path/filepath"

	"agentmesh/mesh"
	"agentmesh/skills/internal/outfile"
)

// shelves are the folder of files, and that of what is known of the keys of changes, by their
// kinds in exports.
func (d *Dir) shelves() map[string]outfile.Shelf {
	return map[string]outfile.Shelf{"files": {Dir: d.base, As: Folder}, "keys": {Dir: filepath.Join(d.base, ".keys"), As: Folder}}
}

// Export gives put the files of all owners of the tenant, with what is known of the keys of
// changes.
func (d *Dir) Export(ctx context.Context, t mesh.TenantID, put func(mesh.Kept, io.Reader) error) ([]mesh.Left, error) {
	return nil, outfile.ExportAll(ctx, d.shelves(), t, put)
}

// Import keeps a file that Export gave, unless there is one of its path, and reports whether it
// is new.
func (d *Dir) Import(t mesh.TenantID, k mesh.Kept, r io.Reader) (bool, error) {
	return outfile.ImportInto(d.shelves(), t, k, r)
}
