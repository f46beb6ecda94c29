package scripted

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
)

// A completion is a request of the chat completions protocol, as far as steps can be meant
// for it.
type completion struct {
	Model    string `json:"model"`
	Messages []struct {
		Role    string          `json:"role"`
		Content json.RawMessage `json:"content"`
		ToolID  string          `json:"tool_call_id"`
		Tools   []struct {
			ID       string `json:"id"`
			Function struct {
				Name      string `json:"name"`
				Arguments string `json:"arguments"`
			} `json:"function"`
		} `json:"tool_calls"`
	} `json:"messages"`
	Tools []struct {
		Function struct {
			Name        string          `json:"name"`
			Description string          `json:"description"`
			Parameters  json.RawMessage `json:"parameters"`
		} `json:"function"`
	} `json:"tools"`
}

// Handler serves the model as an endpoint for streamed chat completions, below any path, so
// that a mesh in a process of its own can be told its model's URL. System messages are the
// request's System; a step that fails answers with 400 and what it says.
func Handler(m *Model) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var c completion
		if err := json.NewDecoder(r.Body).Decode(&c); err != nil {
			refuse(w, err)
			return
		}
		s := sender{w: w, model: c.Model}
		for chunk, err := range m.Generate(r.Context(), c.request()) {
			switch {
			case err != nil && !s.begun:
				refuse(w, err)
				return
			case err != nil: // the stream ends without an end
				return
			}
			s.send(chunk)
		}
	})
}

func refuse(w http.ResponseWriter, err error) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusBadRequest) // which nobody tries again
	_, _ = fmt.Fprintf(w, `{"error":{"message":%q,"type":"invalid_request_error"}}`, err.Error())
}

func (c *completion) request() *llm.Request {
	req := &llm.Request{Model: c.Model}
	for _, m := range c.Messages {
		text := words(m.Content)
		if m.Role == "system" || m.Role == "developer" {
			req.System = strings.TrimSpace(req.System + "\n" + text)
			continue
		}
		msg := llm.Message{Role: llm.Role(m.Role), Text: text, ToolID: m.ToolID}
		for _, u := range m.Tools {
			msg.Tools = append(msg.Tools, mesh.ToolUse{ID: u.ID, Name: u.Function.Name, Arguments: u.Function.Arguments})
		}
		req.Messages = append(req.Messages, msg)
	}
	for _, t := range c.Tools {
		req.Tools = append(req.Tools, llm.Tool{Name: t.Function.Name, Description: t.Function.Description, Parameters: t.Function.Parameters})
	}
	return req
}

// words is the text of content, which is a string or a list of parts.
func words(content json.RawMessage) string {
	var text string
	if json.Unmarshal(content, &text) == nil {
		return text
	}
	var parts []struct {
		Text string `json:"text"`
	}
	_ = json.Unmarshal(content, &parts) // of nothing there are no words
	for _, p := range parts {
		text += p.Text
	}
	return text
}

// A sender writes chunks as server-sent events.
type sender struct {
	w     http.ResponseWriter
	model string
	begun bool
	calls int
}

func (s *sender) send(chunk llm.Chunk) {
	switch {
	case chunk.Done != nil:
		u := chunk.Done.Usage
		s.event(map[string]any{}, chunk.Done.Finish, map[string]any{"prompt_tokens": u.Prompt, "completion_tokens": u.Completion, "total_tokens": u.Prompt + u.Completion})
		_, _ = fmt.Fprint(s.w, "data: [DONE]\n\n")
	case chunk.Tool != nil:
		s.event(map[string]any{"tool_calls": []any{map[string]any{"index": s.calls, "id": chunk.Tool.ID, "type": "function",
			"function": map[string]any{"name": chunk.Tool.Name, "arguments": chunk.Tool.Arguments}}}}, "", nil)
		s.calls++
	default:
		s.event(map[string]any{"content": chunk.Text}, "", nil)
	}
}

func (s *sender) event(delta map[string]any, finish string, usage any) {
	if !s.begun {
		s.w.Header().Set("Content-Type", "text/event-stream")
		s.begun = true
	}
	choice := map[string]any{"index": 0, "delta": delta, "finish_reason": nil}
	if finish != "" {
		choice["finish_reason"] = finish
	}
	out := map[string]any{"id": "1", "object": "chat.completion.chunk", "model": s.model, "choices": []any{choice}}
	if usage != nil {
		out["usage"] = usage
	}
	data, err := json.Marshal(out)
	if err != nil {
		panic(err) // of strings and numbers
	}
	_, _ = fmt.Fprintf(s.w, "data: %s\n\n", data)
	if f, ok := s.w.(http.Flusher); ok {
		f.Flush()
	}
}
