package mcp

import (
	"encoding/json"
	"strings"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// asked names the one thing that a client is to ask its user, and what is told it.
const (
	asked       = "question"
	fieldYes    = "approve"
	fieldAnswer = "answer"
	maxReply    = 64 << 10 // in bytes
)

// askable is the first version of the protocol in which users can be asked.
const askable = "2025-06-18"

// The forms that a client shows its user.
var (
	formYes    = json.RawMessage(`{"type":"object","properties":{"` + fieldYes + `":{"type":"boolean","title":"Approve","description":"Whether it may be done, just as it is said above"}},"required":["` + fieldYes + `"]}`)
	formAnswer = json.RawMessage(`{"type":"object","properties":{"` + fieldAnswer + `":{"type":"string","title":"Answer"}},"required":["` + fieldAnswer + `"]}`)
)

// asksUsers reports whether the client asks its user where it is told to, and may be
// told so now: one of an older version is asked once for each call.
func asksUsers(req *sdk.CallToolRequest) bool {
	p := req.Session.InitializeParams()
	if p == nil || p.ProtocolVersion < askable || p.Capabilities == nil || p.Capabilities.Elicitation == nil {
		return false
	}
	can := p.Capabilities.Elicitation
	if can.Form == nil && can.URL != nil {
		return false
	}
	again := req.Params.RequestState != ""
	return !again || p.ProtocolVersion >= stateless && !dismissed(req.Params.InputResponses)
}

// elicit has the client ask its user, and call again with the answer: the state says
// which run is meant, and which question.
func elicit(out *Outcome, requestID string) *sdk.CallToolResult {
	form := formAnswer
	if out.Approval {
		form = formYes
	}
	return &sdk.CallToolResult{
		InputRequests: sdk.InputRequestMap{asked: &sdk.ElicitParams{Mode: "form", Message: out.Asks, RequestedSchema: form}},
		RequestState:  requestID + " " + QuestionID(out.Asks),
	}
}

// replyOf is what the user said, as a message; "" for nothing. A user who declines an
// approval says no; who dismisses the question has not answered it.
func replyOf(responses sdk.InputResponseMap) string {
	res, _ := responses[asked].(*sdk.ElicitResult)
	if res == nil {
		return ""
	}
	switch res.Action {
	case "decline":
		return "No"
	case "accept":
		if yes, ok := res.Content[fieldYes].(bool); ok {
			if yes {
				return "Yes"
			}
			return "No"
		}
		if text, ok := res.Content[fieldAnswer].(string); ok && len(text) <= maxReply {
			return strings.TrimSpace(text)
		}
	}
	return ""
}

// dismissed reports whether the user was asked and said nothing that is an answer.
func dismissed(responses sdk.InputResponseMap) bool {
	_, was := responses[asked]
	return was && replyOf(responses) == ""
}
