package openai_test

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/openai"
)

// adder is a tool that two calls of one reply use.
type adder struct{}

func (adder) List(context.Context) []llm.Tool { return []llm.Tool{{Name: "add"}} }

func (adder) Call(_ context.Context, u mesh.ToolUse) llm.ToolResult {
	return llm.ToolResult{Text: "sum of " + u.ID}
}

// thinking is an endpoint of the Responses API whose model thinks before each of
// its calls, and says whether it was asked for its thoughts and what it was sent.
type thinking struct {
	mu     sync.Mutex
	asked  []bool
	inputs [][]string // of each request: the items' types, ids and secrets
	refuse func(asked bool, sent string) string
}

func (th *thinking) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var req struct {
		Include []string
		Input   []struct {
			Type, Role, ID string
			CallID         string `json:"call_id"`
			Secret         string `json:"encrypted_content"`
			Status         string
		}
	}
	_ = json.Unmarshal(body, &req)
	asked := len(req.Include) == 1 && req.Include[0] == "reasoning.encrypted_content"
	var items []string
	for _, it := range req.Input {
		items = append(items, strings.Join(strings.Fields(it.Type+" "+it.Role+" "+it.ID+" "+it.CallID+" "+it.Secret+" "+it.Status), " "))
	}
	th.mu.Lock()
	th.asked, th.inputs = append(th.asked, asked), append(th.inputs, items)
	n := len(th.inputs)
	th.mu.Unlock()
	if th.refuse != nil {
		if why := th.refuse(asked, strings.Join(items, "\n")); why != "" {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = fmt.Fprintf(w, `{"error":{"message":%q}}`, why)
			return
		}
	}
	w.Header().Set("Content-Type", "text/event-stream")
	s := stream{w, r}
	item := func(fields string) { s.say("response.output_item.done", `"item":{`+fields+`}`) }
	if strings.Contains(strings.Join(items, "\n"), "function_call_output") {
		s.say("response.output_text.delta", `"delta":"done"`)
		s.say("response.completed", `"response":{}`)
		return
	}
	for i := 1; i <= 2; i++ {
		item(fmt.Sprintf(`"type":"reasoning","id":"rs%d-%d","summary":[],"status":"completed","encrypted_content":"secret%d"`, n, i, i))
		item(fmt.Sprintf(`"type":"function_call","call_id":"c%d-%d","name":"add","arguments":"{}"`, n, i))
	}
	item(`"type":"reasoning","id":"open","summary":[],"encrypted_content":null`)
	s.say("response.completed", `"response":{}`)
}

// runTurn lets the loop answer one message.
func runTurn(t *testing.T, m llm.Model) (text string, err error) {
	t.Helper()
	l := llm.Loop{Model: m, Tools: adder{}}
	for e, err := range l.Run(t.Context(), []llm.Message{{Role: llm.RoleUser, Text: "add"}}) {
		if err != nil {
			return text, err
		}
		text += e.Text
	}
	return text, nil
}

// What a model thought comes back to it within the turn, encrypted, each thought
// before the call that it led to; what is not encrypted does not, because the
// provider keeps nothing that an id could name.
func TestResponses_thoughtsComeBackWithinTheTurn(t *testing.T) {
	th := &thinking{}
	c := serveConfig(t, openai.Config{Key: key, Model: "big", API: openai.APIResponses, MaxRetries: -1}, th.ServeHTTP)
	for turn := range 2 {
		if text, err := runTurn(t, c); err != nil || text != "done" {
			t.Fatalf("turn %d: %q, %v", turn, text, err)
		}
	}
	n := func(n int) []string {
		return []string{
			"user",
			fmt.Sprintf("reasoning rs%d-1 secret1", n), fmt.Sprintf("function_call c%d-1", n),
			fmt.Sprintf("reasoning rs%d-2 secret2", n), fmt.Sprintf("function_call c%d-2", n),
			fmt.Sprintf("function_call_output c%d-1", n), fmt.Sprintf("function_call_output c%d-2", n),
		}
	}
	if diff := cmp.Diff([][]string{{"user"}, n(1), {"user"}, n(3)}, th.inputs); diff != "" {
		t.Errorf("input items (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]bool{true, true, true, true}, th.asked); diff != "" {
		t.Error(diff)
	}
}

// A model that has no thoughts to hand out, or cannot read them any more, is
// asked without, at once and from then on.
func TestResponses_goesOnWithoutThoughts(t *testing.T) {
	tests := map[string]struct {
		refuse func(asked bool, sent string) string
		asked  []bool
	}{
		"that the model does not hand out": {func(asked bool, _ string) string {
			if asked {
				return "Encrypted content is not supported with this model."
			}
			return ""
		}, []bool{true, false, false, false, false}},
		"that cannot be read": {func(_ bool, sent string) string {
			if strings.Contains(sent, "secret") {
				return "The encrypted content for item rs could not be verified."
			}
			return ""
		}, []bool{true, true, false, false, false}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			th := &thinking{refuse: tt.refuse}
			c := serveConfig(t, openai.Config{Key: key, Model: "big", API: openai.APIResponses, MaxRetries: -1}, th.ServeHTTP)
			for turn := range 2 {
				if text, err := runTurn(t, c); err != nil || text != "done" {
					t.Fatalf("turn %d: %q, %v", turn, text, err)
				}
			}
			if diff := cmp.Diff(tt.asked, th.asked); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// The thoughts of another model or endpoint are not sent: it could not read them.
func TestResponses_thoughtsStayWithTheirModel(t *testing.T) {
	th := &thinking{}
	c := serveConfig(t, openai.Config{Key: key, Model: "big", API: openai.APIResponses, MaxRetries: -1}, th.ServeHTTP)
	_, _, done, err := generate(t.Context(), c, hello())
	if err != nil || len(done.Thoughts) != 2 {
		t.Fatalf("%v, %+v", err, done)
	}
	req := hello()
	req.Model = "other"
	req.Messages = append(req.Messages, llm.Message{Role: llm.RoleAssistant, Tools: []mesh.ToolUse{{ID: "c1", Name: "add"}}, Thoughts: done.Thoughts},
		llm.Message{Role: llm.RoleTool, ToolID: "c1", Text: "1"})
	if _, _, _, err := generate(t.Context(), c, req); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"user", "function_call c1", "function_call_output c1"}, th.inputs[1]); diff != "" {
		t.Error(diff)
	}
}

// Calls are told apart however a provider numbers them.
func TestGenerate_callsWhateverTheirNumbers(t *testing.T) {
	piece := func(fields string) string { return `{"tool_calls":[{` + fields + `}]}` }
	tests := map[string]struct {
		pieces []string
		want   []mesh.ToolUse
	}{
		"interleaved by id": {[]string{
			piece(`"id":"a","function":{"name":"x","arguments":"{\"n\":"}`), piece(`"id":"b","function":{"name":"y","arguments":"{\"m\":"}`),
			piece(`"id":"a","function":{"arguments":"1}"}`), piece(`"id":"b","function":{"arguments":"2}"}`),
		}, []mesh.ToolUse{{ID: "a", Name: "x", Arguments: `{"n":1}`}, {ID: "b", Name: "y", Arguments: `{"m":2}`}}},
		"interleaved by index": {[]string{
			piece(`"index":0,"id":"a","function":{"name":"x","arguments":"{"}`), piece(`"index":1,"id":"b","function":{"name":"y","arguments":"{"}`),
			piece(`"index":0,"function":{"arguments":"}"}`), piece(`"index":1,"function":{"arguments":"}"}`),
		}, []mesh.ToolUse{{ID: "a", Name: "x", Arguments: `{}`}, {ID: "b", Name: "y", Arguments: `{}`}}},
		"all numbered alike": {[]string{
			piece(`"index":0,"id":"a","function":{"name":"x","arguments":"{}"}`), piece(`"index":0,"id":"b","function":{"name":"x","arguments":"{\"n\""}`), piece(`"index":0,"function":{"arguments":":2}"}`),
		}, []mesh.ToolUse{{ID: "a", Name: "x", Arguments: `{}`}, {ID: "b", Name: "x", Arguments: `{"n":2}`}}},
		"whole, without index and id": {[]string{
			piece(`"function":{"name":"x","arguments":"{\"n\":1}"}`), piece(`"function":{"name":"x","arguments":"{\"n\":2}"}`),
		}, []mesh.ToolUse{{Name: "x", Arguments: `{"n":1}`}, {Name: "x", Arguments: `{"n":2}`}}},
		"in pieces, without index and id": {[]string{
			piece(`"function":{"name":"x","arguments":"{\"n\""}`), piece(`"function":{"arguments":":1}"}`), piece(`"function":{"name":"y","arguments":"{}"}`),
		}, []mesh.ToolUse{{Name: "x", Arguments: `{"n":1}`}, {Name: "y", Arguments: `{}`}}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := serve(t, func(s stream) {
				for _, p := range tt.pieces {
					s.event(p, "")
				}
				s.event(`{}`, "tool_calls")
				s.raw("data: [DONE]\n\n")
			})
			_, calls, _, err := generate(t.Context(), c, hello())
			if diff := cmp.Diff(tt.want, calls); diff != "" || err != nil {
				t.Errorf("error %v, calls (-want +got):\n%s", err, diff)
			}
		})
	}
}

// Lines may end as the standard allows, and text arrives with the end of its
// line, not with the next one.
func TestGenerate_anyEndOfLines(t *testing.T) {
	for name, end := range map[string]string{"LF": "\n", "CR": "\r", "CRLF": "\r\n"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			seen := make(chan struct{})
			c := serve(t, func(s stream) {
				for i, text := range []string{"ü", "ö"} {
					s.raw(": keep-alive" + end + "data: {\"choices\":[{\"delta\":{\"content\":\"" + text[:1])
					s.raw(text[1:] + "\"}}]}" + end)
					if i == 0 {
						select {
						case <-seen:
						case <-s.r.Context().Done():
							return
						}
					}
					s.raw(end)
				}
				s.raw("data: {\"choices\":[{\"delta\":{},\"finish_reason\":\"stop\"}]}" + end + end + "data: [DONE]" + end + end)
			})
			text := ""
			for chunk, err := range c.Generate(t.Context(), hello()) {
				if err != nil {
					t.Fatal(err)
				}
				if text == "" && chunk.Text != "" {
					close(seen)
				}
				text += chunk.Text
			}
			if text != "üö" {
				t.Errorf("read %q", text)
			}
		})
	}
}
