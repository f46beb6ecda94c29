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
// An agent that is not available stays in the lists, and is described so, if
// no other one has its skills: only then can an answer say what is missing
// (S4-062, S4-063).
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
		if g.Depth <= 0 || ext.HandoffSupport && ext.StatefulWorkflows || !a.GetLive() && replaced(a, agents) {
			continue
		}
		if !a.GetLive() {
			a = unavailable(a)
		}
		o.consult = append(o.consult, a)
	}
	return o
}

// replaced reports whether another agent that is available names all skills
// that the agent names. One that has others work names what these do.
func replaced(a *meshv1.Agent, agents []*meshv1.Agent) bool {
	return slices.ContainsFunc(agents, func(b *meshv1.Agent) bool {
		return b.GetLive() && (registry.Params(a.GetCard()).Orchestration || !registry.Params(b.GetCard()).Orchestration) && !slices.ContainsFunc(a.GetCard().GetSkills(), func(s *a2apb.AgentSkill) bool {
			return !slices.ContainsFunc(b.GetCard().GetSkills(), func(t *a2apb.AgentSkill) bool { return s.GetId() == t.GetId() })
		})
	})
}

// unavailable returns the agent with a description that says so.
func unavailable(a *meshv1.Agent) *meshv1.Agent {
	a = proto.CloneOf(a)
	if a.Card == nil {
		a.Card = &a2apb.AgentCard{}
	}
	a.Card.Description += " (not available right now)"
	return a
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
