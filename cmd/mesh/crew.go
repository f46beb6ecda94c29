package main

import (
	"io/fs"
	"log/slog"
	"math"
	"os"
	"slices"
	"strings"
	"time"

	"agentmesh/agentcards"
	"agentmesh/agents/mainagent"
	"agentmesh/agents/orchestrator"
	"agentmesh/agents/skillbuilder"
	"agentmesh/agents/specialist"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/agent/skilltools"
	"agentmesh/mesh/dispatch"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/node"
	"agentmesh/mesh/registry"
	"agentmesh/mesh/skill"
	"agentmesh/skills"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// A crew makes the agents that the binary brings along. Use newCrew, and close
// when no agent of it runs any more.
type crew struct {
	cfg  node.Config
	mind *mind
	// apart says that the agents run as processes of their own.
	apart bool
	now   func() time.Time
	kit   *kit
}

// crewNames are the agents of a crew.
var crewNames = []string{"main", "orchestrator", "knowledge", "tasks", "mail", "calendar", "worker", "skill-builder"}

// newCrew returns the agents for the operator's settings, which are filled.
func newCrew(cfg node.Config, now func() time.Time, logger *slog.Logger) (*crew, error) {
	for name, a := range cfg.Agents {
		switch builtIn := slices.Contains(crewNames, name); {
		case !builtIn && a.ForBuiltIn():
			return nil, unknownAgent(name)
		case builtIn && a.ForRegistered():
			return nil, mesh.InvalidField("mesh.agents", "agents."+name, "has protocol_binding or protocol_version, which are for agents that are registered, and %s is built in", name)
		}
	}
	m, err := newMind(cfg.Model, cfg.Auth != "" && cfg.Auth != "none", now, logger)
	if err != nil {
		return nil, err
	}
	k, err := newKit(&cfg, now, logger)
	if err != nil {
		return nil, err
	}
	return &crew{cfg: cfg, mind: m, now: now, kit: k}, nil
}

// unknownAgent refuses settings of an agent that nobody would ever read.
func unknownAgent(name string) error {
	advice := "the agents are " + strings.Join(crewNames, ", ")
	if near := skill.Closest(name, crewNames); near != "" {
		advice = "did you mean " + near + "?"
	}
	return mesh.InvalidField("mesh.agents", "agents", "has settings of %q, which is no built-in agent; %s", mesh.Clip(name, 60), advice)
}

// folderOr returns the folder, or otherwise when there is none.
func folderOr(dir string, otherwise fs.FS) fs.FS {
	if info, err := os.Stat(dir); dir != "" && err == nil && info.IsDir() {
		return os.DirFS(dir)
	}
	return otherwise
}

func (c *crew) close() error { return c.kit.close() }

// builtins are all agents of the crew, for a node.
func (c *crew) builtins() []node.Builtin {
	var out []node.Builtin
	for _, name := range crewNames {
		out = append(out, node.Builtin{Name: name, Delegates: c.delegates(name), New: func(env node.Env) (agent.Agent, error) { return c.agent(name, env) }})
	}
	return out
}

// agent makes the agent of that name. It is not called concurrently.
func (c *crew) agent(name string, env node.Env) (agent.Agent, error) {
	card, err := readCard(name)
	if err != nil {
		return nil, err
	}
	if c.apart {
		nameSkills(card)
	}
	model, fit, cost := c.modelOf(name)
	switch name {
	case "main":
		cfg := mainagent.Config{Card: card, Model: c.mind.model, ModelName: model, Fit: fit, Cost: cost, Conns: env.Conns, Dispatch: dispatching(env),
			MaxSteps: steps(env), Now: c.now, Logger: env.Logger}
		if !c.mind.offline { // which plans by the message alone
			cfg.Context = c.kit.known(contextTime)
		}
		if c.delegates(name) {
			cfg.Reads, err = c.reads(name)
		} else {
			cfg.Solo, err = c.solo(name)
		}
		if err != nil {
			return nil, err
		}
		return mainagent.New(cfg)
	case "orchestrator":
		reads, err := c.reads(name)
		if err != nil {
			return nil, err
		}
		return orchestrator.New(orchestrator.Config{Card: card, Model: c.mind.model, ModelName: model, Fit: fit, Cost: cost, Conns: env.Conns,
			Dispatch: dispatching(env), MaxSteps: steps(env), Reads: reads, Now: c.now, Logger: env.Logger})
	case "skill-builder":
		return skillbuilder.New(skillbuilder.Config{Card: card, Now: c.now, Logger: env.Logger})
	}
	return c.specialist(name, card, env)
}

// modelOf is the model of the agent of that name, with its window and prices.
func (c *crew) modelOf(name string) (model string, fit func(*llm.Request, mesh.Usage) int, cost func(string, mesh.Usage) mesh.Usage) {
	model = orText(c.cfg.Agents[name].Model, c.mind.name)
	return model, c.mind.fit(model), c.mind.cost()
}

// face is how the agent of that name calls skills.
func (c *crew) face(name string) skilltools.Face {
	if c.cfg.Mode(name) == node.ModeDirect {
		return skilltools.FaceDirect
	}
	return skilltools.Face(c.cfg.Interface(name))
}

// delegates reports whether the agent of that name has others do its work.
func (c *crew) delegates(name string) bool {
	return name == "orchestrator" || name == "main" && c.cfg.Mode(name) == node.ModeMultiAgent
}

// reads is how an agent that delegates runs skills that only read; nil if it runs
// none. The offline planner goes by rules, and always delegates.
func (c *crew) reads(name string) (*skilltools.Options, error) {
	if !c.cfg.OrchestratorReadSkills || c.mind.offline {
		return nil, nil
	}
	handlers, err := c.kit.handlers([]string{specialist.AnyDomain}, c.cfg.Agents[name].MCP)
	if err != nil {
		return nil, err
	}
	return &skilltools.Options{Face: c.face(name), Handlers: handlers, Timeout: c.cfg.Limits.Timeout, Notify: c.kit.notify}, nil
}

// solo is how the main agent works when it has the skills itself.
func (c *crew) solo(name string) (*mainagent.Solo, error) {
	handlers, err := c.kit.handlers([]string{specialist.AnyDomain}, c.cfg.Agents[name].MCP)
	if err != nil {
		return nil, err
	}
	return &mainagent.Solo{Interface: c.face(name), Handlers: handlers, Timeout: c.cfg.Limits.Timeout, Notify: c.kit.notify}, nil
}

// nameSkills replaces "any skill" on a card by the names of those that the binary
// has: an agent that the mesh does not run itself is granted what its card
// names, and no more.
func nameSkills(card *a2apb.AgentCard) {
	if !slices.ContainsFunc(card.GetSkills(), func(s *a2apb.AgentSkill) bool { return s.GetId() == specialist.AnyDomain }) {
		return
	}
	card.Skills = nil
	catalog, _ := skill.Load(skills.FS) // a test of package skills finds the problems
	for _, s := range catalog.List() {
		card.Skills = append(card.Skills, &a2apb.AgentSkill{Id: s.Name, Name: s.Name, Description: s.Description, Tags: append([]string{s.Domain}, s.Tags...)})
	}
}

// dispatching are the options of agents that call others.
func dispatching(env node.Env) dispatch.Options {
	o := dispatch.Options{Limits: env.Limits, MaxAgents: orNone(env.Budgets.Most(limit.TurnAgents))}
	if env.Dialer != nil {
		o.Dialer = env.Dialer
	}
	return o
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

// specialists are the agents that are one implementation with other skills.
var specialists = map[string]struct {
	domains []string
	prompt  string
}{
	"knowledge": {[]string{"knowledge"}, "You answer questions from the documents of this mesh, and name your sources."},
	"tasks":     {[]string{"tasks"}, "You keep the user's task list."},
	"mail":      {[]string{"mail"}, "You write and send mail for the user."},
	"calendar":  {[]string{"calendar"}, "You keep the user's calendar."},
	"worker":    {[]string{specialist.AnyDomain}, "You carry out tasks with whatever skills you are granted."},
}

func (c *crew) specialist(name string, card *a2apb.AgentCard, env node.Env) (agent.Agent, error) {
	s, ok := specialists[name]
	if !ok {
		return nil, mesh.Errorf(mesh.NotFound, "crew.agent", "there is no built-in agent %q; the agents are %s", name, strings.Join(crewNames, ", "))
	}
	handlers, err := c.kit.handlers(s.domains, c.cfg.Agents[name].MCP)
	if err != nil {
		return nil, err
	}
	model, fit, cost := c.modelOf(name)
	return specialist.New(specialist.Config{Card: card, Model: c.mind.model, ModelName: model, Fit: fit, Cost: cost, Domains: s.domains,
		Interface: c.face(name), Handlers: handlers, SkillTimeout: c.cfg.Limits.Timeout, Notify: c.kit.notify,
		MaxToolCalls: max(c.cfg.Limits.AgentCalls, skilltools.Unlimited), Prompt: s.prompt, Now: c.now, Logger: env.Logger})
}

// readCard reads the card of a built-in agent.
func readCard(name string) (*a2apb.AgentCard, error) {
	file := name + ".json"
	data, err := fs.ReadFile(agentcards.FS, file)
	if err != nil {
		return nil, mesh.Errorf(mesh.NotFound, "crew.readCard", "there is no built-in agent %q; the agents are %s", name, strings.Join(crewNames, ", "))
	}
	return registry.ParseCard(file, data)
}
