package node_test

import (
	"context"
	"io"
	"net/http"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/node"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/text/texttest"
)

// post sends a message over HTTP+JSON and returns how it was answered.
func post(t *testing.T, m *testMesh, path, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://"+m.web()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	return resp, string(text)
}

// message is a message in JSON with the parts.
func message(parts string) string {
	return `{"message": {"messageId": "` + mesh.NewEventID() + `", "role": "ROLE_USER", "parts": [` + parts + `]}}`
}

// What is too much is refused with the code for it and words that help.
func TestWhatIsTooMuchIsRefused(t *testing.T) {
	texttest.Fixed(t)
	m := start(t, config(t.TempDir()), map[string]run{"main": echo})
	manyParts := strings.TrimSuffix(strings.Repeat(`{"text": "x"},`, a2a.MaxParts+1), ",")
	for name, tt := range map[string]struct {
		body, header string
		code         int
		words        string
	}{
		"as much as is allowed": {message(`{"text": "x"}`), strings.Repeat("x", 32<<10), 200, "COMPLETED"},
		"parts":                 {message(manyParts), "", 400, "the limit is 100"},
		"a long message":        {message(`{"text": "` + strings.Repeat("x", a2a.MaxMessage) + `"}`), "", 429, "the limit is"},
		"a long body":           {message(`{"text": "` + strings.Repeat("x", mesh.MaxBody) + `"}`), "", 413, "send less"},
		"headers":               {message(`{"text": "x"}`), strings.Repeat("x", 128<<10), 431, ""},
	} {
		if resp, text := post(t, m, "/message:send", tt.body, "x-notes", tt.header); resp.StatusCode != tt.code || !strings.Contains(text, tt.words) {
			t.Errorf("%s over HTTP: %d, %.300s", name, resp.StatusCode, text)
		}
	}
	client := a2apb.NewA2AServiceClient(m.raw(t))
	for name, req := range map[string]*a2apb.SendMessageRequest{
		"a long message":               say(strings.Repeat("x", a2a.MaxMessage)),
		"one beyond what is ever read": say(strings.Repeat("x", rpc.DefaultMaxMessage)),
	} {
		if _, err := client.SendMessage(plain(t), req); status.Code(err) != codes.ResourceExhausted || status.Convert(err).Message() == "" {
			t.Errorf("%s over gRPC: %v", name, err)
		}
	}
	if _, err := client.SendMessage(metadata.AppendToOutgoingContext(plain(t), "x-notes", strings.Repeat("x", 1<<20)), say("hi")); err == nil {
		t.Error("metadata of 1 MiB was taken")
	}
}

// A user who has as many streams open as one may is told so, over every
// binding, and may still do all else; others have their own.
func TestAUserHasSoManyStreams(t *testing.T) {
	texttest.Fixed(t)
	cfg := config(t.TempDir())
	cfg.Streams = node.Streams{PerUser: 2}
	m := start(t, cfg, map[string]run{"main": obedient})
	client := a2apb.NewA2AServiceClient(m.raw(t))
	res, err := client.SendMessage(plain(t), say("ask me"))
	if err != nil {
		t.Fatal(err)
	}
	task := res.GetTask().GetId()
	ctx, leave := context.WithCancel(plain(t))
	defer leave()
	conns := m.bindings(t)
	subscribe := func(ctx context.Context, binding string) error {
		s, err := a2apb.NewA2AServiceClient(conns[binding]).SubscribeToTask(ctx, &a2apb.SubscribeToTaskRequest{Id: task})
		if err == nil {
			_, err = s.Recv()
		}
		return err
	}
	for _, binding := range []string{"gRPC", "HTTP+JSON"} {
		if err := subscribe(ctx, binding); err != nil {
			t.Fatalf("a stream over %s: %v", binding, err)
		}
	}
	for binding := range conns {
		if err := subscribe(plain(t), binding); !strings.Contains(status.Convert(err).Message(), "2 for each user") {
			t.Errorf("the third over %s: %v", binding, err)
		}
	}
	err = subscribe(plain(t), "gRPC")
	if after, told := rpc.RetryAfter(rpc.FromStatus(err)); status.Code(err) != codes.ResourceExhausted || !told || after <= 0 {
		t.Errorf("the third over gRPC: %v", err)
	}
	resp, text := post(t, m, "/tasks/"+task+":subscribe", "")
	if resp.StatusCode != 429 || resp.Header.Get("Retry-After") == "" || !strings.Contains(text, "2 for each user") {
		t.Errorf("the third over HTTP: %d, %v, %s", resp.StatusCode, resp.Header, text)
	}
	if _, err := client.GetTask(plain(t), &a2apb.GetTaskRequest{Id: task}); err != nil {
		t.Errorf("GetTask: %v", err)
	}
	if err := subscribe(metadata.AppendToOutgoingContext(plain(t), "user-id", "bob"), "gRPC"); err != nil {
		t.Errorf("another user: %v", err)
	}
}

// A2A v1.0 §3.6.2, for operators who want it to the letter.
func TestAStrictMeshWantsToKnowTheVersion(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.A2A.StrictVersion = true
	m := start(t, cfg, map[string]run{"main": echo})
	for binding, conn := range m.bindings(t) {
		client := a2apb.NewA2AServiceClient(conn)
		_, err := client.SendMessage(plain(t), say("hi"))
		if st := status.Convert(err); st.Code() != codes.FailedPrecondition || !strings.Contains(st.Message(), "0.3") {
			t.Errorf("%s without a version: %v", binding, err)
		}
		res, err := client.SendMessage(metadata.AppendToOutgoingContext(plain(t), "a2a-version", "1.0"), say("hi"))
		if err != nil || res.GetTask().GetStatus().GetState() != a2apb.TaskState_TASK_STATE_COMPLETED {
			t.Errorf("%s with 1.0: %v, %v", binding, res, err)
		}
	}
}

// The errors of A2A v1.0.0 are a switch away.
func TestTheErrorTableIsTheOperatorsChoice(t *testing.T) {
	for version, want := range map[string]struct {
		grpc           codes.Code
		version, again int
	}{"1.0.1": {codes.FailedPrecondition, 400, 400}, "1.0.0": {codes.Unimplemented, 400, 409}} {
		cfg := config(t.TempDir())
		cfg.A2A.ErrorTable = version
		m := start(t, cfg, map[string]run{"main": echo})
		client := a2apb.NewA2AServiceClient(m.raw(t))
		_, err := client.SendMessage(metadata.AppendToOutgoingContext(plain(t), "a2a-version", "9.9"), say("hi"))
		if status.Code(err) != want.grpc {
			t.Errorf("%s over gRPC: %v, want %v", version, err, want.grpc)
		}
		if resp, text := post(t, m, "/message:send", message(`{"text": "hi"}`), "A2A-Version", "9.9"); resp.StatusCode != want.version {
			t.Errorf("%s over HTTP: %d, want %d: %s", version, resp.StatusCode, want.version, text)
		}
		res, err := client.SendMessage(plain(t), say("hi"))
		if err != nil {
			t.Fatal(err)
		}
		if resp, text := post(t, m, "/tasks/"+res.GetTask().GetId()+":cancel", "{}"); resp.StatusCode != want.again {
			t.Errorf("%s, canceling what is over: %d, want %d: %s", version, resp.StatusCode, want.again, text)
		}
	}
}

func TestBadChoicesAreNamedBeforeAnythingStarts(t *testing.T) {
	for field, change := range map[string]func(*node.Config){
		"a2a.error_table": func(c *node.Config) { c.A2A.ErrorTable = "2.0" },
		"streams.total":   func(c *node.Config) { c.Streams.Total = -1 },
	} {
		cfg := config(t.TempDir())
		change(&cfg)
		if err := cfg.Fill(); !mesh.IsCode(err, mesh.Invalid) || mesh.FieldOf(err) != field {
			t.Errorf("%s: %v", field, err)
		}
	}
}
