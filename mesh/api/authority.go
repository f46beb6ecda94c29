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
	// Standing has an error for turns of the tenant on which agents may not work any more;
	// nil for none.
	Standing func(tenant mesh.TenantID, turn *thread.Execution) error
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
	return a.States.With(ctx, p.Grant.Key(), func(st *thread.State) error {
		if err := atWork(op, st, p.Grant); err != nil || a.Standing == nil {
			return err
		}
		if t := st.TurnOf(p.Grant.Execution); t != nil {
			return a.Standing(p.Tenant, t)
		}
		return nil
	})
}
