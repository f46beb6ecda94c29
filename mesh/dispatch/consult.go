package dispatch

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent/modelrun"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/text"
)

// Consult is the tool with which a model asks one other agent and gets its
// answer, while it keeps the conversation. Several calls of one reply work in
// parallel.
type Consult struct {
	asked
	agents []*meshv1.Agent

	numbering sync.Mutex
	n         int
}

var (
	_ llm.Tools      = (*Consult)(nil)
	_ modelrun.Asker = (*Consult)(nil)
)

// NewConsult returns the tool over d, for the given agents, sorted by name. It
// is empty without agents.
func NewConsult(d *Dispatcher, agents []*meshv1.Agent) *Consult {
	return &Consult{asked: asked{d: d}, agents: agents}
}

// List implements llm.Tools.
func (c *Consult) List(context.Context) []llm.Tool {
	if len(c.agents) == 0 {
		return nil
	}
	names := make([]string, 0, len(c.agents))
	var catalog strings.Builder
	for _, a := range c.agents {
		names = append(names, a.GetName())
		catalog.WriteString("\n" + describe(a))
	}
	schema, err := json.Marshal(map[string]any{"type": "object", "required": []string{"agent", "task"}, "properties": map[string]any{
		"agent": map[string]any{"type": "string", "enum": names, "description": "Which agent to ask."},
		"task":  map[string]any{"type": "string", "description": "What you want to know or have done, in full; the agent sees nothing else."},
		"answers": map[string]any{"type": "array", "items": map[string]any{"type": "string"},
			"description": "What the user answered to questions of the agent about this task, word by word, in their order."},
	}})
	if err != nil {
		return nil
	}
	return []llm.Tool{{Name: ToolConsult, Parameters: schema,
		Description: "Ask another agent and get its answer; you keep the conversation with the user. Agents:" + catalog.String()}}
}

// Know implements llm.Knower.
func (c *Consult) Know(_ context.Context, f *llm.Facts) error {
	f.Consults = true
	for _, a := range c.agents {
		about := llm.Agent{Name: a.GetName(), Description: a.GetCard().GetDescription(), Ask: true,
			Orchestrates: said(a.GetCard(), "orchestration") && hasSkills(a.GetCard(), []string{anything})}
		for _, s := range does(a.GetCard()) {
			about.Skills, about.Tags = append(about.Skills, s.GetId()), append(about.Tags, s.GetTags()...)
		}
		f.Agents = append(f.Agents, about)
	}
	return nil
}

// anything is the skill of an orchestrator for whatever users want.
const anything = "orchestration"

// said reports whether the card says so of the agent to a mesh.
func said(card *a2apb.AgentCard, what string) bool {
	return slices.ContainsFunc(card.GetCapabilities().GetExtensions(), func(e *a2apb.AgentExtension) bool {
		return e.GetUri() == mesh.ExtensionURI && e.GetParams().GetFields()[what].GetBoolValue()
	})
}

// describe is the agent's line in the catalog: one line whatever its card says,
// so that it cannot describe others.
func describe(a *meshv1.Agent) string {
	var skills, tags []string
	for _, s := range does(a.GetCard()) {
		skills = append(skills, s.GetId())
		for _, t := range s.GetTags() {
			if !slices.Contains(tags, t) {
				tags = append(tags, t)
			}
		}
	}
	about := fmt.Sprintf("%s (skills: %s; tags: %s)", mesh.Clip(a.GetCard().GetDescription(), 1000), strings.Join(skills, ", "), strings.Join(tags, ", "))
	return "- " + a.GetName() + ": " + strings.Join(strings.Fields(about), " ")
}

// Waits implements llm.Waiter: an agent has a time of its own.
func (c *Consult) Waits(tool string) bool { return tool == ToolConsult }

// Call implements llm.Tools.
func (c *Consult) Call(ctx context.Context, use mesh.ToolUse) llm.ToolResult {
	var a struct {
		Agent   string   `json:"agent"`
		Task    string   `json:"task"`
		Answers []string `json:"answers"`
	}
	if err := llm.Arguments("dispatch.Consult", use, &a); err != nil {
		return failure(err)
	}
	id := c.d.ordered(use.ID)
	if id == "" {
		at := slices.IndexFunc(c.agents, func(x *meshv1.Agent) bool { return x.GetName() == a.Agent })
		if at < 0 {
			return failure(mesh.InvalidField("dispatch.Consult", "agent", "%q is not one of the agents that can be asked", a.Agent))
		}
		if missing := c.agents[at].GetMissingPermissions(); len(missing) > 0 {
			return failure(mesh.Requires("dispatch.Consult", a.Agent, missing[0]))
		}
		if err := wrongTask("dispatch.Consult", "task", a.Task); err != nil {
			return failure(err)
		}
		id = c.label(a.Agent)
		order := Order{AgentID: id, Name: a.Agent, Mission: a.Task, Answers: a.Answers, Call: use.ID}
		if said(c.agents[at].GetCard(), "orchestration") && c.d.opts.Timeouts[a.Agent] == 0 {
			order.Timeout = c.d.opts.Orchestrating
		}
		if errs := c.d.Dispatch(ctx, []Order{order}); len(errs) > 0 {
			return failure(errs[0])
		}
	}
	results, err := c.d.await(ctx, []string{id}, ModeAll, false)
	if err != nil {
		return failure(err)
	}
	if results[0].Status == StatusWaiting {
		c.d.suspend()
		return c.ask(ctx, use.ID, []string{id})
	}
	told := fitting(results, text.AskForLess, func(results []Result) llm.ToolResult {
		r := results[0]
		return answer(map[string]any{"agent": r.Agent, "status": r.Status, "result": r.Result})
	})
	told.Delivered = c.d.deliver(results)
	return told
}

// label returns an id for what the agent is to be asked.
func (c *Consult) label(agent string) string {
	c.numbering.Lock()
	defer c.numbering.Unlock()
	for {
		c.n++
		if id := numbered(agent, c.n); !c.d.has(id) {
			return id
		}
	}
}
