package markdown

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"agentmesh/mesh"
	"agentmesh/skills/internal/tenantdir"
)

// Chown gives the vault of one owner, of those below dir, to another, and returns how many
// files there were. Names that both have get mark. Nobody else may use the folder; what was
// cut short can be called again.
func Chown(dir string, from, to mesh.Owner, mark string) (int, error) {
	for _, suffix := range []string{"", "-wal", "-shm"} { // the notes are in it
		if err := os.Remove(filepath.Join(dir, ".index", tenantdir.Folder(from)+".db"+suffix)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return 0, mesh.Errorf(mesh.Unavailable, "markdown.Chown", "the index of the notes cannot be removed: %w", err)
		}
	}
	return tenantdir.New(dir).Chown(from, to, mark)
}

// Shared reports whether there are notes that the users of a tenant share.
func Shared(dir string) bool { return tenantdir.New(dir).Shared() }
