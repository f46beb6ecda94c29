package node_test

import (
	"context"
	"iter"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/agent/modelrun"
	"agentmesh/mesh/dispatch"
	"agentmesh/mesh/llm/scripted"
	"agentmesh/mesh/text"
	"agentmesh/mesh/text/texttest"
)

// finding O6: who waits for another agent can be told something, and the first call of its
// model has it.
func TestAnAgentThatHasNotBegunIsTold(t *testing.T) {
	texttest.Fixed(t)
	release := make(chan struct{})
	first := func(ctx context.Context, _ *agent.Invocation) iter.Seq2[agent.Output, error] {
		select {
		case <-release:
		case <-ctx.Done():
		}
		return words("found apples")
	}
	model := scripted.New(scripted.Say("In red: apples."))
	second := func(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
		return modelrun.Run(ctx, inv, modelrun.Options{Model: model})
	}
	m := start(t, config(t.TempDir()), map[string]run{"first": first, "second": second}, builtin("main", consulting(
		dispatch.Order{AgentID: "one", Name: "first", Mission: "find it"},
		dispatch.Order{AgentID: "two", Name: "second", Mission: "write it down", DependsOn: []string{"one"}},
	)))
	id := mesh.NewThreadID()
	stream, err := m.edge().SendStreamingMessage(in(t, id), say("go"))
	if err != nil {
		t.Fatal(err)
	}
	executions := meshv1.NewExecutionServiceClient(m.conn)
	pending := ""
	for pending == "" && t.Context().Err() == nil {
		list, _ := executions.ListExecutions(in(t, id), &meshv1.ListExecutionsRequest{ThreadId: id})
		for _, x := range list.GetExecutions() {
			if x.GetExecution().GetLabel() == "two" {
				pending = x.GetExecution().GetId()
			}
		}
	}
	told, err := executions.TellExecution(in(t, id), &meshv1.TellExecutionRequest{ThreadId: id, ExecutionId: pending, Text: "write it in red"})
	if err != nil || told.GetOutcome() != "accepted" || told.GetExecution().GetStatus() != "pending" {
		t.Fatalf("told: %v, %v", told, err)
	}
	close(release)
	if s := hear(t, stream, nil); s.state != a2apb.TaskState_TASK_STATE_COMPLETED || !strings.Contains(s.text, "two is completed: In red: apples.") {
		t.Errorf("heard %q, ended %v", s.text, s.state)
	}
	reqs := model.Requests()
	if len(reqs) != 1 || reqs[0].Messages[len(reqs[0].Messages)-1].Text != text.Instruction("write it in red") {
		t.Errorf("%d calls of its model, the first with %v", len(reqs), reqs[0].Messages)
	}
}
