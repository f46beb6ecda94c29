package node_test

import (
	"context"
	"fmt"
	"iter"
	"os"
	"strings"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/rpc"
)

const greedyNode = "GREEDY_NODE" // the address of any node

// greedyAgent is an agent in a process of its own that knows no limit.
func greedyAgent() error {
	return agent.Serve(context.Background(), agent.Options{Agent: testAgent{"greedy", greed}, NodeAddr: os.Getenv(greedyNode),
		Dial: rpc.DialOptions{Tenant: "default"}, Register: &agent.Registration{Name: "greedy"}, Ready: func(string) { fmt.Println("ready") }})
}

// greed dispatches agents and calls skills, and goes on whatever it is told. It says in
// whose name it was refused, how often, and what it was allowed.
func greed(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
	return func(yield func(agent.Output, error) bool) {
		if inv.Text() == "hello" { // it is there
			return
		}
		got := map[string]int{}
		try := func(what string, n int, body func(i int) mesh.Body) {
			for i := range n {
				_, err := inv.Mesh.Record(ctx, &mesh.Event{Body: body(i)})
				switch trip := limit.TripOf(err); {
				case err == nil:
					got[what]++
				case trip != nil:
					got[trip.Limit]++
				default:
					got[mesh.DetailOf(err)]++
				}
			}
		}
		var open []mesh.ExecutionID
		child := func(int) mesh.Body {
			open = append(open, mesh.NewExecutionID(inv.Grant.Thread))
			return mesh.DispatchIssued{Child: mesh.Execution{ID: open[len(open)-1], Parent: inv.Execution,
				Kind: mesh.KindAgent, Agent: "builder", User: inv.User, Text: "work", Deadline: time.Now().Add(time.Hour)}}
		}
		dispatch := func(n int) { // one after the other
			for range n {
				try("dispatched", 1, child)
				_, _ = inv.Mesh.Record(ctx, &mesh.Event{Body: mesh.DispatchSettled{Child: open[len(open)-1], State: completed}}) // the node knows of none that it refused
			}
		}
		call := func(i int) mesh.Body {
			return mesh.SkillCalled{Call: mesh.NewEventID(), Skill: "greedy.do", Args: "{}"}
		}
		switch inv.Text() {
		case "dispatch", "again":
			dispatch(14)
		case "at once":
			try("dispatched", 8, child)
		case "for long":
			dispatch(1)
			if did, err := inv.Mesh.Actions(ctx); err == nil {
				x := did.Execution(open[0])
				got[fmt.Sprint("for ", x.Deadline.Sub(x.Started))]++
			}
		case "call":
			try("called", 40, call)
		case "think":
			for range 9 {
				try("thought", 1, func(int) mesh.Body {
					return mesh.ModelReplied{Tools: []mesh.ToolUse{{ID: mesh.NewEventID(), Name: "dispatch_agent", Arguments: "{}"}}, Usage: mesh.Usage{Prompt: 10}}
				})
				dispatch(1)
			}
		case "spend":
			try("thought", 1, func(int) mesh.Body { return mesh.ModelReplied{Usage: mesh.Usage{Prompt: 2_000_000}} })
			try("called", 2, call)
			dispatch(2)
			try("thought", 2, func(int) mesh.Body { return mesh.ModelReplied{Usage: mesh.Usage{Prompt: 1}} }) // an outcome
			left := inv.Mesh.Left()
			got[fmt.Sprint("left ", left.Tokens)]++
		}
		var lines []string
		for what, n := range got {
			lines = append(lines, fmt.Sprintf("%s=%d", what, n))
		}
		yield(agent.Text{Text: strings.Join(lines, ";")}, nil)
	}
}

// finding O2, pitfalls B1.3. S0-067, S0-070, S0-071, S0-123, S0-074, S1-036, S1-037: an agent in a process
// of its own that ignores all limits is stopped by the node at each of them, whatever it
// says; the user's next message begins anew. Outcomes are taken always.
func TestAnAgentThatIgnoresAllLimitsIsStoppedByTheNode(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.Limits.TurnTokens, cfg.Limits.ThreadCalls = 1_000_000, limit.Unlimited
	cfg.Defaults.Orchestrator.AgentTimeout = 100 * time.Second
	m := start(t, cfg, map[string]run{"main": greeter, "builder": builder})
	child(t, "greedy-agent", greedyNode+"="+m.Any().GRPC)
	a2a := a2apb.NewA2AServiceClient(m.raw(t))
	for ctx := plain(t); ; {
		stream, err := a2a.SendStreamingMessage(as(ctx, "a", "agent", "greedy"), say("hello"))
		if err == nil {
			var s said
			for r, err := stream.Recv(); err == nil; r, err = stream.Recv() {
				s.add(t, r)
			}
			if s.state == completed {
				break
			}
		}
		if ctx.Err() != nil {
			t.Fatal("the agent does not come")
		}
	}
	thread := mesh.NewThreadID()
	for _, tt := range []struct {
		text string
		want []string
	}{
		{"dispatch", []string{"dispatched=8", limit.TurnAgents + "=6"}},
		{"again", []string{"dispatched=8", limit.TurnAgents + "=6"}},
		{"at once", []string{"dispatched=5", limit.OrchestratorAgents + "=3"}},
		{"for long", []string{"dispatched=1", "for 1m40s=1"}},
		{"call", []string{"called=30", limit.TurnSkillCalls + "=10"}},
		{"think", []string{"thought=9", "dispatched=6", limit.AgentSteps + "=3"}},
		{"spend", []string{"thought=3", limit.BudgetTokens + "=4", "left 0=1"}},
	} {
		req := say(tt.text)
		req.Message.ContextId = thread
		stream, err := a2a.SendStreamingMessage(as(plain(t), "a", "agent", "greedy", "thread-id", thread), req)
		s := hear(t, stream, err)
		if n := strings.Count(s.text, "=") - len(tt.want); s.state != completed || n != 0 {
			t.Errorf("%s ended %v with %q", tt.text, s.state, s.text)
		}
		for _, want := range tt.want {
			if !strings.Contains(s.text, want) {
				t.Errorf("%s: %q, want %s", tt.text, s.text, want)
			}
		}
	}
}
