package openai

import (
	"encoding/json"
	"fmt"

	"agentmesh/mesh/llm"
)

// Marks for the provider's cache: what they say as JSON. Anthropic wants the
// longer-lived ones first.
const (
	keepHour    = `{"type":"ephemeral","ttl":"1h"}`
	keepMinutes = `{"type":"ephemeral"}` // five of them
)

// A mark is a breakpoint of the provider's cache: it keeps everything up to and
// with one part of one message. Providers take four; two of them are used, and
// two are left for large documents.
type mark struct {
	message, part int
	keep          string
}

// marksOf returns the marks of a request: after System, which conversations
// share, and after what the calls of this turn share, which are the settled
// messages, or Context if there are none. first is where the messages begin.
func marksOf(req *llm.Request, settled []entry, first int) []mark {
	var out []mark
	if req.System != "" {
		out = append(out, mark{0, 0, keepHour})
	}
	for i := len(settled) - 1; i >= 0; i-- {
		if n := len(settled[i].pieces()); n > 0 { // only what it says can be marked
			return append(out, mark{first + i, n - 1, keepMinutes})
		}
	}
	if req.Context != "" {
		out = append(out, mark{0, len(out), keepMinutes})
	}
	return out
}

// marked returns the messages, which are JSON, with the marks. A message is the
// same bytes with and without a mark but for the mark.
func marked(messages json.RawMessage, marks []mark) (json.RawMessage, error) {
	var all []map[string]json.RawMessage
	if err := json.Unmarshal(messages, &all); err != nil {
		return nil, err
	}
	for _, m := range marks {
		var content []struct {
			Type    string          `json:"type"`
			Text    string          `json:"text,omitempty"`
			Picture json.RawMessage `json:"image_url,omitempty"`
			Audio   json.RawMessage `json:"input_audio,omitempty"`
			Cache   json.RawMessage `json:"cache_control,omitempty"`
		}
		if err := json.Unmarshal(all[m.message]["content"], &content); err != nil {
			return nil, fmt.Errorf("message %d has no parts to mark: %w", m.message, err)
		}
		content[m.part].Cache = json.RawMessage(m.keep)
		raw, err := json.Marshal(content)
		if err != nil {
			return nil, err
		}
		all[m.message]["content"] = raw
	}
	return json.Marshal(all)
}
