package api

import (
	"context"

	"agentmesh/mesh"
	"agentmesh/mesh/security/authz"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
)

// Holders know whose a secret is: a *registry.Registry.
type Holders interface {
	// Holds reports whether the secret is that of the agent's registration with the
	// tenant, or for all.
	Holds(tenant mesh.TenantID, agent, secret string) bool
}

// An Authority says who may call what: by the table and, under a grant, only as its holder
// and as long as the execution is at work that it was made for. What the user may for whom
// the work is done is what the log has. It is an rpc.Authorizer.
type Authority struct {
	Table   authz.Table
	States  *cache.States
	Holders Holders
	// Standing has an error for turns of the tenant on which agents may not work any more;
	// nil for none.
	Standing func(tenant mesh.TenantID, turn *thread.Execution) error
}

// Authorize implements rpc.Authorizer. Beside the table's errors it is Unauthenticated for
// a grant or ticket of somebody else, Precondition when its execution is over, and NotFound
// when its thread is gone.
func (a Authority) Authorize(ctx context.Context, p mesh.Principal, method string) error {
	const op = "api.Authorize"
	g := p.Grant
	if g == nil {
		return a.Table.Authorize(ctx, p, method)
	}
	if call, _ := mesh.CallFrom(ctx); !a.Holders.Holds(g.Holder, g.Agent, call.Holder) {
		return &mesh.Error{Code: mesh.Unauthenticated, Op: op, Field: "mesh-holder",
			Detail: "must be the secret that the agent " + g.Agent + " got when it was registered: tickets and grants are good for their agent alone"}
	}
	if a.Table[method].Settles {
		return a.Table.Authorize(ctx, p, method)
	}
	return a.States.With(ctx, g.Key(), func(st *thread.State) error {
		if t := st.Turn(g.Turn); t != nil {
			p.Roles = t.Roles
		}
		if err := a.Table.Authorize(ctx, p, method); err != nil {
			return err
		}
		if err := atWork(op, st, g); err != nil || a.Standing == nil {
			return err
		}
		if t := st.TurnOf(g.Execution); t != nil {
			return a.Standing(p.Tenant, t)
		}
		return nil
	})
}
