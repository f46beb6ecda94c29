package node

import (
	"regexp"
	"slices"
	"strings"
	"time"

	"agentmesh/mesh"
)

// The types of agents that are described in the file.
const (
	// TypeWorker does one task with its skills, or by thinking alone.
	TypeWorker = "worker"
	// TypeOrchestrator has other agents do the parts of a task.
	TypeOrchestrator = "orchestrator"
)

// Use is how an agent is used: what holds for all (Config.Defaults), for one agent, or for
// one where a chain, a stage or an orchestrator uses it. What is said nearer to the use
// wins, field by field.
type Use struct {
	// Endpoint is the name of one of Config.Models; "" is Config.Model. It is never a
	// model's choice.
	Endpoint string `yaml:"endpoint"`
	// API is that of the endpoint, for this use: auto, chat or responses.
	API string `yaml:"api"`
	// Model is the name of the model to ask for there.
	Model string `yaml:"model"`
	// MCP are the MCP servers whose tools the agent may call, by name.
	MCP []string `yaml:"mcp"`
	// Skills are those that it may call, as patterns.
	Skills []string `yaml:"skills"`
	// NativeTools are tools of the endpoint's own, by its names for them; an empty list is
	// none.
	NativeTools []string `yaml:"native_tools"`
	// MaxIterations is how many replies of its model may call tools; default 6.
	MaxIterations int `yaml:"max_iterations"`
	// MaxToolCalls is how many skills it may call when others dispatch it; default
	// Limits.AgentCalls.
	MaxToolCalls int `yaml:"max_tool_calls"`
	// MaxTokens is how many tokens of models it may use, with all that it dispatches, when
	// others dispatch it, and MaxCost how many US dollars; no limit of its own by default.
	MaxTokens int64   `yaml:"max_tokens"`
	MaxCost   float64 `yaml:"max_cost"`
	// Timeout is how long it may take when others dispatch it; default
	// Orchestrator.AgentTimeout.
	Timeout time.Duration `yaml:"timeout"`
}

// Orchestration is how an agent of TypeOrchestrator has others work.
type Orchestration struct {
	Orchestrator Orchestrator `yaml:"orchestrator"`
	// SubAgents are those that it may dispatch; by default all that have a description and
	// are neither orchestrators nor chains.
	SubAgents []SubAgent `yaml:"sub_agents"`
}

// Orchestrator bounds what an orchestrator does.
type Orchestrator struct {
	// MaxConcurrentAgents is how many of its agents work at a time; default 5.
	MaxConcurrentAgents int `yaml:"max_concurrent_agents"`
	// AgentTimeout is how long one of them may take; default 300 s, and 30 s with the profile collect.
	AgentTimeout time.Duration `yaml:"agent_timeout"`
	// MaxBudget is how long all of its work may take; default 600 s.
	MaxBudget time.Duration `yaml:"max_budget"`
	// HelpTimeout is how long one of its agents that asks for help waits for the answer;
	// default 5 min.
	HelpTimeout time.Duration `yaml:"help_timeout"`
	// Profile is how it gets results: push, collect or full (default).
	Profile string `yaml:"profile"`
}

// A SubAgent is an agent that an orchestrator may dispatch, and how it is used there. In a
// file, a name alone will do.
type SubAgent struct {
	Name string `yaml:"name"`
	Use  `yaml:",inline"`
}

// Defaults hold for all agents.
type Defaults struct {
	Use           `yaml:",inline"`
	Orchestration `yaml:",inline"`
}

// An AgentConfig describes an agent that is no code, or overrides what holds for all for
// one that is.
type AgentConfig struct {
	// Type is TypeWorker (default) or TypeOrchestrator.
	Type string `yaml:"type"`
	// Description is what the agent is for; only with one do orchestrators choose it.
	Description string `yaml:"description"`
	// Instructions are what its model is told before all else.
	Instructions  string `yaml:"custom_instructions"`
	Use           `yaml:",inline"`
	Orchestration `yaml:",inline"`
	// ToolMode is, for the main agent, how it works; for others direct gives
	// the model a tool for each skill. Without a SkillInterface it means json.
	ToolMode string `yaml:"tool_mode"`
	// SkillInterface is cli or json.
	SkillInterface string `yaml:"skill_interface"`
	// Time and Silence are those of Limits.AgentTime and Limits.AgentSilence for this
	// agent, which may be any.
	Time    time.Duration `yaml:"time"`
	Silence time.Duration `yaml:"silence"`
	// OutputEvents and OutputBytes are those of Limits for this agent, which may be any.
	OutputEvents int64 `yaml:"output_events"`
	OutputBytes  int64 `yaml:"output_bytes"`
	// RecentMessages is that of Handoff for handoffs to this agent, which may be any.
	RecentMessages *int `yaml:"recent_messages"`
	// Binding and Version are by what a registered agent is called, see [call.Interface].
	Binding string `yaml:"protocol_binding"`
	Version string `yaml:"protocol_version"`
}

// Describes reports whether the settings make an agent where there is none of that name.
func (a AgentConfig) Describes() bool {
	return a.Type != "" || a.Description != "" || a.Instructions != "" || a.Skills != nil
}

// A Chain is an agent that has others work in stages, one after the other.
type Chain struct {
	Description string `yaml:"description"`
	// Tags are words by which the chain is found.
	Tags          []string `yaml:"tags"`
	Use           `yaml:",inline"`
	Orchestration `yaml:",inline"`
	Stages        []Stage `yaml:"stages"`
}

// A Stage is the work of one agent, or of several at the same time whose results a model
// then puts together. It begins when the stage before it is done.
type Stage struct {
	Name string `yaml:"name"`
	// Task is what its agents are told to do with the chain's input; by default that is
	// all that they are told.
	Task          string       `yaml:"task"`
	Agents        []StageAgent `yaml:"agents"`
	Use           `yaml:",inline"`
	Orchestration `yaml:",inline"`
	Synthesis     Synthesis `yaml:"synthesis"`
}

// A StageAgent is an agent of a stage. In a file, a name alone will do.
type StageAgent struct {
	Name          string `yaml:"name"`
	Use           `yaml:",inline"`
	Orchestration `yaml:",inline"`
}

// Synthesis is how a model puts the results of a stage together.
type Synthesis struct {
	// Instructions are what it is told beside that.
	Instructions string `yaml:"custom_instructions"`
	Use          `yaml:",inline"`
}

// Bounds of what may be said of agents.
const (
	maxIterations   = 100
	maxCallsOfAgent = 1000
	maxConcurrent   = 256
	maxInstructions = 64 << 10
	maxDescription  = 2 << 10
	maxStages       = 32
	maxStageAgents  = 8
)

var (
	endpointName = regexp.MustCompile(`^[a-z0-9][a-z0-9_.-]{0,63}$`)
	nativeName   = regexp.MustCompile(`^[a-z][a-z0-9_]{0,63}$`)
	skillPattern = regexp.MustCompile(`^(\*|[a-z0-9][a-z0-9_-]{0,47}\.(\*|[a-z0-9][a-z0-9_-]{0,47}))$`)
	stageName    = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,31}$`)
)

func (s Synthesis) set() bool {
	return s.Instructions != "" || s.Endpoint+s.Model+s.API != "" || s.MCP != nil || s.NativeTools != nil || s.MaxIterations != 0
}

// Budget is what the use allows whoever is dispatched; a part that is 0 is no limit.
func (u Use) Budget() mesh.Budget { return mesh.Budget{Tokens: u.MaxTokens, Cost: micro(u.MaxCost)} }

// MayCall are the patterns of the skills that the use allows: its skills, and the tools of
// its MCP servers.
func (u Use) MayCall() []string {
	all := slices.Clone(u.Skills)
	for _, server := range u.MCP {
		all = append(all, server+".*")
	}
	return all
}

// Domains are those of the skills that the use allows, for people.
func (u Use) Domains() []string {
	var all []string
	for _, p := range u.MayCall() {
		if d, _, ok := strings.Cut(p, "."); ok && !slices.Contains(all, d) {
			all = append(all, d)
		}
	}
	return all
}

// chainDepths are how many levels of chains there are at each chain: itself, and those
// within it.
func (c *Config) chainDepths() map[string]int {
	known := map[string]int{}
	var nested func(name string) int
	nested = func(name string) int {
		chain, ok := c.Chains[name]
		if n, seen := known[name]; seen || !ok {
			return n
		}
		known[name] = 0 // of a chain within itself, which is refused
		deepest := 0
		for _, s := range chain.Stages {
			for _, a := range s.Agents {
				deepest = max(deepest, nested(a.Name))
			}
		}
		known[name] = 1 + deepest
		return known[name]
	}
	for name := range c.Chains {
		nested(name)
	}
	return known
}
