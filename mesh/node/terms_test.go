package node

import (
	"context"
	"os"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/admission"
	"agentmesh/mesh/registry"
)

// S1-036, S1-037, S1-038: of agents that are built in the node keeps what is set for them, and
// of all others the defaults; the main agent only asks others, which takes as long as it has
// the user's stream, and an agent that dispatches others itself has the time for that.
func TestTheNodeKeepsWhatIsSetForWhoHasOthersWork(t *testing.T) {
	agents, err := registry.New(t.Context(), registry.Options{Probe: func(context.Context, registry.Entry) error { return nil }})
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile("../../agentcards/orchestrator.json")
	if err != nil {
		t.Fatal(err)
	}
	card, err := registry.ParseCard("orchestrator.json", data)
	if err != nil {
		t.Fatal(err)
	}
	_, err = agents.Register(t.Context(), mesh.Principal{Tenant: "t", Roles: []mesh.Role{mesh.RoleAgentPublisher}},
		registry.Request{Name: "foreign", Endpoint: "127.0.0.1:1", Lease: time.Minute, Card: card})
	if err != nil {
		t.Fatal(err)
	}
	n := &node{agents: agents}
	n.cfg.Main = "main"
	n.cfg.Defaults.Orchestrator = Orchestrator{MaxConcurrentAgents: 2, MaxBudget: 20 * time.Minute}
	n.opts.Builtins = []Builtin{
		{Name: "main"},
		{Name: "boss", Orchestrates: true, Time: 4 * time.Minute, Orchestrator: Orchestrator{MaxConcurrentAgents: 7, AgentTimeout: 9 * time.Minute, MaxBudget: 3 * time.Minute}},
		{Name: "collector", Orchestrates: true, Orchestrator: Orchestrator{Profile: "collect"}},
	}
	for name, want := range map[[2]string]admission.Terms{
		{"main", "worker"}:      {Concurrent: 5, Timeout: 5 * time.Minute},
		{"main", "boss"}:        {Concurrent: 5, Timeout: 4 * time.Minute},
		{"main", "foreign"}:     {Concurrent: 5, Timeout: 11 * time.Minute},
		{"boss", "worker"}:      {Concurrent: 7, Timeout: 9 * time.Minute, Time: 4 * time.Minute},
		{"collector", "worker"}: {Concurrent: 5, Timeout: 30 * time.Second, Time: 11 * time.Minute},
		{"foreign", "worker"}:   {Concurrent: 2, Timeout: 5 * time.Minute, Time: 21 * time.Minute},
	} {
		if got := n.terms("t", name[0], name[1]); got != want {
			t.Errorf("%s and %s: %+v, want %+v", name[0], name[1], got, want)
		}
	}
}
