package main

import (
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// rootCard is for clients that want the URL of the card, and not where it is below.
const rootCard = "/.well-known/agent-card.json"

// noCancel is why clients cannot be tried for it.
const noCancel = "the client has no call for it"

// textAlone is why nothing but text goes through.
const textAlone = "it takes the text of a message, and leaves other parts out"

// notTried is for what a framework can, and the agent here does not.
const notTried = "not tried: the agent here says what its model says, which is text"

// frameworks are what TestFrameworks runs.
var frameworks = []*framework{
	{name: "google-adk", env: "adk", agent: "adk_agent.py", answer: answerADK,
		client: "adk_client.py", root: rootCard, shows: rootCard, settings: "cards: {bindings: [JSONRPC, HTTP+JSON]}",
		clientAbsent: map[string]string{"cancel": noCancel, "data in": "content of genai has no part for plain data"}},
	{name: "pydantic-ai (fasta2a)", env: "pydantic", agent: "pydantic_agent.py",
		agentLimits: map[string]string{"data in": "its bridge has no data parts yet", "cancel": "its bridge cancels nothing"},
		agentAbsent: map[string]string{"question and answer": "an agent cannot ask: nothing leads to INPUT_REQUIRED"},
		client:      "pydantic_client.py", root: rootCard, shows: rootCard, clientLimits: fasta2aClient(), clientAbsent: map[string]string{"cancel": noCancel}},
	{name: "strands", env: "strands", agent: "strands_agent.py", answer: answerStrands,
		agentAbsent: map[string]string{"files or data out": "the executor sends text alone"},
		client:      "strands_client.py", clientAbsent: map[string]string{"cancel": noCancel, "data in": "content blocks have no data"},
		clientLimits: map[string]string{
			"remember": "A2AAgent sends no context id: each call begins a conversation", "files in": textAlone,
			"files or data out": textAlone, "question and answer": "A2AAgent sends no task id: an answer begins a conversation",
		}},
	{name: "LangGraph server", env: "langgraph", agent: "langgraph_agent.py", settings: `agents: {theirs: {protocol_version: "0.3"}}`,
		agentAbsent: map[string]string{"files or data out": notTried}},
	{name: "agent-framework", env: "agentframework", agent: "agentframework_agent.py",
		agentLimits: map[string]string{"data in": textAlone, "files in": textAlone},
		agentAbsent: map[string]string{
			"question and answer": "A2AExecutor has no way to INPUT_REQUIRED", "files or data out": notTried},
		client:       "agentframework_client.py",
		clientAbsent: map[string]string{"cancel": noCancel, "data in": "messages have no data content"}},
	{name: "CrewAI", env: "crewai", agent: "crewai_agent.py",
		agentLimits: map[string]string{
			"remember": "each message is a task of its own, given to the model alone", "stream": "the answer is sent whole",
			"files in": "its cards take text and JSON", "cancel": "the first event of a task is its last: until then nobody knows its id",
		},
		agentAbsent: map[string]string{"question and answer": "nothing leads to INPUT_REQUIRED", "files or data out": notTried},
		client:      "crewai_client.py", root: rootCard, shows: rootCard,
		clientAbsent: map[string]string{"cancel": noCancel, "data in": "a delegation has no data", "stream": "a delegation returns its result whole",
			"files in": "not tried: files need the package crewai-files"},
		clientLimits: map[string]string{"files or data out": "the result of a delegation is text"}},
	{name: "A2A SDK for Python, v0.3", env: "sdk03", agent: "sdk03_agent.py", client: "sdk03_client.py"},
	{name: "A2A SDK for JavaScript, v0.3", env: "sdk03js", agent: "sdk03_agent.mjs", client: "sdk03_client.mjs"},
	{name: "A2A SDK for Java", env: "a2ajava", agent: "JavaAgent.java", client: "JavaClient.java", settings: "cards: {mode: v1}"},
}

// fasta2aClient are the limits of a client that cannot begin.
func fasta2aClient() map[string]string {
	limits := map[string]string{}
	for _, s := range asClient {
		limits[s.name] = "A2AClient calls the methods of v0.3 with bodies of v1.0, which no version has"
	}
	delete(limits, "cancel")
	return limits
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
