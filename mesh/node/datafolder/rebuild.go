package datafolder

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"

	"agentmesh/mesh"
	"agentmesh/mesh/store/disk"
	"agentmesh/mesh/thread/checkpoint"
	"agentmesh/mesh/thread/tasks"
	"agentmesh/mesh/threadlog"
)

// Rebuild makes of the log again what is made of it, in a folder that no node uses, checks all
// of the log, and returns how many events it has. The error is NotFound if there is no such
// folder, Precondition if a node has it open or it is damaged, and DataLoss if the chains of
// hashes do not fit; then it is made all the same.
func Rebuild(ctx context.Context, dir string, logger *slog.Logger) (events int, err error) {
	const op = "datafolder.Rebuild"
	path := filepath.Join(dir, file)
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return 0, mesh.Errorf(mesh.NotFound, op, "there is no data folder %s; name it with --data", dir)
	}
	if err := notKept(dir); err != nil {
		return 0, err
	}
	store, err := disk.Open(path, disk.Options{Logger: logger, Rebuild: true, Remade: checkpoint.Kinds()})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, store.Close()) }()
	rows, err := tasks.New(threadlog.New(store), make([]byte, tasks.KeySize), logger, tasks.WithPages(store.Rows()))
	if err != nil {
		return 0, err
	}
	if err := makeRows(ctx, rows); err != nil {
		return 0, err
	}
	if err := store.WaitChecked(ctx); err != nil {
		return 0, err
	}
	return store.Records(), store.Health().Damage
}

// makeRows makes all rows of the log, and keeps them on the way, so that they need little memory.
func makeRows(ctx context.Context, rows *tasks.Index) (err error) {
	running, stop := context.WithCancel(ctx)
	var keeper sync.WaitGroup
	keeper.Go(func() { err = rows.Run(running) })
	ready := rows.Ready(ctx)
	stop()
	keeper.Wait()
	return errors.Join(ready, err, rows.Keep(ctx))
}
