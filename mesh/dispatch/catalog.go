package dispatch

import (
	"context"
	"slices"
	"strings"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/llm"
)

// Catalog tells a model which agents it can dispatch by their names (S1-066), and that
// their results come by themselves (S1-067).
func Catalog(ctx context.Context, inv *agent.Invocation) (string, error) {
	agents, err := available(ctx, inv)
	if err != nil || len(agents) == 0 {
		return "", err
	}
	var b strings.Builder
	b.WriteString("## Available Sub-Agents\n\nResults are delivered automatically; do not poll.\n")
	for _, a := range agents {
		b.WriteString("\n- " + a.GetName() + ": " + oneLine(a.GetCard().GetDescription()))
		mcp, native := tools(a)
		if len(mcp) > 0 {
			b.WriteString("\n  MCP tools: " + oneLine(strings.Join(mcp, ", ")))
		}
		if len(native) > 0 {
			b.WriteString("\n  Native tools: " + oneLine(strings.Join(native, ", ")))
		}
		if len(mcp)+len(native) == 0 {
			b.WriteString("\n  Tools: none (pure reasoning)")
		}
	}
	return b.String(), nil
}

// available are the agents that the execution can dispatch: those that are there, say
// what they do (S1-029), do not orchestrate (S1-030), and are not at work above it.
func available(ctx context.Context, inv *agent.Invocation) ([]*meshv1.Agent, error) {
	agents, err := inv.Mesh.Agents(ctx, &meshv1.ListAgentsRequest{})
	if err != nil {
		return nil, mesh.Wrap("dispatch.Catalog", err)
	}
	chain := inv.Grant.Agents()
	return slices.DeleteFunc(slices.Clone(agents), func(a *meshv1.Agent) bool {
		return !a.GetLive() || strings.TrimSpace(a.GetCard().GetDescription()) == "" || orchestrates(a.GetCard()) || slices.Contains(chain, a.GetName())
	}), nil
}

// tools are what the agent works with, as its card says: the mesh's skills, which tools
// of MCP servers are among, and what its model's provider has.
func tools(a *meshv1.Agent) (mcp, native []string) {
	for _, s := range a.GetCard().GetSkills() {
		mcp = append(mcp, s.GetId())
	}
	for _, e := range a.GetCard().GetCapabilities().GetExtensions() {
		if e.GetUri() == mesh.ExtensionURI {
			for _, v := range e.GetParams().GetFields()["native_tools"].GetListValue().GetValues() {
				native = append(native, v.GetStringValue())
			}
		}
	}
	return mcp, native
}

// oneLine keeps what others wrote from looking like more than it is.
func oneLine(s string) string { return mesh.Clip(strings.Join(strings.Fields(s), " "), 1000) }

// knownAgents adds the agents that can be dispatched by name, for programs.
func knownAgents(ctx context.Context, inv *agent.Invocation, f *llm.Facts) error {
	agents, err := available(ctx, inv)
	for _, a := range agents {
		about := llm.Agent{Name: a.GetName(), Description: a.GetCard().GetDescription()}
		for _, s := range a.GetCard().GetSkills() {
			about.Skills = append(about.Skills, s.GetId())
		}
		f.Agents = append(f.Agents, about)
	}
	return err
}
