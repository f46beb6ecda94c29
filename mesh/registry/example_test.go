package registry_test

import (
	"context"
	"fmt"

	"agentmesh/mesh"
	"agentmesh/mesh/registry"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

func Example() {
	ctx := context.Background()
	reg, err := registry.New(ctx, registry.Options{
		// In earnest, leave Probe out: it then connects to the agent.
		Probe: func(context.Context, registry.Entry) error { return nil },
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	card := &a2apb.AgentCard{
		Name: "Trip Planner", Description: "Plans trips.", Version: "1.0.0", Capabilities: &a2apb.AgentCapabilities{},
		DefaultInputModes: []string{"text/plain"}, DefaultOutputModes: []string{"text/plain"},
		Skills: []*a2apb.AgentSkill{{Id: "plan", Name: "Plan", Description: "Plans a trip.", Tags: []string{"travel"}}},
	}
	who := mesh.Principal{Tenant: "acme", User: "alice", Roles: []mesh.Role{mesh.RoleAgentPublisher}}
	joined, err := reg.Register(ctx, who, registry.Request{Card: card, Endpoint: "127.0.0.1:9000"})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(joined.Entry.Name, "joined for", joined.Lease)

	for _, e := range reg.List("acme", registry.Filter{Tag: "travel", Live: true}) {
		fmt.Println("acme sees", e.Name, "at", e.Endpoint)
	}
	_, err = reg.Resolve("globex", "trip-planner")
	fmt.Println("globex:", mesh.DetailOf(err))
	// Output:
	// trip-planner joined for 30s
	// acme sees trip-planner at 127.0.0.1:9000
	// globex: Agent trip-planner not found; check its name in the list of agents
}
