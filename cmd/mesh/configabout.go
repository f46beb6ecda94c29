package main

import (
	"cmp"
	"fmt"
	"strings"

	"agentmesh/agents/mainagent"
	"agentmesh/agents/roster"
	"agentmesh/agents/specialist"
	"agentmesh/mesh/dispatch"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/node"
)

// A portrait is what holds for an agent, in rows of a field, its value and where that comes
// from.
type portrait struct {
	*crew
	x    *roster.Agent
	rows [][]string
}

// about are the rows of what holds for an agent.
func (c *crew) about(x *roster.Agent) [][]string {
	p := &portrait{crew: c, x: x}
	p.add("type", cmp.Or(x.Type, "its own"), p.said("type"))
	p.add("description", cmp.Or(x.Description, "none"), p.said("description"))
	if x.Instructions != "" {
		p.add("custom_instructions", x.Instructions, p.said("custom_instructions"))
	}
	if x.Type != roster.TypeChain {
		p.model()
		p.add("tools", strings.TrimPrefix(strings.Join(toolsOf(x), "; "), "Tools: "), "")
		p.list("mcp", x.MCP)
		p.list("native_tools", x.NativeTools)
		p.list("skills", x.Skills)
		p.bounds()
	}
	p.time()
	if x.Type == node.TypeOrchestrator {
		p.orchestrator()
	}
	for _, s := range x.Stages {
		var names []string
		for _, r := range s.Agents {
			names = append(names, r.Agent)
		}
		p.add("stage "+s.Name, strings.Join(names, ", "), s.Synthesis)
	}
	return p.rows
}

func (p *portrait) add(field, value, from string) {
	p.rows = append(p.rows, []string{oneLine(field), oneLine(clip(value, 60)), oneLine(from)})
}

// said is where the agent's own entry says the field.
func (p *portrait) said(field string) string {
	if at := p.origin("agents." + cmp.Or(p.x.Of, p.x.Name) + "." + field); at != "" {
		return at
	}
	if p.x.Builtin {
		return "built in"
	}
	return cmp.Or(p.origin("chains."+p.x.Name+"."+field), "default")
}

// from is which level has set the field; "" for none.
func (p *portrait) from(field string) string {
	path := p.x.From[field]
	if at := p.origin(path); at != "" {
		return at + " (" + strings.TrimSuffix(path, "."+field) + ")"
	}
	return path
}

// set adds a field with its value, which holds by the level that has set it, or else, by
// what it is otherwise.
func (p *portrait) set(field string, value any, otherwise string) {
	p.add(field, fmt.Sprint(value), cmp.Or(p.from(field), otherwise))
}

// model adds which model the agent asks, and what has set that: its name, or its endpoint,
// or what the endpoint is for all.
func (p *portrait) model() {
	at := "model"
	if p.x.Endpoint != "" {
		at = "models." + p.x.Endpoint
	}
	p.add("model", p.modelOf(p.x), cmp.Or(p.from("model"), p.from("endpoint"), p.origin(at+".name"), p.origin(at+".url"), "default"))
	if p.x.API != "" {
		p.set("api", p.x.API, "")
	}
}

// list adds a list that something has set.
func (p *portrait) list(field string, of []string) {
	if from := p.from(field); from != "" {
		p.add(field, cmp.Or(strings.Join(of, " "), "none"), from)
	}
}

// limit is what the node allows by the limit, and what has set it.
func (p *portrait) limit(field string, set, standard int) (most int, from string) {
	return cmp.Or(set, standard), cmp.Or(p.origin("limits."+field), "default") + " (limits." + field + ")"
}

// bounds adds how often the agent may ask its model and call skills.
func (p *portrait) bounds() {
	x := p.x
	steps, from := p.limit("agent_steps", p.cfg.Limits.AgentSteps, limit.DefaultAgentSteps)
	calls, ofNode := p.limit("agent_calls", p.cfg.Limits.AgentCalls, limit.DefaultAgentCalls)
	calls = cmp.Or(x.MaxToolCalls, calls)
	switch coded := specialists[cmp.Or(x.Of, x.Name)]; {
	case x.Name == "skill-builder": // it goes by rules
		return
	case p.delegates(x), x.Type == node.TypeOrchestrator:
	case x.Name == "main":
		steps, from = mainagent.DefaultSoloSteps, "default"
	case coded.domains == nil && len(x.MayCall()) == 0:
		steps, from = llm.DefaultMaxSteps, "default"
	default:
		steps, from = specialist.Steps(calls), "default"
	}
	p.set("max_iterations", allowed(cmp.Or(x.MaxIterations, steps)), from)
	if x.Type == node.TypeWorker {
		p.set("max_tool_calls", allowed(calls), ofNode)
	}
	if x.MaxTokens > 0 {
		p.set("max_tokens", x.MaxTokens, "")
	}
	if x.MaxCost > 0 {
		p.set("max_cost", x.MaxCost, "")
	}
}

// allowed is a number of which -1 is any.
func allowed(n int) string {
	if n < 0 {
		return "no limit"
	}
	return fmt.Sprint(n)
}

// time adds how long the agent may take when another one dispatches it.
func (p *portrait) time() {
	switch t := p.Time(p.x); {
	case t > 0:
		p.set("timeout", t, "default")
	case p.x.Type == node.TypeWorker:
		p.add("timeout", "agent_timeout of who dispatches it", "default")
	}
}

// orchestrator adds how the agent has others work.
func (p *portrait) orchestrator() {
	x := p.x
	said := dispatch.Options{Profile: dispatch.Profile(x.Profile), MaxConcurrent: x.MaxConcurrentAgents, Timeout: x.AgentTimeout, Budget: x.MaxBudget}
	o := said.Filled()
	p.set("orchestrator.max_concurrent_agents", o.MaxConcurrent, "default")
	p.set("orchestrator.agent_timeout", o.Timeout, "default")
	p.set("orchestrator.max_budget", o.Budget, "default")
	if o.Profile != dispatch.ProfileCollect { // with which nobody may ask
		p.set("orchestrator.help_timeout", cmp.Or(x.HelpTimeout, dispatch.DefaultHelpTime), "default")
	}
	p.set("orchestrator.profile", o.Profile, "default")
	most, from := p.limit("turn_agents", p.cfg.Limits.TurnAgents, limit.DefaultTurnAgents)
	p.add("agents in a turn", allowed(most), from)
	agents := "all with a description"
	if x.Agents != nil {
		var names []string
		for _, r := range x.Agents {
			names = append(names, r.Name)
		}
		agents = strings.Join(names, ", ")
	}
	p.set("sub_agents", agents, "default")
}
