package orchestrator_test

import (
	"slices"
	"testing"

	"agentmesh/agents/internal/meshtest"
	"agentmesh/agents/orchestrator"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/dispatch"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/scripted"
	"agentmesh/mesh/node"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// S1-032, S1-039, S1-091: below an orchestrator nobody dispatches, also another orchestrator
// that was named: it has no tools for it. S1-124: the operator may allow more.
func TestBelowAnOrchestratorNobodyDispatches(t *testing.T) {
	for depth, may := range map[int]bool{0: false, 1: false, 2: true} {
		top := scripted.New(scripted.Call("dispatch_agent", `{"name":"second","task":"Go on"}`), scripted.Say("Done.").Repeat())
		second := scripted.New(scripted.Say("I am at the end."))
		of := func(model llm.Model, below ...dispatch.SubAgent) func(node.Env) (agent.Agent, error) {
			return func(env node.Env) (agent.Agent, error) {
				return orchestrator.New(orchestrator.Config{Card: meshtest.Card(t, "orchestrator"), Model: model, Conns: env.Conns,
					Dispatch: dispatch.Options{Profile: dispatch.ProfilePush, SubAgents: below}})
			}
		}
		m := meshtest.Start(t, meshtest.Agents{"main": of(top, dispatch.SubAgent{Name: "second"}), "second": of(second, dispatch.SubAgent{Name: "main"})},
			meshtest.Options{Limits: node.Limits{Depth: depth}})
		if s := m.Say(mesh.NewThreadID(), "go"); s.State != a2apb.TaskState_TASK_STATE_COMPLETED {
			t.Fatalf("ended %v: %q", s.State, s.Text)
		}
		asked := second.Requests()
		if len(asked) != 1 {
			t.Fatalf("depth %d: the second was asked %d times", depth, len(asked))
		}
		has := slices.ContainsFunc(asked[0].Tools, func(tool llm.Tool) bool { return tool.Name == "dispatch_agent" })
		if has != may {
			t.Errorf("depth %d: the second may dispatch: %v", depth, has)
		}
	}
}
