package dispatch

import (
	"context"
	"slices"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/llm"
)

// knownAgents adds the agents that can be dispatched by name, for programs: what Catalog
// tells models.
func (d *Dispatcher) knownAgents(ctx context.Context, f *llm.Facts) error {
	agents, err := d.inv.Mesh.Agents(ctx, &meshv1.ListAgentsRequest{})
	if err != nil {
		return mesh.Wrap("dispatch.Know", err)
	}
	chain := d.inv.Grant.Agents()
	for _, a := range agents {
		if !a.GetLive() || slices.Contains(chain, a.GetName()) || !d.opts.may(a) {
			continue
		}
		about := llm.Agent{Name: a.GetName(), Description: a.GetCard().GetDescription()}
		for _, s := range a.GetCard().GetSkills() {
			about.Skills = append(about.Skills, s.GetId())
		}
		f.Agents = append(f.Agents, about)
	}
	return nil
}
