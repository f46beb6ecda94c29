package main

import (
	"fmt"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
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

// S0-049: two agents that need nothing and one that needs both: it starts when they are done
// and is told what they found; whoever collects has all results, each once. S3-054: in
// a scoped agent, a block of three commands is three calls; help costs nothing and a wrong flag
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
