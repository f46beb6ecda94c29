package node_test

import (
	"context"
	"errors"
	"iter"
	"slices"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/peer"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/dispatch"
	"agentmesh/mesh/node"
	"agentmesh/mesh/text/texttest"
)

// a visited tap also keeps over which connection each call came.
type visited struct {
	tap
	from []string
}

func (v *visited) SendStreamingMessage(req *a2apb.SendMessageRequest, stream grpc.ServerStreamingServer[a2apb.StreamResponse]) error {
	p, _ := peer.FromContext(stream.Context())
	v.mu.Lock()
	v.from = append(v.from, p.Addr.String())
	v.mu.Unlock()
	return v.tap.SendStreamingMessage(req, stream)
}

// reaching is a main agent that does what the message says with the agent that it names,
// hands over to it or has it asked, and says why it could not.
func reaching(env node.Env) run {
	return func(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
		return func(yield func(agent.Output, error) bool) {
			how, target, _ := strings.Cut(inv.Text(), " ")
			switch how {
			case "handoff":
				if _, err := inv.Mesh.StartHandoff(ctx, &meshv1.StartHandoffRequest{TargetAgent: target}); err != nil {
					yield(agent.Text{Text: mesh.CodeOf(err).String() + ": " + mesh.DetailOf(err)}, nil)
				}
			case "dispatch":
				d := dispatch.New(ctx, inv, env.Conns, dispatch.Options{})
				defer d.Close()
				if err := errors.Join(d.Dispatch(ctx, []dispatch.Order{{AgentID: "x", Name: target, Mission: "do it"}})...); err != nil {
					yield(agent.Text{Text: mesh.CodeOf(err).String() + ": " + mesh.DetailOf(err)}, nil)
					return
				}
				results, err := d.Wait(ctx, nil)
				if err != nil {
					yield(nil, err)
					return
				}
				yield(agent.Text{Text: results[0].Status + ": " + results[0].Result}, nil)
			}
		}
	}
}

// S4-078, S4-084, S4-089: an agent of others, which knows nothing of the mesh, takes the stream as any
// other, over gRPC; and handoffs and dispatches of whatever conversations go over the one
// connection that its node has to it.
func TestHandoffsToAnAgentOfOthersGoOverOneConnection(t *testing.T) {
	m := start(t, config(t.TempDir()), nil, builtin("main", reaching))
	guest := &visited{tap: tap{name: "guest"}}
	join(t, m, "guest", guest, false)
	for _, text := range []string{"handoff guest", "dispatch guest", "handoff guest", "dispatch guest"} {
		stream, err := m.edge().SendStreamingMessage(in(t, mesh.NewThreadID()), say(text))
		s := hear(t, stream, err)
		if !strings.Contains(s.text, "tapped") || s.state != a2apb.TaskState_TASK_STATE_COMPLETED || connecting(s.status, "The guest") != strings.HasPrefix(text, "handoff") {
			t.Errorf("%s: ended %v: %q %q", text, s.state, s.text, s.status)
		}
	}
	connections := slices.Compact(slices.Sorted(slices.Values(guest.from)))
	if len(guest.from) != 4 || len(connections) > len(m.All) {
		t.Errorf("%d calls came over the connections %q, of %d nodes", len(guest.from), connections, len(m.All))
	}
}

// S4-087: an agent of another tenant is handed over to by nobody and asked by nobody: it is as
// one that does not exist, and is never called.
func TestAnAgentOfAnotherTenantIsNoTarget(t *testing.T) {
	texttest.Fixed(t)
	cfg := config(t.TempDir())
	cfg.Auth, cfg.Tokens, cfg.Egress.Allow = "tokens", adminsFile(t), []string{"127.0.0.1"}
	m := start(t, cfg, nil, builtin("main", reaching))
	theirs := &tap{name: "theirs"}
	joinAs(as(plain(t), "b"), t, m.raw(t), "theirs", theirs, false)
	send := func(user, text string) string {
		stream, err := a2apb.NewA2AServiceClient(m.raw(t)).SendStreamingMessage(as(plain(t), user, "thread-id", mesh.NewThreadID()), say(text))
		return hear(t, stream, err).text
	}
	for how, refused := range map[string]string{"handoff ": "not found: ", "dispatch ": "failed: there is no agent"} {
		foreign, unknown := send("a", how+"theirs"), send("a", how+"nobody")
		if strings.ReplaceAll(foreign, "theirs", "nobody") != unknown || !strings.HasPrefix(unknown, refused) {
			t.Errorf("%s: another tenant's is %q, none is %q", how, foreign, unknown)
		}
	}
	if n := len(theirs.calls); n != 0 {
		t.Errorf("it was called %d times", n)
	}
	for _, how := range []string{"handoff ", "dispatch "} {
		if got := send("b", how+"theirs"); !strings.Contains(got, "tapped") {
			t.Errorf("%s of its own tenant: %q", how, got)
		}
	}
}
