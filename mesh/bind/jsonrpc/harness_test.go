package jsonrpc_test

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"agentmesh/mesh/bind/jsonrpc"
	"agentmesh/mesh/bind/rest"
	"agentmesh/mesh/rpc"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// site is a gateway with the JSON-RPC binding on a real socket, in front of a
// node.
type site struct {
	t      testing.TB
	node   *node
	url    string
	client *http.Client
}

func start(t testing.TB, opts jsonrpc.Options) *site {
	t.Helper()
	n, conn := startNode(t)
	return serve(t, t.Context(), n, conn, opts)
}

// serve starts the site, whose streams end with ctx.
func serve(t testing.TB, ctx context.Context, n *node, conn rpc.Conn, opts jsonrpc.Options) *site {
	t.Helper()
	h, err := jsonrpc.New(ctx, conn, opts)
	if err != nil {
		t.Fatal(err)
	}
	h, err = rest.New(ctx, conn, rest.Options{JSONRPC: h})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(h)
	transport := &http.Transport{}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		server.CloseClientConnections()
		server.Close()
	})
	return &site{t: t, node: n, url: server.URL, client: &http.Client{Transport: transport, Timeout: 2 * time.Minute}}
}

// post sends a body, as JSON unless the headers, which are pairs, say else.
func (s *site) post(path, body string, headers ...string) *http.Response {
	s.t.Helper()
	req, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.url+path, strings.NewReader(body))
	if err != nil {
		s.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	resp, err := s.client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = resp.Body.Close() }) // closing twice is harmless
	return resp
}

// call sends a request with the id 7.
func (s *site) call(method, params string, headers ...string) *http.Response {
	s.t.Helper()
	return s.post("/", `{"jsonrpc":"2.0","id":7,"method":"`+method+`","params":`+params+`}`, headers...)
}

// reply is a JSON-RPC response, with the members as they came.
type reply struct {
	JSONRPC string
	ID      json.RawMessage
	Result  json.RawMessage
	Error   *struct {
		Code    int
		Message string
		Data    []map[string]any
	}
}

// decode checks what all responses have in common.
func decode(t testing.TB, raw []byte) reply {
	t.Helper()
	var r reply
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatalf("%q is not a response: %v", raw, err)
	}
	if r.JSONRPC != "2.0" || len(r.ID) == 0 || (r.Result == nil) == (r.Error == nil) {
		t.Fatalf("%s: want jsonrpc, an id, and either a result or an error", raw)
	}
	if r.Error != nil && r.reason() == "" {
		t.Errorf("%s: the error has no ErrorInfo", raw)
	}
	return r
}

// reason is that of the ErrorInfo in the error's data.
func (r reply) reason() string {
	for _, d := range r.Error.Data {
		if d["@type"] == "type.googleapis.com/google.rpc.ErrorInfo" && d["domain"] == "a2a-protocol.org" {
			name, _ := d["reason"].(string)
			return name
		}
	}
	return ""
}

// read returns the response in an answer that must be JSON.
func (s *site) read(resp *http.Response) reply {
	s.t.Helper()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	if ct := resp.Header.Get("Content-Type"); ct != "application/json" {
		s.t.Fatalf("Content-Type %q, want application/json: %s", ct, raw)
	}
	return decode(s.t, raw)
}

// event is one server-sent event, or a comment.
type event struct {
	id      string
	comment string
	reply   reply
}

// events reads events as they arrive.
type events struct {
	t  testing.TB
	in *bufio.Reader
}

func (s *site) stream(resp *http.Response) *events {
	s.t.Helper()
	if ct := resp.Header.Get("Content-Type"); resp.StatusCode != http.StatusOK || ct != "text/event-stream" {
		s.t.Fatalf("answer %d %q, want a stream", resp.StatusCode, ct)
	}
	return &events{s.t, bufio.NewReader(resp.Body)}
}

// next returns the next event or comment; false at the end of the stream.
func (e *events) next() (event, bool) {
	e.t.Helper()
	var got event
	for lines := 0; ; lines++ {
		line, err := e.in.ReadString('\n')
		if err != nil && lines == 0 && line == "" {
			return got, false
		}
		if err != nil {
			e.t.Fatalf("stream cut inside an event at %q: %v", line, err)
		}
		line = strings.TrimSuffix(line, "\n")
		if line == "" {
			return got, true
		}
		name, value, _ := strings.Cut(line, ": ")
		switch name {
		case "id":
			got.id = value
		case "":
			got.comment = value
		case "data":
			got.reply = decode(e.t, []byte(value))
		default:
			e.t.Fatalf("line %q is no field of ours", line)
		}
	}
}

// rest returns all events to the end, without comments.
func (e *events) rest() []event {
	e.t.Helper()
	var all []event
	for {
		got, ok := e.next()
		if !ok {
			return all
		}
		if got.comment == "" {
			all = append(all, got)
		}
	}
}

func ids(all []event) string {
	var got []string
	for _, e := range all {
		got = append(got, e.id)
	}
	return strings.Join(got, " ")
}

// say is the params of a message with the text.
func say(text string) string {
	return `{"message":{"messageId":"m1","role":"ROLE_USER","parts":[{"text":"` + text + `"}]}}`
}
