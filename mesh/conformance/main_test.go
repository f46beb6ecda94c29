package conformance_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2acompat/a2av0"
	a2agrpc0 "github.com/a2aproject/a2a-go/v2/a2agrpc/v0"
	a2agrpc "github.com/a2aproject/a2a-go/v2/a2agrpc/v1"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
	"go.uber.org/goleak"
	"google.golang.org/grpc"

	"agentmesh/mesh/conformance"
	"agentmesh/mesh/rpc/rpctest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bindings are all that an agent may speak.
var bindings = []string{"GRPC 1.0", "JSONRPC 1.0", "HTTP+JSON 1.0", "GRPC 0.3", "JSONRPC 0.3", "HTTP+JSON 0.3"}

// A person is an agent on the official SDK's server: it says what it was told in the
// context, asks, fails and works on as it is told.
type person struct {
	mu   sync.Mutex
	told map[string]string
	// forgetful says nothing of what it was told before, and brief answers with messages.
	forgetful, brief bool
}

func (p *person) Execute(ctx context.Context, ec *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		said := ec.Message.Parts[0].Text()
		p.mu.Lock()
		if p.told == nil {
			p.told = map[string]string{}
		}
		p.told[ec.ContextID] += said + "; "
		all := p.told[ec.ContextID]
		p.mu.Unlock()
		if p.forgetful {
			all = said
		}
		if p.brief {
			yield(a2a.NewMessageForTask(a2a.MessageRoleAgent, a2a.TaskInfo{ContextID: ec.ContextID}, a2a.NewTextPart(all)), nil)
			return
		}
		if ec.StoredTask == nil && !yield(a2a.NewSubmittedTask(ec, ec.Message), nil) {
			return
		}
		status := func(s a2a.TaskState, words string) {
			yield(a2a.NewStatusUpdateEvent(ec, s, a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart(words))), nil)
		}
		switch said {
		case "ask":
			status(a2a.TaskStateInputRequired, "Which room?")
		case "fail":
			status(a2a.TaskStateFailed, "There is no paper.")
		case "work":
			<-ctx.Done()
		default:
			if yield(a2a.NewArtifactEvent(ec, a2a.NewTextPart(all)), nil) {
				yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateCompleted, nil), nil)
			}
		}
	}
}

func (*person) Cancel(_ context.Context, ec *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateCanceled, nil), nil)
	}
}

// serve serves the agent with the official SDK in every binding until the test ends, and
// returns the URL of its card, which has those interfaces, or all.
func serve(t *testing.T, agent a2asrv.AgentExecutor, only ...string) string {
	t.Helper()
	handler := a2asrv.NewHandler(agent)
	srv := grpc.NewServer()
	a2agrpc.NewHandler(handler).RegisterWith(srv)
	a2agrpc0.NewHandler(handler).RegisterWith(srv)
	l := rpctest.Listen(t)
	done := make(chan struct{})
	go func() { defer close(done); _ = srv.Serve(l) }()
	mux := http.NewServeMux()
	mux.Handle("/1.0/rpc", a2asrv.NewJSONRPCHandler(handler))
	mux.Handle("/1.0/", http.StripPrefix("/1.0", a2asrv.NewRESTHandler(handler)))
	mux.Handle("/0.3/rpc", a2av0.NewJSONRPCHandler(handler))
	mux.Handle("/0.3/", http.StripPrefix("/0.3", a2av0.NewRESTHandler(handler)))
	web := httptest.NewServer(mux)
	t.Cleanup(func() {
		web.CloseClientConnections()
		web.Close()
		srv.Stop()
		<-done
	})
	if len(only) == 0 {
		only = bindings
	}
	var all []string
	for _, b := range only {
		binding, version, _ := strings.Cut(b, " ")
		at := map[string]string{"GRPC": l.Addr().String(), "JSONRPC": web.URL + "/" + version + "/rpc", "HTTP+JSON": web.URL + "/" + version}[binding]
		all = append(all, interfaceJSON(binding, version, at))
	}
	mux.HandleFunc("/.well-known/agent-card.json", write("application/json", cardJSON(all...)))
	return web.URL
}

func interfaceJSON(binding, version, at string) string {
	return fmt.Sprintf(`{"protocolBinding":%q,"protocolVersion":%q,"url":%q}`, binding, version, at)
}

// cardJSON is a card without anything odd.
func cardJSON(interfaces ...string) string {
	return `{"name":"Person","description":"Talks","version":"1.2.3","capabilities":{"streaming":true},
		"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],
		"skills":[{"id":"talk","name":"Talk","description":"Talks","tags":["talk"]}],
		"supportedInterfaces":[` + strings.Join(interfaces, ",") + `]}`
}

func write(kind, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write([]byte(body))
	}
}

// web serves an agent over JSON-RPC 1.0 at /, and its card, until the test ends.
func web(t *testing.T, serves http.HandlerFunc) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.Handle("/{$}", serves)
	srv := httptest.NewServer(mux)
	mux.HandleFunc("/.well-known/agent-card.json", write("application/json", cardJSON(interfaceJSON("JSONRPC", "1.0", srv.URL+"/"))))
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	return srv.URL
}

// events is an agent over JSON-RPC that streams these events, with the task "t", and says
// the same of it with GetTask and SendMessage; $ID is the id of the request.
func events(t *testing.T, all ...string) string {
	return web(t, func(w http.ResponseWriter, r *http.Request) {
		var req struct{ ID, Method string }
		_ = json.NewDecoder(r.Body).Decode(&req)
		result := func(v string) string {
			return `{"jsonrpc":"2.0","id":"` + req.ID + `","result":` + v + `}`
		}
		const over = `{"id":"t","contextId":"c","status":{"state":"TASK_STATE_COMPLETED"}}`
		switch req.Method {
		case "SendStreamingMessage":
			var b strings.Builder
			for _, e := range all {
				b.WriteString("data: " + result(e) + "\n\n")
			}
			write("text/event-stream", b.String())(w, r)
		case "SendMessage":
			write("application/json", result(`{"task":`+over+`}`))(w, r)
		case "GetTask":
			write("application/json", result(over))(w, r)
		default:
			write("application/json", `{"jsonrpc":"2.0","id":"`+req.ID+`","error":{"code":-32601,"message":"none"}}`)(w, r)
		}
	})
}

// run tests the agent and returns what was found.
func run(t *testing.T, url string, o conformance.Options) []conformance.Finding {
	t.Helper()
	var all []conformance.Finding
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	if err := conformance.Test(ctx, url, o, func(f conformance.Finding) { all = append(all, f) }); err != nil {
		t.Fatal(err)
	}
	return all
}

// of returns the verdicts of a check.
func of(all []conformance.Finding, check string) (got []conformance.Verdict) {
	for _, f := range all {
		if f.Check == check {
			got = append(got, f.Verdict)
		}
	}
	return got
}
