package main

import (
	"bytes"
	"context"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"google.golang.org/grpc"

	"agentmesh/agentcards"
	"agentmesh/agents/mainagent"
	"agentmesh/agents/orchestrator"
	"agentmesh/agents/skillbuilder"
	"agentmesh/agents/specialist"
	"agentmesh/docs"
	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/dispatch"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/offline"
	"agentmesh/mesh/llm/openai"
	"agentmesh/mesh/node"
	"agentmesh/mesh/registry"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/skill"
	"agentmesh/skills"
	"agentmesh/skills/calendar"
	"agentmesh/skills/knowledge"
	"agentmesh/skills/mail"
	"agentmesh/skills/system"
	"agentmesh/skills/tasks"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// A crew makes the agents that the binary brings along. Use newCrew, and close
// when no agent of it runs any more.
type crew struct {
	model     llm.Model
	modelName string
	offline   bool
	data      string
	docs      fs.FS
	// apart says that the agents run as processes of their own.
	apart bool
	index *knowledge.Index
	now   func() time.Time
}

// crewNames are the agents of a crew.
var crewNames = []string{"main", "orchestrator", "knowledge", "tasks", "mail", "calendar", "worker", "skill-builder"}

// newCrew returns the agents for the operator's settings: the model, and the
// folders that skills read and write.
func newCrew(cfg node.Config, now func() time.Time) (*crew, error) {
	c := &crew{data: cfg.Data, docs: folderOr(cfg.Docs, docs.FS), now: now, modelName: cfg.Model.Name}
	if cfg.Model.URL == "" && cfg.Model.Key == "" {
		c.model, c.modelName, c.offline = offline.New(now), "", true
		return c, nil
	}
	m, err := openai.New(openai.Config{BaseURL: cfg.Model.URL, Key: cfg.Model.Key, Model: cfg.Model.Name})
	if err != nil {
		return nil, err
	}
	c.model = m
	return c, nil
}

// folderOr returns the folder, or otherwise when there is none.
func folderOr(dir string, otherwise fs.FS) fs.FS {
	if info, err := os.Stat(dir); dir != "" && err == nil && info.IsDir() {
		return os.DirFS(dir)
	}
	return otherwise
}

func (c *crew) close() error {
	if c.index == nil {
		return nil
	}
	return c.index.Close()
}

// builtins are all agents of the crew, for a node.
func (c *crew) builtins() []node.Builtin {
	var out []node.Builtin
	for _, name := range crewNames {
		out = append(out, node.Builtin{Name: name, New: func(env node.Env) (agent.Agent, error) { return c.agent(name, env) }})
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
	switch name {
	case "main":
		return mainagent.New(mainagent.Config{Card: card, Model: c.model, ModelName: c.modelName, Conns: env.Conns, Dispatch: dispatching(env), Logger: env.Logger})
	case "orchestrator":
		return orchestrator.New(orchestrator.Config{Card: card, Model: c.model, ModelName: c.modelName, Conns: env.Conns, Dispatch: dispatching(env), Now: c.now, Logger: env.Logger})
	case "skill-builder":
		return skillbuilder.New(skillbuilder.Config{Card: card, Now: c.now, Logger: env.Logger})
	}
	return c.specialist(name, card, env)
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
		card.Skills = append(card.Skills, &a2apb.AgentSkill{Id: s.Name, Name: s.Name, Description: s.Description, Tags: s.Tags})
	}
}

// dispatching are the options of agents that call others.
func dispatching(env node.Env) dispatch.Options {
	if env.Dialer == nil {
		return dispatch.Options{}
	}
	return dispatch.Options{Dialer: env.Dialer}
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
	handlers := map[string]skill.Handler{}
	for _, domain := range handlerDomains(s.domains) {
		h, err := c.handlers(domain, env.Node)
		if err != nil {
			return nil, err
		}
		maps.Copy(handlers, h)
	}
	return specialist.New(specialist.Config{Card: card, Model: c.model, ModelName: c.modelName, Domains: s.domains,
		Handlers: handlers, Prompt: s.prompt, Now: c.now, Logger: env.Logger})
}

func handlerDomains(domains []string) []string {
	if slices.Contains(domains, specialist.AnyDomain) {
		return []string{"tasks", "mail", "calendar", "knowledge", "system"}
	}
	return domains
}

// handlers are what runs the skills of a domain.
func (c *crew) handlers(domain string, conn grpc.ClientConnInterface) (map[string]skill.Handler, error) {
	switch domain {
	case "tasks":
		return tasks.Handlers(), nil
	case "mail":
		return mail.Handlers(c.data), nil
	case "calendar":
		return calendar.Handlers(c.data), nil
	case "system":
		return system.Handlers(createSkill(conn)), nil
	}
	if c.index == nil {
		index, err := knowledge.Open(c.docs)
		if err != nil {
			return nil, err
		}
		c.index = index
	}
	return knowledge.Handlers(c.index), nil
}

// createSkill stores a skill in the mesh, under the identity of the call.
func createSkill(conn grpc.ClientConnInterface) func(context.Context, *skill.Skill) error {
	client := meshv1.NewSkillServiceClient(conn)
	return func(ctx context.Context, s *skill.Skill) error {
		_, err := client.CreateSkill(ctx, &meshv1.CreateSkillRequest{Source: string(s.Source)})
		err = rpc.FromStatus(err)
		if !mesh.IsCode(err, mesh.Precondition) {
			return err
		}
		have, getErr := client.GetSkill(ctx, &meshv1.GetSkillRequest{Name: s.Name})
		if getErr == nil && bytes.Equal([]byte(have.GetSkill().GetSource()), s.Source) {
			return nil // this very call, again
		}
		return mesh.Errorf(mesh.Conflict, "crew.createSkill", "there is a skill %s already: %w", s.Name, err)
	}
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
