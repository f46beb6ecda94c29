package dispatch

import (
	"context"
	"strings"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/llm"
)

// Catalog tells a model which agents it can dispatch by their names (S1-066), and that
// their results come by themselves (S1-067). It is "" if there are none.
func (d *Dispatcher) Catalog(ctx context.Context) (string, error) {
	agents, err := d.listings(ctx)
	if err != nil || len(agents) == 0 {
		return "", err
	}
	var b strings.Builder
	b.WriteString("## Available Sub-Agents\n\nResults are delivered automatically; do not poll.\n")
	for _, a := range agents {
		b.WriteString("\n- " + a.name + ": " + oneLine(a.GetCard().GetDescription()))
		lines := d.opts.Terms[a.GetName()].Tools
		if len(lines) == 0 {
			lines = tools(a.Agent)
		}
		for _, line := range lines {
			b.WriteString("\n  " + oneLine(line))
		}
	}
	return b.String(), nil
}

// tools are what the agent works with, as its card says: the mesh's skills, which tools
// of MCP servers are among, and what its model's provider has.
func tools(a *meshv1.Agent) (lines []string) {
	var mcp, native []string
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
	if len(mcp) > 0 {
		lines = append(lines, "MCP tools: "+strings.Join(mcp, ", "))
	}
	if len(native) > 0 {
		lines = append(lines, "Native tools: "+strings.Join(native, ", "))
	}
	if len(lines) == 0 {
		lines = []string{"Tools: none (pure reasoning)"}
	}
	return lines
}

// oneLine keeps what others wrote from looking like more than it is.
func oneLine(s string) string { return mesh.Clip(strings.Join(strings.Fields(s), " "), 1000) }

// knownAgents adds the agents that can be dispatched by name, for programs.
func (d *Dispatcher) knownAgents(ctx context.Context, f *llm.Facts) error {
	agents, err := d.listings(ctx)
	for _, a := range agents {
		about := llm.Agent{Name: a.name, Description: a.GetCard().GetDescription()}
		for _, s := range a.GetCard().GetSkills() {
			about.Skills = append(about.Skills, s.GetId())
		}
		f.Agents = append(f.Agents, about)
	}
	return err
}
