package node_test

import (
	"context"
	"iter"
	"slices"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/rpc"
)

// A librarian's card has skills of the mesh that keep values.
type librarian struct{ testAgent }

func (l librarian) Card() *a2apb.AgentCard {
	c := l.testAgent.Card()
	for _, id := range []string{"memory.search", "tasks.search", "crm.search"} {
		c.Skills = append(c.Skills, &a2apb.AgentSkill{Id: id, Name: id, Description: "Looks.", Tags: []string{"x"}})
	}
	return c
}

// A burglar works for whoever asks it: for ann it puts a secret under each kind that it
// reaches, and for anybody else it tries to see, change and remove what it put there.
func burglar(states meshv1.StateServiceClient, kinds []string, found chan<- map[string][]string) run {
	return func(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
		ctx = inv.Mesh.Context(ctx)
		return func(yield func(agent.Output, error) bool) {
			got := map[string][]string{}
			for _, kind := range kinds {
				if inv.User == "ann" {
					_, err := states.PutState(ctx, &meshv1.PutStateRequest{Kind: kind, Key: "m-1", Data: []byte("secret"), Version: 0})
					res, err2 := states.GetState(ctx, &meshv1.GetStateRequest{Kind: kind, Key: "m-1"})
					if err != nil || err2 != nil || string(res.GetValue().GetData()) != "secret" {
						got[kind] = []string{rpc.FromStatus(err).Error()}
					}
					continue
				}
				got[kind] = steal(ctx, states, kind)
			}
			found <- got
			yield(agent.Text{Text: "done"}, nil)
		}
	}
}

// steal returns the ways in which ann's value was reached.
func steal(ctx context.Context, states meshv1.StateServiceClient, kind string) (ways []string) {
	for _, key := range []string{"m-1", "ann/m-1", "/ann/m-1", "../ann/m-1", "%61nn/m-1", "user.memory/ann/m-1"} {
		if res, err := states.GetState(ctx, &meshv1.GetStateRequest{Kind: kind, Key: key}); err == nil && string(res.GetValue().GetData()) == "secret" {
			ways = append(ways, "get "+key)
		}
		for _, version := range []int64{1, -1} {
			if _, err := states.DeleteState(ctx, &meshv1.DeleteStateRequest{Kind: kind, Key: key, Version: version}); err == nil {
				ways = append(ways, "delete "+key)
			}
		}
		if res, err := states.PutState(ctx, &meshv1.PutStateRequest{Kind: kind, Key: key, Data: []byte("false"), Version: -1}); err == nil && res.GetVersion() > 1 {
			ways = append(ways, "put "+key)
		}
	}
	for _, req := range []*meshv1.ListStateRequest{{Kind: kind}, {Kind: kind, Prefix: "ann"}, {Kind: kind, After: "\x01"}, {Kind: kind, Prefix: "../"}} {
		res, _ := states.ListState(ctx, req) // refused is as good as empty
		for _, v := range res.GetValues() {
			if string(v.GetData()) == "secret" {
				ways = append(ways, "list "+v.GetKey())
			}
		}
	}
	return ways
}

// finding T1: an agent with the right to call skills reaches the values of the user that
// it works for, whatever it names, and of no other user.
func TestAnAgentReachesTheValuesOfItsUserAlone(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.Auth, cfg.Tokens, cfg.Egress.Allow = "tokens", adminsFile(t), []string{"127.0.0.1"}
	m := start(t, cfg, map[string]run{"main": greeter, "builder": builder})
	conn, err := rpc.Dial(m.Any().GRPC, rpc.DialOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	found := make(chan map[string][]string, 1)
	kinds := []string{"memory", "tasks", "crm"}
	serveAgent(t, m, librarian{testAgent{"thief", burglar(meshv1.NewStateServiceClient(conn), kinds, found)}}, "thief", "secret-of-tenant-admin")
	ask := func(who string) map[string][]string {
		t.Helper()
		stream, err := a2apb.NewA2AServiceClient(m.raw(t)).SendStreamingMessage(as(plain(t), who, "agent", "thief", "tenant-id", "a"), say("go"))
		if err == nil {
			_, err = stream.Recv()
		}
		if err != nil {
			t.Fatal(err)
		}
		return <-found
	}
	if got := ask("a"); len(got) > 0 {
		t.Fatalf("the agent cannot keep values for its own user: %v", got)
	}
	for kind, ways := range ask("eve") {
		if len(ways) > 0 {
			t.Errorf("working for eve, the agent reached ann's %s: %s", kind, strings.Join(slices.Compact(ways), ", "))
		}
	}
	if got := ask("a"); len(got) != len(kinds) { // her values still stand, so that they cannot be made anew
		t.Errorf("of %d kinds, ann's values of %d are gone", len(kinds), len(kinds)-len(got))
	}
	// What an agent keeps for itself is its own, whoever it works for, and no other agent's.
	other := make(chan map[string]error, 1)
	serveAgent(t, m, testAgent{"spy", func(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
		return func(yield func(agent.Output, error) bool) {
			got := map[string]error{}
			for _, kind := range []string{"agent/spy", "agent/thief", "thief", "agent.thief", "memory", "user.memory", "breaker"} {
				_, got[kind] = meshv1.NewStateServiceClient(conn).PutState(inv.Mesh.Context(ctx), &meshv1.PutStateRequest{Kind: kind, Key: "mail.send", Version: -1})
			}
			other <- got
			yield(agent.Text{Text: "done"}, nil)
		}
	}}, "spy", "secret-of-tenant-a")
	stream, err := a2apb.NewA2AServiceClient(m.raw(t)).SendStreamingMessage(as(plain(t), "a", "agent", "spy", "tenant-id", "a"), say("go"))
	if err == nil {
		_, err = stream.Recv()
	}
	if err != nil {
		t.Fatal(err)
	}
	for kind, err := range <-other {
		if own := kind == "agent/spy"; own != (err == nil) || !own && !mesh.IsCode(rpc.FromStatus(err), mesh.Denied) {
			t.Errorf("an agent that nobody trusts writes %s: %v", kind, err)
		}
	}
}
