package main

import (
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// noCancel is why clients cannot be tried for it.
const noCancel = "the client has no call for it"

// frameworks are what TestFrameworks runs.
var frameworks = []*framework{
	{name: "google-adk", env: "adk", agent: "adk_agent.py", client: "adk_client.py", shows: "/agents/helper/.well-known/agent-card.json",
		answer:       answerADK,
		clientAbsent: map[string]string{"cancel": noCancel, "data in": "content of a runner has no data parts"}},
	{name: "pydantic-ai (fasta2a)", env: "pydantic", agent: "pydantic_agent.py", client: "pydantic_client.py", shows: "/.well-known/agent-card.json",
		agentAbsent:  map[string]string{"question and answer": "an agent cannot ask: there is no way to INPUT_REQUIRED"},
		clientAbsent: map[string]string{"cancel": noCancel}},
	{name: "strands", env: "strands", agent: "strands_agent.py", client: "strands_client.py", answer: answerStrands,
		clientAbsent: map[string]string{"cancel": noCancel, "data in": "content blocks have no data"}},
	{name: "agent-framework", env: "agentframework", agent: "agentframework_agent.py", client: "agentframework_client.py",
		agentAbsent:  map[string]string{"question and answer": "A2AExecutor has no way to INPUT_REQUIRED"},
		clientAbsent: map[string]string{"cancel": noCancel, "data in": "messages have no data content"}},
}

// answerADK is the response to the function call that asked, which ADK wants back.
func answerADK(t *testing.T, asked *spoken) *a2apb.Part {
	t.Helper()
	for _, p := range asked.status {
		call := p.GetData().GetStructValue().AsMap()
		if call["name"] == nil {
			continue
		}
		part := dataPart(t, map[string]any{"id": call["id"], "name": call["name"], "response": map[string]any{"result": "very loud"}})
		part.Metadata = p.GetMetadata()
		part.Metadata.Fields["adk_type"] = dataPart(t, "function_response").GetData()
		return part
	}
	return textPart("very loud")
}

// answerStrands names the interrupt that it answers.
func answerStrands(t *testing.T, asked *spoken) *a2apb.Part {
	t.Helper()
	for _, p := range asked.status {
		for _, i := range p.GetData().GetStructValue().GetFields()["interrupts"].GetListValue().GetValues() {
			return dataPart(t, map[string]any{"interruptResponse": map[string]any{
				"interruptId": i.GetStructValue().GetFields()["interruptId"].GetStringValue(), "response": "very loud"}})
		}
	}
	return textPart("very loud")
}
