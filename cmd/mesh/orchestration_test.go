package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/scripted"
)

// Prompts by which the steps of a script are meant for one of the agents.
var (
	ofMain    = scripted.System("You are the main assistant")
	ofPlanner = scripted.System("You are an orchestrator")
	ofWorker  = scripted.System("You do exactly one mission")
)

// A crewMesh is a node with its agents and a worker, each the real binary in a process of its
// own, whose model is a script behind HTTP.
type crewMesh struct {
	*realMesh
	model  *scripted.Model
	helper *process
}

func startCrewMesh(t *testing.T, settings string, steps ...scripted.Step) *crewMesh {
	t.Helper()
	m := &crewMesh{model: scripted.New(steps...)}
	endpoint := httptest.NewServer(scripted.Handler(m.model))
	t.Cleanup(endpoint.Close)
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "mesh.yaml"), fmt.Sprintf("model: {url: %s/v1, name: scripted, key: none, retries: -1}\n%s", endpoint.URL, settings))
	m.realMesh = up(t, dir)
	m.helper = launch(t, dir, "mesh", nil, "agent", "run", "worker", "--name", "helper", "--mesh", m.grpc, "--config", "mesh.yaml", "--data", "data-helper")
	m.helper.shows("Ctrl-C stops it")
	return m
}

func consultPlanner(task string) scripted.Step {
	return scripted.Call("consult_agent", fmt.Sprintf(`{"agent":"orchestrator","task":%q}`, task)).For(ofMain)
}

// issued are the executions that were dispatched to the agent, by label, in their order.
func issued(events []*meshv1.Event, agent string) (labels []string) {
	for _, e := range events {
		if child := e.GetDispatchIssued().GetChild(); child.GetAgent() == agent {
			labels = append(labels, child.GetLabel())
		}
	}
	return labels
}

// S0-049, C7.1: two agents that need nothing and one that needs both: it starts when they are
// done and is told what they found; whoever collects has all results, each once. S3-054, C7.4:
// in a scoped agent, a block of three commands is three calls; help costs nothing and a wrong flag
// is told to the model alone.
func TestAgentsInProcessesOfTheirOwnAreOrchestrated(t *testing.T) {
	m := startCrewMesh(t, "",
		consultPlanner("Report what is open"),
		scripted.Call("dispatch_agent", `{"agent_id":"a","name":"helper","mission":"Find alpha","skills":["tasks.create","tasks.search"]}`).
			Call("dispatch_agent", `{"agent_id":"b","name":"helper","mission":"Find beta","skills":["tasks.search"]}`).
			Call("dispatch_agent", `{"agent_id":"c","name":"helper","mission":"Join them","skills":["tasks.search"],"depends_on":["a","b"]}`).For(ofPlanner),
		scripted.Call("get_agent_results", `{}`).For(ofPlanner),
		scripted.Say("```cmd\ntasks.search --help\ntasks.create --title Paper\ntasks.search --quer paper\n```").For(ofWorker).For(scripted.Last("Find alpha")),
		scripted.Say("Alpha is open.").For(ofWorker).For(scripted.Last("Paper")),
		scripted.Say("Beta is done.").For(ofWorker).For(scripted.Last("Find beta")),
		scripted.Say("One of two is open.").For(ofWorker).For(scripted.Last("Join them")),
		scripted.Say("Alpha is open, beta is done.").For(ofPlanner),
		scripted.Say("One of two is open.").For(ofMain),
	)
	thread := mesh.NewThreadID()
	if said := m.mesh("send", "--thread", thread, "What is open?").succeeds(t); !strings.Contains(said, "One of two is open.") {
		t.Fatalf("the answer is %q", said)
	}
	events := m.log(thread)
	got := issued(events, "helper")
	if n := len(got); n != 3 || got[2] != "c" || !slices.Contains(got, "a") || !slices.Contains(got, "b") {
		t.Errorf("dispatched were %q", got)
	}
	if told := checkWaves(t, events); len(told) != 3 {
		t.Errorf("the model was told of %q", told)
	}
	for _, r := range m.model.Requests() {
		last := r.Messages[len(r.Messages)-1].Text
		switch {
		case strings.Contains(last, "Join them") && ofWorker(r):
			if strings.Count(last, "Alpha is open.") != 1 || strings.Count(last, "Beta is done.") != 1 {
				t.Errorf("who joins was told %q", last)
			}
		case ofPlanner(r) && strings.Contains(last, "One of two is open."): // who collects
			if strings.Count(last, "Alpha is open.") != 1 || strings.Count(last, "Beta is done.") != 1 {
				t.Errorf("who collects was told %q", last)
			}
		}
	}
	var called []string
	for _, e := range events {
		if c := e.GetSkillCalled(); c != nil {
			called = append(called, c.GetSkill())
		}
	}
	if !slices.Equal(called, []string{"tasks.create"}) {
		t.Errorf("skills called: %q, want the one right call alone", called)
	}
	if left := m.model.Left(); left != 0 {
		t.Errorf("%d steps of the script are left", left)
	}
	if t.Failed() {
		for i, r := range m.model.Requests() {
			t.Logf("request %d: %.60q was told %.600q", i, r.System, r.Messages[len(r.Messages)-1].Text)
		}
	}
}

// checkWaves checks by the log that a and b are the first wave and c is the second one, which
// begins when they have ended, and that each ends once. It returns of whom the model was told,
// in that order.
func checkWaves(t *testing.T, events []*meshv1.Event) (told []string) {
	t.Helper()
	label, waves, ends := map[string]string{}, map[string]int32{}, map[string]int{}
	for _, e := range events {
		if a := e.GetDispatchAccepted(); a.GetChild().GetAgent() == "helper" {
			label[a.GetChild().GetId()], waves[a.GetChild().GetLabel()] = a.GetChild().GetLabel(), a.GetWave()
		}
		if l := label[e.GetDispatchSettled().GetChild()]; l != "" {
			ends[l]++
		}
		if e.GetDispatchIssued().GetChild().GetLabel() == "c" && (ends["a"] != 1 || ends["b"] != 1) {
			t.Errorf("c began after the ends %v", ends)
		}
		for _, id := range append(e.GetResultsDelivered().GetExecutions(), e.GetToolReturned().GetDelivered()...) {
			if label[id] != "" {
				told = append(told, label[id])
			}
		}
	}
	if d := cmp.Diff(map[string]int32{"a": 1, "b": 1, "c": 2}, waves); d != "" {
		t.Errorf("waves (-want +got):\n%s", d)
	}
	if d := cmp.Diff(map[string]int{"a": 1, "b": 1, "c": 1}, ends); d != "" {
		t.Errorf("ends (-want +got):\n%s", d)
	}
	return told
}

// C7.1: whoever does not collect is told of each result when it is there, the first one first,
// each once, and of the one that needed both last.
func TestResultsOfAgentsInProcessesOfTheirOwnArePushedInTheirOrder(t *testing.T) {
	t.Parallel()
	m := startCrewMesh(t, "main: orchestrator\n",
		askedFor(askedFor(askedFor(scripted.Step{}, "a"), "b"), "c", "a", "b").For(ofPlanner), scripted.Say("I wait.").For(ofPlanner),
		ofTask(scripted.Wait("a").Say("Alpha is open."), "Find a"), ofTask(scripted.Wait("b").Say("Beta is done."), "Find b"), ofTask(scripted.Wait("c").Say("One of two."), "Find c"),
		scripted.Say("Beta is there.").For(ofPlanner).For(scripted.Last("Beta is done.")), scripted.Say("Alpha, too.").For(ofPlanner).For(scripted.Last("Alpha is open.")),
		scripted.Say("One of two is open.").For(ofPlanner).For(scripted.Last("One of two.")))
	thread := mesh.NewThreadID()
	stream, err := m.edge().SendStreamingMessage(inThread(t, thread), userMessage(thread, "What is open?"))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.model.WaitBlocked(timely(t), 2); err != nil {
		t.Fatal(err)
	}
	for _, next := range []struct{ id, said string }{{"b", "Beta is done."}, {"a", "Alpha is open."}, {"c", "One of two."}} {
		m.model.Release(next.id)
		for ctx := timely(t); !slices.ContainsFunc(m.model.Requests(), func(r *llm.Request) bool { // until the planner is told
			return ofPlanner(r) && strings.Contains(r.Messages[len(r.Messages)-1].Text, next.said)
		}); time.Sleep(5 * time.Millisecond) {
			if ctx.Err() != nil {
				t.Fatalf("the planner is not told of %s", next.id)
			}
		}
	}
	var h heardTurn
	for u, err := stream.Recv(); !errors.Is(err, io.EOF); u, err = stream.Recv() {
		if err != nil {
			t.Fatal(err)
		}
		h.hear(t, u, thread)
	}
	if told := checkWaves(t, m.log(thread)); !slices.Equal(told, []string{"b", "a", "c"}) || !strings.HasSuffix(h.text, "One of two is open.") {
		t.Errorf("the model was told of %q, and the answer is %q", told, h.text)
	}
	if left := m.model.Left(); left != 0 {
		t.Errorf("%d steps of the script are left", left)
	}
}

// ofTask is of the worker's requests for the task.
func ofTask(s scripted.Step, task string) scripted.Step {
	return s.For(ofWorker).For(func(r *llm.Request) bool { return len(r.Messages) > 0 && strings.Contains(r.Messages[0].Text, task) })
}

// askedFor is an order of the helper.
func askedFor(s scripted.Step, id string, after ...string) scripted.Step {
	order, err := json.Marshal(map[string]any{"agent_id": id, "name": "helper", "mission": "Find " + id, "skills": []string{"tasks.search"}, "depends_on": after})
	if err != nil {
		panic(err) // nothing of it has no JSON form
	}
	return s.Call("dispatch_agent", string(order))
}

// C7.2, S0-067, S0-123: eight agents, of which three need what one finds that fails, and four
// work at a time: the others wait their turn, the three are skipped by name, and the ninth of
// one message is not begun: the user is asked, and a yes goes on with it, with fresh counts.
func TestEightAgentsAreAsManyAsOneMessageHas(t *testing.T) {
	t.Parallel()
	batch := scripted.Step{}
	found := []string{"alpha", "beta", "gamma", "delta"}
	steps := []scripted.Step{consultPlanner("Find all")}
	for _, id := range found {
		batch = askedFor(batch, id)
		steps = append(steps, ofTask(scripted.Wait("go").Say("I found "+id+"."), "Find "+id))
	}
	batch = askedFor(batch, "wrong")
	for _, id := range []string{"one", "two", "three"} {
		batch = askedFor(batch, id, "wrong")
	}
	steps = append(steps, ofTask(scripted.Fail(errors.New("no")), "Find wrong"), batch.For(ofPlanner), scripted.Call("get_agent_results", `{}`).For(ofPlanner),
		askedFor(scripted.Step{}, "ninth").For(ofPlanner), askedFor(scripted.Step{}, "ninth").For(ofPlanner), scripted.Call("get_agent_results", `{}`).For(ofPlanner),
		ofTask(scripted.Say("I found the ninth."), "Find ninth"), scripted.Say("All but wrong.").For(ofPlanner), scripted.Say("All but wrong is found.").For(ofMain))
	m := startCrewMesh(t, "defaults: {orchestrator: {max_concurrent_agents: 4}}\n", steps...)
	thread := mesh.NewThreadID()
	stream, err := m.edge().SendStreamingMessage(inThread(t, thread), userMessage(thread, "Find all"))
	if err != nil {
		t.Fatal(err)
	}
	if err := m.model.WaitBlocked(timely(t), 4); err != nil {
		t.Fatal(err)
	}
	states := map[string][]string{}
	for _, x := range m.executions(thread) {
		if l := x.GetExecution().GetLabel(); l != "" && !strings.HasPrefix(l, "orchestrator") {
			states[x.GetStatus()] = append(states[x.GetStatus()], l)
		}
	}
	if d := cmp.Diff(map[string][]string{"running": found, "pending": {"wrong", "one", "two", "three"}}, states); d != "" {
		t.Errorf("while four are at work (-want +got):\n%s", d)
	}
	m.model.Release("go")
	var h heardTurn
	for u, err := stream.Recv(); !errors.Is(err, io.EOF); u, err = stream.Recv() {
		if err != nil {
			t.Fatal(err)
		}
		h.hear(t, u, thread)
	}
	asked := h.status[len(h.status)-1]
	for _, want := range []string{"I may set at most 8 agents to work", "Find ninth (not begun", "Would you like me to continue?"} {
		if !mesh.Interrupted(h.state) || !strings.Contains(asked, want) {
			t.Fatalf("ended %v, asked %q without %q", h.state, asked, want)
		}
	}
	if last := speaker(speakGRPC).complete(t, m.realMesh, thread, "yes"); last.task != h.task || !strings.HasSuffix(last.text, "All but wrong is found.") {
		t.Errorf("task %s after %s: %s", last.task, h.task, last.text)
	}
	told := ""
	for _, r := range m.model.Requests() {
		if last := r.Messages[len(r.Messages)-1].Text; ofPlanner(r) && strings.Contains(last, `"agents":`) && told == "" {
			told = last
		}
	}
	if strings.Count(told, "Skipped because dependency 'wrong' failed.") < 3 || strings.Count(told, `"status":"completed"`) != 4 || strings.Count(told, `"status":"failed"`) != 1 {
		t.Errorf("who collects was told %s", told)
	}
	if got := issued(m.log(thread), "helper"); len(got) != 6 || got[5] != "ninth" {
		t.Errorf("dispatched were %q", got)
	}
	if left := m.model.Left(); left != 0 {
		t.Errorf("%d steps of the script are left", left)
	}
}

// executions are those of the thread.
func (m *crewMesh) executions(thread string) []*meshv1.ExecutionInfo {
	m.t.Helper()
	list, err := meshv1.NewExecutionServiceClient(m.dial()).ListExecutions(inThread(m.t, thread), &meshv1.ListExecutionsRequest{ThreadId: thread})
	if err != nil {
		m.t.Fatal(err)
	}
	return list.GetExecutions()
}

// C7.7, S4-067: of an agent that says nothing the user hears at intervals that it is at work,
// and then that it takes longer than expected; when its time is over it is ended, and the
// answer is made of what there is.
func TestASilentAgentIsToldOfAndThenDoneWithout(t *testing.T) {
	t.Parallel()
	m := startCrewMesh(t, "main: orchestrator\nlimits: {quiet: 1s, agent_time: 12s}\ndefaults: {orchestrator: {agent_timeout: 8s}}\n",
		askedFor(askedFor(scripted.Step{}, "alpha"), "beta").Call("get_agent_results", `{}`).For(ofPlanner),
		ofTask(scripted.Wait("never").Say("Too late."), "Find alpha"), ofTask(scripted.Say("I found beta."), "Find beta"),
		scripted.Say("There is beta; alpha did not come in time.").For(ofPlanner),
	)
	thread := mesh.NewThreadID()
	h := speaker(speakGRPC).complete(t, m.realMesh, thread, "Find both")
	if h.text != "There is beta; alpha did not come in time." {
		t.Errorf("the answer is %q", h.text)
	}
	working, slow := 0, 0
	for _, s := range h.status {
		switch s {
		case "Still working: alpha; 1 of 2 done.":
			working++
		case "This is taking longer than expected; still working: alpha; 1 of 2 done.":
			slow++
		}
	}
	if working < 2 || slow < 1 {
		t.Errorf("the user heard %q", h.status)
	}
	reqs := m.model.Requests()
	last := reqs[len(reqs)-1].Messages
	if told := last[len(last)-1].Text; strings.Count(told, `"status":"timeout"`) != 1 || !strings.Contains(told, "I found beta.") {
		t.Errorf("the model was told %s", told)
	}
	for _, x := range m.executions(thread) {
		want := "completed"
		if x.GetExecution().GetLabel() == "alpha" {
			want = "timeout"
		}
		if x.GetStatus() != want {
			t.Errorf("%s is %s %s", x.GetExecution().GetLabel(), x.GetStatus(), x.GetReason())
		}
	}
}

// An orchestrator that talks with users itself does not have main work, which only talks with
// users; it is told so at once, as of an agent that is not there.
func TestWhoOnlyTalksWithUsersIsNotDispatched(t *testing.T) {
	t.Parallel()
	m := startCrewMesh(t, "main: orchestrator\n",
		scripted.Call("dispatch_agent", `{"agent_id":"a","name":"main","mission":"Say hello"}`).For(ofPlanner),
		scripted.Call("dispatch_agent", `{"agent_id":"a","name":"nobody","mission":"Say hello"}`).For(ofPlanner),
		scripted.Say("Nobody can.").For(ofPlanner))
	thread := mesh.NewThreadID()
	m.mesh("send", "--thread", thread, "Say hello").succeeds(t)
	reqs := m.model.Requests()
	if strings.Contains(reqs[0].System, "\n- main:") || !strings.Contains(reqs[0].System, "\n- helper:") {
		t.Errorf("the planner is told of\n%s", reqs[0].System)
	}
	for i, want := range []string{`"main" has others work itself, talks with users only`, `there is no agent "nobody"`} {
		if told := reqs[i+1].Messages[len(reqs[i+1].Messages)-1].Text; !strings.Contains(told, want) {
			t.Errorf("the planner was told %q, want %q", told, want)
		}
	}
	if n := len(m.executions(thread)); n != 2 {
		t.Errorf("there are %d executions, want the turn and the planner", n)
	}
}
