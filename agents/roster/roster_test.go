package roster_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentmesh/agents/roster"
	"agentmesh/mesh"
	"agentmesh/mesh/node"
)

var builtins = []roster.Builtin{
	{Name: "main", Description: "Talks"},
	{Name: "orchestrator", Type: node.TypeOrchestrator, Description: "Has others work", Use: node.Use{MCP: []string{}, NativeTools: []string{}}},
	{Name: "worker", Type: node.TypeWorker, Description: "Works", Use: node.Use{NativeTools: []string{"search"}}},
	{Name: "general-worker", Type: node.TypeWorker, Description: "Thinks", Thinks: true, Use: node.Use{MCP: []string{}, NativeTools: []string{}}},
}

func all(*roster.Agent) string { return "" }

func made(t *testing.T, cfg node.Config) *roster.Roster {
	t.Helper()
	cfg.Main = "main"
	r, problems := roster.Make(&cfg, builtins, all)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return r
}

// stageAgent is the agent in the first place of a chain of one stage.
func stageAgent(t *testing.T, r *roster.Roster) *roster.Agent {
	t.Helper()
	a := r.Get(r.Get("chain").Stages[0].Agents[0].Agent)
	if a == nil {
		t.Fatal("the agent of the stage is not on the roster")
	}
	return a
}

// S1-041, S1-042, S1-044, S1-045, S1-102: each field is that of the most special level that
// says it, whatever the levels below and above say; and the roster knows which.
func TestTheMostSpecialLevelWinsFieldByField(t *testing.T) {
	own := func(level string) node.Use {
		return node.Use{Model: level, MCP: []string{level}, NativeTools: []string{level}, Skills: []string{level}, MaxIterations: len(level), MaxToolCalls: len(level), MaxTokens: int64(len(level)), MaxCost: float64(len(level)), Timeout: time.Duration(len(level)), API: level, Endpoint: level}
	}
	orch := func(level string) node.Orchestration {
		o := node.Orchestrator{MaxConcurrentAgents: len(level), AgentTimeout: time.Duration(len(level)), MaxBudget: time.Duration(len(level)), HelpTimeout: time.Duration(len(level)), Profile: level}
		return node.Orchestration{Orchestrator: o, SubAgents: []node.SubAgent{{Name: "worker"}}}
	}
	// Names of different lengths tell numbers apart.
	levels := []struct{ name, path string }{
		{"d", "defaults"}, {"ag", "agents.orchestrator"}, {"cha", "chains.chain"}, {"stag", "chains.chain.stages[0]"}, {"place", "chains.chain.stages[0].agents[0]"},
	}
	for said := 1; said < 1<<len(levels); said++ {
		var use [5]node.Use
		var o [5]node.Orchestration
		top := 0
		for i, l := range levels {
			if said&(1<<i) != 0 {
				use[i], o[i], top = own(l.name), orch(l.name), i
			}
		}
		r := made(t, node.Config{
			Defaults: node.Defaults{Use: use[0], Orchestration: o[0]},
			Agents:   map[string]node.AgentConfig{"orchestrator": {Use: use[1], Orchestration: o[1]}},
			Chains: map[string]node.Chain{"chain": {Use: use[2], Orchestration: o[2], Stages: []node.Stage{{Use: use[3], Orchestration: o[3],
				Agents: []node.StageAgent{{Name: "orchestrator", Use: use[4], Orchestration: o[4]}}}}}},
		})
		a := stageAgent(t, r)
		want, from := own(levels[top].name), levels[top].path
		if top == 0 { // what the agent is by itself wins over defaults
			want.MCP, want.NativeTools = []string{}, []string{}
		}
		if diff := cmp.Diff(want, a.Use); diff != "" {
			t.Errorf("%05b: use (-want +got):\n%s", said, diff)
		}
		if diff := cmp.Diff(orch(levels[top].name).Orchestrator, a.Orchestrator); diff != "" {
			t.Errorf("%05b: orchestrator (-want +got):\n%s", said, diff)
		}
		if a.From["model"] != from+".model" || a.From["sub_agents"] != from+".sub_agents" || a.From["orchestrator.profile"] != from+".orchestrator.profile" {
			t.Errorf("%05b: the values are of %v, want %s", said, a.From, from)
		}
		if variant := top > 1; variant != (a.Of == "orchestrator") {
			t.Errorf("%05b: %s is a variant of %q", said, a.Name, a.Of)
		}
	}
}

// S1-045: the native tools of an agent are what its use says, else what it is by itself.
func TestNativeToolsAreResolvedUpToTheUse(t *testing.T) {
	r := made(t, node.Config{
		Defaults: node.Defaults{Use: node.Use{NativeTools: []string{"all"}}},
		Agents:   map[string]node.AgentConfig{"helper": {Description: "Helps"}, "main": {Use: node.Use{NativeTools: []string{}}}},
		Chains: map[string]node.Chain{"chain": {Stages: []node.Stage{{Agents: []node.StageAgent{
			{Name: "worker", Use: node.Use{NativeTools: []string{"code"}}}, {Name: "helper"}}}}}},
	})
	for name, want := range map[string][]string{"helper": {"all"}, "worker": {"search"}, "main": {}, "general-worker": {}} {
		if diff := cmp.Diff(want, r.Get(name).NativeTools); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if diff := cmp.Diff([]string{"code"}, stageAgent(t, r).NativeTools); diff != "" {
		t.Errorf("at its place (-want +got):\n%s", diff)
	}
}

// S1-042, S1-043: a list of sub-agents is short, long or mixed; one that is used as it is
// by itself is no variant, and a variant has the same name after each start.
func TestSubAgentsAreVariantsWhereTheyAreUsedOtherwise(t *testing.T) {
	cfg := node.Config{Agents: map[string]node.AgentConfig{
		"boss": {Type: node.TypeOrchestrator, Orchestration: node.Orchestration{SubAgents: []node.SubAgent{
			{Name: "worker"}, {Name: "general-worker", Use: node.Use{MaxIterations: 5, MCP: []string{"k"}}}, {Name: "weather"}}}},
		"weather": {Time: time.Hour}, // registered while the mesh runs
	}}
	r := made(t, cfg)
	boss := r.Get("boss")
	if len(boss.Agents) != 3 || boss.Agents[0] != (roster.Ref{Name: "worker", Agent: "worker"}) || boss.Agents[2] != (roster.Ref{Name: "weather", Agent: "weather"}) {
		t.Fatalf("it may dispatch %v", boss.Agents)
	}
	variant := r.Get(boss.Agents[1].Agent)
	if variant == nil || variant.Of != "general-worker" || variant.MaxIterations != 5 || !variant.Builtin || variant.Description != "Thinks" || !mesh.ValidAgentName(variant.Name) {
		t.Errorf("the variant is %+v", variant)
	}
	if r.Get("general-worker").MaxIterations != 0 {
		t.Error("the agent itself is changed")
	}
	if again := made(t, cfg).Get("boss").Agents[1]; again != boss.Agents[1] {
		t.Errorf("after another start it is %v", again)
	}
	if r.Get("weather") != nil {
		t.Error("an agent that others run is on the roster")
	}
	if r.Get("orchestrator").Agents != nil {
		t.Error("without a list, an orchestrator may dispatch only some")
	}
}

// C8 row 7: what cannot be offered is left out, with why, and so is what cannot do without;
// the rest stays.
func TestWhatCannotBeOfferedIsLeftOut(t *testing.T) {
	stages := func(names ...string) (all []node.Stage) {
		for _, n := range names {
			all = append(all, node.Stage{Agents: []node.StageAgent{{Name: n}}})
		}
		return all
	}
	orch := func(names ...string) node.AgentConfig {
		a := node.AgentConfig{Type: node.TypeOrchestrator}
		for _, n := range names {
			a.SubAgents = append(a.SubAgents, node.SubAgent{Name: n})
		}
		return a
	}
	cfg := node.Config{Main: "main", Agents: map[string]node.AgentConfig{"some": orch("worker", "general-worker"), "none": orch("general-worker")},
		Chains: map[string]node.Chain{"fine": {Stages: stages("worker", "some")}, "lost": {Stages: stages("worker", "none")},
			"outer": {Stages: stages("lost")}, "both": {Stages: []node.Stage{{Agents: []node.StageAgent{{Name: "worker"}, {Name: "main"}}}}}}}
	r, problems := roster.Make(&cfg, builtins, func(a *roster.Agent) string {
		if a.Thinks {
			return "it thinks"
		}
		return ""
	})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	left := map[string]string{}
	for _, l := range r.Left {
		left[l.Name] = l.Why
	}
	want := map[string]string{"general-worker": "it thinks", "synthesis": "it thinks", "none": "none of its sub_agents can be offered",
		"lost": "its stage stage-2 needs none: none of its sub_agents can be offered", "outer": "its stage stage-1 needs lost: its stage stage-2 needs none: none of its sub_agents can be offered"}
	if diff := cmp.Diff(want, left); diff != "" {
		t.Errorf("left out (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]roster.Ref{{Name: "worker", Agent: "worker"}}, r.Get("some").Agents); diff != "" {
		t.Errorf("the orchestrator may dispatch (-want +got):\n%s", diff)
	}
	if r.Get("fine") == nil || r.Get("both") == nil || r.Get("both").Stages[0].Synthesis != "" {
		t.Error("what can be offered is not")
	}
}

// The time of who has others work is that of all of their work.
func TestWhoHasOthersWorkHasTheirTime(t *testing.T) {
	for want, a := range map[time.Duration]roster.Agent{
		0: {Type: node.TypeWorker}, time.Minute: {Type: node.TypeOrchestrator, Use: node.Use{Timeout: time.Minute}}, 11 * time.Minute: {Type: node.TypeOrchestrator},
		61 * time.Minute: {Type: node.TypeOrchestrator, Orchestrator: node.Orchestrator{MaxBudget: time.Hour}}, 22 * time.Minute: {Type: roster.TypeChain, Stages: make([]roster.Stage, 2)},
	} {
		if got := a.Time(); got != want {
			t.Errorf("%+v: %v, want %v", a, got, want)
		}
	}
}

// A long name has variants whose names are names.
func TestNamesOfVariantsAreNames(t *testing.T) {
	long := "a" + strings.Repeat("b", 63)
	cfg := node.Config{Agents: map[string]node.AgentConfig{long: {Description: "x"}},
		Chains: map[string]node.Chain{"chain": {Stages: []node.Stage{{Agents: []node.StageAgent{{Name: long, Use: node.Use{MaxIterations: 1}}}}}}}}
	if a := stageAgent(t, made(t, cfg)); !mesh.ValidAgentName(a.Name) || a.Of != long {
		t.Errorf("the variant is %+v", a)
	}
}
