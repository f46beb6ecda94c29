package openai_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/openai"
)

// say sends an event of the Responses API; fields is JSON without its braces.
func (s stream) say(event, fields string) {
	if fields != "" {
		fields = "," + fields
	}
	s.raw(fmt.Sprintf("event: %[1]s\ndata: {\"type\":%[1]q,\"sequence_number\":1%[2]s}\n\n", event, fields))
}

// serveResponses is an endpoint that only has the Responses API.
func serveResponses(t *testing.T, reply func(s stream)) *openai.Client {
	t.Helper()
	return serveConfig(t, openai.Config{Key: key, Model: "big", API: openai.APIResponses, MaxRetries: -1}, func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		if !strings.HasSuffix(r.URL.Path, "/v1/responses") {
			http.NotFound(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		reply(stream{w, r})
	})
}

func TestGenerate_sendsTheConversationToTheResponsesAPI(t *testing.T) {
	req := turn(1)
	req.Messages[4].Failed = true
	got := fields(t, bodies(t, openai.Config{Model: "big", API: openai.APIResponses}, req)[0])
	var want map[string]any
	if err := json.Unmarshal([]byte(`{"model":"big","store":false,"include":["reasoning.encrypted_content"],
		"instructions":"You are ann's agent.\nToday is Monday. She is in Oslo.\n\nOpen tasks: none.",
		"input":[{"role":"user","content":"hello"},{"role":"assistant","content":"Hello, Ann."},
		{"role":"user","content":[{"type":"input_text","text":"What is due?"},{"type":"input_text","text":"It is 10:01."}]},
		{"type":"function_call","call_id":"c0","name":"a","arguments":"{}"},
		{"type":"function_call_output","call_id":"c0","output":"Error: one <task>"}],
		"tools":[{"type":"function","name":"a","strict":false,"parameters":{"type":"object","properties":{"z":{},"y":{}}}},
		{"type":"function","name":"b","description":"B","strict":false,"parameters":{"type":"object","properties":{}}}]}`), &want); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// The Responses API is streamed like the other: text as it arrives, complete
// calls, and the end with what it used.
func TestGenerate_streamsTheResponsesAPI(t *testing.T) {
	seen := make(chan struct{})
	c := serveResponses(t, func(s stream) {
		s.say("response.created", `"response":{"id":"r","model":"big-2","status":"in_progress","output":[],"created_at":1.5}`)
		s.raw(": keep-alive\n\n")
		s.say("response.in_progress", `"response":{"model":"big-2"}`)
		s.say("response.reasoning_summary_text.delta", `"delta":"hm"`)
		s.say("response.output_item.added", `"output_index":0,"item":{"type":"message","content":[]}`)
		s.say("response.output_text.delta", `"delta":"one "`)
		<-seen
		s.say("response.output_text.delta", `"delta":"two"`)
		s.say("response.output_text.done", `"text":"one two"`)
		s.say("response.output_item.done", `"item":{"type":"message","content":[{"type":"output_text","text":"one two"}]}`)
		s.say("response.function_call_arguments.delta", `"delta":"{\"a"`)
		s.say("response.output_item.done", `"item":{"type":"function_call","id":"fc","call_id":"c1","name":"look","arguments":"{\"a\":1}"}`)
		s.say("response.output_item.done", `"item":{"type":"function_call","call_id":"c2","name":"find","arguments":""}`)
		s.say("response.something_new", `"delta":{"x":1}`)
		s.say("response.completed", `"response":{"model":"big-2","status":"completed","error":null,"incomplete_details":null,
data: "output":[{"type":"message","content":[{"type":"output_text","text":"one two"}]},{"type":"function_call","call_id":"c1"}],
data: "usage":{"input_tokens":7,"output_tokens":2,"input_tokens_details":{"cached_tokens":5}}}`)
	})
	var texts []string
	var calls []mesh.ToolUse
	var done *llm.Done
	for chunk, err := range c.Generate(t.Context(), hello()) {
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case chunk.Done != nil:
			done = chunk.Done
		case chunk.Tool != nil:
			calls = append(calls, *chunk.Tool)
		default:
			if texts = append(texts, chunk.Text); chunk.Text == "one " {
				close(seen)
			}
		}
	}
	want := &llm.Done{Finish: "tool_calls", Model: "big-2", Usage: mesh.Usage{Prompt: 7, Completion: 2, Cached: 5}}
	if diff := cmp.Diff(want, done); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]string{"one ", "two"}, texts); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]mesh.ToolUse{{ID: "c1", Name: "look", Arguments: `{"a":1}`}, {ID: "c2", Name: "find"}}, calls); diff != "" {
		t.Error(diff)
	}
}

// A reply that is incomplete, or comes all at once, ends as one of the other
// protocol would.
func TestGenerate_endsOfTheResponsesAPI(t *testing.T) {
	tests := map[string]struct {
		reply  func(s stream)
		finish string
		text   string
		calls  int
	}{
		"complete": {func(s stream) {
			s.say("response.output_text.delta", `"delta":"x"`)
			s.say("response.completed", `"response":{}`)
		}, "stop", "x", 0},
		"refused": {func(s stream) {
			s.say("response.refusal.delta", `"delta":"I won't"`)
			s.say("response.completed", `"response":{}`)
		}, "stop", "I won't", 0},
		"too long": {func(s stream) {
			s.say("response.incomplete", `"response":{"incomplete_details":{"reason":"max_output_tokens"}}`)
		}, "length", "", 0},
		"filtered": {func(s stream) {
			s.say("response.incomplete", `"response":{"incomplete_details":{"reason":"content_filter"}}`)
		}, "content_filter", "", 0},
		"for no reason": {func(s stream) { s.say("response.incomplete", `"response":{"incomplete_details":null}`) }, "incomplete", "", 0},
		"all at once": {func(s stream) {
			s.say("response.completed", `"response":{"output":[{"type":"reasoning","content":[{"text":"hm"}]},{"type":"message","content":[{"type":"output_text","text":"all"}]},{"type":"function_call","call_id":"1","name":"a"}]}`)
		}, "tool_calls", "all", 1},
		"open afterward": {func(s stream) { s.say("response.completed", `"response":{}`); <-s.r.Context().Done() }, "stop", "", 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			texts, calls, done, err := generate(t.Context(), serveResponses(t, tt.reply), hello())
			if err != nil {
				t.Fatal(err)
			}
			if done.Finish != tt.finish || strings.Join(texts, "") != tt.text || len(calls) != tt.calls {
				t.Errorf("ended with %q after %q and %v", done.Finish, texts, calls)
			}
		})
	}
}

func TestGenerate_failuresOfTheResponsesAPI(t *testing.T) {
	tests := map[string]struct {
		reply  func(s stream)
		code   mesh.Code
		detail string
	}{
		"failed": {func(s stream) {
			s.say("response.failed", `"response":{"error":{"code":"server_error","message":"GPU lost"}}`)
		}, mesh.Unavailable, "GPU lost"},
		"failed silently": {func(s stream) { s.say("response.failed", `"response":{}`) }, mesh.Unavailable, "the response is failed"},
		"out of rate": {func(s stream) {
			s.say("response.failed", `"response":{"error":{"code":"rate_limit_exceeded","message":"slow down"}}`)
		}, mesh.Exhausted, "slow down"},
		"an error":          {func(s stream) { s.say("error", `"code":"invalid_prompt","message":"bad words","param":null`) }, mesh.Invalid, "bad words"},
		"an error within":   {func(s stream) { s.say("error", `"error":{"type":"server_error","code":503,"message":"busy"}`) }, mesh.Unavailable, "HTTP 503); try again: busy"},
		"as the other one":  {func(s stream) { s.raw(`data: {"error":{"message":"no"}}` + "\n\n") }, mesh.Unavailable, "no"},
		"cut":               {func(s stream) { s.say("response.output_text.delta", `"delta":"x"`); s.cut() }, mesh.Unavailable, "cut off"},
		"ended":             {func(s stream) { s.say("response.output_text.delta", `"delta":"x"`) }, mesh.Unavailable, "cut off"},
		"text of no text":   {func(s stream) { s.say("response.output_text.delta", `"delta":7`) }, mesh.Unavailable, "not the OpenAI protocol"},
		"an item of a kind": {func(s stream) { s.say("response.output_item.done", `"item":7`) }, mesh.Unavailable, "not the OpenAI protocol"},
		"a status":          {func(s stream) { fail(s, 404, `{"error":{"message":"no such model"}}`) }, mesh.NotFound, "no such model"},
		"calls for ever": {func(s stream) {
			for s.r.Context().Err() == nil {
				s.say("response.output_item.done", `"item":{"type":"function_call","call_id":"1","name":"a"}`)
			}
		}, mesh.Exhausted, "tool calls are longer"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			_, _, done, err := generate(t.Context(), serveResponses(t, tt.reply), hello())
			if mesh.CodeOf(err) != tt.code || !strings.Contains(mesh.DetailOf(err), tt.detail) || done != nil {
				t.Errorf("error %v, want %v with %q", err, tt.code, tt.detail)
			}
		})
	}
}

// The client turns to the Responses API when the library or the endpoint says
// that the model needs it, remembers it, and does so only when it may.
func TestGenerate_turnsToTheResponsesAPI(t *testing.T) {
	tests := map[string]struct {
		config openai.Config
		said   string // by chat completions
		paths  string // of two calls, with commas
		code   mesh.Code
	}{
		"of itself":      {openai.Config{Model: "gpt-6-sol"}, "", "responses,responses", mesh.Unknown},
		"as told":        {openai.Config{Model: "big"}, "Function tools with reasoning_effort are not supported in /v1/chat/completions. Please use /v1/responses instead.", "chat,responses,responses", mesh.Unknown},
		"as told, pro":   {openai.Config{Model: "big"}, "This model is only supported in v1/responses and not in v1/chat/completions.", "chat,responses,responses", mesh.Unknown},
		"as hinted":      {openai.Config{Model: "big"}, "This is not a chat model and thus not supported in the v1/chat/completions endpoint.", "chat,responses,responses", mesh.Unknown},
		"not for others": {openai.Config{Model: "big"}, "This model does not exist", "chat,chat", mesh.NotFound},
		"not allowed to": {openai.Config{Model: "gpt-6-sol", API: openai.APIChat}, "", "", mesh.Unsupported},
		"not, when told": {openai.Config{Model: "big", API: openai.APIChat}, "Please use /v1/responses", "chat,chat", mesh.NotFound},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			var paths []string
			c := serveConfig(t, tt.config, func(w http.ResponseWriter, r *http.Request) {
				_, _ = io.Copy(io.Discard, r.Body)
				s := stream{w, r}
				if strings.HasSuffix(r.URL.Path, "/responses") {
					paths = append(paths, "responses")
					s.say("response.completed", `"response":{}`)
					return
				}
				paths = append(paths, "chat")
				fail(s, 404, fmt.Sprintf(`{"error":{"message":%q,"type":"invalid_request_error","code":null}}`, tt.said))
			})
			for range 2 {
				req := hello()
				req.Tools = []llm.Tool{{Name: "look"}}
				if _, _, _, err := generate(t.Context(), c, req); mesh.CodeOf(err) != tt.code {
					t.Errorf("error %v", err)
				}
			}
			if got := strings.Join(paths, ","); got != tt.paths {
				t.Errorf("asked %q, want %q", got, tt.paths)
			}
		})
	}
}
