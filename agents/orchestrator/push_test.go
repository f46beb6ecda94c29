package orchestrator_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"agentmesh/agents/internal/meshtest"
	"agentmesh/mesh"
	"agentmesh/mesh/dispatch"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/offline"
	"agentmesh/mesh/llm/scripted"
	"agentmesh/mesh/text/texttest"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
)

// golden is the conversation that the model of the requests had, without ids.
func golden(reqs []*llm.Request) (lines []string) {
	last := reqs[len(reqs)-1]
	for _, m := range last.Messages {
		line := string(m.Role)
		for _, u := range m.Tools {
			line += " " + u.Name
		}
		switch text, _, _ := strings.Cut(m.Text, "\n"); {
		case m.Role == llm.RoleTool:
			line += " " + m.Name
		case m.ToolID != "":
			head, _, _ := strings.Cut(text, " (")
			line += " " + head
		default:
			line += ": " + text
		}
		lines = append(lines, strings.TrimSpace(line))
	}
	return lines
}

// delivered counts by which events the model was told of each execution, and checks
// that each has one end.
func delivered(t *testing.T, m *meshtest.Mesh, thread string) (times map[string]int) {
	t.Helper()
	times = map[string]int{}
	label, ends := map[mesh.ExecutionID]string{}, map[mesh.ExecutionID]int{}
	for _, e := range m.Events(thread) {
		switch b := e.Body.(type) {
		case mesh.DispatchAccepted:
			label[b.Child.ID] = b.Child.Label
		case mesh.DispatchSettled:
			ends[b.Child]++
		case mesh.ResultsDelivered:
			for _, id := range b.Executions {
				times[label[id]]++
			}
		case mesh.ToolReturned:
			for _, id := range b.Delivered {
				times[label[id]]++
			}
		}
	}
	for id, name := range label {
		if ends[id] != 1 {
			t.Errorf("%s has %d ends", name, ends[id])
		}
	}
	return times
}

// begin says it and returns what waits for the end.
func begin(m *meshtest.Mesh, thread, text string) (end func() meshtest.Said) {
	said := make(chan meshtest.Said, 1)
	go func() { said <- m.Say(thread, text) }()
	return func() meshtest.Said { return <-said }
}

// await waits until the model was asked so often.
func await(t *testing.T, model *scripted.Model, times int) {
	t.Helper()
	for end := time.Now().Add(time.Minute); len(model.Requests()) < times; time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("the model was asked %d times", len(model.Requests()))
		}
	}
}

func mission(text string) scripted.Match { return scripted.Last(text) }

// S1-023, S1-022, S1-020, S1-021, S1-024, S1-026: the example of five iterations: two
// agents, a wait, a third that is dispatched while a result is on its way, which is
// drained before the next call of the model, another wait, and the end. S1-006, S1-017,
// S1-018, S1-054, S1-086, S1-088, S1-114, S1-115, S1-116.
func TestResultsArePushedInTheExampleOfFiveIterations(t *testing.T) {
	texttest.Fixed(t)
	worker := scripted.New(
		scripted.Wait("logs").Say("Errors since nine.").For(mission("Look at the logs")),
		scripted.Wait("metrics").Say("CPU is high.").For(mission("Look at the metrics")),
		scripted.Wait("pods").Say("One pod restarts.").For(mission("Look at the pods")),
	)
	planner := scripted.New(
		scripted.Call("dispatch_agent", `{"name":"tasks","task":"Look at the logs"}`).Call("dispatch_agent", `{"name":"tasks","task":"Look at the metrics"}`),
		scripted.Say("I wait for both."),
		scripted.Wait("third").Call("dispatch_agent", `{"name":"tasks","task":"Look at the pods"}`).For(scripted.Last("[Sub-agent completed] tasks (")),
		scripted.Say("And for the pods.").For(scripted.Last("CPU is high")),
		scripted.Say("A pod restarts because of the CPU.").For(scripted.Last("One pod restarts")),
	)
	m := startWith(t, dispatch.Options{Profile: dispatch.ProfilePush}, planner, worker)
	thread := mesh.NewThreadID()
	follow := begin(m, thread, "What is wrong?")
	await(t, planner, 2)
	worker.Release("logs")
	await(t, planner, 3)
	worker.Release("metrics") // while the third is being dispatched
	for ends := 0; ends < 2; time.Sleep(time.Millisecond) {
		ends = 0
		for _, e := range m.Events(thread) {
			if _, ok := e.Body.(mesh.DispatchSettled); ok {
				ends++
			}
		}
	}
	planner.Release("third")
	await(t, planner, 4)
	worker.Release("pods")
	s := follow()
	if s.State != a2apb.TaskState_TASK_STATE_COMPLETED || !strings.HasSuffix(s.Text, "A pod restarts because of the CPU.") {
		t.Fatalf("ended %v: %q", s.State, s.Text)
	}
	want := []string{"user: What is wrong?", "assistant dispatch_agent dispatch_agent:", "tool dispatch_agent", "tool dispatch_agent",
		"assistant: I wait for both.", "user [Sub-agent completed] tasks", "assistant dispatch_agent:", "tool dispatch_agent", "user [Sub-agent completed] tasks",
		"assistant: And for the pods.", "user [Sub-agent completed] tasks"}
	if diff := cmp.Diff(want, golden(planner.Requests())); diff != "" {
		t.Errorf("the conversation (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{"tasks-1": 1, "tasks-2": 1, "tasks-3": 1}, delivered(t, m, thread)); diff != "" {
		t.Errorf("deliveries (-want +got):\n%s", diff)
	}
}

// S0-095, S0-050, S0-125, S0-049, S0-094: the turn of three calls of the model with the
// profile collect, whose batch runs in two waves.
func TestTheTurnOfThreeCallsCollects(t *testing.T) {
	texttest.Fixed(t)
	planner := scripted.New(
		scripted.Call("get_skill", `{"domain":"tasks"}`),
		scripted.Call("dispatch_agent", `{"agent_id":"task_search","mission":"Find it","skills":["tasks.search"]}`).
			Call("dispatch_agent", `{"agent_id":"email_report","mission":"Report it","skills":["tasks.search"],"depends_on":["task_search"]}`).
			Call("dispatch_agent", `{"agent_id":"create_meeting","mission":"Meet about it","skills":["tasks.search"],"depends_on":["task_search"]}`).
			Call("get_agent_results", `{}`),
		scripted.Say("All done."),
	)
	m := startWith(t, dispatch.Options{Profile: dispatch.ProfileCollect}, planner, scripted.New(scripted.Say("Did it.").Repeat()))
	thread := mesh.NewThreadID()
	if s := m.Say(thread, "Report and meet"); s.Text != "All done." {
		t.Fatalf("ended %v: %q", s.State, s.Text)
	}
	want := []string{"user: Report and meet", "assistant get_skill:", "tool get_skill",
		"assistant dispatch_agent dispatch_agent dispatch_agent get_agent_results:", "tool dispatch_agent", "tool dispatch_agent", "tool dispatch_agent", "tool get_agent_results"}
	for i, line := range want {
		want[i] = strings.TrimSuffix(line, ":")
	}
	got := golden(planner.Requests())
	for i, line := range got {
		got[i] = strings.TrimSuffix(line, ":")
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the conversation (-want +got):\n%s", diff)
	}
	waves := map[string]int{}
	began := map[string]mesh.Seq{}
	var searched mesh.Seq
	label := map[mesh.ExecutionID]string{}
	for _, e := range m.Events(thread) {
		switch b := e.Body.(type) {
		case mesh.DispatchAccepted:
			waves[b.Child.Label], label[b.Child.ID] = b.Wave, b.Child.Label
		case mesh.DispatchIssued:
			began[b.Child.Label] = e.Seq
		case mesh.DispatchSettled:
			if label[b.Child] == "task_search" {
				searched = e.Seq
			}
		}
	}
	if diff := cmp.Diff(map[string]int{"task_search": 1, "email_report": 2, "create_meeting": 2}, waves); diff != "" {
		t.Errorf("waves (-want +got):\n%s", diff)
	}
	if began["email_report"] < searched || began["create_meeting"] < searched {
		t.Errorf("the second wave began at %v, and the first one ended at %d", began, searched)
	}
	if diff := cmp.Diff(map[string]int{"task_search": 1, "email_report": 1, "create_meeting": 1}, delivered(t, m, thread)); diff != "" {
		t.Errorf("deliveries (-want +got):\n%s", diff)
	}
}

// finding O1: a model that answers while its agents work does not lose them with the
// profiles push and full; with collect its answer is the end (C8.6), and who is at work is
// ended once, and said so. S1-071.
func TestAnAnswerWhileAgentsWork(t *testing.T) {
	texttest.Fixed(t)
	for profile, ends := range map[dispatch.Profile]bool{dispatch.ProfilePush: false, dispatch.ProfileFull: false, dispatch.ProfileCollect: true} {
		t.Run(string(profile), func(t *testing.T) {
			order := `{"agent_id":"slow","mission":"Find it","skills":["tasks.search"]}`
			if profile == dispatch.ProfilePush {
				order = `{"name":"tasks","task":"Find it"}`
			}
			planner := scripted.New(scripted.Call("dispatch_agent", order), scripted.Say("I am on it."), scripted.Say("It is under the sofa.").For(scripted.Last("Under the sofa")))
			worker := scripted.New(scripted.Wait("go").Say("Under the sofa."))
			m := startWith(t, dispatch.Options{Profile: profile}, planner, worker)
			thread := mesh.NewThreadID()
			follow := begin(m, thread, "Where is it?")
			await(t, planner, 2)
			if !ends {
				worker.Release("go")
			}
			s := follow()
			want, state := "I am on it.\n\nIt is under the sofa.", a2apb.TaskState_TASK_STATE_COMPLETED
			if ends {
				want, state = "I am on it.", a2apb.TaskState_TASK_STATE_CANCELED
			}
			if s.State != a2apb.TaskState_TASK_STATE_COMPLETED || s.Text != want {
				t.Errorf("ended %v: %q", s.State, s.Text)
			}
			times := 0
			for _, n := range delivered(t, m, thread) {
				times += n
			}
			if times == 1 == ends {
				t.Errorf("delivered %d times", times)
			}
			for _, e := range m.Events(thread) {
				if b, ok := e.Body.(mesh.DispatchSettled); ok && e.Actor == "agent:main" && b.State != state {
					t.Errorf("the agent ended %v %s", b.State, b.Reason)
				}
			}
		})
	}
}

// S1-019, S1-033, S1-092, S1-117, S0-091: a failure is told with its status, and the model decides;
// whether it comes before the model has said something or after it.
func TestAFailureIsToldWithItsStatus(t *testing.T) {
	texttest.Fixed(t)
	planner := scripted.New(
		scripted.Call("dispatch_agent", `{"name":"mail","task":"Mail it"}`),
		scripted.Say("The mail could not be sent.").For(scripted.Last("[Sub-agent failed] mail (")),
		scripted.Say("Let me see."),
	)
	worker := scripted.New(scripted.Fail(mesh.Errorf(mesh.Unavailable, "test", "The model is away")).Repeat())
	m := startWith(t, dispatch.Options{Profile: dispatch.ProfilePush}, planner, worker)
	s := m.Say(mesh.NewThreadID(), "Mail it")
	if n := len(worker.Requests()); n != 1 {
		t.Errorf("the agent was asked %d times; nobody but the model tries again", n)
	}
	if s.State != a2apb.TaskState_TASK_STATE_COMPLETED || !strings.HasSuffix(s.Text, "The mail could not be sent.") {
		t.Errorf("ended %v: %q", s.State, s.Text)
	}
}

// S1-065, S1-066, S1-067, S1-029, S1-030, S1-057, S1-099: the catalog and the tools of push.
func TestThePromptOfPushHasTheCatalog(t *testing.T) {
	planner := scripted.New(scripted.Say("Hello."))
	m := startWith(t, dispatch.Options{Profile: dispatch.ProfilePush}, planner, offline.New(friday))
	m.Say(mesh.NewThreadID(), "hi")
	req := planner.Requests()[0]
	var tools []string
	for _, tool := range req.Tools {
		tools = append(tools, tool.Name)
	}
	if diff := cmp.Diff([]string{"answer_agent", "cancel_agent", "dispatch_agent", "list_agents"}, tools); diff != "" || strings.Contains(strings.Join(tools, ""), ".") {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	for _, want := range []string{"## Available Sub-Agents", "\n- tasks: Keeps the to-do list", "\n  MCP tools: tasks.archive, ", "do not poll"} {
		if !strings.Contains(req.System, want) {
			t.Errorf("the prompt does not say %q:\n%s", want, req.System)
		}
	}
	if strings.Contains(req.System, "get_agent_results") || strings.Contains(req.System, "\n- orchestrator:") {
		t.Errorf("the prompt is %s", req.System)
	}
}

// S0-010, S0-126: the overdue tasks and another job at the same time, with every profile
// and the planner that has no network.
func TestThePlannerWorksWithEveryProfile(t *testing.T) {
	texttest.Fixed(t)
	for _, profile := range []dispatch.Profile{dispatch.ProfilePush, dispatch.ProfileCollect, dispatch.ProfileFull} {
		t.Run(string(profile), func(t *testing.T) {
			m := startWith(t, dispatch.Options{Profile: profile}, offline.New(friday), offline.New(friday))
			thread := mesh.NewThreadID()
			s := m.Say(thread, `Create a task "Order paper" and create a task "Call Dave"`)
			if s.State != a2apb.TaskState_TASK_STATE_COMPLETED || !strings.Contains(s.Text, "Order paper") || !strings.Contains(s.Text, "Call Dave") {
				t.Errorf("ended %v: %q", s.State, s.Text)
			}
			var called []string
			for _, e := range m.Events(thread) {
				if c, ok := e.Body.(mesh.SkillCalled); ok {
					called = append(called, fmt.Sprint(c.Skill))
				}
			}
			slices.Sort(called)
			if diff := cmp.Diff([]string{"tasks.create", "tasks.create"}, called); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			for label, n := range delivered(t, m, thread) {
				if n != 1 {
					t.Errorf("%s was delivered %d times", label, n)
				}
			}
		})
	}
}

// A model that asks the user while agents work does not lose them: they end, and what they
// came to is delivered, once, when the user has answered.
func TestAgentsAtWorkOutliveAQuestionToTheUser(t *testing.T) {
	texttest.Fixed(t)
	planner := scripted.New(
		scripted.Call("dispatch_agent", `{"agent_id":"slow","mission":"Find it","skills":["tasks.search"]}`),
		scripted.Ask("Which colour?"),
		scripted.Say("It is red and under the sofa.").For(scripted.Last("Under the sofa")),
	)
	worker := scripted.New(scripted.Wait("go").Say("Under the sofa."))
	m := startWith(t, dispatch.Options{Profile: dispatch.ProfileFull}, planner, worker)
	thread := mesh.NewThreadID()
	follow := begin(m, thread, "Where is it?")
	await(t, planner, 2)
	worker.Release("go")
	if s := follow(); s.State != a2apb.TaskState_TASK_STATE_INPUT_REQUIRED {
		t.Fatalf("ended %v: %q", s.State, s.Text)
	}
	if s := m.Say(thread, "red"); s.State != a2apb.TaskState_TASK_STATE_COMPLETED || s.Text != "It is red and under the sofa." {
		t.Errorf("ended %v: %q", s.State, s.Text)
	}
	if diff := cmp.Diff(map[string]int{"slow": 1}, delivered(t, m, thread)); diff != "" {
		t.Errorf("deliveries (-want +got):\n%s", diff)
	}
	want := []string{"user: Where is it?", "assistant dispatch_agent:", "tool dispatch_agent", "assistant: Which colour?", "user: red", "user [Sub-agent completed] slow"}
	if diff := cmp.Diff(want, golden(planner.Requests())); diff != "" {
		t.Errorf("the conversation (-want +got):\n%s", diff)
	}
}

// The next turn shows the model what it was told, in its place, and nobody takes it for
// words of the user.
func TestTheNextTurnKnowsWhatWasDelivered(t *testing.T) {
	texttest.Fixed(t)
	planner := scripted.New(scripted.Call("dispatch_agent", `{"name":"tasks","task":"Find it"}`), scripted.Say("I look."),
		scripted.Say("Found.").For(scripted.Last("Under the sofa")), scripted.Say("As I said."))
	m := startWith(t, dispatch.Options{Profile: dispatch.ProfilePush}, planner, scripted.New(scripted.Say("Under the sofa.")))
	thread := mesh.NewThreadID()
	m.Say(thread, "Where is it?")
	m.Say(thread, "Really?")
	got := strings.Join(golden(planner.Requests()), "\n")
	want := strings.Join([]string{"user: Where is it?", "assistant dispatch_agent:", "tool dispatch_agent"}, "\n")
	if !strings.HasPrefix(got, want) || strings.Count(got, "user [Sub-agent completed] tasks") != 1 || !strings.HasSuffix(got, "assistant: Found.\nuser: Really?") {
		t.Errorf("the conversation:\n%s", got)
	}
}
