package openai

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	openai "github.com/sashabaranov/go-openai"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
)

// responsesRequest translates a request for the Responses API. The provider
// keeps nothing of it. What the model thought is asked for, and sent if it is
// of by; "" does neither. The native tools come after the others.
func responsesRequest(model string, req *llm.Request, by string, takes senses, native []openai.ResponseTool) openai.CreateResponseRequest {
	out := openai.CreateResponseRequest{
		Model:           model,
		Instructions:    strings.Join(slices.DeleteFunc([]string{req.System, req.Context}, empty), "\n\n"),
		MaxOutputTokens: req.MaxTokens,
		Store:           new(bool),
	}
	if by != "" {
		out.Include = []openai.ResponseInclude{openai.ResponseIncludeReasoningEncryptedContent}
	}
	messages, _ := entries(req, takes)
	input := []any{}
	for _, e := range messages {
		input = append(input, responsesItems(e, by)...)
	}
	out.Input = input
	for _, f := range tools(req) {
		tool := openai.NewResponseFunctionTool(f)
		tool.Parameters["strict"] = false // which is not the default here, and would refuse most schemas
		out.Tools = append(out.Tools, tool)
	}
	out.Tools = append(out.Tools, native...)
	return out
}

// responsesItems translates a message: a call is an item of its own, and so is
// each thought of by, where it was.
func responsesItems(e entry, by string) []any {
	if e.Role == llm.RoleTool {
		return []any{openai.ResponseFunctionCallOutput{Type: "function_call_output", CallID: e.ToolID, Output: e.Text}}
	}
	var out []any
	think := func(text bool, calls int) {
		for _, t := range e.Thoughts {
			if by != "" && t.By == by && t.Text == text && t.Calls == calls {
				out = append(out, t.Data)
			}
		}
	}
	think(false, 0)
	pieces := e.pieces()
	switch text, ok := whole(pieces); {
	case ok && (len(pieces) < 2 || e.Role == llm.RoleAssistant): // what models say is no input_text
		if text != "" {
			out = append(out, openai.ResponseInputMessage{Role: string(e.Role), Content: text})
		}
	default:
		var content []any
		for _, p := range pieces {
			content = append(content, p.input())
		}
		out = append(out, openai.ResponseInputMessage{Role: string(e.Role), Content: content})
	}
	for i, use := range e.Tools { // a thought that nothing comes after is refused
		if i > 0 {
			think(false, i)
		}
		think(true, i)
		out = append(out, openai.ResponseOutputItem{
			Type: "function_call", CallID: use.ID, Name: use.Name, Arguments: cmp.Or(use.Arguments, "{}"),
		})
	}
	return out
}

func (p piece) input() any {
	if p.picture != "" {
		return openai.ResponseInputImage{Type: "input_image", ImageURL: p.picture}
	}
	return openai.ResponseInputText{Type: "input_text", Text: p.text}
}

// responsesReply puts together a reply of the Responses API.
type responsesReply struct {
	assembly
	by    string // whose thoughts are kept, or ""
	said  bool   // whether there was any text
	spoke bool   // whether a message was complete
	deep  int    // bytes of thoughts
	used  int    // native tools
}

// maxThoughts bounds what is kept of the thoughts of one reply, in bytes. A
// reply that has more is taken without them.
const maxThoughts = 512 << 10

// responsesEvent is what we read of an event. Others are passed over.
type responsesEvent struct {
	Type     openai.ResponseStreamEventType `json:"type"`
	Delta    json.RawMessage                `json:"delta"`
	Item     outputItem                     `json:"item"`
	Cited    json.RawMessage                `json:"annotation"`
	Response struct {
		Model      string       `json:"model"`
		Output     []outputItem `json:"output"`
		Error      *apiError    `json:"error"`
		Incomplete struct {
			Reason string `json:"reason"`
		} `json:"incomplete_details"`
		Usage json.RawMessage `json:"usage"`
	} `json:"response"`
	Error   *apiError `json:"error"`
	Code    any       `json:"code"` // of an event that is an error itself
	Message string    `json:"message"`
}

// outputItem is a message or a call.
type outputItem struct {
	raw       json.RawMessage
	Type      string `json:"type"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	Content   []struct {
		Text    string `json:"text"`
		Refusal string `json:"refusal"`

		Annotations json.RawMessage `json:"annotations"`
	} `json:"content"`
}

// UnmarshalJSON keeps the item as it came, beside what is read of it.
func (i *outputItem) UnmarshalJSON(data []byte) error {
	type plain outputItem
	if err := json.Unmarshal(data, (*plain)(i)); err != nil {
		return err
	}
	i.raw = slices.Clone(data)
	return nil
}

// add takes in one event and returns its text.
func (r *responsesReply) add(event []byte) (string, error) {
	var e responsesEvent
	if err := json.Unmarshal(event, &e); err != nil {
		return "", &protocolError{err}
	}
	if e.Error != nil {
		return "", e.Error
	}
	if e.Response.Model != "" {
		r.done.Model = e.Response.Model
	}
	switch e.Type {
	case openai.ResponseStreamEventOutputTextDelta, openai.ResponseStreamEventRefusalDelta:
		var text string
		if err := json.Unmarshal(e.Delta, &text); err != nil {
			return "", &protocolError{err}
		}
		r.said = r.said || text != ""
		return text, nil
	case openai.ResponseStreamEventOutputTextAnnotationAdded:
		r.cite(e.Cited)
	case openai.ResponseStreamEventOutputItemDone:
		r.addItem(e.Item)
	case openai.ResponseStreamEventCompleted:
		return r.end(&e, ""), nil
	case openai.ResponseStreamEventIncomplete:
		return r.end(&e, cmp.Or(e.Response.Incomplete.Reason, "incomplete")), nil
	case openai.ResponseStreamEventFailed, "response.cancelled":
		if e.Response.Error != nil {
			return "", e.Response.Error
		}
		return "", &apiError{status: statusOf(""), text: "the response is " + strings.TrimPrefix(string(e.Type), "response.")}
	case openai.ResponseStreamEventError:
		said := new(apiError)
		raw, err := json.Marshal(map[string]any{"code": e.Code, "message": e.Message})
		if err == nil {
			err = json.Unmarshal(raw, said)
		}
		if err != nil {
			return "", &protocolError{fmt.Errorf("an error that cannot be read: %w", err)}
		}
		return "", said
	}
	return "", nil
}

// addItem takes in an item that is complete.
func (r *responsesReply) addItem(item outputItem) {
	switch item.Type {
	case "message":
		r.spoke = true
		for _, part := range item.Content {
			r.cite(part.Annotations)
		}
	case "reasoning":
		r.addThought(item.raw)
	case "function_call":
		r.addCall(item)
	default:
		r.addNative(item)
	}
}

// addThought keeps what is encrypted of an item: without it, the provider would
// look for the item where it keeps nothing.
func (r *responsesReply) addThought(raw json.RawMessage) {
	var item map[string]json.RawMessage
	var secret string
	if r.by == "" || json.Unmarshal(raw, &item) != nil || json.Unmarshal(item["encrypted_content"], &secret) != nil || secret == "" {
		return
	}
	delete(item, "status") // which the API tells, and does not take
	if data, err := json.Marshal(item); err == nil {
		r.keep(data)
	}
}

// keep has the item come with the reply in later requests, where it was.
func (r *responsesReply) keep(data json.RawMessage) {
	if r.by == "" {
		return
	}
	if r.deep += len(data); r.deep > maxThoughts {
		r.by, r.done.Thoughts = "", nil
		return
	}
	r.done.Thoughts = append(r.done.Thoughts, llm.Thought{By: r.by, Text: r.spoke, Calls: len(r.calls), Data: data})
}

// addCall takes in a call.
func (r *responsesReply) addCall(item outputItem) {
	r.calls = append(r.calls, mesh.ToolUse{ID: item.CallID, Name: item.Name, Arguments: item.Arguments})
	r.size += callOverhead + len(item.CallID) + len(item.Name) + len(item.Arguments)
}

// end ends the reply, and returns text that came with its end alone: some
// servers send no deltas.
func (r *responsesReply) end(e *responsesEvent, reason string) (text string) {
	late := len(r.calls) == 0 && len(r.done.Thoughts) == 0 && r.used == 0 // no item came before
	for _, item := range e.Response.Output {
		if late {
			r.addItem(item)
		}
		for _, part := range item.Content {
			if item.Type == "message" && !r.said {
				text += part.Text + part.Refusal
			}
		}
	}
	switch {
	case reason == "max_output_tokens":
		r.done.Finish = "length"
	case reason != "":
		r.done.Finish = reason
	case len(r.calls) > 0:
		r.done.Finish = "tool_calls"
	default:
		r.done.Finish = "stop"
	}
	r.done.Usage = usageOf(e.Response.Usage)
	r.ended = true
	return text
}
