package edge

import (
	"context"

	"agentmesh/mesh"
	"agentmesh/mesh/thread/tasks"
)

// What is acknowledged is read, canceled and sent again by the log alone, whatever became of
// the agent that the call addresses. Only what an agent is to begin is refused without it.

// absent returns why the agent that the call addresses begins no turn now, or nil if it does,
// or is expected so soon that its turn waits for it. It is NotFound for one that the tenant
// does not see, and Unavailable for one that is away. The second error is that of the look-up.
func (e *Edge) absent(ctx context.Context, call mesh.Call) (absent, err error) {
	const op = "edge.Send"
	if call.Agent == "" {
		return nil, nil
	}
	a, away := e.Directory.Resolve(call.Principal.Tenant, call.Agent)
	if away == nil {
		return nil, nil
	}
	if e.Turns.Expects(a, away) {
		if !mesh.IsCode(away, mesh.NotFound) {
			return nil, nil
		}
		if had, err := e.had(ctx, call); had || err != nil { // not of a name that was mistyped
			return nil, mesh.Wrap(op, err)
		}
	}
	return mesh.Wrap(op, away), nil
}

// known returns NotFound if the call addresses an agent that its tenant does not see, and that
// has no task of the caller's.
func (e *Edge) known(ctx context.Context, op string, call mesh.Call) error {
	if call.Agent == "" {
		return nil
	}
	_, unknown := e.Directory.Resolve(call.Principal.Tenant, call.Agent)
	if !mesh.IsCode(unknown, mesh.NotFound) {
		return nil
	}
	if had, err := e.had(ctx, call); had || err != nil {
		return mesh.Wrap(op, err)
	}
	return mesh.Wrap(op, unknown)
}

// had reports whether the caller may read a task that the agent has had, by the log. It is so
// for none where tasks are not listed.
func (e *Edge) had(ctx context.Context, call mesh.Call) (bool, error) {
	if e.Tasks == nil {
		return false, nil
	}
	page, err := e.Tasks.List(ctx, tasks.Query{Tenant: call.Principal.Tenant, Caller: call.Principal, Agent: call.Agent, Limit: 1})
	return page.Total > 0, err
}
