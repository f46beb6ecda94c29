package orchestrator_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"agentmesh/agents/internal/meshtest"
	"agentmesh/agents/orchestrator"
	"agentmesh/agents/specialist"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/dispatch"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/offline"
	"agentmesh/mesh/llm/scripted"
	"agentmesh/mesh/node"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/store/shared"
	"agentmesh/mesh/text/texttest"
	"agentmesh/skills/tasks"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	texttest.FromEnv()
	// What a model decides, and is told, is the same on two nodes.
	shared.Twice(m, "^Test(TheModelAlone|TasksAnd|ToolsOf|RequestsAre)")
	goleak.VerifyTestMain(m)
}

func friday() time.Time { return time.Date(2026, 11, 20, 9, 30, 0, 0, time.UTC) }

// start runs a mesh whose users talk to the orchestrator directly, with one
// agent that has the tasks and a mail agent whose skill always fails.
func start(t *testing.T, planner, worker llm.Model) *meshtest.Mesh {
	t.Helper()
	return startWith(t, dispatch.Options{}, planner, worker)
}

func startWith(t *testing.T, o dispatch.Options, planner, worker llm.Model) *meshtest.Mesh {
	t.Helper()
	serve := func(name string, handlers map[string]skill.Handler) func(node.Env) (agent.Agent, error) {
		return func(env node.Env) (agent.Agent, error) {
			return specialist.New(specialist.Config{
				Card: meshtest.Card(t, name), Model: worker, Domains: []string{name}, Handlers: handlers, Prompt: "You do " + name + ".", Now: friday,
			})
		}
	}
	return meshtest.Start(t, meshtest.Agents{
		"main": func(env node.Env) (agent.Agent, error) {
			return orchestrator.New(orchestrator.Config{
				Card: meshtest.Card(t, "orchestrator"), Model: planner, Conns: env.Conns, Now: friday, Logger: env.Logger, Dispatch: o,
			})
		},
		"tasks": serve("tasks", tasks.Handlers()),
		"mail":  serve("mail", nil),
	}, meshtest.Options{})
}

// S0-012, S0-051, S0-052, S3-134.
func TestTheModelHasThreeToolsAndTheWorkflowInItsPrompt(t *testing.T) {
	model := scripted.New(scripted.Say("Hello."), scripted.Say("Again."))
	m := startWith(t, dispatch.Options{Profile: dispatch.ProfileCollect}, model, offline.New(friday))
	thread := mesh.NewThreadID()
	m.Say(thread, "hi")
	m.Say(thread, "hi again")
	req := model.Requests()[1]
	var tools []string
	for _, tool := range req.Tools {
		tools = append(tools, tool.Name)
	}
	if diff := cmp.Diff([]string{"dispatch_agent", "get_agent_results", "get_skill"}, tools); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	for _, want := range []string{"Understand", "get_skill", "Decompose", "dispatch_agent", "get_agent_results", "Synthesise",
		"Never execute skills yourself", "exactly one agent", "depends_on", "self-contained", "minimum of skills", "When an agent fails"} {
		if !strings.Contains(req.System, want) {
			t.Errorf("the prompt does not say %q", want)
		}
	}
	if want := "\n\nThe user is ann.\nToday is Friday, 20 November 2026 (time zone UTC)."; !strings.HasSuffix(req.System, want) || !strings.Contains(req.System, "Available skill domains: calendar, ") {
		t.Errorf("the prompt ends with %q", req.System[max(0, len(req.System)-400):])
	}
	if req.Fresh != "It is 09:30 UTC." {
		t.Errorf("the model is told the time as %q", req.Fresh)
	}
	if len(req.Messages) != 3 || req.Messages[0].Text != "hi" {
		t.Errorf("messages %+v, want the conversation of one who talks to the user", req.Messages)
	}
}

// S0-054: one skill, one agent.
func TestASimpleRequestTakesOneAgent(t *testing.T) {
	m := start(t, offline.New(friday), offline.New(friday))
	thread := mesh.NewThreadID()
	s := m.Say(thread, `Create a task "Order paper"`)
	if s.State != a2apb.TaskState_TASK_STATE_COMPLETED || !strings.Contains(s.Text, "Order paper") {
		t.Fatalf("ended %v: %q", s.State, s.Text)
	}
	var asked []string
	for _, e := range m.Events(thread) {
		if d, ok := e.Body.(mesh.DispatchIssued); ok {
			asked = append(asked, d.Child.Agent)
		}
	}
	if diff := cmp.Diff([]string{"main", "tasks"}, asked); diff != "" {
		t.Errorf("who was asked (-want +got):\n%s", diff)
	}
	if !s.Heard("Started: Create a task") || !s.Heard("Done: Create a task") {
		t.Errorf("the user saw %q", s.Status)
	}
}

// S0-009, S0-063: one agent's failure stops neither the others nor the answer, and the
// model is told of it.
func TestOneFailureLeavesTheOthersAlone(t *testing.T) {
	texttest.Fixed(t)
	planner := scripted.New(
		scripted.Call("dispatch_agent", `{"agent_id":"a","mission":"List the tasks","skills":["tasks.search"]}`).
			Call("dispatch_agent", `{"agent_id":"b","mission":"Mail the tasks","skills":["mail.send"]}`).
			Call("dispatch_agent", `{"agent_id":"c","mission":"Mail it again","skills":["mail.send"],"depends_on":["b"]}`),
		scripted.Call("get_agent_results", `{}`),
		scripted.Say("Listed, not mailed."),
	)
	worker := scripted.New(
		scripted.Say("No tasks.").For(scripted.System("You do tasks.")),
		scripted.Fail(mesh.Errorf(mesh.Unavailable, "test", "the model is overloaded")).For(scripted.System("You do mail.")),
	)
	m := start(t, planner, worker)
	s := m.Say(mesh.NewThreadID(), "List and mail my tasks")
	if s.Text != "Listed, not mailed." || s.State != a2apb.TaskState_TASK_STATE_COMPLETED {
		t.Errorf("ended %v: %q", s.State, s.Text)
	}
	for _, want := range []string{"Next: Mail it again", "Done: List the tasks", "Failed: Mail the tasks (LLM error: the model is overloaded)", "Skipped: Mail it again"} {
		if !slices.Contains(s.Status, want) {
			t.Errorf("the user did not see %q but %q", want, s.Status)
		}
	}
	results := planner.Requests()[2].Messages
	last := results[len(results)-1].Text
	for _, want := range []string{`"status":"completed","result":"No tasks."`, `"status":"failed","result":"LLM error: the model is overloaded","tool_calls_used":0`, `"status":"skipped"`} {
		if !strings.Contains(last, want) {
			t.Errorf("the model was told\n%s\nwithout %s", last, want)
		}
	}
}

// A batch that is refused starts nothing, and the model can correct it.
func TestARefusedDispatchIsToldToTheModelAlone(t *testing.T) {
	planner := scripted.New(
		scripted.Call("dispatch_agent", `{"agent_id":"a","mission":"Fly","skills":["birds.fly"]}`),
		scripted.Say("I cannot fly."),
	)
	m := start(t, planner, scripted.New())
	s := m.Say(mesh.NewThreadID(), "fly")
	results := planner.Requests()[1].Messages
	if r := results[len(results)-1]; !r.Failed || !strings.Contains(r.Text, `"birds.fly"`) {
		t.Errorf("result %+v", r)
	}
	if s.Text != "I cannot fly." || s.Heard("Fly") {
		t.Errorf("the user heard %q and %q", s.Text, s.Status)
	}
}

// S1-106: what it depends on comes in one struct, and what is missing is named.
func TestTheAgentNeedsWhatItNeeds(t *testing.T) {
	texttest.Fixed(t)
	card, model := meshtest.Card(t, "orchestrator"), scripted.New()
	for field, cfg := range map[string]orchestrator.Config{
		"card": {Model: model, Conns: new(rpc.Pool)}, "model": {Card: card, Conns: new(rpc.Pool)}, "conns": {Card: card, Model: model},
	} {
		if _, err := orchestrator.New(cfg); !mesh.IsCode(err, mesh.Invalid) || !strings.Contains(err.Error(), field) {
			t.Errorf("without %s: %v", field, err)
		}
	}
}
