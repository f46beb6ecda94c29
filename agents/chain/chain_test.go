package chain_test

import (
	"context"
	"iter"
	"slices"
	"strings"
	"sync"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"

	"agentmesh/agents/chain"
	"agentmesh/agents/internal/meshtest"
	"agentmesh/agents/orchestrator"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/llm/scripted"
	"agentmesh/mesh/node"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/text/texttest"
)

// A hand is an agent that answers as its function says, and keeps what it was told.
type hand struct {
	card *a2apb.AgentCard
	act  func(inv *agent.Invocation) (agent.Output, error)

	mu   sync.Mutex
	told []string
}

func (h *hand) Card() *a2apb.AgentCard { return h.card }

func (h *hand) Run(_ context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
	return func(yield func(agent.Output, error) bool) {
		h.mu.Lock()
		h.told = append(h.told, inv.Text())
		h.mu.Unlock()
		yield(h.act(inv))
	}
}

// says is what the agent says to whatever it is told.
func says(text string) func(*agent.Invocation) (agent.Output, error) {
	return func(*agent.Invocation) (agent.Output, error) { return agent.Text{Text: text}, nil }
}

// world are agents for the stages of a chain.
type world map[string]*hand

func (w world) add(t *testing.T, name string, act func(*agent.Invocation) (agent.Output, error)) {
	w[name] = &hand{card: meshtest.Card(t, "worker"), act: act}
}

// start runs a mesh whose main agent is the chain.
func (w world) start(t *testing.T, stages []chain.Stage, more meshtest.Agents) *meshtest.Mesh {
	t.Helper()
	all := meshtest.Agents{"main": func(env node.Env) (agent.Agent, error) {
		return chain.New(chain.Config{Card: meshtest.Card(t, "orchestrator"), Stages: stages, Conns: env.Conns, Logger: env.Logger})
	}}
	for name, h := range w {
		all[name] = func(node.Env) (agent.Agent, error) { return h, nil }
	}
	for name, make := range more {
		all[name] = make
	}
	return meshtest.Start(t, all, meshtest.Options{Limits: node.Limits{Depth: 2}}) // below the chain and below an orchestrator of it
}

func stage(name string, agents ...string) chain.Stage {
	s := chain.Stage{Name: name}
	for _, a := range agents {
		s.Agents = append(s.Agents, chain.Agent{Name: strings.ToUpper(a), Agent: a})
	}
	return s
}

// S1-001, S1-026, S1-095, C1 row 13: stages come one after the other, the agents of one at
// the same time; each gets the input, its task and what came of the stage before, and the
// chain's answer is the text of the last stage, and nothing else.
func TestStagesComeOneAfterTheOther(t *testing.T) {
	w := world{}
	var both sync.WaitGroup // each waits for the other: they work at the same time
	both.Add(2)
	meet := func(text string) func(*agent.Invocation) (agent.Output, error) {
		return func(*agent.Invocation) (agent.Output, error) {
			both.Done()
			both.Wait()
			return agent.Text{Text: text}, nil
		}
	}
	w.add(t, "logs", meet("17 errors"))
	w.add(t, "metrics", meet("no load"))
	w.add(t, "synth", says("Errors without load."))
	w.add(t, "writer", says("The report."))
	collect := stage("collect", "logs", "metrics")
	collect.Task, collect.Synthesis = "Collect facts.", "synth"
	m := w.start(t, []chain.Stage{collect, stage("report", "writer")}, nil)
	thread := mesh.NewThreadID()
	s := m.Say(thread, "It is slow")
	if s.Text != "The report." || s.State != a2apb.TaskState_TASK_STATE_COMPLETED {
		t.Errorf("ended %v: %q", s.State, s.Text)
	}
	if diff := cmp.Diff([]string{"Collect facts.\n\n## Input\nIt is slow"}, w["logs"].told); diff != "" {
		t.Errorf("the first agent is told (-want +got):\n%s", diff)
	}
	synth, writer := strings.Join(w["synth"].told, ""), strings.Join(w["writer"].told, "")
	if !strings.Contains(synth, "It is slow") || !strings.Contains(synth, "17 errors") || !strings.Contains(synth, "no load") {
		t.Errorf("the synthesis is told %q", synth)
	}
	if !strings.HasPrefix(writer, "It is slow\n") || !strings.Contains(writer, "Errors without load.") || strings.Contains(writer, "17 errors") {
		t.Errorf("the last stage is told %q", writer)
	}
	for _, want := range []string{"Stage collect (1 of 2)", "Stage report (2 of 2)"} {
		if !slices.Contains(s.Status, want) {
			t.Errorf("the user does not see %q but %q", want, s.Status)
		}
	}
	// One dispatch for each, with what it waits for, below the chain's execution.
	depends := map[string]int{}
	for _, e := range m.Events(thread) {
		if d, ok := e.Body.(mesh.DispatchIssued); ok && d.Child.Label != "" {
			depends[d.Child.Label] = len(d.Child.DependsOn)
		}
	}
	if diff := cmp.Diff(map[string]int{"collect-1": 0, "collect-2": 0, "collect-synthesis": 2, "report": 1}, depends); diff != "" {
		t.Errorf("dispatched (-want +got):\n%s", diff)
	}
}

// Without a model for it, the results of a stage are handed on side by side.
func TestWithoutASynthesisResultsAreSideBySide(t *testing.T) {
	w := world{}
	w.add(t, "logs", says("17 errors"))
	w.add(t, "metrics", says("no load"))
	s := w.start(t, []chain.Stage{stage("collect", "logs", "metrics")}, nil).Say(mesh.NewThreadID(), "It is slow")
	if want := "## collect-1\n\n17 errors\n\n## collect-2\n\nno load"; s.Text != want {
		t.Errorf("the answer is %q, want %q", s.Text, want)
	}
}

// A stage that fails ends the chain with what there is until then, and says what failed;
// nothing of a later stage begins.
func TestAFailedStageEndsTheChainWithWhatThereIs(t *testing.T) {
	texttest.Fixed(t)
	w := world{}
	w.add(t, "logs", says("17 errors"))
	w.add(t, "metrics", func(*agent.Invocation) (agent.Output, error) {
		return nil, mesh.Errorf(mesh.Unavailable, "test", "the metrics are away")
	})
	w.add(t, "writer", says("The report."))
	m := w.start(t, []chain.Stage{stage("collect", "logs"), stage("measure", "metrics"), stage("report", "writer")}, nil)
	s := m.Say(mesh.NewThreadID(), "It is slow")
	if s.State != a2apb.TaskState_TASK_STATE_FAILED || s.Text != "17 errors" {
		t.Errorf("ended %v: %q", s.State, s.Text)
	}
	if want := "the chain ended in its stage measure, and what comes after it was not done; METRICS (failed): the metrics are away"; !s.Heard(want) {
		t.Errorf("the user does not hear %q but %q", want, s.Status)
	}
	if len(w["writer"].told) > 0 {
		t.Errorf("the stage after it began: %q", w["writer"].told)
	}
}

// S1-062, S1-064: an orchestrator is one agent of a stage, whose failing agents are its own
// business; they are below its execution, and not below the chain's.
func TestAnOrchestratorIsOneAgentOfAStage(t *testing.T) {
	w := world{}
	w.add(t, "metrics", func(*agent.Invocation) (agent.Output, error) {
		return nil, mesh.Errorf(mesh.Unavailable, "test", "the metrics are away")
	})
	w.add(t, "writer", says("The report."))
	model := scripted.New(
		scripted.Call("dispatch_agent", `{"agent_id":"a","name":"metrics","mission":"Measure","skills":[]}`),
		scripted.Call("get_agent_results", `{}`), scripted.Say("It cannot be measured."))
	m := w.start(t, []chain.Stage{stage("look", "boss"), stage("report", "writer")}, meshtest.Agents{"boss": func(env node.Env) (agent.Agent, error) {
		return orchestrator.New(orchestrator.Config{Card: meshtest.Card(t, "orchestrator"), Model: model, Conns: env.Conns, Logger: env.Logger})
	}})
	thread := mesh.NewThreadID()
	if s := m.Say(thread, "It is slow"); s.State != a2apb.TaskState_TASK_STATE_COMPLETED || s.Text != "The report." {
		t.Errorf("ended %v: %q %q", s.State, s.Text, s.Status)
	}
	if told := strings.Join(w["writer"].told, ""); !strings.Contains(told, "It cannot be measured.") {
		t.Errorf("the next stage is told %q", told)
	}
	at := map[string]mesh.Execution{}
	for _, e := range m.Events(thread) {
		if d, ok := e.Body.(mesh.DispatchIssued); ok {
			at[d.Child.Label] = d.Child
		}
	}
	if at["a"].Parent != at["look"].ID || at["report"].Parent != at["look"].Parent {
		t.Errorf("the executions are %+v", at)
	}
}

// An agent of a stage asks the user, and the chain goes on with the answer where it was:
// no stage that is done works again, and the next one gets the input of the beginning.
func TestAChainGoesOnWhenTheUserHasAnswered(t *testing.T) {
	w := world{}
	w.add(t, "logs", says("17 errors"))
	w.add(t, "fixer", func(inv *agent.Invocation) (agent.Output, error) {
		if inv.Resumed {
			return agent.Text{Text: "Restarted: " + inv.Text()}, nil
		}
		return agent.AskAbout([]mesh.Question{{Text: "May I restart it?"}}, nil), nil
	})
	w.add(t, "writer", says("The report."))
	collect := stage("collect", "logs")
	collect.Task = "Collect facts."
	m := w.start(t, []chain.Stage{collect, stage("fix", "fixer"), stage("report", "writer")}, nil)
	thread := mesh.NewThreadID()
	s := m.Say(thread, "It is slow")
	if s.State != a2apb.TaskState_TASK_STATE_INPUT_REQUIRED || !s.Heard("May I restart it?") {
		t.Fatalf("waits %v: %q", s.State, s.Status)
	}
	s = m.Say(thread, "yes")
	if s.State != a2apb.TaskState_TASK_STATE_COMPLETED || s.Text != "The report." {
		t.Errorf("ended %v: %q %q", s.State, s.Text, s.Status)
	}
	if len(w["logs"].told) != 1 {
		t.Errorf("the first stage worked %d times", len(w["logs"].told))
	}
	if told := strings.Join(w["writer"].told, "|"); !strings.HasPrefix(told, "It is slow\n") || !strings.Contains(told, "Restarted: yes") {
		t.Errorf("the last stage is told %q", told)
	}
}

func TestTheAgentNeedsWhatItNeeds(t *testing.T) {
	card, conns := meshtest.Card(t, "orchestrator"), new(rpc.Pool)
	good := []chain.Stage{stage("a", "worker")}
	for field, cfg := range map[string]chain.Config{
		"card": {Stages: good, Conns: conns}, "stages": {Card: card, Conns: conns}, "conns": {Card: card, Stages: good},
		"a-1": {Card: card, Conns: conns, Stages: []chain.Stage{stage("a", "worker", "mail"), stage("a-1", "worker")}},
	} {
		if _, err := chain.New(cfg); !mesh.IsCode(err, mesh.Invalid) || !strings.Contains(err.Error(), field) {
			t.Errorf("without %s: %v", field, err)
		}
	}
}
