package node_test

import (
	"context"
	"iter"
	"os"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/security/auth"
)

// adminsFile is tokensFile with an admin of tenant a.
func adminsFile(t *testing.T) string {
	t.Helper()
	path := tokensFile(t)
	file, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = file.WriteString("- {name: admin, hash: '" + auth.Hash("secret-of-tenant-admin") + "', tenant: a, user: adam, roles: [tenant-admin]}\n")
	if err := file.Close(); err != nil {
		t.Fatal(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// reach tries all that a grant may be good for, and returns what went well.
func reach(ctx context.Context, conn grpc.ClientConnInterface, inv *agent.Invocation) map[string]error {
	put := func(kind string) error {
		_, err := meshv1.NewStateServiceClient(conn).PutState(inv.Mesh.Context(ctx), &meshv1.PutStateRequest{Kind: kind, Key: mesh.NewEventID(), Data: []byte("x"), Version: 0})
		return err
	}
	event := func(b mesh.Body) error {
		_, err := inv.Mesh.Record(ctx, &mesh.Event{Body: b})
		return err
	}
	source := "---\nname: workflows.x" + strings.ToLower(mesh.NewEventID()[:8]) + "\ndescription: Does.\n---\n# x\n\nDo.\n"
	_, creates := inv.Mesh.CreateSkill(ctx, source, "")
	_, asks := inv.Mesh.AskToCreate(ctx, source, "")
	tried := map[string]error{
		"note":         inv.Mesh.Note(ctx, []byte("{}")),
		"own state":    put(inv.Grant.Agent),
		"other state":  put("memory"),
		"call":         event(mesh.SkillCalled{Call: "1", Skill: "mail.send", Args: "{}"}),
		"ask":          event(mesh.ApprovalAsked{Call: "2", Skill: "mail.send", Args: "{}", Text: "May I?"}),
		"create skill": creates,
		"ask for it":   asks,
		"dispatch": event(mesh.DispatchIssued{Child: mesh.Execution{ID: mesh.NewExecutionID(inv.Grant.Thread), Parent: inv.Grant.Execution,
			Kind: mesh.KindAgent, Agent: "main", User: inv.Grant.User, Text: "work"}}),
	}
	tried["another agent"] = replay(ctx, conn, inv)
	_, tried["handoff"] = inv.Mesh.StartHandoff(ctx, &meshv1.StartHandoffRequest{TargetAgent: "builder"})
	return tried
}

// A mailer's card has the mesh's skill mail.send.
type mailer struct{ testAgent }

func (m mailer) Card() *a2apb.AgentCard {
	c := m.testAgent.Card()
	c.Skills = append(c.Skills, &a2apb.AgentSkill{Id: "mail.send", Name: "Send", Description: "Sends mail.", Tags: []string{"mail"}})
	return c
}

// replay asks another agent, where that is, with the grant that the invocation came with.
func replay(ctx context.Context, conn grpc.ClientConnInterface, inv *agent.Invocation) error {
	res, err := meshv1.NewRegistryServiceClient(conn).GetAgent(inv.Mesh.Context(ctx), &meshv1.GetAgentRequest{Name: "builder"})
	if err != nil {
		return err
	}
	other, err := rpc.Dial(res.GetAgent().GetEndpoint(), rpc.DialOptions{})
	if err != nil {
		return err
	}
	defer func() { _ = other.Close() }()
	m := say("make a skill")
	m.Message.TaskId, m.Message.ContextId = string(inv.Execution), inv.Thread.ID
	_, err = a2apb.NewA2AServiceClient(other).SendMessage(inv.Mesh.Context(ctx), m)
	return err
}

// parts of T1, T2 and T6: an agent that nobody trusts reads and writes in its thread and
// keeps state under its name, and nothing else, whatever its card says and whoever asks
// it. Who may trust agents makes it more by registering it, as does the operator.
func TestAnAgentNeedsTrust(t *testing.T) {
	limited := map[string]bool{"note": true, "own state": true}
	for name, tt := range map[string]struct {
		auth, bearer string
		trusted      []string
		all          bool
	}{
		"registered by a publisher":        {"tokens", "secret-of-tenant-a", nil, false},
		"of a name trusted elsewhere":      {"tokens", "secret-of-tenant-a", []string{"b/guest", "a/other"}, false},
		"that the operator trusts":         {"tokens", "secret-of-tenant-a", []string{"a/guest"}, true},
		"registered by the tenant's admin": {"tokens", "secret-of-tenant-admin", nil, true},
		"where nobody says who they are":   {"none", "", nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := config(t.TempDir())
			if cfg.Egress.Allow, cfg.TrustedAgents = []string{"127.0.0.1"}, tt.trusted; tt.auth == "tokens" {
				cfg.Auth, cfg.Tokens = "tokens", adminsFile(t)
			}
			m := start(t, cfg, map[string]run{"main": greeter, "builder": builder})
			conn, err := rpc.Dial(m.Any().GRPC, rpc.DialOptions{})
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { _ = conn.Close() })
			result := make(chan map[string]error, 1)
			guest := testAgent{"guest", func(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
				return func(yield func(agent.Output, error) bool) {
					result <- reach(ctx, conn, inv)
					yield(agent.Text{Text: "done"}, nil)
				}
			}}
			serveAgent(t, m, mailer{guest}, "guest", tt.bearer)
			ctx := as(plain(t), "a", "agent", "guest", "tenant-id", "a")
			stream, err := a2apb.NewA2AServiceClient(m.raw(t)).SendStreamingMessage(ctx, say("go"))
			if err == nil {
				_, err = stream.Recv()
			}
			if err != nil {
				t.Fatal(err)
			}
			for what, err := range <-result {
				want := tt.all || limited[what]
				if what == "another agent" && !mesh.IsCode(err, mesh.Unauthenticated) {
					t.Errorf("its grant at another agent: %v", err)
				}
				if what == "other state" || what == "another agent" { // its card names no skill of that kind
					want = false
				}
				if what == "create skill" { // finding T6: nobody said yes to it
					if want = false; tt.all != mesh.IsCode(err, mesh.Precondition) {
						t.Errorf("without a question it creates a skill: %v", err)
					}
				}
				if (err == nil) != want {
					t.Errorf("%s: %v, want %t", what, err, want)
				}
			}
		})
	}
}

// serveAgent has the agent in a server of its own, which is registered under its name.
func serveAgent(t *testing.T, m *testMesh, a agent.Agent, name, bearer string) {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	ready, done := make(chan string, 1), make(chan error, 1)
	go func() {
		done <- agent.Serve(ctx, agent.Options{Agent: a, NodeAddr: m.Any().GRPC, Dial: rpc.DialOptions{Bearer: bearer, Tenant: "a"},
			Register: &agent.Registration{Name: name}, Ready: func(at string) { ready <- at }})
	}()
	t.Cleanup(func() {
		stop()
		if err := <-done; err != nil {
			t.Errorf("the agent %s: %v", name, err)
		}
	})
	select {
	case <-ready:
	case err := <-done:
		done <- nil
		t.Fatal(err)
	}
}
