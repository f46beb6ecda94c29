package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// A scriptedModel is an endpoint that speaks the chat completions protocol and
// answers with what the test's function makes of a request.
type scriptedModel struct {
	*httptest.Server

	mu       sync.Mutex
	requests []*modelRequest
}

// modelRequest is what a model is asked.
type modelRequest struct {
	Model    string
	Messages []modelMessage
	Tools    []struct {
		Function struct {
			Name, Description string
			Parameters        json.RawMessage
		}
	}
}

type modelMessage struct {
	Role      string
	Content   modelText
	ToolCalls []struct {
		Function struct{ Name, Arguments string }
	} `json:"tool_calls"`
}

// modelText is a content as one text or as parts.
type modelText string

func (t *modelText) UnmarshalJSON(data []byte) error {
	var parts []struct{ Text string }
	if err := json.Unmarshal(data, &parts); err == nil {
		for _, p := range parts {
			*t += modelText(p.Text)
		}
		return nil
	}
	return json.Unmarshal(data, (*string)(t))
}

// modelReply is what a model answers.
type modelReply struct {
	text  string
	calls []modelCall
	usage *modelUsage // nil if it does not say
	away  bool        // it does not answer at all
}

// modelUsage is how many tokens a model says that it used.
type modelUsage struct {
	Prompt     int `json:"prompt_tokens"`
	Completion int `json:"completion_tokens"`
}

type modelCall struct {
	name string
	args any // its JSON form
}

// useSkill is a call of a skill through the one tool for all.
func useSkill(name string, args map[string]any) modelCall {
	return modelCall{"use_skill", map[string]any{"skill": name, "arguments": args}}
}

// startScripted serves a model. answer may be called concurrently.
func startScripted(t *testing.T, answer func(req *modelRequest) modelReply) *scriptedModel {
	t.Helper()
	m := &scriptedModel{}
	m.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		req := &modelRequest{}
		if err := json.NewDecoder(r.Body).Decode(req); err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		m.mu.Lock()
		m.requests = append(m.requests, req)
		n := len(m.requests)
		m.mu.Unlock()
		reply := answer(req)
		if reply.away {
			http.Error(w, "overloaded", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		reply.write(w, req.Model, n)
	}))
	t.Cleanup(m.Close)
	return m
}

// write sends the reply of the model of that name as events, with ids of calls
// that are its own.
func (r modelReply) write(w http.ResponseWriter, name string, n int) {
	event := func(delta map[string]any, finish any) {
		chunk := map[string]any{"id": "1", "object": "chat.completion.chunk", "model": name,
			"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}}}
		if finish != nil && r.usage != nil {
			chunk["usage"] = r.usage
		}
		data, err := json.Marshal(chunk)
		if err != nil {
			panic(err) // nothing of it has no JSON form
		}
		_, _ = fmt.Fprintf(w, "data: %s\n\n", data)
	}
	for piece := range strings.SplitAfterSeq(r.text, "\n") {
		event(map[string]any{"content": piece}, nil)
	}
	finish := "stop"
	for i, c := range r.calls {
		args, err := json.Marshal(c.args)
		if err != nil {
			panic(err)
		}
		finish = "tool_calls"
		event(map[string]any{"tool_calls": []any{map[string]any{"index": i, "id": fmt.Sprintf("call_%d_%d", n, i), "type": "function",
			"function": map[string]any{"name": c.name, "arguments": string(args)}}}}, nil)
	}
	event(map[string]any{}, finish)
	_, _ = fmt.Fprint(w, "data: [DONE]\n\n")
}

func (m *scriptedModel) env() []string {
	return []string{"MESH_LLM_URL=" + m.URL + "/v1", "MESH_LLM_KEY=key", "MESH_LLM_MODEL=scripted"}
}

// asked returns all requests so far.
func (m *scriptedModel) asked() []*modelRequest {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.requests[:len(m.requests):len(m.requests)]
}

// since returns what came after the user's last message that is words of the
// user: not the results of commands.
func (r *modelRequest) since() (said string, after []modelMessage) {
	for i := len(r.Messages) - 1; i >= 0; i-- {
		msg := r.Messages[i]
		if msg.Role == "user" && !strings.HasPrefix(string(msg.Content), "[Command Result: ") {
			return string(msg.Content), r.Messages[i+1:]
		}
	}
	return "", nil
}

// offers reports whether the model may call the tool.
func (r *modelRequest) offers(tool string) bool {
	for _, t := range r.Tools {
		if t.Function.Name == tool {
			return true
		}
	}
	return false
}

// text is all that the request says, for searching.
func (r *modelRequest) text() string {
	var b strings.Builder
	for _, m := range r.Messages {
		b.WriteString(m.Role + ": " + string(m.Content) + "\n")
		for _, c := range m.ToolCalls {
			b.WriteString("call " + c.Function.Name + " " + c.Function.Arguments + "\n")
		}
	}
	return b.String()
}
