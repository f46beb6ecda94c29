package node_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"slices"
	"strings"
	"testing"

	legacy "github.com/a2aproject/a2a-go/a2a"
	legacypb "github.com/a2aproject/a2a-go/a2apb"
	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/node"
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

// call makes a request over HTTP and returns the answer with its body.
func call(t *testing.T, m *testMesh, method, path, body string, headers ...string) (*http.Response, string) {
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

// A typed agent takes and gives certain media types.
type typed struct {
	testAgent
	in, out []string
}

func (a typed) Card() *a2apb.AgentCard {
	c := card(a.name)
	c.DefaultInputModes, c.DefaultOutputModes = a.in, a.out
	return c
}

func withAgent(a typed) func(*node.Options) {
	return func(o *node.Options) {
		o.Builtins = append(o.Builtins, node.Builtin{Name: a.name, New: func(node.Env) (agent.Agent, error) { return a, nil }})
	}
}

// handsOver hands a conversation to the painter when it is told to.
func handsOver(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
	return func(yield func(agent.Output, error) bool) {
		if inv.Text() == "paint" {
			if _, err := inv.Mesh.StartHandoff(ctx, &meshv1.StartHandoffRequest{TargetAgent: "painter", Reason: "pictures"}); err != nil {
				yield(nil, err)
			}
			return
		}
		yield(agent.Text{Text: "You said: " + inv.Text()}, nil)
	}
}

// finding P3: cards say what agents take and give, and a part of a type that nobody takes
// who could get it is refused: by the agent that is addressed or has the conversation,
// else by the mesh.
func TestAPartOfATypeThatIsNotTakenIsRefused(t *testing.T) {
	m := start(t, config(t.TempDir()), map[string]run{"main": handsOver},
		withAgent(typed{testAgent{"painter", func(context.Context, *agent.Invocation) iter.Seq2[agent.Output, error] {
			return func(yield func(agent.Output, error) bool) { yield(agent.Ask{Text: "Which colour?"}, nil) }
		}}, []string{"image/*"}, []string{"image/png"}}))
	_, text := get(t, m, ownCard)
	own := readCard(t, text)
	if in, out := own.GetDefaultInputModes(), own.GetDefaultOutputModes(); !slices.Equal(in, []string{"text/plain"}) || !slices.Equal(out, in) {
		t.Errorf("the mesh takes %q and gives %q, want what its main agent does", in, out)
	}
	for _, s := range own.GetSkills() {
		if s.GetId() == "painter" && (!slices.Equal(s.GetInputModes(), []string{"image/*"}) || !slices.Equal(s.GetOutputModes(), []string{"image/png"})) {
			t.Errorf("the skill is %v", s)
		}
	}
	with := func(p *play, kind string) *a2apb.SendMessageRequest {
		req := p.say("look")
		req.Message.Parts = append(req.Message.Parts, &a2apb.Part{MediaType: kind, Content: &a2apb.Part_Raw{Raw: []byte{1}}})
		return req
	}
	m.each(t, func(p *play) {
		for _, taken := range []string{"", "image/png", "IMAGE/JPEG; q=1"} {
			if _, err := p.client.SendMessage(p.ctx(), with(p, taken)); err != nil {
				p.t.Errorf("%q: %v", taken, err)
			}
		}
		prose := p.say("")
		prose.Message.Parts = []*a2apb.Part{{MediaType: "text/markdown", Content: &a2apb.Part_Text{Text: "# hi"}}}
		if _, err := p.client.SendMessage(p.ctx(), prose); err != nil {
			p.t.Errorf("text: %v", err)
		}
		const code, reason, field = codes.InvalidArgument, "CONTENT_TYPE_NOT_SUPPORTED", "message.parts[1].media_type"
		_, err := p.client.SendMessage(p.ctx(), with(p, "video/mp4"))
		p.refused("by the mesh", err, code, reason, field)
		p.refused("by the mesh, streaming", p.streamed(with(p, "video/mp4")), code, reason, field)
		_, err = p.client.SendMessage(p.ctx("agent", "main"), with(p, "image/png"))
		p.refused("by one agent", err, code, reason, field)
		if _, err := p.client.SendMessage(p.ctx(), p.say("paint")); err != nil {
			p.t.Fatal(err)
		}
		_, err = p.client.SendMessage(p.ctx(), with(p, "application/pdf"))
		p.refused("by who has the conversation", err, code, reason, field)
		modes := p.say("hi")
		modes.Configuration = &a2apb.SendMessageConfiguration{AcceptedOutputModes: []string{"text", " "}}
		_, err = p.client.SendMessage(p.ctx(), modes)
		p.refused("a mode that is none", err, codes.InvalidArgument, "", "configuration.accepted_output_modes[1]")
	})
	if _, code := rpcV03(t, m, "message/send", `{"message":{"kind":"message","messageId":"m","role":"user","parts":[{"kind":"file","file":{"bytes":"AAE=","mimeType":"video/mp4"}}]}}`); code != -32005 {
		t.Errorf("v0.3: %v", code)
	}
	_, err := legacypb.NewA2AServiceClient(m.raw(t)).SendMessage(plain(t), &legacypb.SendMessageRequest{Request: &legacypb.Message{MessageId: "m", Role: legacypb.Role_ROLE_USER,
		Parts: []*legacypb.Part{{Part: &legacypb.Part_File{File: &legacypb.FilePart{MimeType: "video/mp4", File: &legacypb.FilePart_FileWithBytes{FileWithBytes: []byte("AAE=")}}}}}}})
	if status.Code(err) != codes.InvalidArgument {
		t.Errorf("v0.3 over gRPC: %v", err)
	}
	if resp, text := post(t, m, "/v1/message:send", `{"message":{"messageId":"m","role":"ROLE_USER","content":[{"file":{"mimeType":"video/mp4","fileWithBytes":"QUFFPQ=="}}]}}`); resp.StatusCode != 400 || !strings.Contains(text, "CONTENT_TYPE_NOT_SUPPORTED") {
		t.Errorf("v0.3 over REST: %d %s", resp.StatusCode, text)
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
		resp, text := call(t, m, "POST", configs, body)
		var set struct{ Name string }
		if err := json.Unmarshal([]byte(text), &set); err != nil || resp.StatusCode != 200 || set.Name == "" {
			t.Fatalf("REST, set %s: %d %s", body, resp.StatusCode, text)
		}
		for _, path := range []string{configs + "/", "/v1/" + set.Name} {
			if resp, text := call(t, m, "GET", path, ""); resp.StatusCode != 200 || !strings.Contains(text, set.Name) {
				t.Errorf("REST, get %s: %d %s", path, resp.StatusCode, text)
			}
		}
		if resp, text := call(t, m, "GET", configs, ""); resp.StatusCode != 200 || !strings.Contains(text, set.Name) {
			t.Errorf("REST, list: %d %s", resp.StatusCode, text)
		}
		if resp, text := call(t, m, "DELETE", "/v1/"+set.Name, ""); resp.StatusCode >= 300 {
			t.Errorf("REST, delete: %d %s", resp.StatusCode, text)
		}
		if resp, text := call(t, m, "GET", configs, ""); strings.Contains(text, set.Name) {
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
		resp, text := call(t, m, "GET", path, "")
		if resp.StatusCode != 400 || !strings.Contains(text, "status") {
			t.Errorf("%s: %d %s", path, resp.StatusCode, text)
		}
		if want != "" {
			field(resp, text, want)
		}
	}
	resp, text = call(t, m, "POST", "/message:send", `{"message":{"message_id":"m","role":"USER","parts":[{"text":"x"}]}}`)
	field(resp, text, "message.role")
	if resp, text = call(t, m, "POST", "/v1/message:send", `{"message":{"messageId":"m","role":"USER","content":[{"text":"x"}]}}`); resp.StatusCode != 400 || !strings.Contains(text, "message.role") {
		t.Errorf("v0.3: %d %s", resp.StatusCode, text)
	}
	m.each(t, func(p *play) {
		_, err := p.client.ListTasks(p.ctx(), &a2apb.ListTasksRequest{Status: 99})
		p.refused("a number", err, codes.InvalidArgument, "", "status")
	})
}

func no() *bool { return new(bool) }

// finding P7: what an operator does not offer, cards do not, and calls are refused as the
// specification says.
func TestSettingsOfWhatIsOfferedAreOnCardsAndKept(t *testing.T) {
	cfg := config(t.TempDir())
	cfg.A2A.Streaming, cfg.A2A.Push = no(), no()
	m := start(t, cfg, map[string]run{"main": echo})
	for _, path := range []string{ownCard, "/agents/main" + ownCard} {
		_, text := get(t, m, path)
		if c := readCard(t, text).GetCapabilities(); c.GetStreaming() || c.GetPushNotifications() {
			t.Errorf("%s offers %v", path, c)
		}
	}
	m.each(t, func(p *play) {
		task := p.send("send", p.say("ask"))
		p.refused("stream", p.streamed(p.say("hi")), codes.FailedPrecondition, "UNSUPPORTED_OPERATION", "")
		s, err := p.client.SubscribeToTask(p.ctx(), &a2apb.SubscribeToTaskRequest{Id: task.GetId()})
		if err == nil {
			_, err = s.Recv()
		}
		p.refused("subscribe", err, codes.FailedPrecondition, "UNSUPPORTED_OPERATION", "")
		const reason = "PUSH_NOTIFICATION_NOT_SUPPORTED"
		_, err = p.client.CreateTaskPushNotificationConfig(p.ctx(), &a2apb.TaskPushNotificationConfig{TaskId: task.GetId(), Url: "https://example.com/"})
		p.refused("create", err, codes.FailedPrecondition, reason, "")
		_, err = p.client.GetTaskPushNotificationConfig(p.ctx(), &a2apb.GetTaskPushNotificationConfigRequest{TaskId: task.GetId(), Id: "c"})
		p.refused("get", err, codes.FailedPrecondition, reason, "")
		_, err = p.client.ListTaskPushNotificationConfigs(p.ctx(), &a2apb.ListTaskPushNotificationConfigsRequest{TaskId: task.GetId()})
		p.refused("list", err, codes.FailedPrecondition, reason, "")
		_, err = p.client.DeleteTaskPushNotificationConfig(p.ctx(), &a2apb.DeleteTaskPushNotificationConfigRequest{TaskId: task.GetId(), Id: "c"})
		p.refused("delete", err, codes.FailedPrecondition, reason, "")
		req := p.say("hi")
		req.Configuration = &a2apb.SendMessageConfiguration{TaskPushNotificationConfig: &a2apb.TaskPushNotificationConfig{Url: "https://example.com/"}}
		_, err = p.client.SendMessage(p.ctx(), req)
		p.refused("with a message", err, codes.FailedPrecondition, reason, "")
	})
	said := `{"message":{"kind":"message","messageId":"m","role":"user","parts":[{"kind":"text","text":"hi"}]}}`
	if _, code := rpcV03(t, m, "message/stream", said); code != -32004 {
		t.Errorf("v0.3, stream: %v", code)
	}
	if _, code := rpcV03(t, m, "tasks/pushNotificationConfig/list", `{"id":"x"}`); code != -32003 {
		t.Errorf("v0.3, push: %v", code)
	}
}

// finding P7: an extension that the operator requires is on cards, and who does not say
// that it is supported is refused, whatever is asked.
func TestSettingsOfExtensionsAreRequiredOfEveryCall(t *testing.T) {
	const uri = "https://example.com/ext/v1"
	cfg := config(t.TempDir())
	cfg.A2A.RequiredExtensions = []string{uri}
	m := start(t, cfg, map[string]run{"main": echo})
	_, text := get(t, m, ownCard)
	required := map[string]bool{}
	for _, x := range readCard(t, text).GetCapabilities().GetExtensions() {
		required[x.GetUri()] = x.GetRequired()
	}
	if want := map[string]bool{uri: true, mesh.ExtensionURI: false}; fmt.Sprint(required) != fmt.Sprint(want) {
		t.Errorf("the card has %v, want %v", required, want)
	}
	m.each(t, func(p *play) {
		const reason, field = "EXTENSION_SUPPORT_REQUIRED", "a2a-extensions"
		_, err := p.client.SendMessage(p.ctx(), p.say("hi"))
		p.refused("send", err, codes.FailedPrecondition, reason, field)
		p.refused("stream", p.streamed(p.say("hi")), codes.FailedPrecondition, reason, field)
		_, err = p.client.ListTasks(p.ctx(), &a2apb.ListTasksRequest{})
		p.refused("list", err, codes.FailedPrecondition, reason, field)
		if _, err := p.client.SendMessage(p.ctx("a2a-extensions", uri), p.say("hi")); err != nil {
			p.t.Errorf("with it: %v", err)
		}
	})
	said := `{"message":{"kind":"message","messageId":"m","role":"user","parts":[{"kind":"text","text":"hi"}]}}`
	if _, code := rpcV03(t, m, "message/send", said); code != -32004 {
		t.Errorf("v0.3: %v", code)
	}
	if task, code := rpcV03(t, m, "message/send", said, "X-A2A-Extensions", uri); task["kind"] != "task" {
		t.Errorf("v0.3 with it: %v, %v", task, code)
	}
	cfg.A2A.RequiredExtensions = []string{"no uri"}
	if err := cfg.Fill(); mesh.FieldOf(err) != "a2a.required_extensions" {
		t.Errorf("what is no URI: %v", err)
	}
}

// finding P7: where plain refusals are chosen, a stream that is refused is JSON, also to
// clients that ask for events; otherwise these get an event.
func TestSettingsOfRefusalsArePlainWhereTheOperatorSaysSo(t *testing.T) {
	for chosen, want := range map[bool]string{false: "text/event-stream", true: "application/json"} {
		cfg := config(t.TempDir())
		cfg.A2A.PlainRefusals = chosen
		m := start(t, cfg, map[string]run{"main": echo})
		for _, method := range []string{"SendStreamingMessage", "message/stream"} {
			resp, text := post(t, m, "/", `{"jsonrpc":"2.0","id":1,"method":"`+method+`","params":{"message":{"messageId":"m"}}}`, "Accept", "text/event-stream")
			if got := resp.Header.Get("Content-Type"); got != want || !strings.Contains(text, "-32602") {
				t.Errorf("plain: %v, %s: %s %s, want %s", chosen, method, got, text, want)
			}
		}
	}
}

// finding P7: whether a message of v0.3 is waited for that does not say so is the
// operator's choice; one that says so is, or is not.
func TestSettingsOfV03SayWhetherMessagesAreWaitedFor(t *testing.T) {
	for _, waits := range []bool{true, false} {
		cfg := config(t.TempDir())
		cfg.A2A.V03Blocking = &waits
		release := make(chan struct{})
		m := start(t, cfg, map[string]run{"main": func(ctx context.Context, inv *agent.Invocation) iter.Seq2[agent.Output, error] {
			return func(yield func(agent.Output, error) bool) {
				if !waits && inv.Text() != "soon" {
					select {
					case <-release:
					case <-ctx.Done():
					}
				}
				yield(agent.Text{Text: "done"}, nil)
			}
		}})
		over := func(state any) bool { return state == "completed" || state == "TASK_STATE_COMPLETED" }
		for name, config := range map[string]string{"nothing": "", "no word of it": `,"configuration":{"historyLength":1}`} {
			task, code := rpcV03(t, m, "message/send", `{"message":{"kind":"message","messageId":"`+mesh.NewEventID()+`","role":"user","parts":[{"kind":"text","text":"hi"}]}`+config+`}`)
			st, _ := task["status"].(map[string]any)
			if over(st["state"]) != waits {
				t.Errorf("waits: %v, %s over JSON-RPC: %v, %v", waits, name, task, code)
			}
			_, text := post(t, m, "/v1/message:send", `{"message":{"messageId":"`+mesh.NewEventID()+`","role":"ROLE_USER","content":[{"text":"hi"}]}`+config+`}`)
			if strings.Contains(text, "TASK_STATE_COMPLETED") != waits {
				t.Errorf("waits: %v, %s over REST: %s", waits, name, text)
			}
		}
		bare := legacySay("hi")
		bare.Configuration = nil
		res, err := legacypb.NewA2AServiceClient(m.raw(t)).SendMessage(plain(t), bare)
		if err != nil || over(res.GetTask().GetStatus().GetState().String()) != waits {
			t.Errorf("waits: %v, nothing over gRPC: %v, %v", waits, res, err)
		}
		task, _ := rpcV03(t, m, "message/send", `{"message":{"kind":"message","messageId":"m","role":"user","parts":[{"kind":"text","text":"soon"}]},"configuration":{"blocking":true}}`)
		if st, _ := task["status"].(map[string]any); !over(st["state"]) {
			t.Errorf("waits: %v, told to wait: %v", waits, task)
		}
		close(release)
	}
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
		if resp, text := call(t, m, method, path, ""); resp.StatusCode != http.StatusNotFound || !json.Valid([]byte(text)) {
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
