package orchestrator_test

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"agentmesh/agents/internal/meshtest"
	"agentmesh/agents/orchestrator"
	"agentmesh/agents/specialist"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/agent/skilltools"
	"agentmesh/mesh/dispatch"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/offline"
	"agentmesh/mesh/llm/scripted"
	"agentmesh/mesh/node"
	"agentmesh/mesh/text"
	"agentmesh/mesh/text/texttest"
	"agentmesh/skills/tasks"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
)

// S1-002: nothing but the model decides who is asked, in which order, and when it is
// enough: the same mesh has the same agents work as three models want it.
func TestTheModelAloneDecidesWhoWorksAndWhen(t *testing.T) {
	texttest.Fixed(t)
	order := func(name string) scripted.Step {
		return scripted.Call("dispatch_agent", fmt.Sprintf(`{"name":%q,"task":"Look"}`, name))
	}
	wait := scripted.Say("I wait.")
	done := scripted.Say("That is all.").For(scripted.Last("[Sub-agent completed]"))
	planner := scripted.New()
	m := startWith(t, dispatch.Options{Profile: dispatch.ProfilePush}, planner, scripted.New(scripted.Say("I saw it.").Repeat()))
	for _, want := range [][]string{{"tasks", "mail"}, {"mail", "tasks"}, {"mail"}, {"mail", "mail", "tasks"}, {}} {
		for i, name := range want {
			next := order(name)
			if i > 0 {
				next = next.For(scripted.Last("[Sub-agent completed]"))
			}
			planner.Add(next, wait.For(scripted.Last("accepted")))
		}
		if len(want) == 0 {
			planner.Add(scripted.Say("That is all."))
		} else {
			planner.Add(done)
		}
		thread := mesh.NewThreadID()
		if s := m.Say(thread, "Look around"); s.State != a2apb.TaskState_TASK_STATE_COMPLETED || !strings.HasSuffix(s.Text, "That is all.") {
			t.Fatalf("%v: ended %v: %q", want, s.State, s.Text)
		}
		asked := []string{}
		for _, e := range m.Events(thread) {
			if b, ok := e.Body.(mesh.DispatchIssued); ok && b.Child.Label != "" {
				asked = append(asked, b.Child.Agent)
			}
		}
		if diff := cmp.Diff(want, asked); diff != "" {
			t.Errorf("who was asked (-want +got):\n%s", diff)
		}
		if left := planner.Left(); left != 0 {
			t.Fatalf("%v: %d steps are left", want, left)
		}
	}
}

// S1-003, S1-004: what the model says of an agent's work is words, and they arrive as they
// are, and so do the agent's: an order has a name and a text, no model, server or limit,
// which are the operator's to say, and no form that a finding would have to have.
func TestTasksAndFindingsAreWords(t *testing.T) {
	texttest.Fixed(t)
	const task = "Why is \"checkout\" slow?\n\n- since 9:00 {\"p99\": \"4 s\"}\n- only in Köln 🦉"
	const found = "It is <b>not</b> the database.\n\n| host | p99 |\n|---|---|\n| köln-1 | 4 s |\n\n{\"verdict\": null}"
	order, err := json.Marshal(map[string]string{"name": "tasks", "task": task})
	if err != nil {
		t.Fatal(err)
	}
	planner := scripted.New(scripted.Call("dispatch_agent", string(order)), scripted.Say("I wait.").For(scripted.Last("accepted")),
		scripted.Say("It is the network.").For(scripted.Last("[Sub-agent completed]")))
	worker := scripted.New(scripted.Say(found))
	m := startWith(t, dispatch.Options{Profile: dispatch.ProfilePush}, planner, worker)
	m.Say(mesh.NewThreadID(), "Why?")
	if got := worker.Requests()[0].Messages; len(got) != 1 || got[0].Text != text.Task(task) {
		t.Errorf("the agent was told %+v", got)
	}
	reqs := planner.Requests()
	last := reqs[len(reqs)-1].Messages
	if got := last[len(last)-1].Text; !strings.HasSuffix(got, "\n> "+strings.ReplaceAll(found, "\n", "\n> ")) { // quoted line by line
		t.Errorf("the model was told %q", got)
	}
	var schema struct {
		Properties map[string]struct{ Type string }
	}
	i := slices.IndexFunc(reqs[0].Tools, func(tool llm.Tool) bool { return tool.Name == dispatch.ToolDispatch })
	if err := json.Unmarshal(reqs[0].Tools[i].Parameters, &schema); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]struct{ Type string }{"name": {"string"}, "task": {"string"}}, schema.Properties); diff != "" {
		t.Errorf("what an order has (-want +got):\n%s", diff)
	}
}

// S1-008, S1-011, S1-098: an orchestrator with skills of its own has one list of tools, of both, and a
// call goes by its name: those of orchestration to its agents, all else to the skills.
func TestToolsOfOneListGoByTheirNames(t *testing.T) {
	texttest.Fixed(t)
	planner := scripted.New(
		scripted.Call("use_skill", `{"skill":"tasks.create","arguments":{"title":"Order paper"}}`).
			Call("dispatch_agent", `{"agent_id":"a","name":"helper","mission":"Look"}`).Call("list_agents", `{}`).Call("fly", `{}`),
		scripted.Call("get_agent_results", `{}`), scripted.Say("Noted and looked."),
	)
	m := meshtest.Start(t, meshtest.Agents{
		"main": func(env node.Env) (agent.Agent, error) {
			return orchestrator.New(orchestrator.Config{Card: meshtest.Card(t, "orchestrator"), Model: planner, Conns: env.Conns, Now: friday,
				Own: &skilltools.Options{Face: skilltools.FaceUseSkill, Handlers: tasks.Handlers(), Skills: []string{"tasks.*"}}})
		},
		"helper": func(node.Env) (agent.Agent, error) {
			return specialist.New(specialist.Config{Card: meshtest.Card(t, "tasks"), Model: scripted.New(scripted.Say("I looked.")), Now: friday})
		},
	}, meshtest.Options{})
	thread := mesh.NewThreadID()
	if s := m.Say(thread, "Order paper, and look"); s.Text != "Noted and looked." {
		t.Fatalf("ended %v: %q", s.State, s.Text)
	}
	reqs := planner.Requests()
	names := offered(reqs[:1])
	for _, want := range []string{"cancel_agent", "dispatch_agent", "get_agent_results", "list_agents", "use_skill"} {
		if !slices.Contains(names, want) {
			t.Errorf("the tools are %q, without %s", names, want)
		}
	}
	results := map[string]string{}
	for _, r := range reqs[2].Messages {
		if r.Role == llm.RoleTool {
			results[r.Name] = r.Text
		}
	}
	for tool, want := range map[string]string{"use_skill": "Order paper", "dispatch_agent": `"agent_id":"a"`, "list_agents": `"task":"Look"`, "fly": "Unknown tool: fly", "get_agent_results": "I looked."} {
		if !strings.Contains(results[tool], want) {
			t.Errorf("%s returned %q, want %q", tool, results[tool], want)
		}
	}
	var by []string
	for _, e := range m.Events(thread) {
		if b, ok := e.Body.(mesh.SkillCalled); ok {
			by = append(by, e.Actor+" "+b.Skill)
		}
	}
	if diff := cmp.Diff([]string{"agent:main tasks.create"}, by); diff != "" {
		t.Errorf("skills (-want +got):\n%s", diff)
	}
}

// S0-134: what the planner without a network makes of requests: as few agents as will do, each with the one
// skill that its part needs, side by side unless a part speaks of what another one finds, which
// waits for that alone.
func TestRequestsAreTakenApartSensibly(t *testing.T) {
	texttest.Fixed(t)
	f := newFirm(t, dispatch.Options{Profile: dispatch.ProfileCollect}, offline.New(friday), offline.New(friday))
	f.overdue()
	for request, want := range map[string][]string{
		`Create a task "Order paper"`:                                     {"tasks.create"},
		`Create a task "Order ink" and create a task "Call Dave"`:         {"tasks.create", "tasks.create"},
		`List my open tasks and list my calendar for today`:               {"calendar.list", "tasks.search"},
		"Find my overdue tasks, then email the report to bob@example.com": {"mail.send after tasks.search", "tasks.search"},
		"Find my overdue tasks, then email the report to bob@example.com and create a follow-up meeting tomorrow at 2pm": {
			"calendar.create after tasks.search", "mail.send after tasks.search", "tasks.search"},
	} {
		thread := mesh.NewThreadID()
		s := f.Say(thread, request)
		if s.State == a2apb.TaskState_TASK_STATE_INPUT_REQUIRED {
			s = f.Say(thread, "yes")
		}
		if s.State != a2apb.TaskState_TASK_STATE_COMPLETED {
			t.Errorf("%s: ended %v: %q %q", request, s.State, s.Text, s.Status)
		}
		parts, skills := []string{}, map[mesh.ExecutionID]string{}
		for _, e := range f.Events(thread) {
			b, ok := e.Body.(mesh.DispatchAccepted)
			if !ok {
				continue
			}
			part := strings.Join(b.Child.Skills, "+")
			skills[b.Child.ID] = part
			for _, id := range b.Child.DependsOn {
				part += " after " + skills[id]
			}
			parts = append(parts, part)
		}
		slices.Sort(parts)
		if diff := cmp.Diff(want, parts); diff != "" {
			t.Errorf("%s (-want +got):\n%s", request, diff)
		}
	}
}
