// Package datafolder opens the folder of a node that stands alone, as the backend
// that package node asks for: a log and a file of values, which belong to one process
// at a time, and leases in that process's memory, which is therefore enough.
package datafolder

import (
	"log/slog"
	"path/filepath"

	"agentmesh/mesh/lease"
	"agentmesh/mesh/node"
	"agentmesh/mesh/store/disk"
)

// file is the data file in the folder; the log is beside it.
const file = "mesh.db"

// Opener returns what opens the folder of a node's settings. The logger may be nil.
func Opener(logger *slog.Logger) func(cfg node.Config, address string) (node.Backend, error) {
	return func(cfg node.Config, address string) (node.Backend, error) {
		store, err := disk.Open(filepath.Join(cfg.Data, file), disk.Options{Address: address, Logger: logger})
		if err != nil {
			return node.Backend{}, err
		}
		return node.Backend{Threads: store, State: store, Leases: lease.NewLocal(nil), Close: store.Close}, nil
	}
}
