package main

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"agentmesh/agents/chain"
	"agentmesh/agents/mainagent"
	"agentmesh/agents/orchestrator"
	"agentmesh/agents/roster"
	"agentmesh/agents/skillbuilder"
	"agentmesh/agents/specialist"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/agent/modelrun"
	"agentmesh/mesh/agent/skilltools"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/node"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// A crew makes the agents that the binary brings along, and those that its configuration
// describes. Use newCrew, and close when no agent of it runs any more.
type crew struct {
	cfg   node.Config
	minds *minds
	*roster.Roster
	// apart says that the agents run as processes of their own.
	apart bool
	now   func() time.Time
	kit   *kit
	log   *slog.Logger
}

// crewNames are the agents of a crew that are code and need no model.
var crewNames = []string{"main", "orchestrator", "knowledge", "tasks", "mail", "calendar", "worker", "skill-builder"}

// none are no skills and no servers, also where defaults name some.
var none = []string{}

// coded are all agents that are code. Those that only think are not offered without a
// model: the offline planner goes by rules and cannot.
func coded() []roster.Builtin {
	types := map[string]string{"orchestrator": node.TypeOrchestrator, "main": "", "skill-builder": ""}
	var all []roster.Builtin
	for _, name := range crewNames {
		b := roster.Builtin{Name: name, Type: node.TypeWorker}
		if kind, ok := types[name]; ok {
			b.Type = kind
		}
		if card, err := readCard(name); err == nil { // a test of the cards finds what is wrong
			b.Description = card.GetDescription()
		}
		if b.Type == node.TypeOrchestrator {
			b.Use = node.Use{MCP: none, Skills: none, NativeTools: none}
		}
		all = append(all, b)
	}
	thinker := func(name, description string, tools ...string) roster.Builtin {
		return roster.Builtin{Name: name, Type: node.TypeWorker, Description: description, Thinks: true,
			Use: node.Use{MCP: none, Skills: none, NativeTools: append([]string{}, tools...)}}
	}
	return append(all,
		thinker("web-researcher", "Researches on the web: searches, reads pages by their URLs, and names its sources", "google_search", "url_context"),
		thinker("code-executor", "Computes and analyses by writing code and running it", "code_execution"),
		thinker("general-worker", "Reasons, summarises and drafts, without tools"))
}

// thoughts are what those that only think are told first.
var thoughts = map[string]string{
	"web-researcher": "You research on the web. Search for what you do not know, read the pages that matter, and name the sources of what you say.",
	"code-executor":  "You compute and analyse with code. Run code for whatever can be computed rather than estimating it, and return results with how they came about.",
	"general-worker": "You think tasks through: you reason, summarise, draft and compare what you are given.",
}

// planCrew works out the agents for the operator's settings, which are filled, without what
// they work with, and what is wrong with what is said of them.
func planCrew(cfg node.Config, now func() time.Time, logger *slog.Logger) (*crew, []error) {
	c := &crew{cfg: cfg, now: now, log: logger}
	c.minds = &minds{cfg: &c.cfg, private: cfg.Auth != "" && cfg.Auth != "none", now: now, logger: logger, made: map[[2]string]*mind{}}
	var problems []error
	if _, err := c.minds.of("", ""); err != nil {
		problems = append(problems, err)
	}
	problems = append(problems, missingFolders(&c.cfg)...)
	made, more := roster.Make(&c.cfg, coded(), c.lacking)
	c.Roster = made
	return c, append(problems, more...)
}

// newCrew returns the agents for the operator's settings, which are filled.
func newCrew(cfg node.Config, now func() time.Time, logger *slog.Logger) (*crew, error) {
	c, problems := planCrew(cfg, now, logger)
	if len(problems) > 0 {
		return nil, cfg.Located(problems[0])
	}
	for _, l := range c.Left {
		if slices.ContainsFunc(c.asked(), func(name string) bool { return name == l.Name }) {
			logger.Warn("an agent is not offered", "agent", l.Name, "because", l.Why)
		} else {
			logger.Info("an agent is not offered", "agent", l.Name, "because", l.Why)
		}
	}
	k, err := newKit(&c.cfg, now, logger)
	if err != nil {
		return nil, err
	}
	c.kit = k
	return c, nil
}

// asked are the agents that the operator says something of.
func (c *crew) asked() []string {
	return append(slices.Collect(maps.Keys(c.cfg.Agents)), slices.Collect(maps.Keys(c.cfg.Chains))...)
}

// lacking says why an agent cannot be offered; "" if it can.
func (c *crew) lacking(a *roster.Agent) string {
	if a.Type == roster.TypeChain {
		return ""
	}
	m, err := c.minds.of(a.Endpoint, a.API)
	at := "model"
	if a.Endpoint != "" {
		at = "models." + a.Endpoint
	}
	switch {
	case err != nil:
		return mesh.DetailOf(err)
	case m.offline && (a.Thinks || a.Type == node.TypeWorker && !a.Builtin) && len(a.MayCall()) == 0:
		return "it needs a language model, and there is none (set model.url and model.key, or an endpoint of models)"
	case len(a.NativeTools) == 0:
		return ""
	}
	lacks := llm.Lacking(m.model, a.NativeTools)
	if len(lacks) == 0 {
		return ""
	}
	return fmt.Sprintf("its endpoint does not have the tools %s; if it does, name them in %s.native_tools, or choose another endpoint", strings.Join(lacks, ", "), at)
}

// missingFolders says which of the folders that somebody has named are not there, and whether
// there is nothing in that of documents: others, which the binary has, would serve in silence.
func missingFolders(cfg *node.Config) (problems []error) {
	for _, f := range []struct{ field, dir string }{{"skills", cfg.Skills}, {"docs", cfg.Docs}} {
		if cfg.Origin(f.field) == "" || f.dir == "" {
			continue // the binary has a copy
		}
		inside, err := os.ReadDir(f.dir)
		why := "is empty; put documents there"
		if bad := (*fs.PathError)(nil); errors.As(err, &bad) {
			why = "cannot be read (" + bad.Err.Error() + "); make it"
		} else if f.field != "docs" || len(inside) > 0 {
			continue
		}
		problems = append(problems, mesh.InvalidField("mesh.up", f.field, "names the folder %s, which %s, name another one, or leave it out for what the binary has", f.dir, why))
	}
	return problems
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
	for _, a := range c.Agents {
		out = append(out, node.Builtin{Name: a.Name, Inner: a.Of != "", Delegates: c.delegates(a),
			Orchestrator: a.Orchestrator, Orchestrates: a.Type == node.TypeOrchestrator, Time: c.Time(a),
			New: func(env node.Env) (agent.Agent, error) { return c.agent(a.Name, env) }})
	}
	return out
}

// names are those of the agents that are there for all.
func (c *crew) names() (names []string) {
	for _, a := range c.Agents {
		if a.Of == "" {
			names = append(names, a.Name)
		}
	}
	return names
}

// agent makes the agent of that name. It is not called concurrently.
func (c *crew) agent(name string, env node.Env) (agent.Agent, error) {
	defer c.kit.watch(env.Alarms)
	a := c.Get(name)
	if a == nil {
		if i := slices.IndexFunc(c.Left, func(l roster.Left) bool { return l.Name == name }); i >= 0 {
			return nil, mesh.Errorf(mesh.Precondition, "crew.agent", "%s is not offered: %s", name, c.Left[i].Why)
		}
		return nil, mesh.Errorf(mesh.NotFound, "crew.agent", "there is no built-in agent %q; the agents are %s", name, strings.Join(c.names(), ", "))
	}
	card, err := c.card(a)
	if err != nil {
		return nil, err
	}
	if a.Type == roster.TypeChain {
		cfg := chain.Config{Card: card, Conns: env.Conns, Dispatch: c.dispatching(a, env), Logger: env.Logger}
		for _, s := range a.Stages {
			stage := chain.Stage{Name: s.Name, Task: s.Task, Synthesis: s.Synthesis}
			for _, r := range s.Agents {
				stage.Agents = append(stage.Agents, chain.Agent(r))
			}
			cfg.Stages = append(cfg.Stages, stage)
		}
		return chain.New(cfg)
	}
	t, err := c.thinking(a)
	if err != nil {
		return nil, err
	}
	if !t.offline && name != "skill-builder" { // which reads what is said, and no files
		card.DefaultInputModes = append(card.DefaultInputModes, modelrun.Takes(t.model)...)
	}
	switch {
	case name == "main":
		cfg := mainagent.Config{Card: card, Model: t.model, ModelName: t.name, Fit: t.fit, Cost: t.cost, Conns: env.Conns, Dispatch: c.dispatching(a, env),
			Instructions: a.Instructions, MaxSteps: cmp.Or(a.MaxIterations, steps(env)), Now: c.now, Logger: env.Logger}
		if !t.offline { // which plans by the message alone
			cfg.Context = c.kit.known(contextTime)
		}
		if c.delegates(a) {
			cfg.Reads, err = c.reads(a, t)
		} else {
			cfg.Solo, err = c.solo(a)
		}
		if err != nil {
			return nil, err
		}
		return mainagent.New(cfg)
	case name == "skill-builder":
		cfg := skillbuilder.Config{Card: card, Conns: env.Conns, Dispatch: c.dispatching(a, env), Now: c.now, Logger: env.Logger}
		if !t.offline { // which goes by rules, as the builder does itself
			cfg.Model, cfg.ModelName, cfg.Fit, cfg.Cost = t.model, t.name, t.fit, t.cost
		}
		if w := c.Get("worker"); w != nil {
			works, err := c.thinking(w)
			if err != nil {
				return nil, err
			}
			cfg.Worker, cfg.WorkerThinks = "worker", !works.offline
		}
		return skillbuilder.New(cfg)
	case a.Type == node.TypeOrchestrator:
		cfg := orchestrator.Config{Card: card, Model: t.model, ModelName: t.name, Fit: t.fit, Cost: t.cost, Conns: env.Conns,
			Dispatch: c.dispatching(a, env), Instructions: a.Instructions, Learns: c.kit.learns, MaxSteps: cmp.Or(a.MaxIterations, steps(env)), Now: c.now, Logger: env.Logger}
		if !t.offline { // which plans by the message alone
			cfg.Context = c.kit.known(contextTime)
		}
		if len(a.MayCall()) > 0 {
			cfg.Own, err = c.own(a)
		} else {
			cfg.Reads, err = c.reads(a, t)
		}
		if err != nil {
			return nil, err
		}
		return orchestrator.New(cfg)
	}
	return c.specialist(a, card, t, env)
}

// A thought is a model as one agent asks it.
type thought struct {
	model   llm.Model
	name    string // "" for the provider's default
	offline bool
	fit     func(req *llm.Request, last mesh.Usage) int
	cost    func(model string, u mesh.Usage) mesh.Usage
}

// thinking is the model of an agent, with its window and prices.
func (c *crew) thinking(a *roster.Agent) (thought, error) {
	m, err := c.minds.of(a.Endpoint, a.API)
	if err != nil {
		return thought{}, err
	}
	t := thought{model: m.model, name: orText(a.Model, m.name), offline: m.offline, cost: m.cost()}
	t.fit = m.fit(t.name)
	if len(a.NativeTools) > 0 {
		t.model = equipped{m.model, a.NativeTools}
	}
	return t, nil
}

// offline reports whether those who do not say which model they want have none.
func (c *crew) offline() bool {
	m, err := c.minds.of(c.cfg.Defaults.Endpoint, c.cfg.Defaults.API)
	return err == nil && m.offline
}

// endpoint is the model of those who do not say which they want.
func (c *crew) endpoint() node.Model {
	if name := c.cfg.Defaults.Endpoint; name != "" {
		return c.cfg.Models[name]
	}
	return c.cfg.Model
}

// face is how the agent calls skills.
func (c *crew) face(a *roster.Agent) skilltools.Face {
	name := cmp.Or(a.Of, a.Name)
	if c.cfg.Mode(name) == node.ModeDirect {
		return skilltools.FaceDirect
	}
	return skilltools.Face(c.cfg.Interface(name))
}

// delegates reports whether the agent has others do its work, and calls no skills but those
// that only read.
func (c *crew) delegates(a *roster.Agent) bool {
	return a.Type == node.TypeOrchestrator && len(a.MayCall()) == 0 || a.Type == roster.TypeChain || a.Name == "main" && c.cfg.Mode(a.Name) == node.ModeMultiAgent
}

// reads is how an agent that delegates runs skills that only read; nil if it runs
// none. The offline planner goes by rules, and always delegates.
func (c *crew) reads(a *roster.Agent, t thought) (*skilltools.Options, error) {
	if !c.cfg.OrchestratorReadSkills || t.offline {
		return nil, nil
	}
	handlers, err := c.kit.handlers([]string{specialist.AnyDomain}, a.MCP)
	if err != nil {
		return nil, err
	}
	return &skilltools.Options{Face: c.face(a), Handlers: handlers, Timeout: c.cfg.Limits.Timeout, Notify: c.kit.notify}, nil
}

// own is how an orchestrator runs skills of its own.
func (c *crew) own(a *roster.Agent) (*skilltools.Options, error) {
	handlers, err := c.kit.handlers([]string{specialist.AnyDomain}, nil)
	if err != nil {
		return nil, err
	}
	return &skilltools.Options{Face: c.face(a), Handlers: handlers, Skills: a.MayCall(), MaxToolCalls: skilltools.Unlimited,
		Timeout: c.cfg.Limits.Timeout, Notify: c.kit.notify, Now: c.now, Logger: c.log}, nil
}

// solo is how the main agent works when it has the skills itself.
func (c *crew) solo(a *roster.Agent) (*mainagent.Solo, error) {
	handlers, err := c.kit.handlers([]string{specialist.AnyDomain}, a.MCP)
	if err != nil {
		return nil, err
	}
	return &mainagent.Solo{Interface: c.face(a), Handlers: handlers, MaxSteps: a.MaxIterations, Timeout: c.cfg.Limits.Timeout, Notify: c.kit.notify}, nil
}

// specialists are the agents that are one implementation with other skills.
var specialists = map[string]struct {
	domains []string
	prompt  string
}{
	"knowledge": {[]string{"knowledge"}, "You answer questions from the documents that you search, and from nothing else. Behind each statement cite the passage that says it by its number, as [17]; the list of sources is added to your answer, so write none yourself. Where no passage has the answer, say that you do not know."},
	"tasks":     {[]string{"tasks"}, "You keep the user's task list."},
	"mail":      {[]string{"mail"}, "You write and send mail for the user."},
	"calendar":  {[]string{"calendar"}, "You keep the user's calendar."},
	"worker":    {[]string{specialist.AnyDomain}, "You carry out tasks with whatever skills you are granted."},
}

func (c *crew) specialist(a *roster.Agent, card *a2apb.AgentCard, t thought, env node.Env) (agent.Agent, error) {
	cfg := specialist.Config{Card: card, Model: t.model, ModelName: t.name, Fit: t.fit, Cost: t.cost,
		Interface: c.face(a), SkillTimeout: c.cfg.Limits.Timeout, Notify: c.kit.notify, MaxSteps: a.MaxIterations,
		MaxToolCalls: max(cmp.Or(a.MaxToolCalls, c.cfg.Limits.AgentCalls), skilltools.Unlimited), Now: c.now, Logger: env.Logger}
	coded, ours := specialists[cmp.Or(a.Of, a.Name)]
	var err error
	switch {
	case ours && a.Skills == nil: // it has the domains of its code
		cfg.Domains = coded.domains
		cfg.Handlers, err = c.kit.handlers(coded.domains, a.MCP)
	case len(a.MayCall()) > 0:
		cfg.Skills = a.MayCall()
		cfg.Handlers, err = c.kit.handlers([]string{specialist.AnyDomain}, nil)
	}
	if err != nil {
		return nil, err
	}
	cfg.Prompt = strings.TrimSpace(cmp.Or(coded.prompt, thoughts[cmp.Or(a.Of, a.Name)]) + "\n\n" + a.Instructions)
	return specialist.New(cfg)
}
