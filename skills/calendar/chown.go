package calendar

import (
	"path/filepath"

	"agentmesh/mesh"
	"agentmesh/skills/internal/outfile"
)

// Chown gives the events of one owner, below the data folder, to another, and returns how
// many there were. Names that both have get mark. Nobody else may use the folder; what was
// cut short can be called again.
func Chown(dir string, from, to mesh.Owner, mark string) (int, error) {
	if err := outfile.ChownLedgers(filepath.Join(dir, ledgers), from, to, mark); err != nil {
		return 0, err
	}
	return outfile.MoveAll(filepath.Join(dir, Folder, outfile.Folder(from)), filepath.Join(dir, Folder, outfile.Folder(to)), mark, false)
}

// Shared reports whether there are events that the users of a tenant share.
func Shared(dir string) bool { return outfile.Shared(filepath.Join(dir, Folder), false) }
