package dispatch

import (
	"context"
	"slices"
	"strings"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

// choose finds the agent for a job: the one it names, else the live agent with
// the fewest skills that has all that are asked for, else the worker.
func (d *Dispatcher) choose(ctx context.Context, j *job) (*meshv1.Agent, error) {
	const op = "dispatch.choose"
	if j.Name != "" {
		return d.named(ctx, j.Name, nil)
	}
	agents, err := d.inv.Mesh.Agents(ctx, &meshv1.ListAgentsRequest{})
	if err != nil {
		return nil, err
	}
	var best, worker *meshv1.Agent
	chain := d.inv.Grant.Agents()
	for _, a := range agents {
		if !d.opts.may(a) || denied(a) {
			continue
		}
		if a.GetName() == d.opts.Worker {
			worker = a
		}
		if a.GetLive() && !slices.Contains(chain, a.GetName()) && hasSkills(a.GetCard(), j.Skills) &&
			(best == nil || len(a.GetCard().GetSkills()) < len(best.GetCard().GetSkills())) {
			best = a
		}
	}
	switch {
	case best != nil:
		return best, nil
	case worker.GetLive():
		return worker, nil
	}
	return nil, mesh.Errorf(mesh.Unavailable, op, "no agent that is available has the skills %s", strings.Join(j.Skills, ", "))
}

// denied reports whether the agent may not be dispatched for this user.
func denied(a *meshv1.Agent) bool {
	return slices.Contains(a.GetDeniedActions(), string(mesh.ActOrchestrate))
}

// does are the skills on the card that the agent has itself. One that has others work
// names skills of the mesh only so that it can grant them.
func does(card *a2apb.AgentCard) []*a2apb.AgentSkill {
	if !said(card, "orchestration") {
		return card.GetSkills()
	}
	return slices.DeleteFunc(slices.Clone(card.GetSkills()), func(s *a2apb.AgentSkill) bool { return strings.Contains(s.GetId(), ".") })
}

// hasSkills reports whether the agent has all the skills itself: one that has
// just any is the worker, who is asked when nobody knows better.
func hasSkills(card *a2apb.AgentCard, skills []string) bool {
	has := does(card)
	for _, name := range skills {
		if !slices.ContainsFunc(has, func(s *a2apb.AgentSkill) bool { return s.GetId() == name }) {
			return false
		}
	}
	return true
}
