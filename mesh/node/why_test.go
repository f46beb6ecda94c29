package node_test

import (
	"context"
	"errors"
	"iter"
	"strings"
	"testing"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/agent/modelrun"
	"agentmesh/mesh/dispatch"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/llm/scripted"
	"agentmesh/mesh/node"
	"agentmesh/mesh/text/texttest"
)

// What was the matter with each agent of a turn is in the list of its executions, for
// programs and for people: with a model that failed, an agent that there is not, and a limit
// at which the turn waits.
func TestTheListOfExecutionsHasTheReasons(t *testing.T) {
	texttest.Fixed(t)
	model := scripted.New(scripted.Fail(errors.New("400 Bad Request")).Repeat())
	broken := func(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
		return modelrun.Run(ctx, inv, modelrun.Options{Model: model})
	}
	consult := consulting(dispatch.Order{AgentID: "model", Name: "broken", Mission: "find it"}, dispatch.Order{AgentID: "nobody", Name: "nobody", Mission: "find it"})
	m := start(t, config(t.TempDir()), map[string]run{"broken": broken}, builtin("main", func(env node.Env) run {
		orchestrate := consult(env)
		return func(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
			switch inv.Text() {
			case "dispatch":
				return orchestrate(ctx, inv)
			case "fail":
				return broken(ctx, inv)
			}
			return func(yield func(agent.Output, error) bool) {
				yield(agent.Ask{Text: "May I go on?", Report: &agent.Report{Limit: limit.TurnAgents, Most: 8}}, nil)
			}
		}
	}))
	for said, want := range map[string]map[string]string{
		"dispatch": {"main": "completed ", "model": "failed MODEL_FAILED", "nobody": "failed "},
		"fail":     {"": "failed MODEL_FAILED", "main": "failed MODEL_FAILED"},
		"limit":    {"": "awaiting LIMIT_REACHED", "main": "awaiting LIMIT_REACHED"},
	} {
		id := mesh.NewThreadID()
		stream, err := m.edge().SendStreamingMessage(in(t, id), say(said))
		hear(t, stream, err)
		list, err := meshv1.NewExecutionServiceClient(m.conn).ListExecutions(in(t, id), &meshv1.ListExecutionsRequest{ThreadId: id})
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range list.GetExecutions() {
			who := x.GetExecution().GetLabel()
			if x.GetDepth() == 1 {
				who = x.GetExecution().GetAgent()
			} else if x.GetDepth() == 0 {
				who = ""
			}
			got := x.GetStatus() + " " + x.GetReason()
			if w, ok := want[who]; ok && got != w {
				t.Errorf("%s: %q is %q, want %q", said, who, got, w)
			}
			delete(want, who)
			if x.GetDepth() == 2 && (who == "nobody" && !strings.Contains(x.GetDetail(), `"nobody"`) || x.GetDetail() == "") {
				t.Errorf("people read of %q: %q", who, x.GetDetail())
			}
		}
		if len(want) > 0 {
			t.Errorf("%s: not listed are %v of %v", said, want, list)
		}
	}
}
