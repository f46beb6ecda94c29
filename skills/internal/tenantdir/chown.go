package tenantdir

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"agentmesh/mesh"
	"agentmesh/skills/internal/outfile"
)

// Chown gives the files of one owner to another, as [outfile.MoveAll] does, with what is
// known of the keys of changes, and returns how many there were.
func (d *Dir) Chown(from, to mesh.Owner, mark string) (int, error) {
	notes := func(o mesh.Owner) string { return filepath.Join(d.base, ".keys", Folder(o)) }
	if err := moveNotes(notes(from), notes(to)); err != nil {
		return 0, err
	}
	return outfile.MoveAll(filepath.Join(d.base, Folder(from)), filepath.Join(d.base, Folder(to)), mark, true)
}

// Shared reports whether there are files that the users of a tenant share.
func (d *Dir) Shared() bool { return outfile.Shared(d.base, true) }

// moveNotes puts the notes of the keys beside those that are there.
func moveNotes(from, to string) error {
	files, err := filepath.Glob(filepath.Join(from, "*.json"))
	if err != nil {
		return failed(err)
	}
	for _, file := range files {
		name := filepath.Base(file)
		var all []note
		for _, dir := range []string{to, from} {
			data, err := os.ReadFile(filepath.Join(dir, name))
			var some []note
			if err == nil {
				err = json.Unmarshal(data, &some)
			}
			if err != nil && !errors.Is(err, fs.ErrNotExist) {
				return failed(err)
			}
			for _, one := range some { // who was cut before it removed them has put them there
				if !slices.Contains(all, one) {
					all = append(all, one)
				}
			}
		}
		data, err := json.Marshal(all[max(0, len(all)-maxNotes):])
		if err != nil {
			return mesh.Wrap("tenantdir.Chown", err)
		}
		if err := os.MkdirAll(to, 0o700); err != nil {
			return failed(err)
		}
		if err := errors.Join(outfile.Replace(to, name, data), outfile.Remove(from, name)); err != nil {
			return err
		}
	}
	return nil
}
