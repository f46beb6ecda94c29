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
// keeps nothing of it.
func responsesRequest(model string, req *llm.Request) openai.CreateResponseRequest {
	out := openai.CreateResponseRequest{
		Model:           model,
		Instructions:    strings.Join(slices.DeleteFunc([]string{req.System, req.Context}, empty), "\n\n"),
		MaxOutputTokens: req.MaxTokens,
		Store:           new(bool),
	}
	messages, _ := entries(req)
	input := []any{}
	for _, e := range messages {
		input = append(input, responsesItems(e)...)
	}
	out.Input = input
	for _, f := range tools(req) {
		tool := openai.NewResponseFunctionTool(f)
		tool.Parameters["strict"] = false // which is not the default here, and would refuse most schemas
		out.Tools = append(out.Tools, tool)
	}
	return out
}

// responsesItems translates a message: a call is an item of its own.
func responsesItems(e entry) []any {
	if e.Role == llm.RoleTool {
		return []any{openai.ResponseFunctionCallOutput{Type: "function_call_output", CallID: e.ToolID, Output: e.Text}}
	}
	var out []any
	switch text := e.texts(); len(text) {
	case 0:
	case 1:
		out = append(out, openai.ResponseInputMessage{Role: string(e.Role), Content: text[0]})
	default:
		var content []openai.ResponseInputText
		for _, t := range text {
			content = append(content, openai.ResponseInputText{Type: "input_text", Text: t})
		}
		out = append(out, openai.ResponseInputMessage{Role: string(e.Role), Content: content})
	}
	for _, use := range e.Tools {
		out = append(out, openai.ResponseOutputItem{
			Type: "function_call", CallID: use.ID, Name: use.Name, Arguments: cmp.Or(use.Arguments, "{}"),
		})
	}
	return out
}

// responsesReply puts together a reply of the Responses API.
type responsesReply struct {
	assembly
	said bool // whether there was any text
}

// responsesEvent is what we read of an event. Others are passed over.
type responsesEvent struct {
	Type     openai.ResponseStreamEventType `json:"type"`
	Delta    json.RawMessage                `json:"delta"`
	Item     outputItem                     `json:"item"`
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
	Type      string `json:"type"`
	CallID    string `json:"call_id"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
	Content   []struct {
		Text    string `json:"text"`
		Refusal string `json:"refusal"`
	} `json:"content"`
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
	case openai.ResponseStreamEventOutputItemDone:
		r.addCall(e.Item)
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

// addCall takes in an item if it is a call.
func (r *responsesReply) addCall(item outputItem) {
	if item.Type != "function_call" {
		return
	}
	r.calls = append(r.calls, mesh.ToolUse{ID: item.CallID, Name: item.Name, Arguments: item.Arguments})
	r.size += callOverhead + len(item.CallID) + len(item.Name) + len(item.Arguments)
}

// end ends the reply, and returns text that came with its end alone: some
// servers send no deltas.
func (r *responsesReply) end(e *responsesEvent, reason string) (text string) {
	calls := len(r.calls) == 0
	for _, item := range e.Response.Output {
		if calls {
			r.addCall(item)
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
