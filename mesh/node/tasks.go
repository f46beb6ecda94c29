package node

import (
	"context"
	"crypto/rand"

	"agentmesh/mesh"
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
	if n.backend.Rows == nil {
		return tasks.New(n.log, kept.Data, n.logger)
	}
	return tasks.New(n.log, kept.Data, n.logger, tasks.WithPages(n.backend.Rows))
}

// keepRows keeps rows of lists as they are when nothing happens any more.
func (n *node) keepRows(ctx context.Context) {
	n.states.KeepSummaries()
	if err := n.tasks.Keep(context.WithoutCancel(ctx)); err != nil {
		n.logger.WarnContext(ctx, "rows of lists not kept; the next start reads more of the log", "err", err)
	}
}

// streamLimit is the operator's limit of open streams.
func (c *Config) streamLimit() rpc.StreamLimit {
	return rpc.StreamLimit{PerUser: c.Streams.PerUser, Total: c.Streams.Total}
}
