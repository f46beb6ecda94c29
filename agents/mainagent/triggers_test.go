package mainagent_test

import (
	"context"
	"iter"
	"strings"
	"testing"

	"agentmesh/agents/internal/meshtest"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/registry"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// desk is an agent of others that asks who lunch is for.
type desk struct{ card *a2apb.AgentCard }

func (d desk) Card() *a2apb.AgentCard { return d.card }

func (desk) Run(_ context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
	return func(yield func(agent.Output, error) bool) {
		if inv.Handoff != nil {
			yield(agent.Ask{Text: "Lunch for how many?"}, nil)
			return
		}
		yield(agent.Text{Text: "Lunch for " + inv.Text() + " is on its way."}, nil)
	}
}

// S4-088, S4-089: triggers are on an agent's card, so whoever has an agent join the mesh brings
// triggers of their own: from then on, and for as long as it is there, what matches one is for it.
func TestAnAgentThatJoinsBringsItsOwnTriggers(t *testing.T) {
	card, err := registry.ParseCard("lunch.json", []byte(`{"name": "Lunch Desk", "description": "Has lunch brought.", "version": "1.0.0",
		"capabilities": {"streaming": true, "extensions": [{"uri": "`+mesh.ExtensionURI+`",
			"params": {"handoff_support": true, "handoff_triggers": ["order lunch", "hungry team"]}}]},
		"skills": [{"id": "lunch", "name": "lunch", "description": "Has lunch brought", "tags": ["lunch"]}],
		"defaultInputModes": ["text/plain"], "defaultOutputModes": ["text/plain"]}`))
	if err != nil {
		t.Fatal(err)
	}
	m := meshtest.Start(t, newWorld(t).all(), meshtest.Options{})
	const wish = "I want to order lunch for the team"
	if s := m.Say(mesh.NewThreadID(), wish); strings.Contains(s.Asked(), "Lunch") || s.Heard("Lunch Desk") {
		t.Fatalf("before it joined: %q", s.Text)
	}
	leave := join(t, m, "lunch", desk{card})
	thread := mesh.NewThreadID()
	if s := m.Say(thread, "How do I order lunch?"); strings.Contains(s.Asked(), "for how many") {
		t.Errorf("a question is handed over: %q", s.Asked())
	}
	if s := m.Say(thread, wish); !strings.Contains(s.Asked(), "Lunch for how many?") || !s.Heard("Lunch Desk") {
		t.Fatalf("asked %q", s.Asked())
	}
	if s := m.Say(thread, "seven"); !strings.Contains(s.Text, "Lunch for seven is on its way.") {
		t.Errorf("said %q", s.Text)
	}
	leave()
	if s := m.Say(mesh.NewThreadID(), wish); strings.Contains(s.Asked(), "Lunch") {
		t.Errorf("after it left: %q", s.Asked())
	}
}
