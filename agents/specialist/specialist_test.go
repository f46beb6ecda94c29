package specialist_test

import (
	"agentmesh/mesh/llm/tokens"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"agentmesh/agents/internal/meshtest"
	"agentmesh/agents/orchestrator"
	"agentmesh/agents/specialist"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/agent/skilltools"
	"agentmesh/mesh/dispatch"
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
	// The loop and the size of a request are the same on two nodes.
	shared.Twice(m, "^Test(TheLoopOf|TheRequestOf)")
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

// collecting is an orchestrator of the first design, whose agents have no tool but use_skill.
func collecting(t *testing.T, model llm.Model, env node.Env) orchestrator.Config {
	return orchestrator.Config{Card: meshtest.Card(t, "orchestrator"), Model: model, Conns: env.Conns, Dispatch: dispatch.Options{Profile: dispatch.ProfileCollect}}
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
			return orchestrator.New(collecting(t, planner, env))
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

// S0-029, S0-061, S0-063: an agent's loop: its model has use_skill alone, a call is made and
// its result comes back, and text is the result; at the limit of calls that is the last
// text, or words about the limit where the model has none; and an error of the model fails
// it, with the calls so far.
func TestTheLoopOfADispatchedAgent(t *testing.T) {
	texttest.Fixed(t)
	search := scripted.Call("use_skill", `{"skill":"tasks.search","arguments":{}}`)
	for name, tt := range map[string]struct {
		steps       []scripted.Step
		status, say string
		asked, used int
	}{
		"text is the result":       {[]scripted.Step{scripted.Say("All is done.")}, "completed", "All is done.", 1, 0},
		"calls come back":          {[]scripted.Step{search, search, scripted.Say("Nothing is open.")}, "completed", "Nothing is open.", 3, 2},
		"the limit, with a text":   {[]scripted.Step{search, search, search, scripted.Say("So far nothing.")}, "completed", "So far nothing.", 4, 2},
		"the limit, without one":   {[]scripted.Step{search, search, search, scripted.Say(), scripted.Say(), scripted.Say()}, "completed", "Reached tool call limit (2). Partial work completed.", 6, 2},
		"an error of the model":    {[]scripted.Step{search, scripted.Fail(mesh.Errorf(mesh.Unavailable, "test", "no credit is left"))}, "failed", "LLM error: no credit is left", 2, 1},
		"an error of another kind": {[]scripted.Step{scripted.Fail(errors.New("boom"))}, "failed", "LLM error: internal error", 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			planner := scripted.New(
				scripted.Call("dispatch_agent", `{"agent_id":"a","mission":"Find what is open","skills":["tasks.search"],"max_tool_calls":2}`),
				scripted.Call("get_agent_results", `{}`), scripted.Say("Well."),
			)
			worker := scripted.New(tt.steps...)
			m := meshtest.Start(t, meshtest.Agents{
				"main": func(env node.Env) (agent.Agent, error) {
					return orchestrator.New(collecting(t, planner, env))
				},
				"helper": func(node.Env) (agent.Agent, error) {
					return specialist.New(specialist.Config{Card: meshtest.Card(t, "tasks"), Model: worker, Domains: []string{"tasks"}, Handlers: tasks.Handlers(), Now: friday})
				},
			}, meshtest.Options{})
			m.Say(mesh.NewThreadID(), "What is open?")
			reqs := planner.Requests()
			last := reqs[len(reqs)-1].Messages
			var told struct {
				Agents []struct {
					Status, Result string
					Used           int `json:"tool_calls_used"`
				}
			}
			if err := json.Unmarshal([]byte(last[len(last)-1].Text), &told); err != nil || len(told.Agents) != 1 {
				t.Fatalf("told %s: %v", last[len(last)-1].Text, err)
			}
			if a := told.Agents[0]; a.Status != tt.status || a.Result != tt.say || a.Used != tt.used {
				t.Errorf("told %+v", a)
			}
			asked := worker.Requests()
			if len(asked) != tt.asked {
				t.Errorf("the model was asked %d times", len(asked))
			}
			for i, r := range asked {
				if i <= tt.used { // before the limit
					offered(t, r)
				} else if len(r.Tools) > 1 {
					t.Errorf("offered %d tools", len(r.Tools))
				}
				if prior := r.Messages[len(r.Messages)-1]; i > 0 && prior.Role != llm.RoleTool {
					t.Errorf("request %d does not end with a result: %+v", i, prior)
				}
			}
		})
	}
}

// S0-097: what an agent costs before it has done anything: about 200 tokens for the prompt and at
// most 400 for its tool, so that with a mission, results of others and a history of calls as large as
// the seed has them the request stays below 2,600.
func TestTheRequestOfADispatchedAgentIsSmall(t *testing.T) {
	texttest.Fixed(t)
	count := new(tokens.Counter)
	words := func(n int) string { return strings.Repeat("word ", n) }
	result := skill.HandlerFunc(func(context.Context, *skill.Call, *skill.Env) (*skill.Result, error) {
		return &skill.Result{Status: skill.StatusOK, Content: words(900)}, nil
	})
	order := fmt.Sprintf(`{"agent_id":"a","mission":%q,"context":%q,"skills":["tasks.search","mail.send"],"depends_on":["b"]}`, words(200), words(200))
	planner := scripted.New(
		scripted.Call("dispatch_agent", `{"agent_id":"b","mission":"Look","skills":["tasks.get"]}`).Call("dispatch_agent", order),
		scripted.Call("get_agent_results", `{}`), scripted.Say("Well."),
	)
	worker := scripted.New(scripted.Say(words(400)), scripted.Call("use_skill", `{"skill":"tasks.search","arguments":{}}`), scripted.Say("Done."))
	m := meshtest.Start(t, meshtest.Agents{
		"main": func(env node.Env) (agent.Agent, error) {
			return orchestrator.New(collecting(t, planner, env))
		},
		"worker": func(node.Env) (agent.Agent, error) {
			return specialist.New(specialist.Config{Card: meshtest.Card(t, "worker"), Model: worker, Domains: []string{specialist.AnyDomain}, Prompt: "You keep the user's task list.",
				Handlers: map[string]skill.Handler{"tasks.search": result, "tasks.get": result, "mail.send": result}, Now: friday})
		},
	}, meshtest.Options{})
	m.Say(mesh.NewThreadID(), "Go")
	reqs := worker.Requests()
	if len(reqs) != 3 {
		t.Fatalf("the agents were asked %d times", len(reqs))
	}
	r := reqs[2]
	system, tool, said := count.Text(r.System), count.Tools(r.Tools), 0
	for _, m := range r.Messages {
		said += count.Text(m.Text)
	}
	t.Logf("%d tokens of prompt, %d of tools, %d of messages", system, tool, said)
	if system > 250 || tool < 100 || tool > 400 || said < 1500 || system+tool+said > 2600 {
		t.Errorf("the prompt has %d tokens, the tool %d, and what is said %d", system, tool, said)
	}
}
