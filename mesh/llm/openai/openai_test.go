package openai_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

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
	mux.HandleFunc("POST /v1/responses", handler)
	mux.HandleFunc("POST /v1/embeddings", handler)
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
			for chunk, err := range c.Generate(t.Context(), hello()) {
				if err != nil {
					t.Error(err)
				}
				if chunk.Tool != nil {
					break // and nothing comes after it
				}
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

// Calls are kept until the reply is complete, so they must end some time.
func TestGenerate_endlessCallsAreCutOff(t *testing.T) {
	c := serve(t, func(s stream) {
		s.event(`{"tool_calls":[{"index":0,"id":"1","type":"function","function":{"name":"a","arguments":"{"}}]}`, "")
		piece := fmt.Sprintf(`{"tool_calls":[{"index":0,"function":{"arguments":%q}}]}`, strings.Repeat(" ", 4096))
		for s.r.Context().Err() == nil {
			s.event(piece, "")
		}
	})
	_, _, done, err := generate(t.Context(), c, hello())
	if !mesh.IsCode(err, mesh.Exhausted) || done != nil {
		t.Errorf("done %v, error %v", done, err)
	}
}

// jsonText writes a text as JSON.
func jsonText(s string) string {
	raw, err := json.Marshal(s)
	if err != nil {
		panic(err) // a text has a JSON form
	}
	return string(raw)
}
