package node

import (
	"context"
	"crypto/rand"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/state"
	"agentmesh/mesh/thread/tasks"
)

// taskIndex makes the index of tasks. The key that seals its page tokens is
// kept among the operator's values, so that a list goes on after a restart.
func (n *node) taskIndex(ctx context.Context) (*tasks.Index, error) {
	at := state.Key{Kind: "node", Name: "page-key"}
	kept, err := n.kv.Get(ctx, at)
	if mesh.IsCode(err, mesh.NotFound) {
		kept.Data = make([]byte, tasks.KeySize)
		if _, err = rand.Read(kept.Data); err == nil {
			_, err = n.kv.Put(ctx, at, kept.Data, state.AnyVersion)
		}
	}
	if err != nil {
		return nil, mesh.Wrap("node.taskIndex", err)
	}
	return tasks.New(n.log, kept.Data, n.logger)
}

// a2aOptions are the operator's choices of the A2A surface.
func (n *node) a2aOptions() []a2a.Option {
	if n.cfg.A2A.StrictVersion {
		return []a2a.Option{a2a.WithStrictVersion()}
	}
	return nil
}

// streamLimit is the operator's limit of open streams.
func (c *Config) streamLimit() rpc.StreamLimit {
	return rpc.StreamLimit{PerUser: c.Streams.PerUser, Total: c.Streams.Total}
}

// errorTable is the operator's table of A2A errors. Fill has checked it.
func (c *Config) errorTable() rpc.ErrorTable {
	table, _ := rpc.ParseErrorTable(c.A2A.ErrorTable)
	return table
}
