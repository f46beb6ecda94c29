package skillbuilder_test

import (
	"context"
	"iter"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/agents/internal/meshtest"
	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/node"
)

// listener hands over at "do it", and says nothing of what it heard before.
type listener struct{ card *a2apb.AgentCard }

func (l listener) Card() *a2apb.AgentCard { return l.card }

func (l listener) Run(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
	return func(yield func(agent.Output, error) bool) {
		if inv.Text() != "do it" {
			yield(agent.Text{Text: "Shall I?"}, nil)
			return
		}
		if _, err := inv.Mesh.StartHandoff(ctx, &meshv1.StartHandoffRequest{TargetAgent: "skill-builder", ContextSummary: "the user agreed"}); err != nil {
			yield(nil, err)
		}
	}
}

// S4-037, S4-049: what the user said before the builder took over is not asked again, although
// neither the summary nor the message has it.
func TestWhatASkillIsForIsNotAskedAgain(t *testing.T) {
	m := meshtest.Start(t, meshtest.Agents{
		"main":          func(node.Env) (agent.Agent, error) { return listener{meshtest.Card(t, "main")}, nil },
		"skill-builder": builder(t),
	}, meshtest.Options{})
	thread := mesh.NewThreadID()
	if s := say(m, thread, "I want a skill that posts tweets", "do it"); !strings.Contains(s.Text, "posts tweets") {
		t.Errorf("it said %q", s.Text)
	}
}
