package node

import (
	"context"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/api"
	"agentmesh/mesh/edge"
	"agentmesh/mesh/retention"
	"agentmesh/mesh/transfer"
	"agentmesh/mesh/turn"
)

// buildRetention makes what deletes threads, with all stores that keep something about them.
func (n *node) buildRetention() {
	n.deleter = retention.NewDeleter(n.log, n.states, n.audit, n.logger, n.push, n.runner, n.tasks, n.checkpoints, n.backend.Blobs)
}

// A Holder keeps something of users and tenants.
type Holder = retention.Holder

// eraser makes what erases users, with all that keep something of them. Skills go first, so
// that none runs by its schedule meanwhile.
func (n *node) eraser(skills *api.SkillService) *retention.Eraser {
	return retention.NewEraser(retention.EraserConfig{
		Deleter: n.deleter, Access: n.tasks.Access, Cancel: n.edge.Cancel, Mark: n.revoked.SetErasing, Revoke: n.revokeErased,
		Holders: n.holders(skills),
	})
}

// holders are all that keep something of users and tenants beside the threads.
func (n *node) holders(skills *api.SkillService) []Holder {
	return append([]Holder{skills, n.runner, n.push, n.agents, n.kv, n.backend.Blobs, n.tasks}, n.opts.Holders...)
}

// movers makes what brings threads and tenants here, and gives tenants to other meshes.
func (n *node) movers(skills *api.SkillService) *transfer.Tenants {
	return &transfer.Tenants{Threads: transfer.Threads{Log: n.log, Settle: turn.Settle}, KV: n.kv, Holders: n.holders(skills), Files: n.backend.Blobs}
}

// revokeErased ends the credentials of a user who was erased, at the word of the caller of ctx.
func (n *node) revokeErased(ctx context.Context, o mesh.Owner) error {
	if n.cfg.Auth == authNone {
		return nil
	}
	call, _ := mesh.CallFrom(ctx)
	return n.revoked.Revoke(ctx, o.Tenant, o.User, call.Principal.Can(mesh.ActAdminNode), time.Now())
}

// erasing is why nothing is begun for the user, or nil: the user is being erased.
func (n *node) erasing(tenant mesh.TenantID, user string) error {
	since, yes := n.revoked.Erasing(tenant, user)
	if !yes {
		return nil
	}
	return mesh.Errorf(mesh.Precondition, "node.erasing", "what there is of the user %s is being erased since %s, and nothing is begun for that user until it is gone; "+
		"if that was cut off, have an admin run mesh users erase again", user, since.Format(time.RFC3339))
}

// A standing is the edge for those who do not come by the server: they begin nothing for users
// who are being erased.
type standing struct {
	*edge.Edge
	erasing func(mesh.TenantID, string) error
}

// Send implements runs.Edge.
func (s standing) Send(ctx context.Context, req *a2apb.SendMessageRequest) (*a2a.Accepted, error) {
	call, _ := mesh.CallFrom(ctx)
	if err := s.erasing(call.Principal.Tenant, call.Principal.User); err != nil {
		return nil, err
	}
	return s.Edge.Send(ctx, req)
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
		Deleted: n.telemetry.Deleted, Sweep: n.backend.Blobs.Sweep, Now: n.opts.Now, Logger: n.logger,
	}).Run(ctx)
}
