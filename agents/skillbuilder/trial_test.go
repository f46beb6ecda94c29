package skillbuilder_test

import (
	"context"
	"iter"
	"strings"
	"testing"

	"agentmesh/agents/internal/meshtest"
	"agentmesh/agents/skillbuilder"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/node"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// A tester stands for the worker: it runs as the function says.
type tester struct {
	card *a2apb.AgentCard
	run  func(ctx context.Context, inv *agent.Invocation) (agent.Output, error)
}

func (w tester) Card() *a2apb.AgentCard { return w.card }

func (w tester) Run(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
	return func(yield func(agent.Output, error) bool) { yield(w.run(ctx, inv)) }
}

// A new skill is tried once before the user is asked to save it, with nothing that could
// change or send anything: the mesh refuses such calls, whatever the skill says. What came of
// it is shown, also that it failed, and the user decides.
func TestANewSkillIsTriedWithoutEffect(t *testing.T) {
	tried := 0
	fails := false
	work := func(ctx context.Context, inv *agent.Invocation) (agent.Output, error) {
		tried++
		if fails {
			return nil, mesh.Errorf(mesh.Unavailable, "test", "the worker is tired")
		}
		if !strings.Contains(inv.Text(), "name: slack.send_alert") || len(inv.Grant.Skills) == 0 || !inv.Grant.AllowsSkill("tasks.search") {
			t.Errorf("told %q with %v", inv.Text(), inv.Grant.Skills)
		}
		for _, name := range []string{"tasks.create", "tasks.delete", "mail.send", "files.write", "memory.save", "http.request", "system.build_skill"} {
			if inv.Grant.AllowsSkill(name) {
				t.Errorf("the trial has %s", name)
			}
			_, err := inv.Mesh.RecordCall(ctx, "call-"+name, mesh.SkillCalled{Skill: name, Args: "{}"})
			if !mesh.IsCode(err, mesh.Denied) {
				t.Errorf("the mesh permits %s: %v", name, err)
			}
		}
		return agent.Text{Text: "slack.post to #ops\nThe alert is posted."}, nil
	}
	m := meshtest.Start(t, meshtest.Agents{
		"main":   func(node.Env) (agent.Agent, error) { return host{meshtest.Card(t, "main"), nil}, nil },
		"worker": func(node.Env) (agent.Agent, error) { return tester{meshtest.Card(t, "worker"), work}, nil },
		"skill-builder": func(env node.Env) (agent.Agent, error) {
			return skillbuilder.New(skillbuilder.Config{Card: meshtest.Card(t, "skill-builder"), Conns: env.Conns, Worker: "worker", Now: friday, Logger: env.Logger})
		},
	}, meshtest.Options{})
	thread := mesh.NewThreadID()
	s := say(m, thread, "a skill that sends Slack alerts", "ok", "ok")
	if !strings.Contains(s.Asked(), "I tried it, without any effect:\n> slack.post to #ops\n> The alert is posted.\n\nShall I save it") || tried != 1 {
		t.Fatalf("tried %d times, asked %q", tried, s.Asked())
	}
	if s = m.Say(thread, "What happens when I save it?"); !strings.Contains(s.Asked(), "> The alert is posted.") || tried != 1 {
		t.Errorf("tried %d times, asked %q", tried, s.Asked())
	}
	fails = true
	if s = m.Say(thread, "inputs: channel, text"); !strings.Contains(s.Asked(), "It could not be tried: ") || !strings.Contains(s.Asked(), "the worker is tired") || tried != 2 {
		t.Errorf("tried %d times, asked %q", tried, s.Asked())
	}
	if s = m.Say(thread, "yes"); !strings.Contains(s.Text, "'slack.send_alert' is now active") || strings.Contains(m.SkillFile("slack.send_alert"), "tired") {
		t.Errorf("said %q, asked %q", s.Text, s.Asked())
	}
}
