package rest_test

import (
	"bufio"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"agentmesh/mesh/bind/rest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// site is a gateway on a real socket in front of a node.
type site struct {
	t      testing.TB
	node   *node
	url    string
	client *http.Client
}

func start(t testing.TB, opts rest.Options) *site {
	t.Helper()
	n, conn := startNode(t)
	h, err := rest.New(t.Context(), conn, opts)
	if err != nil {
		t.Fatal(err)
	}
	return serve(t, n, h)
}

func serve(t testing.TB, n *node, h http.Handler) *site {
	t.Helper()
	server := httptest.NewServer(h)
	transport := &http.Transport{}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		server.CloseClientConnections()
		server.Close()
	})
	return &site{t: t, node: n, url: server.URL, client: &http.Client{Transport: transport, Timeout: 5 * time.Minute}}
}

// do sends a request; headers are pairs. A body is JSON unless they say else.
func (s *site) do(method, path, body string, headers ...string) *http.Response {
	s.t.Helper()
	var r io.Reader
	if body != "" {
		r = strings.NewReader(body)
	}
	req, err := http.NewRequestWithContext(s.t.Context(), method, s.url+path, r)
	if err != nil {
		s.t.Fatal(err)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Add(headers[i], headers[i+1])
	}
	if ct, ok := req.Header["Content-Type"]; ok && len(ct) > 1 {
		req.Header["Content-Type"] = ct[1:]
	}
	resp, err := s.client.Do(req)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = resp.Body.Close() }) // closing twice is harmless
	return resp
}

// read returns the body, which must be JSON.
func (s *site) read(resp *http.Response) map[string]any {
	s.t.Helper()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		s.t.Fatal(err)
	}
	var v map[string]any
	if err := json.Unmarshal(raw, &v); err != nil {
		s.t.Fatalf("body %q is not a JSON object: %v", raw, err)
	}
	return v
}

// errorOf returns the "error" of the body, after checking what all errors have.
func (s *site) errorOf(resp *http.Response, wantCode int, wantStatus string) map[string]any {
	s.t.Helper()
	if resp.StatusCode != wantCode {
		s.t.Errorf("HTTP code %d, want %d", resp.StatusCode, wantCode)
	}
	if ct := resp.Header.Get("Content-Type"); ct != "application/json" {
		s.t.Errorf("Content-Type of the error %q, want application/json", ct)
	}
	e, _ := s.read(resp)["error"].(map[string]any)
	if e["code"] != float64(wantCode) || e["status"] != wantStatus {
		s.t.Errorf("error %v, want code %d and status %s", e, wantCode, wantStatus)
	}
	if _, ok := e["details"].([]any); !ok {
		s.t.Errorf("error %v has no list of details", e)
	}
	return e
}

// get returns what is in v at the path, as "a.0.b".
func get(v any, path string) any {
	for _, key := range strings.Split(path, ".") {
		switch in := v.(type) {
		case map[string]any:
			v = in[key]
		case []any:
			if len(in) == 0 {
				return nil
			}
			v = in[0]
		default:
			return nil
		}
	}
	return v
}

// frame is one server-sent event, or a comment.
type frame struct {
	id      string
	comment string
	data    map[string]any
}

// frames reads events as they arrive.
type frames struct {
	t  testing.TB
	in *bufio.Reader
}

func (s *site) stream(resp *http.Response) *frames {
	s.t.Helper()
	if resp.StatusCode != http.StatusOK || resp.Header.Get("Content-Type") != "text/event-stream" {
		s.t.Fatalf("answer %d %q, want a stream: %v", resp.StatusCode, resp.Header.Get("Content-Type"), s.read(resp))
	}
	return &frames{s.t, bufio.NewReader(resp.Body)}
}

// next returns the next frame; false at the end of the stream.
func (f *frames) next() (frame, bool) {
	f.t.Helper()
	var got frame
	for lines := 0; ; lines++ {
		line, err := f.in.ReadString('\n')
		if err != nil && lines == 0 && line == "" {
			return got, false
		}
		if err != nil {
			f.t.Fatalf("stream cut inside a frame at %q: %v", line, err)
		}
		line = strings.TrimSuffix(line, "\n")
		if line == "" {
			return got, true
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "id":
			got.id = value
		case "":
			got.comment = value
		case "data":
			if err := json.Unmarshal([]byte(value), &got.data); err != nil {
				f.t.Fatalf("data %q is not JSON: %v", value, err)
			}
		default:
			f.t.Fatalf("line %q is no field of ours", line)
		}
	}
}

// must returns the next event, without heartbeats.
func (f *frames) must() frame {
	f.t.Helper()
	for {
		got, ok := f.next()
		if !ok {
			f.t.Fatal("the stream ended, want another event")
		}
		if got.comment == "" {
			return got
		}
	}
}

// rest returns all events to the end, without heartbeats.
func (f *frames) rest() []frame {
	f.t.Helper()
	var all []frame
	for {
		got, ok := f.next()
		if !ok {
			return all
		}
		if got.comment == "" {
			all = append(all, got)
		}
	}
}

func ids(all []frame) []string {
	var got []string
	for _, f := range all {
		got = append(got, f.id)
	}
	return got
}

// say is the body of a message with the text.
func say(text string) string {
	b, err := json.Marshal(map[string]any{"message": map[string]any{
		"messageId": "m1", "role": "ROLE_USER", "parts": []any{map[string]any{"text": text}}}})
	if err != nil {
		panic(err)
	}
	return string(b)
}
