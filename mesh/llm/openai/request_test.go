package openai_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/openai"
)

// fields returns a request body without its messages.
func fields(t *testing.T, body string) map[string]any {
	t.Helper()
	out := map[string]any{}
	if err := json.Unmarshal([]byte(body), &out); err != nil {
		t.Fatal(err)
	}
	delete(out, "messages")
	delete(out, "stream")
	delete(out, "stream_options")
	return out
}

// What the library's types cannot carry reaches the endpoint, in both
// protocols: a temperature of 0, and what a provider has of its own.
func TestGenerate_sendsExtraFields(t *testing.T) {
	zero := 0.0
	extra := map[string]any{"provider": map[string]any{"order": []string{"anthropic"}, "allow_fallbacks": false}, "seed": 7}
	provider := map[string]any{"order": []any{"anthropic"}, "allow_fallbacks": false}
	limited := hello()
	limited.MaxTokens = 50
	tests := map[string]struct {
		config openai.Config
		req    *llm.Request
		want   map[string]any
	}{
		"none":          {openai.Config{Model: "m"}, hello(), map[string]any{"model": "m"}},
		"all":           {openai.Config{Model: "m", Temperature: &zero, Extra: extra}, hello(), map[string]any{"model": "m", "temperature": 0.0, "provider": provider, "seed": 7.0}},
		"extra wins":    {openai.Config{Model: "m", Temperature: &zero, Extra: map[string]any{"temperature": 1, "max_tokens": 9}}, limited, map[string]any{"model": "m", "temperature": 1.0, "max_tokens": 9.0}},
		"most tokens":   {openai.Config{Model: "m"}, limited, map[string]any{"model": "m", "max_tokens": 50.0}},
		"most thoughts": {openai.Config{Model: "o3-mini"}, limited, map[string]any{"model": "o3-mini", "max_completion_tokens": 50.0}},
		"usage, wanted": {openai.Config{Model: "m", Extra: map[string]any{"usage": map[string]any{"include": true}}}, hello(), map[string]any{"model": "m", "usage": map[string]any{"include": true}}},
		"responses": {openai.Config{Model: "m", API: openai.APIResponses, Temperature: &zero, Extra: map[string]any{"reasoning": map[string]any{"effort": "low"}}}, limited, map[string]any{
			"model": "m", "temperature": 0.0, "reasoning": map[string]any{"effort": "low"}, "max_output_tokens": 50.0, "store": false, "include": []any{"reasoning.encrypted_content"},
			"input": []any{map[string]any{"role": "user", "content": "hello"}},
		}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := fields(t, bodies(t, tt.config, tt.req)[0])
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// elsewhere is a transport that sends requests for other hosts to one server.
type elsewhere struct {
	http.RoundTripper
	host string
}

func (e elsewhere) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme, r.URL.Host = "http", e.host
	return e.RoundTripper.RoundTrip(r)
}

// OpenRouter is asked for what a reply cost, and others are not; settings are
// copied when the client is made.
func TestGenerate_asksOpenRouterForCosts(t *testing.T) {
	var body string
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		raw, _ := io.ReadAll(r.Body)
		body = string(raw)
		answer(stream{w, r})
	}))
	t.Cleanup(srv.Close)
	at, err := url.Parse(srv.URL)
	if err != nil {
		t.Fatal(err)
	}
	for base, want := range map[string]bool{
		"https://openrouter.ai/api/v1":      true,
		"https://eu.openrouter.ai/api/v1":   true,
		"https://notopenrouter.ai/api/v1":   false,
		"https://openrouter.ai.evil.com/v1": false,
	} {
		transport := &http.Transport{}
		extra := map[string]any{"user": "ann"}
		c, err := openai.New(openai.Config{BaseURL: base, Model: "m", Extra: extra, Transport: elsewhere{transport, at.Host}})
		if err != nil {
			t.Fatal(err)
		}
		extra["user"] = "bob"
		if _, _, _, err := generate(t.Context(), c, hello()); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(body, `"usage":{"include":true}`) != want || !strings.Contains(body, `"user":"ann"`) {
			t.Errorf("%s: %s", base, body)
		}
		transport.CloseIdleConnections()
	}
}

// Calls by command are text, in both directions, and what would be refused is
// not sent: messages without text or call, and results without text.
func TestGenerate_neverSendsCommandsAsCalls(t *testing.T) {
	line := "Looking.\n```cmd\ntasks.get\n```"
	req := &llm.Request{Messages: []llm.Message{
		{Role: llm.RoleUser, Text: "due?"},
		{Role: llm.RoleAssistant, Text: line, Tools: []mesh.ToolUse{{ID: "1", Name: llm.CommandTool, Arguments: `{"line":"tasks.get"}`}, {ID: "2", Name: "look"}}},
		{Role: llm.RoleTool, ToolID: "1", Text: "none"},
		{Role: llm.RoleTool, ToolID: "2", Name: "look"},
		{Role: llm.RoleAssistant, Tools: []mesh.ToolUse{{ID: "3", Name: llm.CommandTool}}},
		{Role: llm.RoleTool, ToolID: "3", Name: llm.CommandTool, Text: "no", Failed: true},
		{Role: llm.RoleUser},
	}}
	want := fmt.Sprintf(`[{"role":"user","content":"due?"},
		{"role":"assistant","content":%s,"tool_calls":[{"id":"2","type":"function","function":{"name":"look","arguments":"{}"}}]},
		{"role":"user","content":"[Command Result]\nnone"},
		{"role":"tool","tool_call_id":"2","content":"(no output)"},
		{"role":"user","content":"[Command Result]\nError: no"}]`, jsonText(line))
	wantItems := fmt.Sprintf(`[{"role":"user","content":"due?"},
		{"role":"assistant","content":%s},{"type":"function_call","call_id":"2","name":"look","arguments":"{}"},
		{"role":"user","content":"[Command Result]\nnone"},
		{"type":"function_call_output","call_id":"2","output":"(no output)"},
		{"role":"user","content":"[Command Result]\nError: no"}]`, jsonText(line))
	for _, tt := range []struct {
		api         openai.API
		field, want string
	}{{openai.APIChat, "messages", want}, {openai.APIResponses, "input", wantItems}} {
		var body, wanted map[string]any
		if err := json.Unmarshal([]byte(bodies(t, openai.Config{Model: "m", API: tt.api}, req)[0]), &body); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(`{"x":`+tt.want+`}`), &wanted); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(wanted["x"], body[tt.field]); diff != "" {
			t.Errorf("%s: %s", tt.api, diff)
		}
	}
	if len(req.Messages[1].Tools) != 2 || req.Messages[1].Tools[0].ID != "1" {
		t.Errorf("the request was changed: %v", req.Messages[1].Tools)
	}
}

// S3-067: what a reply used, as the many providers put it.
func TestGenerate_readsUsage(t *testing.T) {
	tests := map[string]struct {
		usage string
		want  mesh.Usage
	}{
		"OpenAI":            {`{"prompt_tokens":100,"completion_tokens":5,"total_tokens":105,"prompt_tokens_details":{"cached_tokens":64}}`, mesh.Usage{Prompt: 100, Completion: 5, Cached: 64}},
		"OpenRouter":        {`{"prompt_tokens":100,"completion_tokens":5,"prompt_tokens_details":{"cached_tokens":60,"cache_write_tokens":30,"audio_tokens":0},"cost":0.00125,"is_byok":false}`, mesh.Usage{Prompt: 100, Completion: 5, Cached: 60, CacheWrite: 30, Cost: 0.00125}},
		"a gateway":         {`{"prompt_tokens":100,"completion_tokens":5,"cache_read_input_tokens":60,"cache_creation_input_tokens":30}`, mesh.Usage{Prompt: 100, Completion: 5, Cached: 60, CacheWrite: 30}},
		"another gateway":   {`{"prompt_tokens":10,"completion_tokens":5,"cache_read_input_tokens":60,"cache_creation_input_tokens":30}`, mesh.Usage{Prompt: 100, Completion: 5, Cached: 60, CacheWrite: 30}},
		"Anthropic":         {`{"input_tokens":100,"output_tokens":5,"cache_read_input_tokens":60,"cache_creation_input_tokens":30}`, mesh.Usage{Prompt: 190, Completion: 5, Cached: 60, CacheWrite: 30}},
		"the Responses API": {`{"input_tokens":100,"output_tokens":5,"input_tokens_details":{"cached_tokens":64,"cache_write_tokens":8},"total_tokens":105}`, mesh.Usage{Prompt: 100, Completion: 5, Cached: 64, CacheWrite: 8}},
		"nulls":             {`{"prompt_tokens":100,"completion_tokens":5,"prompt_tokens_details":null,"cost":null}`, mesh.Usage{Prompt: 100, Completion: 5}},
		"fractions":         {`{"prompt_tokens":100.0,"completion_tokens":5.0}`, mesh.Usage{Prompt: 100, Completion: 5}},
		"negative":          {`{"prompt_tokens":-1,"completion_tokens":5,"cost":-2}`, mesh.Usage{Completion: 5}},
		"beyond belief":     {`{"prompt_tokens":1e200}`, mesh.Usage{Prompt: 1e12}},
		"texts":             {`{"prompt_tokens":"many"}`, mesh.Usage{}},
	}
	for name, tt := range tests {
		for _, api := range []openai.API{openai.APIChat, openai.APIResponses} {
			t.Run(fmt.Sprint(name, " ", api), func(t *testing.T) {
				c := serveConfig(t, openai.Config{Model: "big", API: api}, func(w http.ResponseWriter, r *http.Request) {
					s := stream{w, r}
					if api == openai.APIResponses {
						s.raw(`data: {"type":"response.completed","response":{"usage":` + tt.usage + "}}\n\n")
						return
					}
					s.event(`{"content":"hi"}`, "stop")
					s.raw(`data: {"choices":[],"usage":` + tt.usage + "}\n\ndata: [DONE]\n\n")
				})
				_, _, done, err := generate(t.Context(), c, hello())
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tt.want, done.Usage); diff != "" {
					t.Error(diff)
				}
			})
		}
	}
}

// A request that cannot be written is the caller's mistake, and is not sent.
func TestGenerate_refusesWhatItCannotWrite(t *testing.T) {
	for _, api := range []openai.API{openai.APIChat, openai.APIResponses} {
		c := serveConfig(t, openai.Config{Model: "m", API: api}, func(http.ResponseWriter, *http.Request) { t.Error("it was sent") })
		req := hello()
		req.Tools = []llm.Tool{{Name: "look", Parameters: json.RawMessage(`{`)}}
		if _, _, _, err := generate(t.Context(), c, req); !mesh.IsCode(err, mesh.Invalid) || !strings.Contains(mesh.DetailOf(err), "cannot be sent") {
			t.Errorf("error %v", err)
		}
	}
}

// An endpoint that has moved is sent the same request.
func TestGenerate_followsARedirectWithAllOfTheRequest(t *testing.T) {
	var sent []string
	c := serveConfig(t, openai.Config{Model: claude, Extra: map[string]any{"seed": 7}}, func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		if sent = append(sent, string(body)); len(sent) == 1 {
			http.Redirect(w, r, r.URL.Path+"?moved", http.StatusTemporaryRedirect)
			return
		}
		answer(stream{w, r})
	})
	if _, _, _, err := generate(t.Context(), c, turn(0)); err != nil {
		t.Fatal(err)
	}
	if len(sent) != 2 || sent[0] != sent[1] || !strings.Contains(sent[1], `"seed":7`) {
		t.Errorf("sent %q", sent)
	}
}
