package main

import (
	"cmp"
	"math"
	"strings"
	"time"

	"agentmesh/agents/roster"
	"agentmesh/agents/specialist"
	"agentmesh/mesh/dispatch"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/node"
)

// dispatching are the options of an agent that calls others.
func (c *crew) dispatching(a *roster.Agent, env node.Env) dispatch.Options {
	opts := dispatch.Options{Profile: dispatch.Profile(a.Profile), Limits: env.Limits, MaxAgents: orNone(env.Budgets.Most(limit.TurnAgents)), MaxConcurrent: a.MaxConcurrentAgents,
		Timeout: a.AgentTimeout, Timeouts: map[string]time.Duration{}, Budget: a.MaxBudget, HelpTime: a.HelpTimeout, Terms: map[string]dispatch.Terms{}}
	if env.Dialer != nil {
		opts.Dialer = env.Dialer
	}
	for _, r := range a.Agents {
		opts.SubAgents = append(opts.SubAgents, dispatch.SubAgent{Name: r.Name, Agent: r.Agent})
	}
	for _, other := range c.Agents {
		opts.Timeouts[other.Name] = other.Time()
		opts.Terms[other.Name] = dispatch.Terms{MaxToolCalls: max(other.MaxToolCalls, 0), Budget: other.Budget(), Tools: toolsOf(other)}
		if other.Type == "" { // neither works by itself nor has others work
			opts.Talkers = append(opts.Talkers, other.Name)
		}
	}
	return opts
}

// toolsOf is what an agent works with, in lines for models that choose among agents; none
// where its card says it.
func toolsOf(a *roster.Agent) (lines []string) {
	add := func(what string, of []string) {
		if len(of) > 0 {
			lines = append(lines, what+": "+strings.Join(of, ", "))
		}
	}
	add("Skills", a.Skills)
	add("MCP tools", a.MCP)
	add("Native tools", a.NativeTools)
	switch {
	case len(lines) > 0:
	case a.Type == roster.TypeChain, a.Type == node.TypeOrchestrator:
		lines = []string{"Tools: other agents"}
	case a.Builtin && !a.Thinks:
		if s, ok := specialists[cmp.Or(a.Of, a.Name)]; ok && s.domains[0] != specialist.AnyDomain {
			add("Skills", s.domains)
		} else {
			lines = []string{"Tools: the skills that it is granted"}
		}
	default:
		lines = []string{"Tools: none (pure reasoning)"}
	}
	return lines
}

// steps is how many replies of their models agents may dispatch others with.
func steps(env node.Env) int {
	if n := env.Budgets.Most(limit.AgentSteps); n > 0 {
		return n
	}
	return math.MaxInt32
}

// orNone is a limit of which 0 is none.
func orNone(most int) int {
	if most == 0 {
		return limit.Unlimited
	}
	return most
}
