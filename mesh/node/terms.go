package node

import (
	"cmp"
	"slices"

	"agentmesh/mesh"
	"agentmesh/mesh/admission"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/registry"
)

// terms are what holds for agents that the agent by dispatches, and for one of them: by what
// is set for those that are built in, and for all others by the defaults. The node keeps it
// whatever by keeps itself, and leaves it the time to conclude.
func (n *node) terms(tenant mesh.TenantID, by, agent string) admission.Terms {
	set, orchestrates := n.cfg.Defaults.Orchestrator, by != n.cfg.Main
	if b := n.ours(by); b != nil {
		set, orchestrates = b.Orchestrator, b.Orchestrates
	}
	timeout := limit.DefaultAgentTime
	if set.Profile == "collect" {
		timeout = limit.CollectedAgentTime
	}
	t := admission.Terms{Concurrent: cmp.Or(set.MaxConcurrentAgents, limit.DefaultConcurrent), Timeout: cmp.Or(set.AgentTimeout, timeout)}
	budget := cmp.Or(set.MaxBudget, limit.DefaultDispatching) + limit.Concluding
	if orchestrates {
		t.Time = budget
	}
	switch b := n.ours(agent); {
	case b != nil && b.Time > 0:
		t.Timeout = b.Time
	case agent != "" && n.orchestrates(tenant, agent): // its budget is not known here: it has as long as by's
		t.Timeout = max(t.Timeout, budget)
	}
	return t
}

// ours is the built-in agent of that name; nil if there is none.
func (n *node) ours(name string) *Builtin {
	if i := slices.IndexFunc(n.opts.Builtins, func(b Builtin) bool { return b.Name == name }); i >= 0 {
		return &n.opts.Builtins[i]
	}
	return nil
}

// orchestrates reports whether the agent's card says that it dispatches others.
func (n *node) orchestrates(tenant mesh.TenantID, agent string) bool {
	e, err := n.agents.Get(tenant, agent)
	return err == nil && registry.Params(e.Card).Orchestration
}
