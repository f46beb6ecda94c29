package mainagent_test

import (
	"os"
	"path/filepath"
	"testing"
	"testing/fstest"
	"time"

	"agentmesh/agents/internal/meshtest"
	"agentmesh/agents/mainagent"
	"agentmesh/agents/orchestrator"
	"agentmesh/agents/skillbuilder"
	"agentmesh/agents/specialist"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/agent/skilltools"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/offline"
	"agentmesh/mesh/node"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/store/shared"
	"agentmesh/mesh/text/texttest"
	"agentmesh/skills/calendar"
	"agentmesh/skills/knowledge"
	"agentmesh/skills/mail"
	"agentmesh/skills/system"
	"agentmesh/skills/tasks"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	texttest.FromEnv()
	// What one agent does alone, and what models are told, is the same on two nodes.
	shared.Twice(m, "^Test(OneAgent|Alone|TheTenthCall|ThePrompt|WithoutAModel|TheAgentNeeds|AModelSees|AtALimit|ANoAtALimit)")
	goleak.VerifyTestMain(m)
}

// friday is when these tests happen.
func friday() time.Time { return time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC) }

var documents = fstest.MapFS{
	"limits.md": {Data: []byte("# Limits\n\n## Rate limiting\n\nTo configure rate limiting for an agent, set rate_limit.per_second in mesh.yaml.\n")},
	"cards.md":  {Data: []byte("# Cards\n\nAn agent publishes a card.\n")},
}

// A world is how the agents of a mesh are made.
type world struct {
	t     *testing.T
	model llm.Model
	data  string
	face  skilltools.Face // of the specialists
}

func newWorld(t *testing.T) *world {
	return &world{t: t, model: offline.New(friday), data: t.TempDir()}
}

// all are the agents that the mesh brings along.
func (w *world) all() meshtest.Agents {
	agents := meshtest.Agents{"main": w.main, "orchestrator": w.orchestrator, "skill-builder": w.builder}
	handlers := w.handlers()
	for name, domain := range map[string]string{
		"knowledge": "knowledge", "tasks": "tasks", "mail": "mail", "calendar": "calendar", "worker": specialist.AnyDomain,
	} {
		agents[name] = w.specialist(name, domain, handlers)
	}
	return agents
}

func (w *world) handlers() map[string]skill.Handler {
	index, err := knowledge.Open(documents, knowledge.Options{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() {
		if err := index.Close(); err != nil {
			w.t.Error(err)
		}
	})
	all := map[string]skill.Handler{}
	for _, domain := range []map[string]skill.Handler{
		knowledge.Handlers(index), tasks.Handlers(), mail.Handlers(w.data), calendar.Handlers(w.data), system.Handlers(),
	} {
		for name, h := range domain {
			all[name] = h
		}
	}
	return all
}

func (w *world) main(env node.Env) (agent.Agent, error) {
	return mainagent.New(mainagent.Config{Card: meshtest.Card(w.t, "main"), Model: w.model, Conns: env.Conns, Logger: env.Logger})
}

func (w *world) orchestrator(env node.Env) (agent.Agent, error) {
	return orchestrator.New(orchestrator.Config{
		Card: meshtest.Card(w.t, "orchestrator"), Model: w.model, Conns: env.Conns, Now: friday, Logger: env.Logger,
	})
}

func (w *world) builder(env node.Env) (agent.Agent, error) {
	return skillbuilder.New(skillbuilder.Config{Card: meshtest.Card(w.t, "skill-builder"), Conns: env.Conns, Now: friday, Logger: env.Logger})
}

func (w *world) specialist(name, domain string, handlers map[string]skill.Handler) func(node.Env) (agent.Agent, error) {
	return func(env node.Env) (agent.Agent, error) {
		return specialist.New(specialist.Config{
			Card: meshtest.Card(w.t, name), Model: w.model, Domains: []string{domain}, Handlers: handlers, Interface: w.face,
			Prompt: "You are the " + name + " agent.", Now: friday, Logger: env.Logger,
		})
	}
}

// files returns the files of a folder below the data folder of mail and
// calendar, joined.
func (w *world) files(kind string) string {
	w.t.Helper()
	found := ""
	err := filepath.WalkDir(w.data, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != kind {
			return err
		}
		data, err := os.ReadFile(path)
		found += string(data)
		return err
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return found
}

func bodies[B mesh.Body](events []*mesh.Event) []B {
	var out []B
	for _, e := range events {
		if b, ok := e.Body.(B); ok {
			out = append(out, b)
		}
	}
	return out
}
