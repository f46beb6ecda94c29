package node_test

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	legacypb "github.com/a2aproject/a2a-go/a2apb"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	gocmp "github.com/google/go-cmp/cmp"
	"google.golang.org/genproto/googleapis/rpc/code"
	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/rpc"
	"agentmesh/mesh/security/auth"
)

// A face sends a message with headers, as pairs, and returns how that was answered:
// "OK", or the name of the code, and whether it says when to try again.
type face func(t *testing.T, m *testMesh, text string, headers []string) string

// Messages as the bindings over HTTP have them, of an id and a text.
const (
	v1Body      = `{"message": {"messageId": %q, "role": "ROLE_USER", "parts": [{"text": %q}]}}`
	v03Body     = `{"message": {"kind": "message", "messageId": %q, "role": "user", "parts": [{"kind": "text", "text": %q}]}}`
	v03RESTBody = `{"request": {"messageId": %q, "role": "ROLE_USER", "content": [{"text": %q}]}}`
)

func rpcBody(method, params string) string {
	return `{"jsonrpc": "2.0", "id": 1, "method": "` + method + `", "params": ` + params + `}`
}

// faces are all ways to send a message to a mesh.
func faces() map[string]face {
	all := map[string]face{
		"gRPC":             overGRPC(sendV1),
		"gRPC, stream":     overGRPC(streamV1),
		"gRPC 0.3":         overGRPC(sendV03),
		"gRPC 0.3, stream": overGRPC(streamV03),
	}
	for name, h := range map[string]struct {
		path, body string
		read       func([]byte) answered
	}{
		"REST":                 {"/message:send", v1Body, restError},
		"REST, SSE":            {"/message:stream", v1Body, restError},
		"JSON-RPC":             {"/", rpcBody("SendMessage", v1Body), rpcError},
		"JSON-RPC, SSE":        {"/", rpcBody("SendStreamingMessage", v1Body), rpcError},
		"REST 0.3":             {"/v1/message:send", v03RESTBody, restError},
		"REST 0.3, SSE":        {"/v1/message:stream", v03RESTBody, restError},
		"JSON-RPC 0.3":         {"/", rpcBody("message/send", v03Body), rpc03Error},
		"JSON-RPC 0.3, SSE":    {"/", rpcBody("message/stream", v03Body), rpc03Error},
		"REST of an agent":     {"/agents/main/message:send", v1Body, restError},
		"JSON-RPC of an agent": {"/agents/main/", rpcBody("SendMessage", v1Body), rpcError},
	} {
		all[name] = func(t *testing.T, m *testMesh, text string, headers []string) string {
			if !strings.Contains(name, "0.3") { // who names none and is not known is answered as of v0.3
				headers = append(slices.Clip(headers), "A2A-Version", "1.0")
			}
			resp, answer := post(t, m, h.path, fmt.Sprintf(h.body, mesh.NewEventID(), text), headers...)
			first, _, _ := strings.Cut(strings.TrimPrefix(answer, "data: "), "\n\n") // of a stream that is refused, all there is
			got := h.read([]byte(first[strings.IndexByte(first, '{'):]))
			if got.code == "" && resp.StatusCode != http.StatusOK {
				return resp.Status
			}
			return got.String()
		}
	}
	return all
}

// answered is a code by its name, and whether it comes with a time to wait.
type answered struct {
	code  string
	retry bool
}

func (s answered) String() string {
	if s.code == "" {
		return "OK"
	}
	if s.retry {
		return s.code + ", later"
	}
	return s.code
}

func overGRPC(send func(ctx context.Context, conn grpc.ClientConnInterface, text string) error) face {
	return func(t *testing.T, m *testMesh, text string, headers []string) string {
		err := send(metadata.AppendToOutgoingContext(plain(t), headers...), m.raw(t), text)
		if err == nil {
			return "OK"
		}
		st := status.Convert(err)
		got := answered{code: code.Code(st.Code()).String()}
		for _, d := range st.Details() {
			_, retry := d.(*errdetails.RetryInfo)
			got.retry = got.retry || retry
		}
		return got.String()
	}
}

func sendV1(ctx context.Context, conn grpc.ClientConnInterface, text string) error {
	_, err := a2apb.NewA2AServiceClient(conn).SendMessage(ctx, say(text))
	return err
}

func streamV1(ctx context.Context, conn grpc.ClientConnInterface, text string) error {
	s, err := a2apb.NewA2AServiceClient(conn).SendStreamingMessage(ctx, say(text))
	return first(s, err)
}

func first(s grpc.ClientStream, err error) error {
	if err == nil {
		err = s.RecvMsg(new(a2apb.StreamResponse)) // of which nothing is looked at
	}
	if errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func legacySay(text string) *legacypb.SendMessageRequest {
	return &legacypb.SendMessageRequest{Request: &legacypb.Message{MessageId: mesh.NewEventID(), Role: legacypb.Role_ROLE_USER,
		Parts: []*legacypb.Part{{Part: &legacypb.Part_Text{Text: text}}}}, Configuration: &legacypb.SendMessageConfiguration{Blocking: true}}
}

func sendV03(ctx context.Context, conn grpc.ClientConnInterface, text string) error {
	_, err := legacypb.NewA2AServiceClient(conn).SendMessage(ctx, legacySay(text))
	return err
}

func streamV03(ctx context.Context, conn grpc.ClientConnInterface, text string) error {
	s, err := legacypb.NewA2AServiceClient(conn).SendStreamingMessage(ctx, legacySay(text))
	return first(s, err)
}

// detail is an entry of an error's details.
type detail struct {
	Type   string `json:"@type"`
	Reason string
}

func retry(all []detail) bool {
	for _, d := range all {
		if d.Type == "type.googleapis.com/google.rpc.RetryInfo" {
			return true
		}
	}
	return false
}

func restError(body []byte) answered {
	var e struct {
		Error struct {
			Status  string
			Details []detail
		}
	}
	if err := json.Unmarshal(body, &e); err != nil {
		return answered{code: err.Error()}
	}
	return answered{e.Error.Status, retry(e.Error.Details)}
}

// rpcError reads an error of JSON-RPC, which names what A2A has no reason for after
// its code.
func rpcError(body []byte) answered {
	var e struct{ Error struct{ Data []detail } }
	if err := json.Unmarshal(body, &e); err != nil {
		return answered{code: err.Error()}
	}
	got := answered{retry: retry(e.Error.Data)}
	for _, d := range e.Error.Data {
		if d.Reason != "" {
			got.code = d.Reason
		}
	}
	return got
}

func rpc03Error(body []byte) answered {
	var e struct {
		Error struct {
			Data struct {
				Status     string
				RetryAfter int
			}
		}
	}
	if err := json.Unmarshal(body, &e); err != nil {
		return answered{code: err.Error()}
	}
	return answered{e.Error.Data.Status, e.Error.Data.RetryAfter > 0}
}

// userTokens writes a tokens file with a user for each face, who may chat, and one
// who may not.
func userTokens(t *testing.T) string {
	t.Helper()
	var b strings.Builder
	user := func(name, role string) {
		fmt.Fprintf(&b, "- name: %[1]q\n  hash: %[2]q\n  tenant: acme\n  user: %[1]q\n  roles: [%[3]s]\n", name, auth.Hash("the-secret-of-"+name), role)
	}
	user("reader", "viewer")
	for name := range faces() {
		user(userOf(name), "user")
	}
	user("gone", "user]\n  expires: 2020-01-01 # [")
	user("early", "user]\n  not_before: 2100-01-01 # [")
	user("off", "user]\n  disabled: true # [")
	path := filepath.Join(t.TempDir(), "tokens.yaml")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func userOf(face string) string {
	return strings.NewReplacer(" ", "", ",", "").Replace(strings.ToLower(face))
}

func bearer(user string) []string { return []string{"authorization", "Bearer the-secret-of-" + user} }

// One chain stands before the services, whichever way a call comes: who is refused
// at one door is refused at all, by the same code.
func TestEveryFaceRefusesTheSame(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.Auth, cfg.Tokens = "tokens", userTokens(t)
	m := start(t, cfg, map[string]run{"main": echo})
	for name, tt := range map[string]struct {
		headers func(face string) []string
		text    string
		want    string
	}{
		"nothing":                {headers: func(f string) []string { return bearer(userOf(f)) }, want: "OK"},
		"no token":               {headers: func(string) []string { return nil }, want: "UNAUTHENTICATED"},
		"a wrong token":          {headers: func(string) []string { return bearer("nobody") }, want: "UNAUTHENTICATED"},
		"one that expired":       {headers: func(string) []string { return bearer("gone") }, want: "UNAUTHENTICATED"},
		"one of the future":      {headers: func(string) []string { return bearer("early") }, want: "UNAUTHENTICATED"},
		"one that is disabled":   {headers: func(string) []string { return bearer("off") }, want: "UNAUTHENTICATED"},
		"another scheme":         {headers: func(string) []string { return []string{"authorization", "Basic YTpi"} }, want: "UNAUTHENTICATED"},
		"a forged grant":         {headers: func(f string) []string { return append(bearer(userOf(f)), "mesh-grant", "x.y") }, want: "UNAUTHENTICATED"},
		"another's tenant":       {headers: func(f string) []string { return append(bearer(userOf(f)), "tenant-id", "umbrella") }, want: "PERMISSION_DENIED"},
		"another's name":         {headers: func(f string) []string { return append(bearer(userOf(f)), "user-id", "reader") }, want: "PERMISSION_DENIED"},
		"a role too few":         {headers: func(string) []string { return bearer("reader") }, want: "PERMISSION_DENIED"},
		"a thread that is none":  {headers: func(f string) []string { return append(bearer(userOf(f)), "thread-id", "42") }, want: "INVALID_ARGUMENT"},
		"a message that is long": {headers: func(f string) []string { return bearer(userOf(f)) }, text: strings.Repeat("x", a2a.MaxMessage), want: "RESOURCE_EXHAUSTED"},
	} {
		t.Run(name, func(t *testing.T) {
			for face, send := range faces() {
				text := tt.text
				if text == "" {
					text = "hello"
				}
				if got := send(t, m, text, tt.headers(face)); got != tt.want {
					t.Errorf("%s: %s, want %s", face, got, tt.want)
				}
			}
		})
	}
}

func TestEveryFaceHasTheRateLimit(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.Auth, cfg.Tokens = "tokens", userTokens(t)
	cfg.RateLimit.PerSecond, cfg.RateLimit.Burst = 0.001, 1
	m := start(t, cfg, map[string]run{"main": echo})
	for face, send := range faces() {
		got := []string{send(t, m, "hello", bearer(userOf(face))), send(t, m, "hello", bearer(userOf(face)))}
		refused := "RESOURCE_EXHAUSTED, later"
		if strings.HasPrefix(face, "JSON-RPC") && !strings.Contains(face, "0.3") { // which says why and not the code
			refused = "LIMIT:user.requests, later"
		}
		if diff := gocmp.Diff([]string{"OK", refused}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", face, diff)
		}
	}
}

// While a node that stops waits for a turn, new messages are refused at every door.
func TestEveryFaceOfANodeThatStopsIsClosed(t *testing.T) {
	begun, release := make(chan struct{}), make(chan struct{})
	m := start(t, config(t.TempDir()), map[string]run{"main": func(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
		return func(yield func(agent.Output, error) bool) {
			if inv.Text() == "wait" {
				close(begun)
				select {
				case <-release:
				case <-ctx.Done():
				}
			}
			yield(agent.Text{Text: "done"}, nil)
		}
	}})
	var working sync.WaitGroup
	defer working.Wait()
	last := make(chan error, 1)
	working.Go(func() { last <- sendV1(context.Background(), m.raw(t), "wait") })
	<-begun
	working.Go(m.Nodes[0].Stop)
	closed := "UNAVAILABLE"
	for until := time.Now().Add(4 * time.Second); overGRPC(sendV1)(t, m, "hello", nil) != closed; {
		if time.Now().After(until) {
			t.Fatal("the node takes messages")
		}
	}
	got, want := map[string]string{}, map[string]string{}
	for face, send := range faces() {
		got[face], want[face] = send(t, m, "hello", nil), closed
	}
	if diff := gocmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	close(release)
	if err := <-last; err != nil {
		t.Errorf("the turn that was waited for: %v", err)
	}
}

// finding R4: a task that is longer than what a gRPC client takes by itself can be
// read over HTTP, in both bindings. A gRPC client gets its beginning, with the place where the
// whole of it is read, and all of it if it says that it takes more.
func TestEveryFaceShowsALongTask(t *testing.T) {
	const pieces, size = 6, 900_000
	m := start(t, config(t.TempDir()), map[string]run{"main": func(context.Context, *agent.Invocation) iter.Seq2[agent.Output, error] {
		return words(slices.Repeat([]string{strings.Repeat("x", size)}, pieces)...)
	}})
	task, state := "", ""
	s, err := a2apb.NewA2AServiceClient(m.raw(t)).SendStreamingMessage(plain(t), say("hello"))
	for err == nil {
		var r *a2apb.StreamResponse
		if r, err = s.Recv(); err == nil {
			task, state = cmp.Or(task, r.GetTask().GetId()), r.GetStatusUpdate().GetStatus().GetState().String()
		}
	}
	if !errors.Is(err, io.EOF) || state != "TASK_STATE_COMPLETED" {
		t.Fatalf("the task is %s: %v", state, err)
	}
	more := metadata.AppendToOutgoingContext(plain(t), rpc.KeyMaxAnswer, strconv.Itoa(2*pieces*size))
	for binding, conn := range m.bindings(t) {
		ctx := plain(t)
		if binding == "gRPC" {
			ctx = more
		}
		got, err := a2apb.NewA2AServiceClient(conn).GetTask(ctx, &a2apb.GetTaskRequest{Id: task}, grpc.MaxCallRecvMsgSize(2*pieces*size))
		if n := outputOf(got); err != nil || n != pieces*size {
			t.Errorf("over %s: %d bytes, want %d: %v", binding, n, pieces*size, err)
		}
	}
	stock := a2apb.NewA2AServiceClient(m.raw(t))
	got, err := stock.GetTask(plain(t), &a2apb.GetTaskRequest{Id: task})
	parts := got.GetArtifacts()[0].GetParts()
	if n := outputOf(got); err != nil || n < mesh.MaxMessage || n > mesh.MaxWire || got.GetMetadata().GetFields()[mesh.KeyTruncated] == nil {
		t.Errorf("a client of gRPC gets %d bytes, marked %v: %v", n, got.GetMetadata(), err)
	}
	if resp, body := m.get(t, http.MethodGet, parts[len(parts)-1].GetUrl(), nil); resp.StatusCode != http.StatusOK || len(body) < pieces*size {
		t.Errorf("of which the rest is at %q: %s, %d bytes", parts[len(parts)-1].GetUrl(), resp.Status, len(body))
	}
	list, err := stock.ListTasks(plain(t), &a2apb.ListTasksRequest{IncludeArtifacts: proto.Bool(true)})
	if err != nil || len(list.GetTasks()) != 1 || list.GetTasks()[0].GetMetadata().GetFields()[mesh.KeyTruncated] == nil {
		t.Errorf("a list has %d tasks: %v", len(list.GetTasks()), err)
	}
}

// outputOf is how many bytes of text the artifacts have.
func outputOf(t *a2apb.Task) (n int) {
	for _, a := range t.GetArtifacts() {
		n += len(textOf(a.GetParts()))
	}
	return n
}
