package node

import (
	"context"

	"agentmesh/mesh/retention"
)

// buildRetention makes what deletes threads, with all stores that keep something about them.
func (n *node) buildRetention() {
	n.deleter = retention.NewDeleter(n.log, n.states, n.audit, n.logger, n.push, n.runner, n.tasks, n.checkpoints)
}

// keepThreads deletes threads by the operator's rules until ctx is done, and first of all
// what a killed process left of deleted ones.
func (n *node) keepThreads(ctx context.Context) error {
	rules, others, err := n.cfg.Retention.rules()
	if err != nil {
		return err
	}
	return retention.NewKeeper(retention.Config{
		Deleter: n.deleter, Leases: n.backend.Leases, Node: n.name, Rules: rules, Default: others,
		Deleted: n.telemetry.Deleted, Now: n.opts.Now, Logger: n.logger,
	}).Run(ctx)
}
