// Package datafolder opens the folder of a node that stands alone, as the backend
// that package node asks for: a log, a file of values and the record of administrative
// acts, which belong to one process at a time, and leases in that process's memory,
// which is therefore enough.
package datafolder

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/audit"
	"agentmesh/mesh/backup"
	"agentmesh/mesh/blob"
	"agentmesh/mesh/lease"
	"agentmesh/mesh/node"
	"agentmesh/mesh/store/disk"
	"agentmesh/mesh/thread/checkpoint"
)

// file is the data file in the folder; the log is beside it, and so is the folder of
// the record. Large files are in one of their own.
const (
	file   = "mesh.db"
	record = "audit.log"
	blobs  = "blobs"
)

// notKept refuses the files of a backup, which would be damaged with what is written beside
// them, if only a lock.
func notKept(dir string) error {
	abs, err := filepath.Abs(dir)
	if err == nil && filepath.Base(abs) == backup.Data && backup.Is(filepath.Dir(abs)) {
		return mesh.Errorf(mesh.Precondition, "datafolder.notKept", "%s is part of a backup, and is left as it is; make a data folder of that with 'mesh data restore %s --data FOLDER'", dir, filepath.Dir(abs))
	}
	return nil
}

// Opener returns what opens the folder of a node's settings. The logger may be nil.
func Opener(logger *slog.Logger) func(cfg node.Config, address string) (node.Backend, error) {
	return func(cfg node.Config, address string) (node.Backend, error) {
		if err := notKept(cfg.Data); err != nil {
			return node.Backend{}, err
		}
		store, err := disk.Open(filepath.Join(cfg.Data, file), disk.Options{Address: address, Logger: logger, Remade: checkpoint.Kinds()})
		if err != nil {
			return node.Backend{}, err
		}
		acts, err := audit.Open(filepath.Join(cfg.Data, record))
		if err != nil {
			return node.Backend{}, errors.Join(err, store.Close())
		}
		files, err := blob.Open(filepath.Join(cfg.Data, blobs), blob.Options{})
		if err != nil {
			return node.Backend{}, errors.Join(err, acts.Close(), store.Close())
		}
		return node.Backend{Threads: store, State: store, Rows: store.Rows(), Leases: lease.NewLocal(nil), Audit: acts, Blobs: files,
			Head: func() audit.Head {
				first, last, sum := store.Head()
				return audit.Head{First: first, Last: last, Hash: sum}
			},
			Backup: func(ctx context.Context, made *meshv1.BackupManifest, take backup.Take) error {
				done := files.Copying()
				return errors.Join(online(ctx, cfg.Data, store, acts, made, take), done(context.WithoutCancel(ctx)))
			},
			Health: func() node.Health { return node.Health(store.Health()) },
			Unchecked: func() int {
				done, all := store.Checked()
				return int(all - done)
			},
			Close: func() error { return errors.Join(acts.Close(), store.Close()) }}, nil
	}
}
