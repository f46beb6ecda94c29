package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	mcpsdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"agentmesh/mesh"
)

// A provider is an endpoint with chat completions and the Responses API, at
// /NAME/v1 for each name, whose model is the test's function.
type provider struct {
	*httptest.Server
	mu    sync.Mutex
	asked []inquiry
}

// inquiry is what the endpoint of a name was asked.
type inquiry struct {
	at, api string
	body    string
	model   string   // its name
	native  []string // types of the tools that it has itself
}

// prior reports whether results of calls are among what was asked.
func (a inquiry) prior() bool {
	return strings.Contains(a.body, `"role":"tool"`) || strings.Contains(a.body, "function_call_output")
}

func startProvider(t *testing.T, answer func(a inquiry) modelReply) *provider {
	t.Helper()
	p := &provider{}
	p.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		a := inquiry{body: string(body)}
		a.at, a.api, _ = strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/v1/")
		var req struct {
			Model string
			Tools []struct{ Type string }
		}
		_ = json.Unmarshal(body, &req) // a test that needs them sees that there are none
		a.model = req.Model
		for _, tool := range req.Tools {
			if tool.Type != "function" {
				a.native = append(a.native, tool.Type)
			}
		}
		p.mu.Lock()
		p.asked = append(p.asked, a)
		n := len(p.asked)
		p.mu.Unlock()
		reply := answer(a)
		if reply.away {
			http.Error(w, "overloaded", http.StatusServiceUnavailable)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		if a.api == "chat/completions" {
			reply.write(w, a.model, n)
			return
		}
		say := func(kind string, event map[string]any) {
			event["type"] = kind
			data, _ := json.Marshal(event)
			_, _ = fmt.Fprintf(w, "event: %s\ndata: %s\n\n", kind, data)
		}
		if reply.text != "" {
			say("response.output_text.delta", map[string]any{"delta": reply.text})
		}
		for i, c := range reply.calls {
			args, _ := json.Marshal(c.args)
			say("response.output_item.done", map[string]any{"item": map[string]any{"type": "function_call", "call_id": fmt.Sprintf("call_%d_%d", n, i), "name": c.name, "arguments": string(args)}})
		}
		say("response.completed", map[string]any{"response": map[string]any{"model": a.model}})
	}))
	t.Cleanup(p.Close)
	return p
}

// of returns what was asked with these words in it.
func (p *provider) of(words string) (all []inquiry) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, a := range p.asked {
		if strings.Contains(a.body, words) {
			all = append(all, a)
		}
	}
	return all
}

// mcpAt serves an MCP server with the one tool that counts its calls.
func mcpAt(t *testing.T, tool string) *httptest.Server {
	t.Helper()
	server := mcpsdk.NewServer(&mcpsdk.Implementation{Name: tool, Version: "1"}, nil)
	mcpsdk.AddTool(server, &mcpsdk.Tool{Name: tool, Description: "Looks into " + tool}, func(_ context.Context, _ *mcpsdk.CallToolRequest, _ struct{}) (*mcpsdk.CallToolResult, any, error) {
		return &mcpsdk.CallToolResult{Content: []mcpsdk.Content{&mcpsdk.TextContent{Text: "17 errors of " + tool}}}, nil, nil
	})
	s := httptest.NewServer(mcpsdk.NewStreamableHTTPHandler(func(*http.Request) *mcpsdk.Server { return server }, &mcpsdk.StreamableHTTPOptions{Stateless: true}))
	t.Cleanup(s.Close)
	return s
}

// dispatching is a reply that dispatches agents by their names, and names their tasks.
func dispatchingTo(names ...string) (r modelReply) {
	for _, name := range names {
		r.calls = append(r.calls, modelCall{"dispatch_agent", map[string]any{"agent_id": "a-" + name, "name": name, "mission": "Do what " + name + " does", "skills": []string{}}})
	}
	return r
}

// S1-001, S1-034, S1-051, S1-057, S1-059, S1-083, S1-084, S1-085, S1-087, S1-090, S1-095, S1-097:
// the seed's minimal configuration, word by word, with the endpoint and the server that it
// names: a chain whose one stage is the orchestrator that is there, with two agents, of
// which one is not code.
func TestTheMinimalConfigurationOfTheSeedWorks(t *testing.T) {
	loki := mcpAt(t, "query")
	p := startProvider(t, func(a inquiry) modelReply {
		switch {
		case strings.Contains(a.body, "You are an orchestrator") && !a.prior():
			return dispatchingTo("log-analyzer", "general-worker")
		case strings.Contains(a.body, "You are an orchestrator") && !strings.Contains(a.body, "17 errors"):
			return modelReply{calls: []modelCall{{"get_agent_results", map[string]any{}}}}
		case strings.Contains(a.body, "You are an orchestrator"):
			return modelReply{text: "The logs have 17 errors."}
		case strings.Contains(a.body, "Do what log-analyzer does") && !strings.Contains(a.body, "17 errors"):
			return modelReply{text: "```cmd\nloki.query\n```\n"}
		case strings.Contains(a.body, "Do what log-analyzer does"):
			return modelReply{text: "There are 17 errors."}
		}
		return modelReply{text: "It follows that something is wrong."}
	})
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "mesh.yaml"), readFile(t, "testdata/config/minimal.yaml")+fmt.Sprintf(`
models:
  google-prod: {url: "%s/google/v1", key: k, name: gemini, native_tools: [google_search]}
mcp:
  servers:
    loki: {url: "%s"}
main: alert-investigation
`, p.URL, loki.URL))
	m := upWith(t, dir, nil)
	m.awaitSkill("loki.query")
	id := mesh.NewThreadID()
	if h := speaker(speakGRPC).complete(t, m, id, "There are many errors"); h.text != "The logs have 17 errors." {
		t.Errorf("the user hears %q", h.text)
	}
	asked := p.of("You are an orchestrator")
	if len(asked) == 0 || asked[0].at != "google" || asked[0].api != "responses" || !strings.Contains(asked[0].body, "There are many errors") {
		t.Fatalf("the orchestrator asked %+v", asked)
	}
	for _, want := range []string{`log-analyzer: Analyzes logs for error patterns\n  MCP tools: loki`, "general-worker: Reasons, summarises and drafts", "Tools: none (pure reasoning)"} {
		if !strings.Contains(asked[0].body, want) {
			t.Errorf("the orchestrator is not told %q", want)
		}
	}
	if strings.Contains(asked[0].body, "- worker:") || strings.Contains(asked[0].body, "- web-researcher:") {
		t.Error("the orchestrator is told of agents that are not its own")
	}
	var agents []string
	for _, e := range m.log(id) {
		if d := e.GetDispatchIssued(); d != nil {
			name, _, _ := strings.Cut(d.GetChild().GetAgent(), "_")
			agents = append(agents, name)
		}
	}
	slices.Sort(agents)
	if want := "alert-investigation general-worker log-analyzer orchestrator"; strings.Join(agents, " ") != want {
		t.Errorf("asked %q, want %s", agents, want)
	}
	// Variants are nobody's business, and what cannot work here says so.
	list := m.mesh("agents", "list").succeeds(t)
	if strings.Contains(list, "orchestrator_") || !strings.Contains(list, "log-analyzer") || !strings.Contains(list, "alert-investigation") || strings.Contains(list, "code-executor") {
		t.Errorf("the list has\n%s", list)
	}
}

// S1-009, S1-041, S1-043, S1-044, S1-047, S1-048, S1-049, S1-050, S1-052, S1-089: the seed's
// comprehensive configuration, word by word, with what it names: agents are used otherwise
// in one place, without being described again.
func TestTheComprehensiveConfigurationOfTheSeedWorks(t *testing.T) {
	k8s := mcpAt(t, "pods")
	agents := []string{"log-analyzer", "metric-checker", "web-researcher", "general-worker", "code-executor"}
	p := startProvider(t, func(a inquiry) modelReply {
		switch {
		case strings.Contains(a.body, "You are an orchestrator") && !a.prior():
			return dispatchingTo(agents...)
		case strings.Contains(a.body, "You are an orchestrator") && !strings.Contains(a.body, "done by"):
			return modelReply{calls: []modelCall{{"get_agent_results", map[string]any{}}}}
		case strings.Contains(a.body, "You are an orchestrator"):
			return modelReply{text: "All is done."}
		case strings.Contains(a.body, "Do what general-worker does") && !strings.Contains(a.body, "17 errors of pods"):
			return modelReply{text: "```cmd\nkubernetes_server.pods\n```\n"}
		}
		return modelReply{text: "done by " + a.at}
	})
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "mesh.yaml"), readFile(t, "testdata/config/comprehensive.yaml")+fmt.Sprintf(`
model: {url: "%[1]s/own/v1", key: k, name: own, native_tools: [google_search, url_context]}
models:
  google-prod: {url: "%[1]s/google/v1", key: k, name: gemini, native_tools: [code_execution]}
  openai-prod: {url: "%[1]s/openai/v1", key: k, name: gpt}
mcp:
  servers:
    kubernetes-server: {url: "%[2]s"}
agents:
  LogAnalyzer: {description: Analyzes logs, custom_instructions: You read logs., llm_provider: openai-prod}
  MetricChecker: {description: Checks metrics}
`, p.URL, k8s.URL))
	m := upWith(t, dir, nil, "--main", "deep-investigation")
	m.awaitSkill("kubernetes_server.pods")
	id := mesh.NewThreadID()
	if h := speaker(speakGRPC).complete(t, m, id, "Look deep"); h.text != "All is done." {
		t.Errorf("the user hears %q\n%s", h.text, m.mesh("threads", "show", id).stdout)
	}
	boss := p.of("You are an orchestrator")
	if len(boss) == 0 || boss[0].at != "openai" || boss[0].api != "chat/completions" || !strings.Contains(boss[0].body, `general-worker: Reasons, summarises and drafts, without tools\n  MCP tools: kubernetes_server`) {
		t.Errorf("the orchestrator asked %+v", boss)
	}
	for name, want := range map[string]struct {
		at     string
		native []string
	}{
		"log-analyzer": {"openai", nil}, "metric-checker": {"own", nil}, "web-researcher": {"own", []string{"google_search", "url_context"}},
		"general-worker": {"own", nil}, "code-executor": {"google", []string{"code_execution"}},
	} {
		var own []inquiry
		for _, a := range p.of("Do what " + name + " does") {
			if !strings.Contains(a.body, "You are an orchestrator") {
				own = append(own, a)
			}
		}
		if len(own) == 0 || own[0].at != want.at || !slices.Equal(slices.Sorted(slices.Values(own[0].native)), want.native) {
			t.Errorf("%s asked %+v, want at %s with %q", name, own, want.at, want.native)
		}
	}
	// What an agent without skills knows, its instructions say.
	if got := p.of("You read logs."); len(got) == 0 || got[0].at != "openai" || !strings.Contains(got[0].body, "Do what log-analyzer does") {
		t.Errorf("with the instructions of the log analyzer were asked %+v", got)
	}
	// By itself, the general worker has no server there.
	if got := len(p.of("17 errors of pods")); got == 0 {
		t.Error("the general worker did not use its server")
	}
	if list := m.mesh("agents", "list").succeeds(t); strings.Contains(list, "code-executor") || strings.Contains(list, "general-worker_") {
		t.Errorf("the list has\n%s", list)
	}
}

// S1-053, S1-094, S1-097: an orchestrator of the configuration has tools of its own if the
// operator gives it some, and calls them itself beside dispatching; what it is told is its
// own. S1-027: it is not offered to others. An agent is reached by its name, too.
func TestAnOrchestratorOfTheConfigurationHasToolsOfItsOwn(t *testing.T) {
	loki := mcpAt(t, "query")
	p := startProvider(t, func(a inquiry) modelReply {
		switch {
		case strings.Contains(a.body, "Look at the logs first") && !strings.Contains(a.body, "17 errors of query"):
			return modelReply{text: "```cmd\nloki.query\n```\n"}
		case strings.Contains(a.body, "Look at the logs first") && !strings.Contains(a.body, "thought about it"):
			if !strings.Contains(a.body, "dispatch_agent\",\"arguments") && !strings.Contains(a.body, "a-general-worker\\\"") {
				return dispatchingTo("general-worker")
			}
			return modelReply{calls: []modelCall{{"get_agent_results", map[string]any{}}}}
		case strings.Contains(a.body, "Look at the logs first"):
			return modelReply{text: "It is the disk."}
		}
		return modelReply{text: "thought about it"}
	})
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "mesh.yaml"), fmt.Sprintf(`
model: {url: "%s/own/v1", key: k, name: own}
mcp: {servers: {loki: {url: "%s"}}}
agents:
  sre: {type: orchestrator, description: Finds out, custom_instructions: Look at the logs first., mcp: [loki], sub_agents: [general-worker], orchestrator: {max_concurrent_agents: 1}}
main: sre
`, p.URL, loki.URL))
	m := upWith(t, dir, nil)
	m.awaitSkill("loki.query")
	id := mesh.NewThreadID()
	if h := speaker(speakGRPC).complete(t, m, id, "It is slow"); !strings.HasSuffix(h.text, "It is the disk.") {
		t.Errorf("the user hears %q\n%s", h.text, m.mesh("threads", "show", id).stdout)
	}
	called, dispatched := map[string]string{}, 0
	for _, e := range m.log(id) {
		if c := e.GetSkillCalled(); c != nil {
			called[c.GetSkill()] = e.GetActor()
		}
		if d := e.GetDispatchIssued(); d != nil && d.GetChild().GetAgent() == "general-worker" {
			dispatched++
		}
	}
	if len(called) != 1 || !strings.Contains(called["loki.query"], "sre") || dispatched != 1 {
		t.Errorf("called %v, and dispatched %d agents", called, dispatched)
	}
	res := m.request("POST", "/agents/general-worker/message:send", http.Header{"Content-Type": {"application/json"}}, []byte(`{"message":{"messageId":"1","role":"ROLE_USER","parts":[{"text":"Think"}]}}`))
	defer func() { _ = res.Body.Close() }()
	if body, err := io.ReadAll(res.Body); err != nil || res.StatusCode != http.StatusOK || !strings.Contains(string(body), "thought about it") {
		t.Errorf("general-worker answers %d %s (%v)", res.StatusCode, body, err)
	}
}

// S1-122: agents are put together of skills by their names, without a word of instructions: one
// skill is in several agents, each of which is told how it is used, and of no others.
func TestAgentsArePutTogetherOfSkillsByReference(t *testing.T) {
	t.Parallel()
	p := startProvider(t, func(inquiry) modelReply { return modelReply{text: "I could."} })
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "mesh.yaml"), fmt.Sprintf(`
model: {url: "%s/own/v1", key: k, name: own}
agents:
  clerk: {description: Keeps lists, skills: [tasks.create]}
  secretary: {description: Keeps lists and writes, skills: [tasks.create, "mail.*"]}
`, p.URL))
	m := upWith(t, dir, nil)
	for name, want := range map[string][]string{"clerk": {"tasks.create"}, "secretary": {"mail.send", "tasks.create"}} {
		asks := "What can you do, " + name + "?"
		res := m.request("POST", "/agents/"+name+"/message:send", http.Header{"Content-Type": {"application/json"}}, []byte(`{"message":{"messageId":"1","role":"ROLE_USER","parts":[{"text":"`+asks+`"}]}}`))
		body, err := io.ReadAll(res.Body)
		_ = res.Body.Close()
		if err != nil || !strings.Contains(string(body), "I could.") {
			t.Fatalf("%s answers %s (%v)", name, body, err)
		}
		asked := p.of(asks)
		if len(asked) == 0 {
			t.Fatalf("the model of %s was not asked", name)
		}
		var knows []string
		for _, skill := range []string{"calendar.create", "mail.send", "tasks.create"} {
			if strings.Contains(asked[0].body, skill) {
				knows = append(knows, skill)
			}
		}
		if !slices.Equal(knows, want) {
			t.Errorf("the model of %s is told of %q, want %q", name, knows, want)
		}
	}
}

// S4-003: each agent that is dispatched asks the model that the configuration gives it: of the
// same endpoint or another one, for this use alone, or, in a process of its own, by its own
// configuration. The log names the model of each reply.
func TestEachSubAgentAsksAModelOfItsOwn(t *testing.T) {
	t.Parallel()
	want := map[string][2]string{"orchestrator": {"own", "big"}, "analyst": {"own", "small"}, "reviewer": {"other", "critic"}, "general-worker": {"other", "tiny"}, "far": {"far", "distant"}}
	agents := slices.DeleteFunc(slices.Sorted(maps.Keys(want)), func(name string) bool { return name == "orchestrator" })
	p := startProvider(t, func(a inquiry) modelReply {
		switch {
		case !strings.Contains(a.body, "You are an orchestrator"):
			return modelReply{text: "done by " + a.model}
		case !a.prior():
			return dispatchingTo(agents...)
		case strings.Count(a.body, "done by") < len(agents):
			return modelReply{calls: []modelCall{{"get_agent_results", map[string]any{}}}}
		}
		return modelReply{text: "All is done."}
	})
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "mesh.yaml"), fmt.Sprintf(`
main: orchestrator
model: {url: "%[1]s/own/v1", key: k, name: big}
models:
  other: {url: "%[1]s/other/v1", key: k, name: critic}
agents:
  analyst: {description: Analyses, custom_instructions: You analyse., model: small}
  reviewer: {description: Reviews, custom_instructions: You review., endpoint: other}
  far: {time: 5m}
  orchestrator:
    sub_agents: [analyst, reviewer, far, {name: general-worker, endpoint: other, model: tiny}]
`, p.URL))
	writeFile(t, filepath.Join(dir, "far.yaml"), "model: {url: "+p.URL+"/far/v1, key: k, name: distant}\n")
	m := up(t, dir)
	runAgent(t, m, dir, "general-worker", "far", "--config", "far.yaml", "--data", "data-far")
	id := mesh.NewThreadID()
	if h := speaker(speakGRPC).complete(t, m, id, "Look into it"); h.text != "All is done." {
		t.Fatalf("the user hears %q", h.text)
	}
	for name, of := range want {
		asked := p.of("Do what " + name + " does")
		if name == "orchestrator" {
			asked = p.of("You are an orchestrator")
		} else {
			asked = slices.DeleteFunc(asked, func(a inquiry) bool { return strings.Contains(a.body, "You are an orchestrator") })
		}
		if len(asked) == 0 {
			t.Errorf("%s asked no model", name)
		}
		for _, a := range asked {
			if a.at != of[0] || a.model != of[1] {
				t.Errorf("%s asked %s at %s, want %s at %s", name, a.model, a.at, of[1], of[0])
			}
		}
	}
	logged := map[string]string{}
	for _, e := range m.log(id) {
		if r := e.GetModelReplied(); r != nil {
			name, _, _ := strings.Cut(strings.TrimPrefix(e.GetActor(), "agent:"), "_") // what is used otherwise in one place has a longer name
			logged[name] = r.GetModel()
		}
	}
	for name, of := range want {
		if logged[name] != of[1] {
			t.Errorf("in the log %s is answered by %q, want %q", name, logged[name], of[1])
		}
	}
}
