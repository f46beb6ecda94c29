package orchestrator_test

import (
	"strings"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/dispatch"
	"agentmesh/mesh/llm/scripted"
	"agentmesh/mesh/text/texttest"
)

// S0-095, S0-049: the turn whose work has two waves, with the profile push: who is told of the
// first one has both of the second begin in one reply, and is told of each when it ends.
func TestTheTurnOfTwoWavesIsPushed(t *testing.T) {
	texttest.Fixed(t)
	planner := scripted.New(
		scripted.Call("dispatch_agent", `{"name":"tasks","task":"Find it"}`),
		scripted.Say("I look for it."),
		scripted.Call("dispatch_agent", `{"name":"tasks","task":"Report it"}`).Call("dispatch_agent", `{"name":"tasks","task":"Meet about it"}`).For(scripted.Last("Found it.")),
		scripted.Say("Both are at work."),
		scripted.Say("The meeting is next.").For(scripted.Last("Reported it.")),
		scripted.Say("All done.").For(scripted.Last("Met about it.")),
	)
	worker := scripted.New(scripted.Wait("find").Say("Found it.").For(mission("Find it")),
		scripted.Wait("report").Say("Reported it.").For(mission("Report it")), scripted.Wait("meet").Say("Met about it.").For(mission("Meet about it")))
	m := startWith(t, dispatch.Options{Profile: dispatch.ProfilePush}, planner, worker)
	thread := mesh.NewThreadID()
	follow := begin(m, thread, "Report and meet")
	for _, next := range []struct {
		asked int
		then  string
	}{{2, "find"}, {4, "report"}, {5, "meet"}} {
		await(t, planner, next.asked)
		worker.Release(next.then)
	}
	if s := follow(); s.State != a2apb.TaskState_TASK_STATE_COMPLETED || !strings.HasSuffix(s.Text, "All done.") {
		t.Fatalf("ended %v: %q", s.State, s.Text)
	}
	want := []string{"user: Report and meet", "assistant dispatch_agent:", "tool dispatch_agent", "assistant: I look for it.", "user [Sub-agent completed] tasks",
		"assistant dispatch_agent dispatch_agent:", "tool dispatch_agent", "tool dispatch_agent", "assistant: Both are at work.", "user [Sub-agent completed] tasks",
		"assistant: The meeting is next.", "user [Sub-agent completed] tasks"}
	if diff := cmp.Diff(want, golden(planner.Requests())); diff != "" {
		t.Errorf("the conversation (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{"tasks-1": 1, "tasks-2": 1, "tasks-3": 1}, delivered(t, m, thread)); diff != "" {
		t.Errorf("deliveries (-want +got):\n%s", diff)
	}
}

// S1-023: the example of five iterations with the profile collect: two agents, the results of
// the one that is needed first, a third that is dispatched while the second one ends, the
// results of those that are left, and the end.
func TestTheExampleOfFiveIterationsCollects(t *testing.T) {
	texttest.Fixed(t)
	order := func(s scripted.Step, id, mission string) scripted.Step {
		return s.Call("dispatch_agent", `{"agent_id":"`+id+`","mission":"`+mission+`","skills":["tasks.search"]}`)
	}
	worker := scripted.New(
		scripted.Say("Errors since nine.").For(mission("Look at the logs")),
		scripted.Wait("metrics").Say("CPU is high.").For(mission("Look at the metrics")),
		scripted.Say("One pod restarts.").For(mission("Look at the pods")),
	)
	planner := scripted.New(
		order(order(scripted.Step{}, "logs", "Look at the logs"), "metrics", "Look at the metrics"),
		scripted.Call("get_agent_results", `{"agent_ids":["logs"]}`),
		order(scripted.Wait("third"), "pods", "Look at the pods").For(scripted.Last("Errors since nine.")),
		scripted.Call("get_agent_results", `{"agent_ids":["metrics","pods"]}`),
		scripted.Say("A pod restarts because of the CPU.").For(scripted.Last("One pod restarts.")),
	)
	m := startWith(t, dispatch.Options{Profile: dispatch.ProfileCollect}, planner, worker)
	thread := mesh.NewThreadID()
	follow := begin(m, thread, "What is wrong?")
	await(t, planner, 3)
	worker.Release("metrics")
	for ends := 0; ends < 2; time.Sleep(time.Millisecond) { // while the third is being dispatched
		ends = 0
		for _, e := range m.Events(thread) {
			if _, ok := e.Body.(mesh.DispatchSettled); ok {
				ends++
			}
		}
	}
	planner.Release("third")
	if s := follow(); s.State != a2apb.TaskState_TASK_STATE_COMPLETED || s.Text != "A pod restarts because of the CPU." {
		t.Fatalf("ended %v: %q", s.State, s.Text)
	}
	want := []string{"user: What is wrong?", "assistant dispatch_agent dispatch_agent:", "tool dispatch_agent", "tool dispatch_agent", "assistant get_agent_results:", "tool get_agent_results",
		"assistant dispatch_agent:", "tool dispatch_agent", "assistant get_agent_results:", "tool get_agent_results"}
	reqs := planner.Requests()
	if diff := cmp.Diff(want, golden(reqs)); diff != "" {
		t.Errorf("the conversation (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]int{"logs": 1, "metrics": 1, "pods": 1}, delivered(t, m, thread)); diff != "" {
		t.Errorf("deliveries (-want +got):\n%s", diff)
	}
	last := reqs[len(reqs)-1].Messages
	if told := last[len(last)-1].Text; !strings.Contains(told, "CPU is high.") || strings.Contains(told, "Errors since nine.") {
		t.Errorf("the model collected %s", told)
	}
}
