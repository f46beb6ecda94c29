package node

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"agentmesh/mesh"
)

// A checker collects mistakes.
type checker struct {
	cfg      *Config
	problems []error
}

func (c *checker) bad(field, format string, args ...any) {
	c.problems = append(c.problems, invalid(field, format, args...))
}

// note takes in the error of a check that stops at the first one.
func (c *checker) note(err error) {
	if err != nil {
		c.problems = append(c.problems, err)
	}
}

// checkAgents returns what is wrong with what is said of agents, models and chains, each by
// itself.
func (c *Config) checkAgents() []error {
	k := &checker{cfg: c}
	for _, name := range slices.Sorted(maps.Keys(c.Models)) {
		at := "models." + name
		switch m := c.Models[name]; {
		case !endpointName.MatchString(name):
			k.bad("models", "has %q; a name is lower-case letters, digits, '-', '_' and '.'", mesh.Clip(name, 64))
		case m.URL == "":
			k.bad(at, "needs a url such as https://api.openai.com/v1; without one nobody can be asked")
		default:
			k.note(checkModel(at, m))
		}
	}
	k.use("defaults", c.Defaults.Use)
	k.orchestration("defaults", c.Defaults.Orchestration)
	for _, name := range slices.Sorted(maps.Keys(c.Agents)) {
		k.agent(name, c.Agents[name])
	}
	for _, name := range slices.Sorted(maps.Keys(c.Chains)) {
		k.chain(name, c.Chains[name])
	}
	return k.problems
}

func (k *checker) agent(name string, a AgentConfig) {
	if !mesh.ValidAgentName(name) {
		k.bad("agents", "has %q, which is no name of an agent", mesh.Clip(name, 64))
		return
	}
	at, cfg := "agents."+name, k.cfg
	k.use(at, a.Use)
	k.orchestration(at, a.Orchestration)
	switch {
	case a.Type == "chain":
		k.bad(at+".type", "is chain; write the agent under chains")
	case a.Type != "" && a.Type != TypeWorker && a.Type != TypeOrchestrator:
		k.bad(at+".type", "must be %s or %s, and is %q", TypeWorker, TypeOrchestrator, mesh.Clip(a.Type, 32))
	}
	k.words(at, a.Description, a.Instructions)
	k.note(checkTimes(at+".time", a.Time, at+".silence", a.Silence))
	k.note(checkOutput(at, a.OutputEvents, a.OutputBytes))
	k.note(checkRecent(at+".recent_messages", a.RecentMessages))
	if err := a.calledBy().Validate(); err != nil {
		k.bad(at+"."+mesh.FieldOf(err), "%s", mesh.DetailOf(err))
	}
	if a.ToolMode != "" {
		k.note(checkMode(at+".tool_mode", a.ToolMode))
	}
	if a.SkillInterface != "" {
		if err := cfg.checkInterface(at+".skill_interface", a.SkillInterface); err != nil {
			k.note(err)
		} else if cfg.Mode(name) == ModeDirect && a.SkillInterface == InterfaceCLI {
			k.bad(at+".skill_interface", "must be %s with tool_mode %s", InterfaceJSON, ModeDirect)
		}
	}
}

func (k *checker) words(at, description, instructions string) {
	if len(description) > maxDescription {
		k.bad(at+".description", "has %d bytes and may have %d; say in a sentence what it is for", len(description), maxDescription)
	}
	if len(instructions) > maxInstructions {
		k.bad(at+".custom_instructions", "have %d bytes and may have %d; shorten them", len(instructions), maxInstructions)
	}
}

// use checks the values at one level.
func (k *checker) use(at string, u Use) {
	if _, ok := k.cfg.Models[u.Endpoint]; u.Endpoint != "" && !ok {
		k.bad(at+".endpoint", "names %q, which is not in models; add it there, or leave it out for model", mesh.Clip(u.Endpoint, 64))
	}
	if !slices.Contains([]string{"", "auto", "chat", "responses"}, u.API) {
		k.bad(at+".api", "must be auto, chat or responses, and is %q", mesh.Clip(u.API, 32))
	}
	for _, name := range u.MCP {
		if _, ok := k.cfg.MCP.Servers[name]; !ok {
			k.bad(at+".mcp", "names %q, which is not in mcp.servers; add it there, or take it out here", mesh.Clip(name, 64))
		}
	}
	for _, pattern := range u.Skills {
		if !skillPattern.MatchString(pattern) {
			k.bad(at+".skills", "has %q; write names of skills such as mail.send, mail.* for all of a domain, or *", mesh.Clip(pattern, 64))
		}
	}
	k.natives(at+".native_tools", u.NativeTools)
	if u.MaxIterations < 0 || u.MaxIterations > maxIterations {
		k.bad(at+".max_iterations", "must be 1 to %d, and is %d; leave it out for the default", maxIterations, u.MaxIterations)
	}
	if u.MaxToolCalls < -1 || u.MaxToolCalls > maxCallsOfAgent {
		k.bad(at+".max_tool_calls", "must be 1 to %d, or -1 for no limit of its own, and is %d", maxCallsOfAgent, u.MaxToolCalls)
	}
	if u.MaxTokens < 0 {
		k.bad(at+".max_tokens", "must be a number of tokens, and is %d; leave it out for no limit", u.MaxTokens)
	}
	if !(u.MaxCost >= 0 && u.MaxCost <= maxDollars) {
		k.bad(at+".max_cost", "must be at most %v US dollars, and is %v; leave it out for no limit", maxDollars, u.MaxCost)
	}
	k.time(at+".timeout", u.Timeout)
}

func (k *checker) natives(at string, names []string) {
	for _, name := range names {
		if !nativeName.MatchString(name) {
			k.bad(at, "has %q; write the endpoint's own names of its tools, such as web_search", mesh.Clip(name, 64))
		}
	}
}

func (k *checker) time(field string, d time.Duration) {
	if d != 0 && (d < time.Second || d > maxAgentTime) {
		k.bad(field, "must be 1s to %v, and is %v; leave it out for the default", maxAgentTime, d)
	}
}

func (k *checker) orchestration(at string, o Orchestration) {
	k.time(at+".orchestrator.agent_timeout", o.Orchestrator.AgentTimeout)
	k.time(at+".orchestrator.max_budget", o.Orchestrator.MaxBudget)
	k.time(at+".orchestrator.help_timeout", o.Orchestrator.HelpTimeout)
	if n := o.Orchestrator.MaxConcurrentAgents; n < 0 || n > maxConcurrent {
		k.bad(at+".orchestrator.max_concurrent_agents", "must be 1 to %d, and is %d; leave it out for 5", maxConcurrent, n)
	}
	if p := o.Orchestrator.Profile; !slices.Contains([]string{"", "push", "collect", "full"}, p) {
		k.bad(at+".orchestrator.profile", "must be push, collect or full, and is %q", mesh.Clip(p, 32))
	}
	if o.SubAgents != nil && len(o.SubAgents) == 0 {
		k.bad(at+".sub_agents", "names nobody; name those that may be dispatched, or leave it out for all")
	}
	seen := map[string]bool{}
	for i, s := range o.SubAgents {
		at := fmt.Sprintf("%s.sub_agents[%d]", at, i)
		k.name(at, s.Name, seen)
		k.use(at, s.Use)
	}
}

// name checks the name of an agent in a list.
func (k *checker) name(at, name string, seen map[string]bool) {
	switch {
	case name == "":
		k.bad(at+".name", "is missing; name the agent")
	case !mesh.ValidAgentName(name):
		k.bad(at+".name", "is %q, which is no name of an agent", mesh.Clip(name, 64))
	case seen[name]:
		k.bad(at+".name", "is %q, which is in the list already; take one of them out", name)
	}
	seen[name] = true
}

func (k *checker) chain(name string, c Chain) {
	if !mesh.ValidAgentName(name) {
		k.bad("chains", "has %q, which is no name of an agent", mesh.Clip(name, 64))
		return
	}
	at := "chains." + name
	if _, ok := k.cfg.Agents[name]; ok && k.cfg.Agents[name].Describes() {
		k.bad(at, "is the name of an agent, too; give one of them another name")
	}
	k.words(at, c.Description, "")
	k.use(at, c.Use)
	k.orchestration(at, c.Orchestration)
	if n := len(c.Stages); n == 0 || n > maxStages {
		k.bad(at+".stages", "must be 1 to %d, and are %d", maxStages, n)
	}
	names := map[string]bool{}
	for i, s := range c.Stages {
		at := fmt.Sprintf("%s.stages[%d]", at, i)
		switch {
		case s.Name != "" && !stageName.MatchString(s.Name):
			k.bad(at+".name", "must be lower-case letters, digits, '-' and '_', at most 32, beginning with a letter, and is %q", mesh.Clip(s.Name, 64))
		case s.Name != "" && names[s.Name]:
			k.bad(at+".name", "is %q, as that of another stage; give each its own", s.Name)
		}
		names[s.Name] = true
		k.stage(at, s)
	}
}

func (k *checker) stage(at string, s Stage) {
	k.words(at, s.Task, s.Synthesis.Instructions)
	k.use(at, s.Use)
	k.orchestration(at, s.Orchestration)
	k.use(at+".synthesis", s.Synthesis.Use)
	if n := len(s.Agents); n == 0 || n > maxStageAgents {
		k.bad(at+".agents", "must be 1 to %d, and are %d", maxStageAgents, n)
	}
	if len(s.Agents) == 1 && s.Synthesis.set() {
		k.bad(at+".synthesis", "is for stages of several agents, and there is one; leave it out")
	}
	seen := map[string]bool{}
	for i, a := range s.Agents {
		at := fmt.Sprintf("%s.agents[%d]", at, i)
		k.name(at, a.Name, seen)
		k.use(at, a.Use)
		k.orchestration(at, a.Orchestration)
	}
}
