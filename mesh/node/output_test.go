package node_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/dispatch"
)

// earful is as much text as our runtime sends at once.
var earful = strings.Repeat("x", 2<<10)

// loud is an agent that says pieces for ever.
func loud(ctx context.Context, _ *agent.Invocation) iter.Seq2[agent.Output, error] {
	return func(yield func(agent.Output, error) bool) {
		for ctx.Err() == nil && yield(agent.Text{Text: earful}, nil) {
		}
	}
}

// babble is loud over JSON-RPC, until its caller leaves.
func babble(w http.ResponseWriter, r *http.Request) {
	var req struct {
		ID     json.RawMessage
		Method string
	}
	if err := json.NewDecoder(r.Body).Decode(&req); err != nil || req.Method != "SendStreamingMessage" {
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32001,"message":"Task not found"}}`, req.ID)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	send := func(result string) {
		_, _ = fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", req.ID, result)
		_ = http.NewResponseController(w).Flush() // the caller may have left
	}
	send(`{"task":{"id":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}`)
	for i := 0; r.Context().Err() == nil; i++ {
		send(fmt.Sprintf(`{"artifactUpdate":{"taskId":"t","contextId":"c","append":%v,"artifact":{"artifactId":"a","parts":[{"text":"x"}]}}}`, i > 0))
	}
}

// finding R5: what an execution adds to the log is bounded on each way on which it comes: what
// who dispatched it appends of it, and what comes on the stream of an agent of others over
// JSON-RPC. It has failed for a reason, and who works beside it is done.
func TestTooMuchOutputIsStoppedOnEachWay(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.Limits.OutputEvents = 600 // some batches
	m := start(t, cfg, map[string]run{"loud": loud, "writer": writer}, builtin("main", consulting(
		dispatch.Order{AgentID: "loud", Name: "loud", Mission: "talk"},
		dispatch.Order{AgentID: "quick", Name: "writer", Mission: "found apples"},
	)))
	id := mesh.NewThreadID()
	stream, err := m.edge().SendStreamingMessage(in(t, id), say("go"))
	if s := hear(t, stream, err); s.state != a2apb.TaskState_TASK_STATE_COMPLETED || !strings.Contains(s.text, "loud is failed") {
		t.Errorf("the turn ended %v with %q", s.state, mesh.Clip(s.text, 300))
	}
	if got, want := ends(t, m, id), []string{"loud failed TOO_MUCH_OUTPUT", "quick completed "}; !slices.Equal(got, want) {
		t.Errorf("they ended %q, want %q", got, want)
	}
	said := 0
	for _, e := range read(t, meshv1.NewThreadServiceClient(m.conn), id) {
		if e.GetArtifactAppended() != nil {
			said++
		}
	}
	if said < 100 || said > 600+10 { // with the answer
		t.Errorf("the log has %d pieces", said)
	}

	var server *httptest.Server
	server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/.well-known/agent-card.json" {
			babble(w, r)
			return
		}
		c := cardJSON(card("babbler"))
		c["supportedInterfaces"] = []any{map[string]any{"url": server.URL, "protocolBinding": "JSONRPC", "protocolVersion": "1.0"}}
		c["capabilities"] = map[string]any{"streaming": true}
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(c)
	}))
	t.Cleanup(server.Close)
	if _, err := meshv1.NewRegistryServiceClient(m.conn).RegisterAgent(in(t, id), &meshv1.RegisterAgentRequest{Name: "babbler", CardUrl: server.URL}); err != nil {
		t.Fatal(err)
	}
	id = mesh.NewThreadID()
	stream, err = a2apb.NewA2AServiceClient(m.raw(t)).SendStreamingMessage(as(plain(t), "a", "agent", "babbler", "thread-id", id), say("go"))
	if s := hear(t, stream, err); s.state != a2apb.TaskState_TASK_STATE_FAILED || len(s.text) < 300 {
		t.Errorf("over JSON-RPC it ended %v with %d bytes: %v", s.state, len(s.text), s.status)
	}
	list, err := meshv1.NewExecutionServiceClient(m.conn).ListExecutions(as(plain(t), "a", "thread-id", id), &meshv1.ListExecutionsRequest{ThreadId: id})
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range list.GetExecutions() {
		if x.GetReason() != mesh.ReasonOutput {
			t.Errorf("%s ended %s for %q", x.GetExecution().GetAgent(), x.GetStatus(), x.GetReason())
		}
	}
}

// finding R5: what an agent with the user's stream says there, and what it appends itself, are
// counted together: it has no more room for doing both.
func TestWhatAnAgentSaysAndWhatItAppendsIsCountedTogether(t *testing.T) {
	const most, noted, batch = 1500, 1200, 256 // which come together
	cfg := config(t.TempDir())
	cfg.Limits.OutputEvents = most
	m := start(t, cfg, map[string]run{"main": func(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
		return func(yield func(agent.Output, error) bool) {
			for range noted {
				if err := inv.Mesh.Keep(ctx, &mesh.Event{Body: mesh.ModelReplied{Text: "hm"}}); err != nil {
					yield(nil, err)
					return
				}
			}
			if err := inv.Mesh.Flush(ctx); err != nil {
				yield(nil, err)
				return
			}
			loud(ctx, inv)(yield)
		}
	}})
	id := mesh.NewThreadID()
	stream, err := m.edge().SendStreamingMessage(in(t, id), say("go"))
	s := hear(t, stream, err)
	if s.state != a2apb.TaskState_TASK_STATE_FAILED || len(s.text) < len(earful) {
		t.Errorf("it ended %v with %d bytes: %v", s.state, len(s.text), s.status)
	}
	own := map[string]int{}
	for _, e := range read(t, meshv1.NewThreadServiceClient(m.conn), id) {
		switch {
		case e.GetArtifactAppended() != nil:
			own["said"]++
		case e.GetModelReplied() != nil:
			own["appended"]++
		}
	}
	if own["appended"] != noted || own["said"] == 0 || own["said"]+own["appended"] > most+most/10+batch {
		t.Errorf("of %d it has %v", most, own)
	}
}
