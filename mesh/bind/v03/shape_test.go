package v03_test

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	legacypb "github.com/a2aproject/a2a-go/a2apb"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/testing/protocmp"

	"agentmesh/mesh"
)

func diffParts(want, got []*a2apb.Part) string { return cmp.Diff(want, got, protocmp.Transform()) }

func rpcSay(text string) string {
	return fmt.Sprintf(`{"message":{"kind":"message","messageId":%q,"role":"user","parts":[{"kind":"text","text":%q}]}}`, mesh.NewEventID(), text)
}

// keys lists all member names in v, each once, sorted.
func keys(v any) []string {
	seen := map[string]bool{}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for k, in := range v {
				seen[k] = true
				walk(in)
			}
		case []any:
			for _, in := range v {
				walk(in)
			}
		}
	}
	walk(v)
	var out []string
	for k := range seen {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// The answers of JSON-RPC have the shapes of v0.3: bare results with a kind,
// lower-case states and roles, and final on status updates alone (A2A v0.3 §6,
// §7).
func TestJSONRPCHasTheShapesOfV03(t *testing.T) {
	w := newWorld(t)
	answer := w.rpc("message/send", rpcSay("hello"))
	task := answer["result"]
	for path, want := range map[string]any{
		"kind": "task", "status.state": "completed", "history.0.kind": "message", "history.0.role": "user",
		"history.0.parts.0.kind": "text", "artifacts.0.parts.0.kind": "text", "artifacts.0.parts.0.text": "hello",
	} {
		if got := get(task, path); got != want {
			t.Errorf("message/send: %s is %v, want %v", path, got, want)
		}
	}
	if answer["id"] != 7.0 || answer["jsonrpc"] != "2.0" {
		t.Errorf("the envelope is %v", answer)
	}

	var kinds, finals []string
	var all []any
	for e := range w.events(w.do(http.MethodPost, "/", fmt.Sprintf(`{"jsonrpc":"2.0","id":"s","method":"message/stream","params":%s}`, rpcSay("ask")), "Accept", "text/event-stream")) {
		result := get(e.data, "result")
		all = append(all, result)
		kinds = append(kinds, get(result, "kind").(string))
		if final, ok := get(result, "final").(bool); ok {
			finals = append(finals, fmt.Sprint(get(result, "status.state"), final))
		}
		if e.data["id"] != "s" {
			t.Errorf("event %v has another id than its request", e.data)
		}
	}
	if want := []string{"task", "status-update", "status-update"}; !slices.Equal(kinds, want) {
		t.Errorf("kinds %v, want %v", kinds, want)
	}
	if want := []string{"workingfalse", "input-requiredtrue"}; !slices.Equal(finals, want) {
		t.Errorf("finals %v, want %v", finals, want)
	}
	want := []string{"contextId", "final", "history", "id", "kind", "message", "messageId", "parts", "role", "state", "status", "taskId", "text"}
	if diff := cmp.Diff(want, keys(all)); diff != "" {
		t.Errorf("members of the stream (-want +got):\n%s", diff)
	}
}

// Nothing of v0.3 is in what v1.0 answers at the same address.
func TestV10HasNothingOfV03(t *testing.T) {
	w := newWorld(t)
	say := `{"message":{"messageId":"m","role":"ROLE_USER","parts":[{"text":"ask"}]}}`
	for name, resp := range map[string]*http.Response{
		"JSON-RPC": w.do(http.MethodPost, "/", `{"jsonrpc":"2.0","id":1,"method":"SendStreamingMessage","params":`+say+`}`),
		"REST":     w.do(http.MethodPost, "/message:stream", say),
	} {
		n := 0
		for e := range w.events(resp) {
			n++
			if k := keys(e.data); slices.Contains(k, "kind") || slices.Contains(k, "final") {
				t.Errorf("%s: event %v", name, e.data)
			}
		}
		if n == 0 {
			t.Errorf("%s: no events", name)
		}
	}
}

// Errors have the codes of v0.3, and data is an object (A2A v0.3 §8).
func TestJSONRPCErrorsHaveTheShapeOfV03(t *testing.T) {
	w := newWorld(t)
	done := get(w.rpc("message/send", rpcSay("hello")), "result.id").(string)
	id := func(id string) string { return fmt.Sprintf(`{"id":%q}`, id) }
	for name, c := range map[string]struct {
		method, params string
		headers        []string
		code           float64
		reason         string
	}{
		"no such task":             {"tasks/get", id("none"), nil, -32001, "TASK_NOT_FOUND"},
		"a task that is over":      {"tasks/cancel", id(done), nil, -32002, "TASK_NOT_CANCELABLE"},
		"a stream that is over":    {"tasks/resubscribe", id(done), nil, -32004, "UNSUPPORTED_OPERATION"},
		"no extended card":         {"agent/getAuthenticatedExtendedCard", "{}", nil, -32007, "UNSUPPORTED_OPERATION"},
		"a method of nobody":       {"tasks/list", "{}", nil, -32601, ""},
		"no params":                {"tasks/get", "null", nil, -32602, ""},
		"a param of another type":  {"tasks/get", `{"id":7}`, nil, -32602, ""},
		"a part of no kind":        {"message/send", `{"message":{"messageId":"m","role":"user","parts":[{"text":"x"}]}}`, nil, -32602, ""},
		"no message":               {"message/send", `{}`, nil, -32602, ""},
		"a version of nobody":      {"tasks/get", id(done), []string{"A2A-Version", "0.2"}, -32004, "VERSION_NOT_SUPPORTED"},
		"the version of others":    {"tasks/get", id(done), []string{"A2A-Version", "1.0"}, -32004, "VERSION_NOT_SUPPORTED"},
		"too long a history":       {"tasks/get", `{"id":"x","historyLength":99999999999}`, nil, -32602, ""},
		"a history below nothing":  {"tasks/get", `{"id":"x","historyLength":-1}`, nil, -32602, ""},
		"somebody without a token": {"tasks/get", id(done), []string{"Authorization", ""}, -31401, ""},
	} {
		t.Run(name, func(t *testing.T) {
			answer := w.rpc(c.method, c.params, c.headers...)
			data, isObject := get(answer, "error.data").(map[string]any)
			if get(answer, "error.code") != c.code || !isObject || answer["id"] != idOf(c.code) {
				t.Fatalf("answer %v, want the code %v and data that is an object", answer, c.code)
			}
			if reason, _ := data["reason"].(string); reason != c.reason {
				t.Errorf("reason %q, want %q", reason, c.reason)
			}
			if message, _ := get(answer, "error.message").(string); message == "" || strings.Contains(message, "Go struct") {
				t.Errorf("message %q", message)
			}
		})
	}
}

func TestJSONRPCEnvelopesAreChecked(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]struct {
		body string
		code float64
		id   any
	}{
		"another version of JSON-RPC": {`{"jsonrpc":"1.0","id":1,"method":"tasks/get","params":{"id":"x"}}`, -32600, 1.0},
		"an id that is an object":     {`{"jsonrpc":"2.0","id":{},"method":"tasks/get","params":{"id":"x"}}`, -32600, nil},
		"no id":                       {`{"jsonrpc":"2.0","method":"tasks/get","params":{"id":"x"}}`, -32001, nil},
		"an id that is a string":      {`{"jsonrpc":"2.0","id":"a\"b","method":"tasks/get","params":{"id":"x"}}`, -32001, `a"b`},
	} {
		t.Run(name, func(t *testing.T) {
			answer := w.read(w.do(http.MethodPost, "/", c.body))
			if get(answer, "error.code") != c.code || answer["id"] != c.id {
				t.Errorf("answer %v, want the code %v and the id %v", answer, c.code, c.id)
			}
		})
	}
	resp := w.do(http.MethodPost, "/", `{"jsonrpc":"2.0","id":1,"method":"tasks/get","params":{"id":"x"}}`, "Authorization", "")
	if resp.StatusCode != http.StatusUnauthorized || resp.Header.Get("WWW-Authenticate") == "" {
		t.Errorf("without a token: %d, WWW-Authenticate %q", resp.StatusCode, resp.Header.Get("WWW-Authenticate"))
	}
}

// The ids of events are places in the log: a client that comes back with the
// last one misses nothing, over both bindings (a browser does so by itself).
func TestStreamsResumeAtTheLastEventID(t *testing.T) {
	w := newWorld(t)
	for name, c := range map[string]struct {
		begin  func() *http.Response
		resume func(task, last string) *http.Response
		task   string
		text   string
	}{
		"JSON-RPC": {
			func() *http.Response {
				return w.do(http.MethodPost, "/", `{"jsonrpc":"2.0","id":1,"method":"message/stream","params":`+rpcSay("slow")+`}`)
			},
			func(task, last string) *http.Response {
				return w.do(http.MethodPost, "/", fmt.Sprintf(`{"jsonrpc":"2.0","id":1,"method":"tasks/resubscribe","params":{"id":%q}}`, task), "Last-Event-ID", last)
			}, "result.id", "result.artifact.parts.0.text",
		},
		"REST": {
			func() *http.Response { return w.do(http.MethodPost, "/v1/message:stream", restSay("slow")) },
			func(task, last string) *http.Response {
				return w.do(http.MethodGet, "/v1/tasks/"+task+":subscribe", "", "Last-Event-ID", last)
			}, "task.id", "artifactUpdate.artifact.parts.0.text",
		},
	} {
		t.Run(name, func(t *testing.T) {
			var task, last, text string
			for e := range w.events(c.begin()) {
				if task == "" {
					task = get(e.data, c.task).(string)
					w.desk.let(task, func(j *job) []*a2apb.StreamResponse { return j.say("one ", "two ", "three ") })
				}
				piece, ok := get(e.data, c.text).(string)
				text += piece
				if last = e.id; ok {
					break // the connection drops after the first piece
				}
			}
			w.desk.let(task, func(j *job) []*a2apb.StreamResponse {
				return append(j.say("four"), j.status(a2apb.TaskState_TASK_STATE_COMPLETED, ""))
			})
			for e := range w.events(c.resume(task, last)) {
				piece, _ := get(e.data, c.text).(string)
				text += piece
			}
			if text != "one two three four" {
				t.Errorf("heard %q, with a break after event %s", text, last)
			}
		})
	}
}

// Extensions are activated and told of by the header that they had in v0.3.
func TestExtensionsHaveTheHeaderOfV03(t *testing.T) {
	w := newWorld(t)
	for name, resp := range map[string]*http.Response{
		"JSON-RPC": w.do(http.MethodPost, "/", `{"jsonrpc":"2.0","id":1,"method":"message/stream","params":`+rpcSay("hello")+`}`, "X-A2A-Extensions", mesh.ExtensionURI),
		"REST":     w.do(http.MethodPost, "/v1/message:send", restSay("hello"), "X-A2A-Extensions", mesh.ExtensionURI),
	} {
		body, err := io.ReadAll(resp.Body)
		if got := resp.Header.Get("X-A2A-Extensions"); err != nil || got != mesh.ExtensionURI || resp.Header.Get("A2A-Extensions") != "" {
			t.Errorf("%s: header %q, %v", name, resp.Header, err)
		}
		if !strings.Contains(string(body), mesh.ExtensionURI) {
			t.Errorf("%s: nothing of the extension in %s", name, body)
		}
	}
	client := legacypb.NewA2AServiceClient(w.dial())
	ctx := metadata.AppendToOutgoingContext(asTenant(t, "a"), "x-a2a-extensions", "urn:other, "+mesh.ExtensionURI)
	var header metadata.MD
	say := func() *legacypb.SendMessageRequest {
		return &legacypb.SendMessageRequest{Request: &legacypb.Message{MessageId: mesh.NewEventID(), Role: legacypb.Role_ROLE_USER,
			Parts: []*legacypb.Part{{Part: &legacypb.Part_Text{Text: "hello"}}}}}
	}
	if _, err := client.SendMessage(ctx, say(), grpc.Header(&header)); err != nil || !slices.Equal(header["x-a2a-extensions"], []string{mesh.ExtensionURI}) || len(header["a2a-extensions"]) > 0 {
		t.Errorf("gRPC: header %v, %v", header, err)
	}
	stream, err := client.SendStreamingMessage(ctx, say())
	if err != nil {
		t.Fatal(err)
	}
	if header, err = stream.Header(); err != nil || !slices.Equal(header["x-a2a-extensions"], []string{mesh.ExtensionURI}) {
		t.Errorf("gRPC stream: header %v, %v", header, err)
	}
	for {
		if _, err := stream.Recv(); err != nil {
			break
		}
	}
	_, err = client.GetTask(metadata.AppendToOutgoingContext(ctx, "a2a-version", "1.0"), &legacypb.GetTaskRequest{Name: "tasks/x"})
	if status.Code(err) != codes.Unimplemented {
		t.Errorf("a2a.v1 with the version of another service: %v", err)
	}
}

// A server that shuts down ends streams with an error that v0.3 knows.
func TestStreamsEndWithAnErrorWhenTheServerCloses(t *testing.T) {
	w := newWorld(t)
	var last event
	for e := range w.events(w.do(http.MethodPost, "/", `{"jsonrpc":"2.0","id":1,"method":"message/stream","params":`+rpcSay("slow")+`}`)) {
		if last = e; get(e.data, "result.status.state") == "working" {
			w.close()
		}
	}
	if _, isObject := get(last.data, "error.data").(map[string]any); !isObject || get(last.data, "error.code") != -32603.0 {
		t.Errorf("the last event is %v", last.data)
	}
}

// idOf is the id of the answer: that of the request, unless it was not read as nobody
// knows who sent it.
func idOf(code float64) any {
	if code == -31401 {
		return nil
	}
	return 7.0
}
