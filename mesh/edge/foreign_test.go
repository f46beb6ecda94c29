package edge_test

import (
	"context"
	"iter"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/a2aproject/a2a-go/v2/a2a"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/a2aproject/a2a-go/v2/a2asrv"

	"agentmesh/mesh/call"
	"agentmesh/mesh/registry"
	"agentmesh/mesh/rpc"
)

// asker asks first and completes after the answer.
type asker struct{}

func (asker) Execute(_ context.Context, ec *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		if ec.StoredTask == nil {
			ask := a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart("Where to?"))
			_ = yield(a2a.NewSubmittedTask(ec, ec.Message), nil) && yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateInputRequired, ask), nil)
			return
		}
		out := a2a.NewArtifactEvent(ec, a2a.NewTextPart("Off to "+ec.Message.Parts[0].Text()))
		_ = yield(out, nil) && yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateCompleted, nil), nil)
	}
}

func (asker) Cancel(_ context.Context, ec *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateCanceled, nil), nil)
	}
}

// A user talks to an agent that knows JSON-RPC alone as to any other, over
// several turns of one of its tasks (S4-002).
func TestAnAgentThatSpeaksJSONRPCHasTheUsersStream(t *testing.T) {
	server := httptest.NewServer(a2asrv.NewJSONRPCHandler(a2asrv.NewHandler(asker{})))
	carrier := http.DefaultTransport.(*http.Transport).Clone()
	pool := rpc.NewPool(rpc.DialOptions{})
	t.Cleanup(func() {
		_ = pool.Close()
		carrier.CloseIdleConnections()
		server.Close()
	})
	w := build(t, func(c *settings) { c.turn.Dialer = call.NewDialer(pool, call.Options{HTTP: carrier}) })
	w.dir.agents["main"] = registry.Entry{Name: "main", Endpoint: server.URL, Live: true, Card: &a2apb.AgentCard{
		Capabilities:        &a2apb.AgentCapabilities{Streaming: new(true)},
		SupportedInterfaces: []*a2apb.AgentInterface{{Url: server.URL, ProtocolBinding: "JSONRPC", ProtocolVersion: "1.0"}},
	}}
	first := w.send("Book a trip.")
	if h := w.hear(first); h.state != asks || h.lastWords() != "Where to?" {
		t.Fatalf("heard %v", h)
	}
	if h := w.hear(w.post(w.ctx(w.thread), to(say("Oslo"), first.Task.GetId()))); h.text != "Off to Oslo" || h.state != completed {
		t.Errorf("heard %v", h)
	}
}
