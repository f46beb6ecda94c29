package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
)

// What users say, and a talkModel and a helper do.
const (
	saysSlowly = "tell it slowly" // "first ", and once it is let go on "second"
	saysAsk    = "ask me"         // asks a question
	saysChart  = "draw a chart"   // answers with more than text
	saysFail   = "fail at it"     // fails

	theQuestion = "How loud?"
)

// A talkModel speaks the chat completions protocol, streaming or not. It says all that
// users said so far, or does what the last of them says.
type talkModel struct {
	*httptest.Server

	mu   sync.Mutex
	held *hold
}

// A hold is an answer that stops after its first word.
type hold struct {
	reached, goOn, dropped chan struct{} // the first word is out; the rest may come; nobody waits for it any more
	whole                  bool          // the framework does not read answers as streams
	once                   sync.Once
}

func newHold() *hold {
	return &hold{reached: make(chan struct{}), goOn: make(chan struct{}), dropped: make(chan struct{})}
}

// release lets the rest come.
func (h *hold) release() { h.once.Do(func() { close(h.goOn) }) }

// hold makes the next answer that is told slowly stop.
func (m *talkModel) hold() *hold {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.held = newHold()
	return m.held
}

func (m *talkModel) take() *hold {
	m.mu.Lock()
	defer m.mu.Unlock()
	h := m.held
	m.held = nil
	return h
}

func startTalkModel(t *testing.T) *talkModel {
	t.Helper()
	m := &talkModel{}
	m.Server = httptest.NewServer(m)
	t.Cleanup(func() {
		m.CloseClientConnections()
		m.Close()
	})
	return m
}

// A talkRequest is a request of the chat completions protocol.
type talkRequest struct {
	Stream   bool
	Messages []struct {
		Role    string
		Content json.RawMessage
	}
	Tools []struct{ Function struct{ Name string } }
}

// content is a message's text, with other parts by their type.
func content(raw json.RawMessage) string {
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return text
	}
	var parts []struct{ Type, Text string }
	_ = json.Unmarshal(raw, &parts) // of another form: nothing was said
	var all []string
	for _, p := range parts {
		if p.Type != "text" {
			p.Text = "[" + p.Type + "]"
		}
		all = append(all, p.Text)
	}
	return strings.Join(all, " ")
}

func (r *talkRequest) tool(name string) string {
	for _, t := range r.Tools {
		if strings.Contains(strings.ToLower(t.Function.Name), name) {
			return t.Function.Name
		}
	}
	return ""
}

func (m *talkModel) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var req talkRequest
	data, err := io.ReadAll(r.Body)
	if err == nil {
		err = json.Unmarshal(data, &req)
	}
	if err != nil || len(req.Messages) == 0 {
		http.Error(w, "no chat", http.StatusBadRequest)
		return
	}
	var said []string
	for _, msg := range req.Messages {
		if msg.Role == "user" {
			said = append(said, content(msg.Content))
		}
	}
	last, out := req.Messages[len(req.Messages)-1], &talkWriter{w: w, stream: req.Stream}
	text := content(last.Content)
	chart := cmp.Or(req.tool("chart"), req.tool("final_result")) // as pydantic-ai calls what an agent returns
	switch {
	case last.Role == "tool":
		out.say("answered: " + text)
	case strings.Contains(text, saysFail):
		http.Error(w, `{"error": {"message": "the model is not well", "type": "invalid_request_error"}}`, http.StatusBadRequest)
		return
	case strings.Contains(text, saysAsk) && req.tool("ask") != "":
		out.call(req.tool("ask"), map[string]any{"question": theQuestion})
	case strings.Contains(text, saysChart) && chart != "":
		out.call(chart, map[string]any{"bars": 3})
	case strings.Contains(text, saysSlowly):
		if !m.slowly(r, out) {
			return
		}
	default:
		out.say("heard: ")
		out.say(strings.Join(said, " | "))
	}
	out.end()
}

// slowly says two words, and reports whether anybody waited for the second.
func (m *talkModel) slowly(r *http.Request, out *talkWriter) bool {
	out.say("first ")
	if h := m.take(); h != nil {
		h.whole = !out.stream
		close(h.reached)
		select {
		case <-h.goOn:
		case <-r.Context().Done():
			close(h.dropped)
			return false
		}
	}
	out.say("second")
	return true
}

// A talkWriter writes an answer as it comes, or whole.
type talkWriter struct {
	w      http.ResponseWriter
	stream bool
	text   strings.Builder
	calls  []any
}

func (o *talkWriter) say(text string) {
	if o.text.WriteString(text); o.stream {
		o.event(map[string]any{"role": "assistant", "content": text}, nil)
	}
}

func (o *talkWriter) call(name string, args any) {
	data, err := json.Marshal(args)
	if err != nil {
		panic(err) // nothing of it has no JSON form
	}
	o.calls = []any{map[string]any{"index": 0, "id": "call_1", "type": "function",
		"function": map[string]any{"name": name, "arguments": string(data)}}}
	if o.stream {
		o.event(map[string]any{"role": "assistant", "tool_calls": o.calls}, nil)
	}
}

func (o *talkWriter) end() {
	finish := "stop"
	if o.calls != nil {
		finish = "tool_calls"
	}
	if o.stream {
		o.event(map[string]any{}, finish)
		_, _ = fmt.Fprint(o.w, "data: [DONE]\n\n")
		return
	}
	msg := map[string]any{"role": "assistant", "content": o.text.String()}
	if o.calls != nil {
		msg["tool_calls"] = o.calls
	}
	data, err := json.Marshal(map[string]any{"id": "1", "object": "chat.completion", "created": 1, "model": "scripted",
		"choices": []any{map[string]any{"index": 0, "message": msg, "finish_reason": finish}},
		"usage":   map[string]any{"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}})
	if err != nil {
		panic(err) // nothing of it has no JSON form
	}
	o.w.Header().Set("Content-Type", "application/json")
	_, _ = o.w.Write(data)
}

func (o *talkWriter) event(delta map[string]any, finish any) {
	o.w.Header().Set("Content-Type", "text/event-stream")
	data, err := json.Marshal(map[string]any{"id": "1", "object": "chat.completion.chunk", "created": 1, "model": "scripted",
		"choices": []any{map[string]any{"index": 0, "delta": delta, "finish_reason": finish}}})
	if err != nil {
		panic(err) // nothing of it has no JSON form
	}
	_, _ = fmt.Fprintf(o.w, "data: %s\n\n", data)
	o.w.(http.Flusher).Flush()
}
