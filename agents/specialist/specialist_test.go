package specialist_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"agentmesh/agents/internal/meshtest"
	"agentmesh/agents/orchestrator"
	"agentmesh/agents/specialist"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/agent/skilltools"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/scripted"
	"agentmesh/mesh/node"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/store/shared"
	"agentmesh/mesh/text"
	"agentmesh/mesh/text/texttest"
	"agentmesh/skills/tasks"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	texttest.FromEnv()
	shared.Twice(m, "")
	goleak.VerifyTestMain(m)
}

func friday() time.Time { return time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC) }

// direct runs a mesh whose users talk to the tasks agent, with all skills
// granted.
func direct(t *testing.T, model llm.Model, change func(*specialist.Config)) *meshtest.Mesh {
	t.Helper()
	return meshtest.Start(t, meshtest.Agents{"main": func(env node.Env) (agent.Agent, error) {
		cfg := specialist.Config{
			Card: meshtest.Card(t, "tasks"), Model: model, Domains: []string{"tasks"}, Handlers: tasks.Handlers(),
			Prompt: "You keep the tasks.", Now: friday, Logger: env.Logger,
		}
		if change != nil {
			change(&cfg)
		}
		return specialist.New(cfg)
	}}, meshtest.Options{})
}

// offered are the skills that the request's tool may call.
func offered(t *testing.T, r *llm.Request) []string {
	t.Helper()
	if len(r.Tools) != 1 || r.Tools[0].Name != skilltools.UseSkill {
		t.Fatalf("tools %+v, want use_skill alone", r.Tools)
	}
	var schema struct {
		Properties struct {
			Skill struct {
				Enum []string `json:"enum"`
			} `json:"skill"`
		} `json:"properties"`
	}
	if err := json.Unmarshal(r.Tools[0].Parameters, &schema); err != nil {
		t.Fatal(err)
	}
	return schema.Properties.Skill.Enum
}

// S0-004, S0-008, S0-033, S0-036, S0-037, S1-069: asked with everything granted, an
// agent has the skills of its domains, and is told how to work.
func TestAnAgentSeesTheSkillsOfItsDomainsAndTheRules(t *testing.T) {
	model := scripted.New(scripted.Say("Done."))
	m := direct(t, model, nil)
	if s := m.Say(mesh.NewThreadID(), "What is open?"); s.Text != "Done." {
		t.Errorf("said %q", s.Text)
	}
	req := model.Requests()[0]
	if diff := cmp.Diff([]string{"tasks.archive", "tasks.create", "tasks.delete", "tasks.get", "tasks.search", "tasks.update"}, offered(t, req)); diff != "" {
		t.Errorf("skills (-want +got):\n%s", diff)
	}
	if strings.Contains(req.Tools[0].Description, "mail.send") {
		t.Error("a skill of another domain is described")
	}
	for _, want := range []string{"You keep the tasks.", "Use your skills to do it, and only those that you are told of", "Be concise", "Focus only on your task. Your final response goes to whoever gave it to you",
		"do not retry indefinitely", "explain what blocked you", "The user is ann.\nToday is Friday, 20 November 2026 (time zone UTC)."} {
		if !strings.Contains(req.System, want) {
			t.Errorf("the prompt does not say %q:\n%s", want, req.System)
		}
	}
	if req.Fresh != "It is 09:30 UTC." {
		t.Errorf("the time is told as %q", req.Fresh)
	}
}

// S0-005, S0-006, S0-028, S0-032, S0-038, S0-113, S0-141: a dispatched agent has the skills that
// were granted, be they of tasks or of anything, and knows its mission and nothing else.
func TestADispatchedAgentHasItsMissionAndTheGrantedSkillsOnly(t *testing.T) {
	texttest.Fixed(t)
	planner := scripted.New(
		scripted.Say("Welcome."),
		scripted.Call("dispatch_agent", `{"agent_id":"a","mission":"Find what is late","skills":["tasks.search","tasks.update"]}`),
		scripted.Call("get_agent_results", `{}`),
		scripted.Say("Nothing is late."),
	)
	worker := scripted.New(scripted.Call("use_skill", `{"skill":"tasks.create","arguments":{"title":"sneaky"}}`), scripted.Say("Nothing."))
	m := meshtest.Start(t, meshtest.Agents{
		"main": func(env node.Env) (agent.Agent, error) {
			return orchestrator.New(orchestrator.Config{Card: meshtest.Card(t, "orchestrator"), Model: planner, Conns: env.Conns})
		},
		"helper": func(node.Env) (agent.Agent, error) {
			return specialist.New(specialist.Config{
				Card: meshtest.Card(t, "tasks"), Model: worker, Domains: []string{specialist.AnyDomain}, Handlers: tasks.Handlers(), Now: friday,
			})
		},
	}, meshtest.Options{})
	thread := mesh.NewThreadID()
	m.Say(thread, "My name is Ann")
	m.Say(thread, "What is late?")
	reqs := worker.Requests()
	if diff := cmp.Diff([]llm.Message{{Role: llm.RoleUser, Text: text.Task("Find what is late")}}, reqs[0].Messages); diff != "" {
		t.Errorf("what the agent was told (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"tasks.search", "tasks.update"}, offered(t, reqs[0])); diff != "" {
		t.Errorf("skills (-want +got):\n%s", diff)
	}
	// S0-039: what is not granted cannot be called either.
	last := reqs[1].Messages[len(reqs[1].Messages)-1]
	if !last.Failed || last.Text != "Skill 'tasks.create' is not available to this agent." {
		t.Errorf("calling a skill that was not granted: %+v", last)
	}
}

func TestAMissionWithoutAnySkillOfTheAgentIsRefusedByName(t *testing.T) {
	texttest.Fixed(t)
	m := direct(t, scripted.New(), func(c *specialist.Config) { c.Domains = []string{"weather"} })
	s := m.Say(mesh.NewThreadID(), "Will it rain?")
	if s.State != a2apb.TaskState_TASK_STATE_FAILED || !s.Heard("none of the skills that were granted") || !s.Heard("weather") {
		t.Errorf("ended %v with %q", s.State, s.Status)
	}
}

// S0-030, S0-059, S0-114, S0-115: the limit ends the calls and not the mission.
func TestAtTheLimitOfCallsTheAgentAnswersWithWhatItHas(t *testing.T) {
	call := scripted.Call("use_skill", `{"skill":"tasks.search","arguments":{}}`)
	model := scripted.New(call, call, call, scripted.Say("Part of it."))
	m := direct(t, model, func(c *specialist.Config) { c.MaxToolCalls = 2 })
	thread := mesh.NewThreadID()
	s := m.Say(thread, "Search and search")
	if s.State != a2apb.TaskState_TASK_STATE_COMPLETED || s.Text != "Part of it." || !s.Heard("Using tasks.search") {
		t.Errorf("ended %v: %q, %q", s.State, s.Text, s.Status)
	}
	calls, tripped := 0, 0
	for _, e := range m.Events(thread) {
		switch e.Body.(type) {
		case mesh.SkillCalled:
			calls++
		case mesh.LimitTripped:
			tripped++
		}
	}
	if calls != 2 || tripped != 1 {
		t.Errorf("%d calls and %d limits in the log, want 2 and 1", calls, tripped)
	}
}

func TestAFailingSkillIsToldToTheModel(t *testing.T) {
	texttest.Fixed(t)
	model := scripted.New(scripted.Call("use_skill", `{"skill":"tasks.search","arguments":{}}`), scripted.Say("It is broken."))
	m := direct(t, model, func(c *specialist.Config) {
		c.Handlers = map[string]skill.Handler{"tasks.search": skill.HandlerFunc(func(context.Context, *skill.Call, *skill.Env) (*skill.Result, error) {
			return nil, mesh.Errorf(mesh.Unavailable, "test", "the list is away")
		})}
	})
	if s := m.Say(mesh.NewThreadID(), "Search"); s.Text != "It is broken." {
		t.Errorf("said %q", s.Text)
	}
	msgs := model.Requests()[1].Messages
	if r := msgs[len(msgs)-1]; !r.Failed || !strings.Contains(r.Text, "the list is away") {
		t.Errorf("the model was told %+v", r)
	}
}

func TestTheAgentNeedsWhatItNeeds(t *testing.T) {
	texttest.Fixed(t)
	card, model := meshtest.Card(t, "tasks"), scripted.New()
	for field, cfg := range map[string]specialist.Config{
		"card": {Model: model, Domains: []string{"tasks"}}, "model": {Card: card, Domains: []string{"tasks"}},
		`domains: has "tasks.search"`: {Card: card, Model: model, Domains: []string{"tasks.search"}},
	} {
		if _, err := specialist.New(cfg); !mesh.IsCode(err, mesh.Invalid) || !strings.Contains(strings.ReplaceAll(err.Error(), ": are", " are"), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}
