package api

import (
	"context"

	"agentmesh/mesh"
	"agentmesh/mesh/security/authz"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
)

// An Authority says who may call what: by the table and, under a grant, only as long as
// the execution is at work that it was made for. It is an rpc.Authorizer.
type Authority struct {
	Table  authz.Table
	States *cache.States
}

// Authorize implements rpc.Authorizer. Beside the table's errors it is Precondition when
// the execution of the grant is over, and NotFound when its thread is gone.
func (a Authority) Authorize(ctx context.Context, p mesh.Principal, method string) error {
	const op = "api.Authorize"
	if err := a.Table.Authorize(ctx, p, method); err != nil {
		return err
	}
	if p.Grant == nil || a.Table[method].Settles {
		return nil
	}
	return a.States.With(ctx, p.Grant.Key(), func(st *thread.State) error { return atWork(op, st, p.Grant) })
}
