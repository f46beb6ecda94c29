package main

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/a2aproject/a2a-go/v2/a2a"
	"github.com/a2aproject/a2a-go/v2/a2asrv"
)

// A clerk is an agent of somebody, on the official SDK: it repeats what it was told, asks
// which room, breaks, and works on for ever.
type clerk struct {
	mu   sync.Mutex
	told map[string]string // by context
}

func (c *clerk) Execute(ctx context.Context, ec *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		said := ec.Message.Parts[0].Text()
		c.mu.Lock()
		c.told[ec.ContextID] += said + "; "
		all := c.told[ec.ContextID]
		c.mu.Unlock()
		if ec.StoredTask == nil && !yield(a2a.NewSubmittedTask(ec, ec.Message), nil) {
			return
		}
		state, words := a2a.TaskStateCompleted, all
		switch said {
		case "book":
			state, words = a2a.TaskStateInputRequired, "Which room?"
		case "break":
			state, words = a2a.TaskStateFailed, "There is no paper."
		case "hang":
			<-ctx.Done()
			return
		}
		yield(a2a.NewStatusUpdateEvent(ec, state, a2a.NewMessage(a2a.MessageRoleAgent, a2a.NewTextPart(words))), nil)
	}
}

func (*clerk) Cancel(_ context.Context, ec *a2asrv.ExecutorContext) iter.Seq2[a2a.Event, error] {
	return func(yield func(a2a.Event, error) bool) {
		yield(a2a.NewStatusUpdateEvent(ec, a2a.TaskStateCanceled, nil), nil)
	}
}

// startClerk serves the clerk over JSON-RPC until the test ends, and tells seen of each
// request, which may be nil.
func startClerk(t *testing.T, seen func(*http.Request)) (url string) {
	t.Helper()
	mux := http.NewServeMux()
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if seen != nil {
			seen(r)
		}
		mux.ServeHTTP(w, r)
	}))
	mux.Handle("/rpc", a2asrv.NewJSONRPCHandler(a2asrv.NewHandler(&clerk{told: map[string]string{}})))
	mux.HandleFunc("/.well-known/agent-card.json", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = fmt.Fprintf(w, `{"name":"Clerk","description":"Books rooms","version":"2.0","capabilities":{"streaming":true},
			"defaultInputModes":["text/plain"],"defaultOutputModes":["text/plain"],"skills":[{"id":"book","name":"Book","description":"Books"}],
			"supportedInterfaces":[{"url":"%s/rpc","protocolBinding":"JSONRPC","protocolVersion":"1.0"}]}`, srv.URL)
	})
	mux.HandleFunc("/page", func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>hello</html>")) })
	t.Cleanup(func() { srv.CloseClientConnections(); srv.Close() })
	return srv.URL
}

// An agent under test gets no secret of the mesh that the command would call.
func TestAnAgentUnderTestGetsNoCredentialsOfAMesh(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	var said []string
	url := startClerk(t, func(r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		for key, values := range r.Header {
			said = append(said, key+": "+strings.Join(values, ","))
		}
	})
	runHere(t, map[string]string{"MESH_TOKEN": "s3cret", "MESH_USER": "s3cret", "MESH_TENANT": "s3cret"}, "agents", "test", url).succeeds(t)
	mu.Lock()
	defer mu.Unlock()
	if all := strings.Join(said, "\n"); strings.Contains(all, "s3cret") || !strings.Contains(all, "Content-Type") {
		t.Errorf("the agent got\n%s", all)
	}
}

// Ctrl-C ends a test with what is known, and the agent's task with it: here while the task
// is asked for.
func TestATestThatIsInterruptedPrintsWhatIsKnown(t *testing.T) {
	t.Parallel()
	interrupts := make(chan os.Signal, 1)
	var calls atomic.Int32
	url := startClerk(t, func(r *http.Request) {
		if r.URL.Path == "/rpc" && calls.Add(1) == 2 {
			interrupts <- os.Interrupt
		}
	})
	var stdout, stderr bytes.Buffer
	a := &app{stdin: strings.NewReader(""), stdout: &stdout, stderr: &stderr, watches: true, getenv: func(string) string { return "" },
		interrupts: interrupts, uninstall: func() {}, now: time.Now, after: time.After}
	ctx, cancel := context.WithTimeout(t.Context(), testTime)
	defer cancel()
	if code := a.execute(ctx, []string{"agents", "test", url, "--message", "hang"}); code != exitInterrupted {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{"ok       connect", "skipped  send               interrupted", "skipped  unknown task       interrupted", " skipped\n"} {
		if !strings.Contains(stdout.String(), want) {
			t.Errorf("stdout has no %q:\n%s", want, stdout.String())
		}
	}
	if said := stderr.String(); !strings.Contains(said, "send ...") || strings.Contains(said, "memory ...") {
		t.Errorf("stderr: %q", said)
	}
}

// The mesh is an agent too, in each binding and version, and has nothing that fails.
func TestTheMeshPassesItsOwnTest(t *testing.T) {
	t.Parallel()
	m := upPair(t, t.TempDir())
	out := runHere(t, nil, "agents", "test", m.at().HTTP).succeeds(t)
	for _, in := range []string{"GRPC 1.0", "JSONRPC 1.0", "HTTP+JSON 1.0", "GRPC 0.3", "JSONRPC 0.3", "HTTP+JSON 0.3"} {
		if !strings.Contains(out, "\n"+in+" at ") {
			t.Errorf("%s was not tested:\n%s", in, out)
		}
	}
	if strings.Contains(out, "skipped  send") {
		t.Errorf("not sent:\n%s", out)
	}
}
