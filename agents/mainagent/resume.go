package mainagent

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"strings"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
)

// Run implements agent.Agent. A user who left a session is offered to go on with it when the
// next message is answered, once: a plain yes to that needs no model, and everything else is
// a message as any other.
func (a *assistant) Run(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
	return func(yield func(agent.Output, error) bool) {
		left := inv.Resume
		if left != nil && left.Offered && mesh.AnswerOf(inv.Text()) == mesh.AnswerYes {
			if err := goOn(ctx, inv, left); err != nil {
				target := &meshv1.Agent{Name: left.Agent, Card: &a2apb.AgentCard{Name: left.Name}}
				yield(agent.Text{Text: (&handoffs{inv: inv}).explain(ctx, target, err)}, nil)
			}
			return
		}
		for out, err := range a.answer(ctx, inv) {
			_, asks := out.(agent.Ask)
			if !yield(out, err) || err != nil || asks {
				return
			}
		}
		if left != nil && !left.Offered && inv.Returned == nil {
			yield(agent.Text{Text: "\n\n" + offer(left)}, nil)
		}
	}
}

// goOn gives the conversation back to the agent that the user left.
func goOn(ctx context.Context, inv *agent.Invocation, left *agent.Resume) error {
	_, err := inv.Mesh.StartHandoff(ctx, &meshv1.StartHandoffRequest{
		TargetAgent: left.Agent, Reason: left.Reason, ContextSummary: left.Summary, Resume: true,
	})
	return err
}

// offer says that the session was left or is parked, and asks whether to go on with it
// (S4-046, S4-064).
func offer(left *agent.Resume) string {
	at := ""
	if left.Step > 0 && left.Steps > 0 {
		at = fmt.Sprintf(" at step %d of %d", left.Step, left.Steps)
		if left.State != "" {
			at += " (" + strings.ReplaceAll(left.State, "_", " ") + ")"
		}
	}
	name := cmp.Or(left.Name, left.Agent)
	what := fmt.Sprintf("By the way, you left the %s%s", name, at)
	if left.Parked {
		what = fmt.Sprintf("Your session with the %s is parked%s, as you were away for a while", name, at)
	}
	return what + ", and what you said there is kept. Would you like to continue? Say “yes”."
}
