package openai

import (
	"cmp"
	"encoding/base64"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	openai "github.com/sashabaranov/go-openai"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
)

// An entry is a message as it is sent, over either protocol.
type entry struct {
	llm.Message
	fresh string // what is added to a user's message for this call alone
	takes senses
}

// senses are what a model takes beside text: pictures and audio.
type senses struct{ sees, hears bool }

// entries returns the messages to send, and how many of them are settled:
// those that come unchanged with every call of this turn.
func entries(req *llm.Request, takes senses) (out []entry, settled int) {
	lines := map[string]bool{} // the calls that were lines of a command block
	for i, m := range req.Messages {
		e := entry{Message: m}
		if m.Role == llm.RoleUser { // providers take pictures of users alone
			e.takes = takes
		}
		e.Tools = slices.DeleteFunc(slices.Clone(m.Tools), func(use mesh.ToolUse) bool {
			if use.Name != llm.CommandTool {
				return false
			}
			lines[use.ID] = true
			return true
		})
		if m.Role == llm.RoleTool {
			if m.Name == llm.CommandTool || lines[m.ToolID] {
				e.Message = llm.Message{Role: llm.RoleUser, Text: "[Command Result]\n" + result(m), ToolID: m.ToolID}
			} else {
				e.Text = result(m)
			}
		}
		if e.Text != "" || len(e.Tools)+len(e.Files) > 0 { // providers refuse messages with neither
			out = append(out, e)
		}
		if i < req.Settled {
			settled = len(out)
		}
	}
	if req.Fresh == "" {
		return out, settled
	}
	for i, e := range slices.Backward(out) {
		if e.Role == llm.RoleUser && e.ToolID == "" { // not the result of a command
			out[i].fresh = req.Fresh
			return out, min(settled, i) // what changes is not settled
		}
	}
	return append(out, entry{Message: llm.Message{Role: llm.RoleUser, Text: req.Fresh}}), settled
}

// result is the text of a tool's result, which providers do not take empty.
func result(m llm.Message) string {
	if m.Failed {
		return "Error: " + m.Text
	}
	return cmp.Or(m.Text, "(no output)")
}

// A piece of what an entry says is text or, with an address that has all of it, a picture, or audio,
// in base64, of a format.
type piece struct{ text, picture, audio, format string }

// pieces returns what the entry says: its text, its files, each picture after the words about it,
// and what is fresh.
func (e entry) pieces() []piece {
	out := []piece{{text: e.Text}}
	for _, f := range e.Files {
		seen := len(f.Data) > 0 && (e.takes.sees && !f.Audio() || e.takes.hears && f.Audio())
		out = append(out, piece{text: f.Words(seen)})
		switch {
		case seen && f.Audio():
			out = append(out, piece{audio: base64.StdEncoding.EncodeToString(f.Data), format: format(f.MediaType)})
		case seen:
			out = append(out, piece{picture: "data:" + f.MediaType + ";base64," + base64.StdEncoding.EncodeToString(f.Data)})
		}
	}
	return slices.DeleteFunc(append(out, piece{text: e.fresh}), func(p piece) bool { return p == piece{} })
}

// whole is the pieces as one text; false if one is a picture or audio.
func whole(pieces []piece) (text string, ok bool) {
	texts := make([]string, len(pieces))
	for i, p := range pieces {
		if texts[i] = p.text; p.picture+p.audio != "" {
			return "", false
		}
	}
	return strings.Join(texts, "\n\n"), true
}

func empty(s string) bool { return s == "" }

// tools returns the tools in the order of their names, so that they are the
// same bytes each time. One without parameters gets the schema that says so.
func tools(req *llm.Request) []openai.FunctionDefinition {
	var out []openai.FunctionDefinition
	for _, t := range req.Tools {
		params := t.Parameters
		if len(params) == 0 {
			params = json.RawMessage(`{"type":"object","properties":{}}`)
		}
		out = append(out, openai.FunctionDefinition{Name: t.Name, Description: t.Description, Parameters: params})
	}
	slices.SortStableFunc(out, func(a, b openai.FunctionDefinition) int { return cmp.Compare(a.Name, b.Name) })
	return out
}

// chatRequest translates a request for the chat completions protocol. With
// cached, and only then, all text is sent in parts, of which the marks say where
// the endpoint is told to cache; they are never on tools, and never on what is
// new.
func chatRequest(model string, req *llm.Request, cached bool, takes senses) (openai.ChatCompletionRequest, []mark) {
	out := openai.ChatCompletionRequest{
		Model:         model,
		Stream:        true,
		StreamOptions: &openai.StreamOptions{IncludeUsage: true},
		MaxTokens:     req.MaxTokens, //nolint:staticcheck // what most endpoints know, and OpenAI's models that reason refuse
	}
	if errors.Is(openai.NewReasoningValidator().Validate(out), openai.ErrReasoningModelMaxTokensDeprecated) {
		out.MaxTokens, out.MaxCompletionTokens = 0, req.MaxTokens //nolint:staticcheck // as above
	}
	if system := slices.DeleteFunc([]string{req.System, req.Context}, empty); len(system) > 0 {
		m := openai.ChatCompletionMessage{Role: openai.ChatMessageRoleSystem}
		if cached {
			for _, t := range system {
				m.MultiContent = append(m.MultiContent, piece{text: t}.part())
			}
		} else {
			m.Content = strings.Join(system, "\n\n")
		}
		out.Messages = append(out.Messages, m)
	}
	first := len(out.Messages)
	messages, settled := entries(req, takes)
	for _, e := range messages {
		out.Messages = append(out.Messages, chatMessage(e, cached))
	}
	for _, f := range tools(req) {
		out.Tools = append(out.Tools, openai.Tool{Type: openai.ToolTypeFunction, Function: &f})
	}
	if !cached {
		return out, nil
	}
	return out, marksOf(req, messages[:settled], first)
}

func chatMessage(e entry, inParts bool) openai.ChatCompletionMessage {
	out := openai.ChatCompletionMessage{Role: string(e.Role)}
	pieces := e.pieces()
	if text, ok := whole(pieces); ok && (!inParts || text == "") { // which every endpoint takes
		out.Content = text
	} else {
		for _, p := range pieces {
			out.MultiContent = append(out.MultiContent, p.part())
		}
	}
	switch e.Role {
	case llm.RoleTool:
		out.ToolCallID = e.ToolID
	case llm.RoleUser, llm.RoleAssistant:
		if legalName(e.Name) {
			out.Name = e.Name
		}
	}
	for _, use := range e.Tools {
		out.ToolCalls = append(out.ToolCalls, openai.ToolCall{
			ID: use.ID, Type: openai.ToolTypeFunction,
			Function: openai.FunctionCall{Name: use.Name, Arguments: cmp.Or(use.Arguments, "{}")},
		})
	}
	return out
}

func (p piece) part() openai.ChatMessagePart {
	if p.picture != "" {
		return openai.ChatMessagePart{Type: openai.ChatMessagePartTypeImageURL, ImageURL: &openai.ChatMessageImageURL{URL: p.picture}}
	}
	if p.audio != "" { // for which the library has no place: see [hearable]
		return openai.ChatMessagePart{Type: typeAudio, ImageURL: &openai.ChatMessageImageURL{URL: p.audio, Detail: openai.ImageURLDetail(p.format)}}
	}
	return openai.ChatMessagePart{Type: openai.ChatMessagePartTypeText, Text: p.text}
}

// legalName reports whether providers accept the name of a speaker.
func legalName(s string) bool {
	return s != "" && len(s) <= 64 && strings.IndexFunc(s, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '_' && r != '-'
	}) < 0
}
