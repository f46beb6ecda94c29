package mainagent

import (
	"encoding/json"
	"slices"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/dispatch"
	"agentmesh/mesh/registry"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"
)

// others are the agents that the main agent may turn to, by name.
type others struct {
	consult []*meshv1.Agent // those to ask
	handoff []*meshv1.Agent // those to hand over to
}

// look sorts the agents of the tenant. An agent that talks with the user in
// several steps is only handed over to: whoever asks it gets a question back.
// An agent that is not available, or not for this user, stays in the lists, and is described so, if
// no other one has its skills: only then can an answer say what is missing
// (S4-062, S4-063, S4-071).
func look(agents []*meshv1.Agent, g *mesh.Grant) others {
	var o others
	for _, a := range agents {
		if a.GetName() == g.Agent || slices.Contains(g.Agents(), a.GetName()) {
			continue
		}
		ext := registry.Params(a.GetCard())
		if ext.HandoffSupport && g.Direct() { // else somebody else has the user's stream
			o.handoff = append(o.handoff, a)
		}
		usable := a.GetLive() && !denies(a, mesh.ActOrchestrate)
		if g.Depth <= 0 || ext.HandoffSupport && ext.StatefulWorkflows || !usable && replaced(a, agents) {
			continue
		}
		if !usable {
			a = unusable(a)
		}
		o.consult = append(o.consult, a)
	}
	return o
}

// replaced reports whether another agent that can be used names all skills
// that the agent names. One that has others work names what these do.
func replaced(a *meshv1.Agent, agents []*meshv1.Agent) bool {
	return slices.ContainsFunc(agents, func(b *meshv1.Agent) bool {
		return b.GetLive() && !denies(b, mesh.ActOrchestrate) && (registry.Params(a.GetCard()).Orchestration || !registry.Params(b.GetCard()).Orchestration) && !slices.ContainsFunc(a.GetCard().GetSkills(), func(s *a2apb.AgentSkill) bool {
			return !slices.ContainsFunc(b.GetCard().GetSkills(), func(t *a2apb.AgentSkill) bool { return s.GetId() == t.GetId() })
		})
	})
}

// unusable returns the agent with a description that says why it cannot be asked.
func unusable(a *meshv1.Agent) *meshv1.Agent {
	why := closed(a, mesh.ActOrchestrate)
	if why == "" {
		why = " (not available right now)"
	}
	a = proto.CloneOf(a)
	if a.Card == nil {
		a.Card = &a2apb.AgentCard{}
	}
	a.Card.Description += why
	return a
}

// denies reports whether the mesh refuses the action with the agent for this user.
func denies(a *meshv1.Agent, act mesh.Action) bool {
	return slices.Contains(a.GetDeniedActions(), string(act))
}

// lacks is the refusal of a user who lacks what the agent requires; nil for others.
func lacks(a *meshv1.Agent) *mesh.Error {
	missing := a.GetMissingPermissions()
	if len(missing) == 0 {
		return nil
	}
	return mesh.Requires("mainagent.lacks", called(a), missing[0])
}

// closed says for a model why the action is refused with the agent; "" if it is not.
func closed(a *meshv1.Agent, act mesh.Action) string {
	switch refusal := lacks(a); {
	case refusal != nil:
		return " (not for this user, whom you tell in one sentence: " + refusal.Detail + ")"
	case denies(a, act):
		return " (not for this user, whom you tell so: roles or policies of the mesh do not allow it)"
	}
	return ""
}

// progress is what the user sees while another agent is asked.
func (o others) progress(use mesh.ToolUse) (agent.Progress, bool) {
	if use.Name != dispatch.ToolConsult {
		return agent.Progress{}, false
	}
	var args struct {
		Agent string `json:"agent"`
	}
	if err := json.Unmarshal([]byte(use.Arguments), &args); err != nil {
		return agent.Progress{}, false // the call fails too
	}
	for _, a := range o.consult {
		if a.GetName() == args.Agent && registry.Params(a.GetCard()).Orchestration {
			return agent.Progress{Text: "Working on it…"}, true
		}
	}
	return agent.Progress{Text: "Researching…"}, true
}
