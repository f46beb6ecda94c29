package mail

import (
	"path/filepath"
	"slices"

	"agentmesh/mesh"
	"agentmesh/skills/internal/outfile"
)

// Chown gives the mail of one owner, below the data folder, to another, and returns how
// many messages there were. Names that both have get mark. Nobody else may use the folder;
// what was cut short can be called again.
func Chown(dir string, from, to mesh.Owner, mark string) (n int, err error) {
	if err := outfile.ChownLedgers(filepath.Join(dir, ledgers), from, to, mark); err != nil {
		return 0, err
	}
	for _, folder := range folders() {
		more, err := outfile.MoveAll(filepath.Join(dir, folder, outfile.Folder(from)), filepath.Join(dir, folder, outfile.Folder(to)), mark, false)
		if n += more; err != nil {
			return n, err
		}
	}
	return n, nil
}

// Shared reports whether there is mail that the users of a tenant share.
func Shared(dir string) bool {
	return slices.ContainsFunc(folders(), func(folder string) bool { return outfile.Shared(filepath.Join(dir, folder), false) })
}
