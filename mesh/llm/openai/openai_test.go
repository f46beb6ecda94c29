package openai_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/openai"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const key = "sk-very-secret"

// stream is one response of the server, as it goes over the wire.
type stream struct {
	w http.ResponseWriter
	r *http.Request
}

// raw sends bytes at once.
func (s stream) raw(text string) {
	_, _ = io.WriteString(s.w, text)
	s.w.(http.Flusher).Flush()
}

// event sends a chunk with the delta, and a finish reason if there is one.
func (s stream) event(delta, finish string) {
	reason := "null"
	if finish != "" {
		reason = `"` + finish + `"`
	}
	s.raw(fmt.Sprintf(`data: {"id":"1","object":"chat.completion.chunk","model":"big-1","choices":[{"index":0,"delta":%s,"finish_reason":%s}]}`+"\n\n", delta, reason))
}

func (s stream) text(t string) { s.event(fmt.Sprintf(`{"content":%q}`, t), "") }

// cut breaks the connection.
func (s stream) cut() {
	conn, _, err := s.w.(http.Hijacker).Hijack()
	if err == nil {
		_ = conn.Close()
	}
}

// serve starts an endpoint on loopback that answers with reply.
func serve(t *testing.T, reply func(s stream)) *openai.Client {
	t.Helper()
	return serveConfig(t, openai.Config{Key: key, Model: "big"}, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		reply(stream{w, r})
	})
}

func serveConfig(t *testing.T, c openai.Config, handler http.HandlerFunc) *openai.Client {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("POST /v1/chat/completions", handler)
	srv := httptest.NewServer(mux)
	c.BaseURL = srv.URL + "/v1"
	client, err := openai.New(c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		client.Close()
		srv.Close()
	})
	return client
}

// generate reads a whole reply: its texts, calls and end.
func generate(ctx context.Context, c *openai.Client, req *llm.Request) (texts []string, calls []mesh.ToolUse, done *llm.Done, err error) {
	for chunk, err := range c.Generate(ctx, req) {
		switch {
		case err != nil:
			return texts, calls, done, err
		case chunk.Done != nil:
			done = chunk.Done
		case chunk.Tool != nil:
			calls = append(calls, *chunk.Tool)
		default:
			texts = append(texts, chunk.Text)
		}
	}
	return texts, calls, done, nil
}

func hello() *llm.Request {
	return &llm.Request{Messages: []llm.Message{{Role: llm.RoleUser, Text: "hello"}}}
}

func TestGenerate_sendsTheConversation(t *testing.T) {
	var got map[string]any
	var header http.Header
	c := serve(t, func(s stream) {
		header = s.r.Header
		_ = json.NewDecoder(s.r.Body).Decode(&got)
		s.event(`{"content":"hi"}`, "stop")
		s.raw("data: [DONE]\n\n")
	})
	_, _, _, err := generate(t.Context(), c, &llm.Request{
		System: "be brief",
		Messages: []llm.Message{
			{Role: llm.RoleUser, Text: "weather?", Name: "ann"},
			{Role: llm.RoleAssistant, Tools: []mesh.ToolUse{{ID: "c1", Name: "look"}, {ID: "c2", Name: "look", Arguments: `{"a":1}`}}},
			{Role: llm.RoleTool, ToolID: "c1", Name: "look", Text: "no luck", Failed: true},
			{Role: llm.RoleTool, ToolID: "c2", Name: "look"},
		},
		Tools: []llm.Tool{{Name: "look", Description: "Looks", Parameters: json.RawMessage(`{"type":"object","properties":{"a":{"type":"integer"}}}`)}, {Name: "nothing"}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var want map[string]any
	if err := json.Unmarshal([]byte(`{"model":"big","stream":true,"stream_options":{"include_usage":true},"messages":[
		{"role":"system","content":"be brief"},
		{"role":"user","content":"weather?","name":"ann"},
		{"role":"assistant","tool_calls":[{"id":"c1","type":"function","function":{"name":"look","arguments":"{}"}},{"id":"c2","type":"function","function":{"name":"look","arguments":"{\"a\":1}"}}]},
		{"role":"tool","tool_call_id":"c1","content":"Error: no luck"},
		{"role":"tool","tool_call_id":"c2","content":"(no output)"}],
		"tools":[{"type":"function","function":{"name":"look","description":"Looks","parameters":{"type":"object","properties":{"a":{"type":"integer"}}}}},
		{"type":"function","function":{"name":"nothing","parameters":{"type":"object","properties":{}}}}]}`), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if header.Get("Authorization") != "Bearer "+key {
		t.Errorf("authorization header %q", header.Get("Authorization"))
	}
}

// A delta is passed on while the server still writes the next one.
func TestGenerate_passesTextOnAsItArrives(t *testing.T) {
	seen := make(chan struct{})
	c := serve(t, func(s stream) {
		s.raw(": keep-alive\n\n")
		s.text("one ")
		<-seen
		s.event(`{"content":"two"}`, "stop")
		s.raw(`data: {"choices":[],"usage":{"prompt_tokens":7,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":5}}}` + "\n\ndata: [DONE]\n\n")
	})
	var texts []string
	for chunk, err := range c.Generate(t.Context(), hello()) {
		if err != nil {
			t.Fatal(err)
		}
		if chunk.Text == "one " {
			close(seen)
		}
		if chunk.Done == nil {
			texts = append(texts, chunk.Text)
			continue
		}
		want := &llm.Done{Finish: "stop", Model: "big-1", Usage: mesh.Usage{Prompt: 7, Completion: 2, Cached: 5}}
		if diff := cmp.Diff(want, chunk.Done); diff != "" {
			t.Error(diff)
		}
	}
	if diff := cmp.Diff([]string{"one ", "two"}, texts); diff != "" {
		t.Error(diff)
	}
}

// Two calls whose arguments come in interleaved pieces are put together by
// index; providers without indexes begin a call with each id.
func TestGenerate_assemblesParallelCalls(t *testing.T) {
	pieces := map[string][]string{
		"by index": {
			`{"role":"assistant","content":null,"tool_calls":[{"index":0,"id":"c0","type":"function","function":{"name":"search","arguments":""}}]}`,
			`{"tool_calls":[{"index":0,"function":{"arguments":"{\"query\":\"a"}}]}`,
			`{"tool_calls":[{"index":1,"id":"c1","type":"function","function":{"name":"send","arguments":"{\"to\":"}}]}`,
			`{"tool_calls":[{"index":0,"function":{"arguments":" b\"}"}},{"index":1,"function":{"arguments":"\"x\"}"}}]}`,
		},
		"without index": {
			`{"tool_calls":[{"id":"c0","type":"function","function":{"name":"search","arguments":"{\"query\":"}}]}`,
			`{"tool_calls":[{"function":{"arguments":"\"a b\"}"}}]}`,
			`{"tool_calls":[{"id":"c1","type":"function","function":{"name":"send","arguments":"{\"to\":\"x\"}"}}]}`,
		},
	}
	for name, deltas := range pieces {
		t.Run(name, func(t *testing.T) {
			c := serve(t, func(s stream) {
				for _, d := range deltas {
					s.event(d, "")
				}
				s.event(`{}`, "tool_calls")
				s.raw("data: [DONE]\n\n")
			})
			_, calls, done, err := generate(t.Context(), c, hello())
			if err != nil {
				t.Fatal(err)
			}
			want := []mesh.ToolUse{{ID: "c0", Name: "search", Arguments: `{"query":"a b"}`}, {ID: "c1", Name: "send", Arguments: `{"to":"x"}`}}
			if diff := cmp.Diff(want, calls); diff != "" {
				t.Error(diff)
			}
			if done == nil || done.Finish != "tool_calls" {
				t.Errorf("done %+v", done)
			}
		})
	}
}

// Hundreds of keep-alive comments do no harm, and neither do fields that are
// not data.
func TestGenerate_survivesKeepAlives(t *testing.T) {
	c := serve(t, func(s stream) {
		for range 1000 {
			s.raw(": PROCESSING\n\n")
		}
		s.raw("event: message\nid: 1\nretry: 10\n")
		s.event(`{"content":"hi"}`, "stop")
		s.raw("data: [DONE]\n\n")
	})
	if texts, _, _, err := generate(t.Context(), c, hello()); err != nil || strings.Join(texts, "") != "hi" {
		t.Errorf("got %q, %v", texts, err)
	}
}

// A reply that has its finish reason is complete, also when the server forgets
// to say so.
func TestGenerate_completeWithoutDoneMarker(t *testing.T) {
	for name, end := range map[string]func(s stream){"closed": func(stream) {}, "cut": stream.cut} {
		t.Run(name, func(t *testing.T) {
			c := serve(t, func(s stream) {
				s.event(`{"content":"hi"}`, "stop")
				end(s)
			})
			if _, _, done, err := generate(t.Context(), c, hello()); err != nil || done == nil {
				t.Errorf("done %v, err %v", done, err)
			}
		})
	}
}

// Failures inside of a stream are typed errors, after the text that came.
func TestGenerate_failuresInTheStream(t *testing.T) {
	tests := map[string]struct {
		reply  func(s stream)
		code   mesh.Code
		detail string
	}{
		"ended without finish reason": {func(s stream) { s.text("half") }, mesh.Unavailable, "The model's stream was cut off"},
		"[DONE] without finish reason": {func(s stream) {
			s.text("half")
			s.raw("data: [DONE]\n\n")
		}, mesh.Unavailable, "The model's stream was cut off"},
		"connection cut": {func(s stream) {
			s.text("half")
			s.cut()
		}, mesh.Unavailable, "The model's stream was cut off"},
		"an error event": {func(s stream) {
			s.raw(": PROCESSING\n\n")
			s.text("half")
			s.raw(`data: {"error":{"message":"overloaded","code":503}}` + "\n\n")
		}, mesh.Unavailable, "The model's endpoint failed (HTTP 503)"},
		"a rate limit event": {func(s stream) {
			s.text("half")
			s.raw(`data: {"error":{"message":"slow down","type":"rate_limit_error"}}` + "\n\n")
		}, mesh.Exhausted, "quota or rate limit"},
		"an error beside choices": {func(s stream) {
			s.text("half")
			s.raw(`data: {"id":"1","error":{"message":"upstream","code":502},"choices":[{"index":0,"delta":{},"finish_reason":"error"}]}` + "\n\n")
		}, mesh.Unavailable, "The model's endpoint failed (HTTP 502)"},
		"finish reason error": {func(s stream) {
			s.text("half")
			s.event(`{}`, "error")
		}, mesh.Unavailable, "failed while it was answering"},
		"not the protocol": {func(s stream) {
			s.text("half")
			s.raw("data: <html>\n\n")
		}, mesh.Unavailable, "not the OpenAI protocol"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			texts, calls, done, err := generate(t.Context(), serve(t, tt.reply), hello())
			if mesh.CodeOf(err) != tt.code || !strings.Contains(mesh.DetailOf(err), tt.detail) {
				t.Errorf("error %v, want %v with %q", err, tt.code, tt.detail)
			}
			if done != nil || len(calls) > 0 || strings.Join(texts, "") != "half" {
				t.Errorf("texts %q, calls %v, done %v", texts, calls, done)
			}
		})
	}
}

// Statuses say what to check, and no detail contains the key.
func TestGenerate_statuses(t *testing.T) {
	tests := map[int]struct {
		code   mesh.Code
		detail string
	}{
		400: {mesh.Invalid, "refused the request: context too long"},
		401: {mesh.Unauthenticated, "check the key (MESH_LLM_KEY)"},
		402: {mesh.Exhausted, "quota"},
		403: {mesh.Denied, "MESH_LLM_KEY"},
		404: {mesh.NotFound, `no model "big"; check MESH_LLM_MODEL`},
		408: {mesh.Timeout, "too long"},
		422: {mesh.Invalid, "refused the request"},
		429: {mesh.Exhausted, "rate limit"},
		500: {mesh.Unavailable, "HTTP 500"},
		503: {mesh.Unavailable, "HTTP 503"},
	}
	for status, tt := range tests {
		for _, body := range []string{`{"error":{"message":"context too long","type":"x","code":null}}`, "<html>Bad " + key + "</html>", ""} {
			c := serveConfig(t, openai.Config{Key: key, Model: "big"}, func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(status)
				_, _ = io.WriteString(w, body)
			})
			_, _, _, err := generate(t.Context(), c, hello())
			detail := tt.detail
			if !strings.HasPrefix(body, "{") {
				detail, _, _ = strings.Cut(detail, ":")
			}
			if mesh.CodeOf(err) != tt.code || !strings.Contains(mesh.DetailOf(err), detail) {
				t.Errorf("%d %q: %v", status, body, err)
			}
			if strings.Contains(mesh.DetailOf(err), key) {
				t.Errorf("%d: the key is in the detail", status)
			}
		}
	}
}

func TestGenerate_refusedConnection(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := l.Addr().String()
	_ = l.Close()
	c, err := openai.New(openai.Config{BaseURL: "http://" + addr + "/v1", Model: "big"})
	if err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := generate(t.Context(), c, hello()); mesh.CodeOf(err) != mesh.Unavailable || !strings.Contains(mesh.DetailOf(err), "MESH_LLM_URL") {
		t.Errorf("error %v", err)
	}
}

// A slow stream ends when its reader gives up, by cancel or by breaking the
// loop, and the server notices.
func TestGenerate_cancelReachesTheServer(t *testing.T) {
	for _, how := range []string{"cancel", "break"} {
		t.Run(how, func(t *testing.T) {
			gone := make(chan struct{})
			c := serve(t, func(s stream) {
				s.text("one")
				<-s.r.Context().Done()
				close(gone)
			})
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var last error
			for _, err := range c.Generate(ctx, hello()) {
				if last = err; how == "break" {
					break
				}
				cancel()
			}
			if how == "cancel" && mesh.CodeOf(last) != mesh.Canceled {
				t.Errorf("ended with %v", last)
			}
			select {
			case <-gone:
			case <-time.After(10 * time.Second):
				t.Error("the server was not told")
			}
		})
	}
}

// A server that says nothing, or that never ends, is given up on; one that
// only sends keep-alives is alive.
func TestGenerate_timeouts(t *testing.T) {
	tests := map[string]struct {
		config openai.Config
		reply  func(s stream)
		want   mesh.Code
	}{
		"nothing at all": {openai.Config{IdleTimeout: 20 * time.Millisecond}, func(s stream) { <-s.r.Context().Done() }, mesh.Timeout},
		"nothing more": {openai.Config{IdleTimeout: 20 * time.Millisecond}, func(s stream) {
			s.text("half")
			<-s.r.Context().Done()
		}, mesh.Timeout},
		"too long in all": {openai.Config{Timeout: 50 * time.Millisecond}, func(s stream) {
			for s.r.Context().Err() == nil {
				s.text("more")
			}
		}, mesh.Timeout},
		"alive by comments": {openai.Config{IdleTimeout: 500 * time.Millisecond}, func(s stream) {
			tick := time.NewTicker(20 * time.Millisecond)
			defer tick.Stop()
			for range 40 {
				<-tick.C
				s.raw(": still here\n\n")
			}
			s.event(`{"content":"hi"}`, "stop")
		}, mesh.Unknown},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tt.config.Model = "big"
			c := serveConfig(t, tt.config, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "text/event-stream")
				_, _ = io.Copy(io.Discard, r.Body) // net/http watches for a client that leaves from here on
				tt.reply(stream{w, r})
			})
			_, _, _, err := generate(t.Context(), c, hello())
			if tt.want == mesh.Unknown && err != nil || tt.want != mesh.Unknown && mesh.CodeOf(err) != tt.want {
				t.Errorf("ended with %v, want %v", err, tt.want)
			}
		})
	}
}

func TestNew_refusesABadConfig(t *testing.T) {
	for name, c := range map[string]openai.Config{
		"llm.url":     {Model: "m", BaseURL: "api.openai.com"},
		"llm.model":   {BaseURL: "https://api.openai.com/v1"},
		"llm.timeout": {Model: "m", BaseURL: "http://localhost:1/v1", Timeout: -1},
	} {
		_, err := openai.New(c)
		var e *mesh.Error
		if !errors.As(err, &e) || e.Code != mesh.Invalid || e.Field != name {
			t.Errorf("%s: %v", name, err)
		}
	}
}
