package main

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/llm/scripted"
	"agentmesh/mesh/text/texttest"
)

// S1-058: an agent in a process of its own asks the orchestrator, and waits over kill -9 of
// that process and of the node, while the orchestrator's model thinks about it: the model
// is asked about it once more in the same conversation, its answer goes to the agent once,
// under the same execution, and the turn ends as if nothing had been. The log shows what the
// model did as calls of the server orchestrator.
func TestAnAgentThatAsksOutlivesKill9(t *testing.T) {
	texttest.Fixed(t)
	t.Parallel()
	asks := scripted.Last("[Sub-agent asks] alpha (")
	answer := func(s scripted.Step) scripted.Step {
		return s.Call("answer_agent", `{"agent_id":"alpha","message":"the blue one"}`).For(ofPlanner).For(asks)
	}
	m := startCrewMesh(t, "",
		consultPlanner("Find alpha"),
		askedFor(scripted.Step{}, "alpha").For(ofPlanner),
		ofTask(scripted.Call("request_help", `{"reason":"Which of the two?","partial_results":"There are two."}`), "Find alpha"),
		answer(scripted.Wait("dead")), // lost with the node
		answer(scripted.Step{}),
		ofTask(scripted.Say("Alpha is found."), "Find alpha").For(scripted.Last("the blue one")),
		scripted.Say("I have it.").For(ofPlanner).For(scripted.Last("[Sub-agent completed] alpha (")),
		scripted.Say("I wait.").For(ofPlanner), scripted.Say("I wait.").For(ofPlanner),
		scripted.Say("Alpha it is.").For(ofMain),
	)
	t.Cleanup(func() { m.model.Release("dead") })
	thread := mesh.NewThreadID()
	launch(t, m.dir, "mesh", []string{"MESH_ADDR=" + m.grpc}, "send", "--thread", thread, "--timeout", "3s", "Find alpha")
	if err := m.model.WaitBlocked(timely(t), 1); err != nil {
		t.Fatal(err)
	}
	m.kill9()
	m.helper.kill9()
	m.realMesh = up(t, m.dir)
	launch(t, m.dir, "mesh", nil, "agent", "run", "worker", "--name", "helper", "--mesh", m.grpc, "--config", "mesh.yaml", "--data", filepath.Join("data-helper")).shows("Ctrl-C stops it")
	for limit := time.Now().Add(testTime); ends(m.log(thread)) == "" && time.Now().Before(limit); {
		time.Sleep(20 * time.Millisecond) // it goes on by itself
	}
	events := m.log(thread)
	if got := ends(events); got != "COMPLETED" {
		t.Fatalf("the turn ended %q:\n%s", got, m.mesh("threads", "show", thread).succeeds(t))
	}
	if got := issued(events, "helper"); len(got) != 1 {
		t.Errorf("dispatched were %q", got)
	}
	reqs := m.model.Requests()
	for i, r := range reqs {
		if !ofPlanner(r) {
			continue
		}
		times := 0
		for _, message := range r.Messages {
			times += strings.Count(message.Text, "[Sub-agent asks]")
		}
		if times > 1 {
			t.Errorf("request %d tells %d times that the agent asks", i, times)
		}
	}
	answered := map[string]bool{}
	for _, e := range events {
		if moved := e.GetTaskMoved(); moved.GetReason() == mesh.ReasonDelivered && mesh.TextOf(moved.GetMessage()) == "the blue one" {
			answered[moved.GetMessage().GetMessageId()] = true
		}
	}
	if len(answered) != 1 {
		t.Errorf("it was answered as %v", answered)
	}
	called, returned := map[string]string{}, map[string]int{} // as the log has it, by the call
	for _, e := range events {
		for _, use := range e.GetModelReplied().GetTools() {
			called[use.GetId()+" "+e.GetExecutionId()] = use.GetName()
		}
		if r := e.GetToolReturned(); r.GetName() != "" && called[r.GetCall()+" "+e.GetExecutionId()] == r.GetName() && !r.GetFailed() && r.GetContent() != "" {
			returned[r.GetName()]++
		}
	}
	if d := cmp.Diff(map[string]int{"consult_agent": 1, "dispatch_agent": 1, "answer_agent": 1, "request_help": 1}, returned); d != "" {
		t.Errorf("calls with results in the log (-want +got):\n%s", d)
	}
	shown := m.mesh("threads", "follow", thread, "--timeout", "1s").stdout
	for _, want := range []string{"orchestrator.consult_agent", "orchestrator.dispatch_agent", "orchestrator.answer_agent", "orchestrator.request_help"} {
		if !strings.Contains(shown, want) {
			t.Errorf("the log does not show %s:\n%s", want, shown)
		}
	}
}
