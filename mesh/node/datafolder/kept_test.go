package datafolder_test

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/backup"
	"agentmesh/mesh/node"
	"agentmesh/mesh/node/datafolder"
)

// finding U5: nobody works in the files of a backup, which would be damaged by as much as a lock.
func TestABackupIsLeftAsItIs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "mesh")
	open := func(dir string) error {
		b, err := datafolder.Opener(slog.New(slog.DiscardHandler))(node.Config{Data: dir}, "")
		if err != nil {
			return err
		}
		return b.Close()
	}
	if err := open(dir); err != nil {
		t.Fatal(err)
	}
	kept := filepath.Join(t.TempDir(), "kept")
	f, err := backup.Create(kept)
	if err != nil {
		t.Fatal(err)
	}
	if err := datafolder.Backup(t.Context(), dir, &meshv1.BackupManifest{}, f.Take); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Done(nil); err != nil {
		t.Fatal(err)
	}
	data := filepath.Join(kept, backup.Data)
	_, rebuild := datafolder.Rebuild(t.Context(), data, nil)
	_, chown := datafolder.Chown{Data: data}.Run(t.Context(), nil)
	for what, err := range map[string]error{
		"a mesh": open(data), "a rebuild": rebuild, "a chown": chown,
		"a backup of it": datafolder.Backup(t.Context(), data, &meshv1.BackupManifest{}, func(*meshv1.BackupDataResponse) error { return nil }),
	} {
		if !mesh.IsCode(err, mesh.Precondition) {
			t.Errorf("%s: %v", what, err)
		}
	}
	if _, found, err := backup.Check(kept); err != nil || found != nil {
		t.Errorf("the backup is %v, %v", found, err)
	}
	if err := errors.Join(os.Rename(data, filepath.Join(kept, "mesh")), open(filepath.Join(kept, "mesh"))); err != nil {
		t.Errorf("a folder that is none of a backup: %v", err)
	}
}
