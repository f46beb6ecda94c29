package node_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	legacy "github.com/a2aproject/a2a-go/a2a"
	legacypb "github.com/a2aproject/a2a-go/a2apb"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"agentmesh/mesh"
)

// each runs the test over every binding of v1.0, with what it tells of errors.
func (m *testMesh) each(t *testing.T, test func(p *play)) {
	for binding, conn := range m.bindings(t) {
		t.Run(binding, func(t *testing.T) {
			test(&play{t: t, client: a2apb.NewA2AServiceClient(conn), thread: mesh.NewThreadID(), names: map[string]string{}})
		})
	}
}

// refused fails the test unless the error is of the code and reason, and names the field.
func (p *play) refused(what string, err error, code codes.Code, reason, field string) {
	p.t.Helper()
	p.lines = nil
	p.failed("got", err)
	if want := []string{fmt.Sprintf("got: %v %s (%s)", code, reason, field)}; !slices.Equal(p.lines, want) {
		p.t.Errorf("%s: %q (%v), want %q", what, p.lines, err, want)
	}
}

// streamed is what the stream of a message fails with before its first event.
func (p *play) streamed(req *a2apb.SendMessageRequest, headers ...string) error {
	s, err := p.client.SendStreamingMessage(p.ctx(headers...), req)
	if err == nil {
		_, err = s.Recv()
	}
	return err
}

// rpcV03 calls a method of v0.3 over JSON-RPC, and returns its result and error.
func rpcV03(t *testing.T, m *testMesh, method, params string, headers ...string) (result map[string]any, code float64) {
	t.Helper()
	_, text := post(t, m, "/", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`, headers...)
	var answer struct {
		Result any
		Error  struct{ Code float64 }
	}
	if err := json.Unmarshal([]byte(text), &answer); err != nil {
		t.Fatalf("%s: %s: %v", method, text, err)
	}
	result, _ = answer.Result.(map[string]any)
	return result, answer.Error.Code
}

// visit makes a request over HTTP and returns the answer with its body.
func visit(t *testing.T, m *testMesh, method, path, body string, headers ...string) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, "http://"+m.web()+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
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
	return resp, string(text)
}

// finding N3: the operator chooses which bindings stand on cards, so that clients which
// want every interface to be of the card's own origin take them; all go on being served.
func TestTheCardNamesTheBindingsThatTheOperatorChose(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.Cards.Bindings = []string{"JSONRPC", "HTTP+JSON"}
	m := start(t, cfg, map[string]run{"main": echo})
	for path, want := range map[string]string{ownCard: "http://" + m.HTTP, "/agents/main" + ownCard: "http://" + m.HTTP + "/agents/main"} {
		_, text := get(t, m, path)
		var old struct {
			URL                  string
			AdditionalInterfaces []struct{ URL string }
		}
		if err := json.Unmarshal([]byte(text), &old); err != nil {
			t.Fatal(err)
		}
		at := []string{old.URL}
		for _, in := range old.AdditionalInterfaces {
			at = append(at, in.URL)
		}
		var names []string
		for _, in := range readCard(t, text).GetSupportedInterfaces() {
			at = append(at, in.GetUrl())
			names = append(names, in.GetProtocolBinding()+" "+in.GetProtocolVersion())
		}
		if slices.ContainsFunc(at, func(u string) bool { return u != want }) {
			t.Errorf("%s: interfaces at %q, want all at %s", path, at, want)
		}
		if want := []string{"JSONRPC 1.0", "HTTP+JSON 1.0", "JSONRPC 0.3", "HTTP+JSON 0.3"}; !slices.Equal(names, want) {
			t.Errorf("%s: %q, want %q", path, names, want)
		}
	}
	m.each(t, func(p *play) { p.send("send", p.say("hi")) })
	for _, bad := range [][]string{{"SOAP"}, {"JSONRPC", "JSONRPC"}, {"GRPC"}} {
		cfg := config(t.TempDir())
		cfg.Cards.Bindings = bad
		if err := cfg.Fill(); mesh.FieldOf(err) != "cards.bindings" {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

// finding P2: the extended card is for those who proved who they are. Where nobody has to,
// cards do not offer it, and asking for it is refused; else it is for their caches alone.
func TestTheExtendedCardIsForThoseWhoProvedWhoTheyAre(t *testing.T) {
	open := start(t, config(t.TempDir()), map[string]run{"main": echo})
	if _, text := get(t, open, ownCard); readCard(t, text).GetCapabilities().GetExtendedAgentCard() {
		t.Errorf("under none the card is %s", text)
	}
	open.each(t, func(p *play) {
		_, err := p.client.GetExtendedAgentCard(p.ctx(), &a2apb.GetExtendedAgentCardRequest{})
		p.refused("card", err, codes.FailedPrecondition, "UNSUPPORTED_OPERATION", "")
	})
	if _, code := rpcV03(t, open, "agent/getAuthenticatedExtendedCard", "{}"); code != -32007 {
		t.Errorf("v0.3: %v", code)
	}
	if card, err := legacypb.NewA2AServiceClient(open.raw(t)).GetAgentCard(plain(t), &legacypb.GetAgentCardRequest{}); err != nil || card.GetSupportsAuthenticatedExtendedCard() {
		t.Errorf("v0.3 over gRPC: %v, %v", card, err)
	}
	cfg := config(t.TempDir())
	cfg.Auth, cfg.Tokens = "tokens", tokensFile(t)
	m := start(t, cfg, map[string]run{"main": echo})
	m.each(t, func(p *play) {
		card, err := p.client.GetExtendedAgentCard(p.ctx(header("secret-of-tenant-a")...), &a2apb.GetExtendedAgentCardRequest{})
		if err != nil || !card.GetCapabilities().GetExtendedAgentCard() || len(card.GetSkills()) != 1 {
			t.Errorf("got %v, %v", card, err)
		}
	})
	resp, _ := get(t, m, "/extendedAgentCard", "Authorization", "Bearer secret-of-tenant-a")
	if cache := resp.Header.Get("Cache-Control"); !strings.Contains(cache, "private") || !strings.Contains(resp.Header.Get("Vary"), "Authorization") {
		t.Errorf("the headers are %v", resp.Header)
	}
	if card, code := rpcV03(t, m, "agent/getAuthenticatedExtendedCard", "{}", header("secret-of-tenant-a")...); card["supportsAuthenticatedExtendedCard"] != true {
		t.Errorf("v0.3: %v, %v", card, code)
	}
}

// finding P5: what clients of v0.3 say of webhooks is understood: credentials without a
// scheme, a config without an id, and all four operations over each binding.
func TestClientsOfV03KeepTheirWebhooksOverEveryBinding(t *testing.T) {
	m := start(t, withWebhooks(config(t.TempDir())), map[string]run{"main": echo})
	hook := newHook(t)
	finished := func() string {
		res, err := m.edge().SendMessage(plain(t), say("hello"))
		if err != nil {
			t.Fatal(err)
		}
		return res.GetTask().GetId()
	}
	for name, client := range v03Clients(t, m) {
		ctx, task := plain(t), legacy.TaskID(finished())
		set, err := client.SetTaskPushConfig(ctx, &legacy.TaskPushConfig{TaskID: task, Config: legacy.PushConfig{URL: hook.URL, Auth: &legacy.PushAuthInfo{Credentials: "s3cret"}}})
		if err != nil || set.Config.ID == "" || set.Config.Auth == nil || !slices.Equal(set.Config.Auth.Schemes, []string{"Bearer"}) {
			t.Errorf("%s: set %+v, %v", name, set, err)
			continue
		}
		if _, err := client.SetTaskPushConfig(ctx, &legacy.TaskPushConfig{TaskID: task, Config: legacy.PushConfig{ID: set.Config.ID, URL: hook.URL, Auth: &legacy.PushAuthInfo{}}}); err != nil {
			t.Errorf("%s: set without credentials: %v", name, err)
		}
		got, err := client.GetTaskPushConfig(ctx, &legacy.GetTaskPushConfigParams{TaskID: task})
		if err != nil || got.Config.ID != set.Config.ID || got.TaskID != task {
			t.Errorf("%s: get without an id: %+v, %v", name, got, err)
		}
		if err := client.DeleteTaskPushConfig(ctx, &legacy.DeleteTaskPushConfigParams{TaskID: task, ConfigID: set.Config.ID}); err != nil {
			t.Errorf("%s: delete: %v", name, err)
		}
		if list, err := client.ListTaskPushConfig(ctx, &legacy.ListTaskPushConfigParams{TaskID: task}); err != nil || len(list) != 0 {
			t.Errorf("%s: list: %v, %v", name, list, err)
		}
		if got, err := client.GetTaskPushConfig(ctx, &legacy.GetTaskPushConfigParams{TaskID: task}); err == nil {
			t.Errorf("%s: get of none: %+v", name, got)
		}
	}
	configs := "/v1/tasks/" + finished() + "/pushNotificationConfigs"
	for _, body := range []string{
		`{"url":"` + hook.URL + `","authentication":{"credentials":"x"}}`,
		`{"pushNotificationConfig":{"url":"` + hook.URL + `","authentication":{"schemes":[]}}}`,
		`{"config":{"pushNotificationConfig":{"url":"` + hook.URL + `"}}}`,
	} {
		resp, text := visit(t, m, "POST", configs, body)
		var set struct{ Name string }
		if err := json.Unmarshal([]byte(text), &set); err != nil || resp.StatusCode != 200 || set.Name == "" {
			t.Fatalf("REST, set %s: %d %s", body, resp.StatusCode, text)
		}
		for _, path := range []string{configs + "/", "/v1/" + set.Name} {
			if resp, text := visit(t, m, "GET", path, ""); resp.StatusCode != 200 || !strings.Contains(text, set.Name) {
				t.Errorf("REST, get %s: %d %s", path, resp.StatusCode, text)
			}
		}
		if resp, text := visit(t, m, "GET", configs, ""); resp.StatusCode != 200 || !strings.Contains(text, set.Name) {
			t.Errorf("REST, list: %d %s", resp.StatusCode, text)
		}
		if resp, text := visit(t, m, "DELETE", "/v1/"+set.Name, ""); resp.StatusCode >= 300 {
			t.Errorf("REST, delete: %d %s", resp.StatusCode, text)
		}
		if resp, text := visit(t, m, "GET", configs, ""); strings.Contains(text, set.Name) {
			t.Errorf("REST, list after that: %d %s", resp.StatusCode, text)
		}
	}
}

// finding P6: a name that no enum has is refused where it stands, and does not count as
// none, over the bindings that have names.
func TestUnknownNamesOfEnumsAreRefusedByTheirField(t *testing.T) {
	m := start(t, config(t.TempDir()), map[string]run{"main": echo})
	field := func(resp *http.Response, text, want string) {
		t.Helper()
		if !strings.Contains(strings.ReplaceAll(text, " ", ""), `"field":"`+want+`"`) {
			t.Errorf("%d %s, want the field %s", resp.StatusCode, text, want)
		}
	}
	rpcOf := func(method, params string) (*http.Response, string) {
		return post(t, m, "/", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":`+params+`}`, "A2A-Version", "1.0")
	}
	resp, text := rpcOf("ListTasks", `{"status":"TASK_STATE_WORKNG"}`)
	field(resp, text, "status")
	if !strings.Contains(text, "-32602") {
		t.Errorf("ListTasks: %s", text)
	}
	resp, text = rpcOf("SendMessage", `{"message":{"messageId":"m","role":"USER","parts":[{"text":"x"}]}}`)
	field(resp, text, "message.role")
	resp, text = rpcOf("ListTasks", `{"status":null}`)
	if strings.Contains(text, "error") {
		t.Errorf("null: %d %s", resp.StatusCode, text)
	}
	for path, want := range map[string]string{"/tasks?status=WORKING": "status", "/tasks?pageSize=x": "page_size", "/v1/tasks?status=WORKING": ""} {
		resp, text := visit(t, m, "GET", path, "")
		if resp.StatusCode != 400 || !strings.Contains(text, "status") {
			t.Errorf("%s: %d %s", path, resp.StatusCode, text)
		}
		if want != "" {
			field(resp, text, want)
		}
	}
	resp, text = visit(t, m, "POST", "/message:send", `{"message":{"message_id":"m","role":"USER","parts":[{"text":"x"}]}}`)
	field(resp, text, "message.role")
	if resp, text = visit(t, m, "POST", "/v1/message:send", `{"message":{"messageId":"m","role":"USER","content":[{"text":"x"}]}}`); resp.StatusCode != 400 || !strings.Contains(text, "message.role") {
		t.Errorf("v0.3: %d %s", resp.StatusCode, text)
	}
	m.each(t, func(p *play) {
		_, err := p.client.ListTasks(p.ctx(), &a2apb.ListTasksRequest{Status: 99})
		p.refused("a number", err, codes.InvalidArgument, "", "status")
	})
}

// finding P8: a tenant that is not the caller's is what is not found, whether there is such
// a tenant or not; and a path that ends where an id should be is that of nothing.
func TestWhatIsNotFoundIsWhatIsNamed(t *testing.T) {
	m := start(t, config(t.TempDir()), map[string]run{"main": echo})
	m.each(t, func(p *play) {
		req := p.say("hi")
		req.Tenant = "rival"
		_, err := p.client.SendMessage(p.ctx(), req)
		p.refused("send", err, codes.NotFound, reasonOf(err), "tenant")
		_, err = p.client.GetTask(p.ctx(), &a2apb.GetTaskRequest{Tenant: "rival", Id: unknownTask(p)})
		p.refused("get", err, codes.NotFound, reasonOf(err), "tenant")
		_, err = p.client.ListTasks(metadata.NewOutgoingContext(plain(p.t), nil), &a2apb.ListTasksRequest{Tenant: "rival"})
		p.refused("list", err, codes.NotFound, reasonOf(err), "tenant")
	})
	for _, c := range []string{"GET /tasks/", "POST /tasks/:cancel", "GET /tasks//pushNotificationConfigs", "GET /v1/tasks/", "GET /mesh/v1/threads/"} {
		method, path, _ := strings.Cut(c, " ")
		if resp, text := visit(t, m, method, path, ""); resp.StatusCode != http.StatusNotFound || !json.Valid([]byte(text)) {
			t.Errorf("%s: %d %s", c, resp.StatusCode, text)
		}
	}
}

// reasonOf is the reason of an error that has none of A2A's: that of JSON-RPC, where all
// have one.
func reasonOf(err error) string {
	if strings.Contains(describe(err), `reason:"NOT_FOUND"`) {
		return "NOT_FOUND"
	}
	return ""
}
