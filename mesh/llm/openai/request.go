package openai

import (
	"encoding/json"
	"strings"

	openai "github.com/sashabaranov/go-openai"

	"agentmesh/mesh/llm"
)

// request translates a request. The system prompt and the tools come first and
// unchanged from call to call, so that providers can cache them.
func request(model string, req *llm.Request) openai.ChatCompletionRequest {
	out := openai.ChatCompletionRequest{
		Model:         model,
		Stream:        true,
		StreamOptions: &openai.StreamOptions{IncludeUsage: true},
	}
	if req.System != "" {
		out.Messages = append(out.Messages, openai.ChatCompletionMessage{
			Role: openai.ChatMessageRoleSystem, Content: req.System,
		})
	}
	for _, m := range req.Messages {
		out.Messages = append(out.Messages, message(m))
	}
	for _, t := range req.Tools {
		params := t.Parameters
		if len(params) == 0 {
			params = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		out.Tools = append(out.Tools, openai.Tool{
			Type:     openai.ToolTypeFunction,
			Function: &openai.FunctionDefinition{Name: t.Name, Description: t.Description, Parameters: params},
		})
	}
	return out
}

func message(m llm.Message) openai.ChatCompletionMessage {
	out := openai.ChatCompletionMessage{Role: string(m.Role), Content: m.Text}
	switch m.Role {
	case llm.RoleTool:
		out.ToolCallID = m.ToolID
		if m.Failed && !strings.HasPrefix(m.Text, "Error") {
			out.Content = "Error: " + m.Text
		}
		if out.Content == "" {
			out.Content = "(no output)" // providers refuse a result without content
		}
	case llm.RoleUser, llm.RoleAssistant:
		if legalName(m.Name) {
			out.Name = m.Name
		}
	}
	for _, use := range m.Tools {
		args := use.Arguments
		if args == "" {
			args = "{}"
		}
		out.ToolCalls = append(out.ToolCalls, openai.ToolCall{
			ID: use.ID, Type: openai.ToolTypeFunction,
			Function: openai.FunctionCall{Name: use.Name, Arguments: args},
		})
	}
	return out
}

// legalName reports whether providers accept the name of a speaker.
func legalName(s string) bool {
	return s != "" && len(s) <= 64 && strings.IndexFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
	}) < 0
}
