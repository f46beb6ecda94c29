package jsonrpc_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/bind/jsonrpc"
)

// compact is JSON without the blanks that protojson puts in at random.
func compact(t *testing.T, raw json.RawMessage) string {
	t.Helper()
	var b bytes.Buffer
	if err := json.Compact(&b, raw); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

// S4-002: the nine methods without a stream; stream_test.go has the other two.
func TestEveryUnaryMethodIsServed(t *testing.T) {
	s := start(t, jsonrpc.Options{})
	const task = `{"id":"task-1","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}`
	for _, tt := range []struct{ method, params, want string }{
		{"SendMessage", say("hi"), `{"task":{"id":"task-1","status":{"state":"TASK_STATE_COMPLETED"},"artifacts":[{"artifactId":"a","parts":[{"text":"hi"}]}]}}`},
		{"GetTask", `{"id":"task-1"}`, task},
		{"ListTasks", `{}`, `{"tasks":[],"nextPageToken":"","pageSize":0,"totalSize":0}`},
		{"CancelTask", `{"id":"t"}`, `{"id":"t","contextId":"c","status":{"state":"TASK_STATE_CANCELED"}}`},
		{"CreateTaskPushNotificationConfig", `{"taskId":"t","url":"https://x.test"}`, `{"taskId":"t","url":"https://x.test"}`},
		{"GetTaskPushNotificationConfig", `{"taskId":"t","id":"p"}`, `{"id":"p","taskId":"t"}`},
		{"ListTaskPushNotificationConfigs", `{"task_id":"t"}`, `{"configs":[{"id":"p","taskId":"t"}],"nextPageToken":""}`},
		{"DeleteTaskPushNotificationConfig", `{"taskId":"t","id":"p"}`, `{}`},
		{"GetExtendedAgentCard", `{}`, `{"name":"extended"}`},
	} {
		t.Run(tt.method, func(t *testing.T) {
			resp := s.call(tt.method, tt.params)
			got := s.read(resp)
			if resp.StatusCode != 200 || got.Error != nil {
				t.Fatalf("answer %d, error %+v", resp.StatusCode, got.Error)
			}
			if result := compact(t, got.Result); result != tt.want || string(got.ID) != "7" {
				t.Errorf("id %s, result %s, want id 7 and %s", got.ID, result, tt.want)
			}
		})
	}
}

// A2A v1.0 §5.5: what reads as the same message is the same message.
func TestParamsMayBeSnakeCaseOrHaveUnknownFieldsOrBeMissing(t *testing.T) {
	s := start(t, jsonrpc.Options{})
	for _, params := range []string{
		`{"message":{"message_id":"m","context_id":"c9","role":"ROLE_USER","parts":[{"text":"hi"}]}}`,
		`{"message":{"messageId":"m","contextId":"c9","role":1,"parts":[{"text":"hi","later":{}}]},"more":[1]}`,
	} {
		if got := s.read(s.call("SendMessage", params)); got.Error != nil || !strings.Contains(compact(t, got.Result), `"contextId":"c9"`) {
			t.Errorf("%s: result %s, error %+v", params, got.Result, got.Error)
		}
	}
	for _, body := range []string{`{"jsonrpc":"2.0","id":1,"method":"GetExtendedAgentCard"}`,
		`{"jsonrpc":"2.0","id":1,"method":"GetExtendedAgentCard","params":null}`} {
		if got := s.read(s.post("/", body)); got.Error != nil {
			t.Errorf("%s: error %+v", body, got.Error)
		}
	}
}

func TestTheIDComesBackAsItWas(t *testing.T) {
	s := start(t, jsonrpc.Options{})
	for _, id := range []string{`"a"`, `""`, `"7"`, `7`, `-1`, `0.5`, `1e3`, `12345678901234567890123`, `null`, `"\u0041\"\n<é"`} {
		for _, method := range []string{"GetExtendedAgentCard", "Nothing"} {
			got := s.read(s.post("/", `{"id": `+id+` ,"jsonrpc":"2.0","method":"`+method+`"}`))
			if string(got.ID) != id {
				t.Errorf("%s answered id %s with %s", method, id, got.ID)
			}
		}
	}
	if got := s.read(s.post("/", `{"jsonrpc":"2.0","method":"GetExtendedAgentCard"}`)); string(got.ID) != "null" || got.Error != nil {
		t.Errorf("without an id: id %s, error %+v; want null and an answer", got.ID, got.Error)
	}
}

// S4-054: the errors of A2A v1.0 §9.5 for what is no call of a method.
func TestARequestThatIsNoneIsRefusedWithItsCode(t *testing.T) {
	s := start(t, jsonrpc.Options{})
	for name, tt := range map[string]struct {
		body   string
		code   int
		reason string
		id     string
		says   string
	}{
		"nothing":             {"", -32700, "PARSE_ERROR", "null", "body: is empty"},
		"no JSON":             {`{"jsonrpc":"2.0","id":1,`, -32700, "PARSE_ERROR", "null", "byte 24"},
		"two values":          {`{"jsonrpc":"2.0","id":1} {}`, -32700, "PARSE_ERROR", "null", "byte 26"},
		"no UTF-8":            {"{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"GetTask\"}", -32700, "PARSE_ERROR", "null", "UTF-8"},
		"a batch":             {`[{"jsonrpc":"2.0","id":1,"method":"GetTask"}]`, -32600, "INVALID_REQUEST", "null", "batch: "},
		"an empty batch":      {` []`, -32600, "INVALID_REQUEST", "null", "batch: "},
		"a broken batch":      {`[{"jsonrpc"`, -32700, "PARSE_ERROR", "null", "body: "},
		"a number":            {`5`, -32600, "INVALID_REQUEST", "null", "request: "},
		"null":                {`null`, -32600, "INVALID_REQUEST", "null", "request: "},
		"no version":          {`{"id":1,"method":"GetTask"}`, -32600, "INVALID_REQUEST", "1", `jsonrpc: must be "2.0"`},
		"another version":     {`{"jsonrpc":"1.0","id":"x","method":"GetTask"}`, -32600, "INVALID_REQUEST", `"x"`, "jsonrpc: "},
		"a version in number": {`{"jsonrpc":2.0,"id":1,"method":"GetTask"}`, -32600, "INVALID_REQUEST", "1", "jsonrpc: "},
		"capitals":            {`{"JSONRPC":"2.0","id":1,"method":"GetTask"}`, -32600, "INVALID_REQUEST", "1", "jsonrpc: "},
		"no method":           {`{"jsonrpc":"2.0","id":1}`, -32600, "INVALID_REQUEST", "1", "method: "},
		"a method in number":  {`{"jsonrpc":"2.0","id":1,"method":5}`, -32600, "INVALID_REQUEST", "1", "method: "},
		"an object as id":     {`{"jsonrpc":"2.0","id":{},"method":"GetTask"}`, -32600, "INVALID_REQUEST", "null", "id: "},
		"a list as id":        {`{"jsonrpc":"2.0","id":[1],"method":"GetTask"}`, -32600, "INVALID_REQUEST", "null", "id: "},
		"a truth as id":       {`{"jsonrpc":"2.0","id":true,"method":"GetTask"}`, -32600, "INVALID_REQUEST", "null", "id: "},
		"a long id":           {`{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 1100) + `","method":"GetTask"}`, -32600, "INVALID_REQUEST", "null", "1102 bytes"},
		"an unknown method":   {`{"jsonrpc":"2.0","id":1,"method":"gettask","params":5}`, -32601, "METHOD_NOT_FOUND", "1", `method: "gettask" is not known`},
		"a method of v0.3":    {`{"jsonrpc":"2.0","id":1,"method":"message/send"}`, -32601, "METHOD_NOT_FOUND", "1", "v0.3"},
		"a list of params":    {`{"jsonrpc":"2.0","id":1,"method":"GetTask","params":["task-1"]}`, -32602, "INVALID_ARGUMENT", "1", "params: must be an object with the fields of GetTaskRequest"},
		"wrong params":        {`{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{"message":{"parts":[{"text":5}]}}}`, -32602, "INVALID_ARGUMENT", "1", "params: message.parts[0].text: "},
		"params the node refuses": {`{"jsonrpc":"2.0","id":1,"method":"SendMessage","params":{}}`, -32602, "INVALID_ARGUMENT", "1",
			"message.parts: is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			resp := s.post("/", tt.body)
			got := s.read(resp)
			if got.Error == nil || resp.StatusCode != 200 {
				t.Fatalf("answer %d, want 200 with an error", resp.StatusCode)
			}
			if got.Error.Code != tt.code || got.reason() != tt.reason || string(got.ID) != tt.id {
				t.Errorf("error %d %s, id %s; want %d %s, %s", got.Error.Code, got.reason(), got.ID, tt.code, tt.reason, tt.id)
			}
			if !strings.Contains(got.Error.Message, tt.says) {
				t.Errorf("message %q does not say %q", got.Error.Message, tt.says)
			}
		})
	}
}

func TestWhatIsNotReadHasAnHTTPCode(t *testing.T) {
	s := start(t, jsonrpc.Options{MaxBody: 200})
	for name, tt := range map[string]struct {
		resp     *http.Response
		httpCode int
		code     int
		reason   string
	}{
		"text":     {s.call("SendMessage", "{}", "Content-Type", "text/plain"), 415, -32005, "CONTENT_TYPE_NOT_SUPPORTED"},
		"too long": {s.call("SendMessage", say(strings.Repeat("x", 200))), 413, -32600, "INVALID_ARGUMENT"},
	} {
		got := s.read(tt.resp)
		if got.Error == nil || tt.resp.StatusCode != tt.httpCode || got.Error.Code != tt.code || got.reason() != tt.reason {
			t.Errorf("%s: answer %d %+v, want %d, %d and %s", name, tt.resp.StatusCode, got.Error, tt.httpCode, tt.code, tt.reason)
		}
	}
}

func TestOnlyPostReachesTheBinding(t *testing.T) {
	_, conn := startNode(t)
	h, err := jsonrpc.New(t.Context(), conn, jsonrpc.Options{})
	if err != nil {
		t.Fatal(err)
	}
	w := &recorder{header: http.Header{}}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "/", nil)
	if err != nil {
		t.Fatal(err)
	}
	h.ServeHTTP(w, r)
	if got := decode(t, w.body.Bytes()); w.code != 405 || w.header.Get("Allow") != "POST" || got.Error == nil || got.Error.Code != -32600 {
		t.Errorf("GET: %d, Allow %q, error %+v", w.code, w.header.Get("Allow"), got.Error)
	}
}

type recorder struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(code int)        { r.code = code }
func (r *recorder) Write(b []byte) (int, error) { return r.body.Write(b) }

func TestWhoMayNotCallIsToldSoByHTTPToo(t *testing.T) {
	s := start(t, jsonrpc.Options{})
	for _, method := range []string{"SendMessage", "SendStreamingMessage"} {
		for said, want := range map[string][2]int{"who": {401, -31401}, "forbidden": {403, -31403}} {
			resp := s.call(method, say(said), "Accept", "text/event-stream")
			got := s.read(resp)
			if got.Error == nil || resp.StatusCode != want[0] || got.Error.Code != want[1] || string(got.ID) != "7" {
				t.Errorf("%s %q: %d %+v, want %v", method, said, resp.StatusCode, got.Error, want)
			}
			if challenge := resp.Header.Get("WWW-Authenticate"); (challenge == "Bearer") != (want[0] == 401) {
				t.Errorf("%s %q: WWW-Authenticate %q", method, said, challenge)
			}
		}
	}
}

// S4-077: the version goes to the node, which knows what it speaks.
func TestHeadersBecomeMetadata(t *testing.T) {
	s := start(t, jsonrpc.Options{})
	resp := s.post("/?A2A-Version=1.0", `{"jsonrpc":"2.0","id":7,"method":"SendMessage","params":`+say("hi")+`}`,
		"Tenant-Id", "acme", "Authorization", "Bearer x", "A2A-Extensions", mesh.ExtensionURI, "Want-Seq", "1", "Secret", "y")
	if got := s.read(resp); got.Error != nil {
		t.Fatalf("error %+v", got.Error)
	}
	md := s.node.call("SendMessage")
	for key, want := range map[string][]string{"tenant-id": {"acme"}, "authorization": {"Bearer x"},
		"a2a-version": {"1.0"}, "a2a-extensions": {mesh.ExtensionURI}, "want-seq": nil, "secret": nil} {
		if got := md.Get(key); !slices.Equal(got, want) {
			t.Errorf("%s: %q, want %q", key, got, want)
		}
	}
	if got := resp.Header.Get("A2A-Extensions"); got != mesh.ExtensionURI || resp.Header.Get("Secret") != "" {
		t.Errorf("A2A-Extensions of the answer %q, other headers %v", got, resp.Header)
	}
	bad := s.read(s.call("GetTask", `{"id":"task-1"}`, "After-Seq", "soon"))
	if bad.Error == nil || bad.Error.Code != -32602 || !strings.Contains(bad.Error.Message, "after-seq: ") {
		t.Errorf("a wrong header: %+v, want -32602 that names it", bad.Error)
	}
}

// A base URL with and without its slash is the same address; another path is
// not the binding's.
func TestTheBindingIsAtTheRoot(t *testing.T) {
	s := start(t, jsonrpc.Options{})
	const body = `{"jsonrpc":"2.0","id":7,"method":"GetTask","params":{"id":"task-1"}}`
	for _, path := range []string{"", "/", "/?x=1"} {
		if resp := s.post(path, body); resp.StatusCode != 200 || s.read(resp).Error != nil {
			t.Errorf("POST %q: %d, want the task", path, resp.StatusCode)
		}
	}
	if resp := s.post("/rpc", body); resp.StatusCode != 404 {
		t.Errorf("POST /rpc: %d, want 404", resp.StatusCode)
	}
	if resp := s.post("/", body, "Sec-Fetch-Site", "cross-site"); resp.StatusCode != 403 {
		t.Errorf("from another web site: %d, want 403", resp.StatusCode)
	}
}

// S4-077: both versions share one address.
func TestMethodsOfV03GoToTheirOwnHandler(t *testing.T) {
	var got []byte
	s := start(t, jsonrpc.Options{V03: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got, _ = io.ReadAll(r.Body) // a short body fails the comparison
		w.WriteHeader(http.StatusTeapot)
	})})
	for _, body := range []string{`{"jsonrpc":"2.0","id":1,"method":"message/send","params":{"x":1}}`, `{"id":{},"method":"tasks/get"}`} {
		if resp := s.post("/", body); resp.StatusCode != http.StatusTeapot || string(got) != body {
			t.Errorf("%s: %d, and the handler read %q", body, resp.StatusCode, got)
		}
	}
	if answer := s.read(s.call("GetTask", `{"id":"task-1"}`)); answer.Error != nil {
		t.Errorf("a method of v1.0: %+v", answer.Error)
	}
}

func TestOptionsThatCannotBeAreRefused(t *testing.T) {
	_, conn := startNode(t)
	for _, opts := range []jsonrpc.Options{{MaxBody: -1}, {Heartbeat: -1}} {
		if _, err := jsonrpc.New(t.Context(), conn, opts); !mesh.IsCode(err, mesh.Invalid) {
			t.Errorf("New(%+v): %v, want Invalid", opts, err)
		}
	}
}
