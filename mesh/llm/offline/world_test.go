package offline

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
	meshskill "agentmesh/mesh/skill"
	"agentmesh/mesh/skill/command"
)

// friday is when the tests happen: Friday, 20 November 2026, 09:30 in a zone
// of its own.
// planner serves all tests, also those that run at the same time: what it
// remembers of one must make no difference to another.
var planner = New(friday)

func friday() time.Time {
	return time.Date(2026, 11, 20, 9, 30, 0, 0, time.FixedZone("here", 3600))
}

type skillDef struct {
	Name        string     `json:"name"`
	Description string     `json:"description"`
	Access      string     `json:"access"`
	Parameters  []paramDef `json:"parameters"`
	Tags        []string   `json:"tags"`
}

type paramDef struct {
	Name        string   `json:"name"`
	Type        string   `json:"type"`
	Required    bool     `json:"required,omitempty"`
	Description string   `json:"description,omitempty"`
	Enum        []string `json:"enum,omitempty"`
}

// testSkills are the skills of the tests' world.
var testSkills = []skillDef{
	{"calendar.create", "Create a calendar event such as a meeting or an appointment at a given time", "write", []paramDef{
		{"title", "string", true, "What the event is called", nil},
		{"start", "string", true, "When it begins, as 2026-12-01T14:00:00Z, or 2026-12-01 for a whole day", nil},
		{"end", "string", false, "When it ends, in the same form", nil},
		{"duration", "string", false, "How long it takes instead of an end, as 30m or 1h30m", nil},
		{"attendees", "array", false, "Email addresses of those who take part", nil},
		{"location", "string", false, "Where it takes place", nil},
		{"description", "string", false, "What it is about", nil},
	}, []string{"calendar", "meeting", "event", "appointment", "schedule", "invite"}},
	{"calendar.list", "List the calendar events of a time, by default of the next 30 days", "read", []paramDef{
		{"from", "string", false, "First day or moment, as 2026-12-01 or 2026-12-01T14:00", nil},
		{"to", "string", false, "Last day or moment", nil},
		{"limit", "integer", false, "How many events to show at most", nil},
	}, []string{"calendar", "agenda", "events", "meetings"}},
	{"knowledge.search", "Search the documentation and answer questions about how to use and configure the system", "read", []paramDef{
		{"query", "string", true, "What to look for", nil},
		{"limit", "integer", false, "How many passages", nil},
	}, []string{"question", "how", "configure", "documentation", "search"}},
	{"mail.send", "Send an email message with a subject and a text to one or more people", "write", []paramDef{
		{"to", "array", true, "Email addresses of the recipients", nil},
		{"cc", "array", false, "Email addresses that get a copy", nil},
		{"subject", "string", true, "The subject, one line", nil},
		{"body", "string", true, "The text of the message", nil},
	}, []string{"email", "mail", "message", "send", "notify"}},
	{"slack.alert", "Post an alert to a Slack channel", "write", []paramDef{
		{"channel", "string", true, "The channel, as #ops", nil},
		{"text", "string", true, "What to say", nil},
	}, []string{"slack", "alert", "channel"}},
	{"tasks.archive", "Archive a task that is no longer needed", "write", []paramDef{
		{"id", "string", true, "The id of the task", nil},
	}, []string{"task", "todo", "archive"}},
	{"tasks.create", "Create a task with a title and an optional due date", "write", []paramDef{
		{"title", "string", true, "What is to be done", nil},
		{"due", "string", false, "When it is due, as 2026-12-01", nil},
		{"priority", "string", false, "How urgent it is", []string{"low", "medium", "high"}},
		{"description", "string", false, "More about it", nil},
	}, []string{"task", "todo", "reminder"}},
	{"tasks.get", "Show one task with everything about it", "read", []paramDef{
		{"id", "string", true, "The id of the task", nil},
	}, []string{"task", "todo"}},
	{"tasks.search", "Find tasks by status, words or due date", "read", []paramDef{
		{"status", "string", false, "One of: todo, in_progress, blocked, done, overdue, open", nil},
		{"query", "string", false, "Words in the title", nil},
		{"due_before", "string", false, "Due on or before this day, as 2026-12-01", nil},
		{"limit", "integer", false, "How many to show at most", nil},
	}, []string{"task", "todo", "overdue", "open", "list"}},
	{"tasks.update", "Change a task: its status, title or due date", "write", []paramDef{
		{"id", "string", true, "The id of the task", nil},
		{"status", "string", false, "The new status", []string{"todo", "in_progress", "blocked", "done"}},
		{"title", "string", false, "The new title", nil},
		{"due", "string", false, "The new due date, as 2026-12-01", nil},
	}, []string{"task", "todo", "status"}},
	{"weather.forecast", "Tell the weather forecast for a city", "read", []paramDef{
		{"city", "string", true, "The city", nil},
		{"date", "string", false, "The day, as 2026-12-01", nil},
	}, []string{"weather", "forecast", "rain"}},
}

func granted(names ...string) []skillDef {
	var out []skillDef
	for _, s := range testSkills {
		if slices.ContainsFunc(names, func(n string) bool { return mesh.SkillMatches(n, s.Name) }) {
			out = append(out, s)
		}
	}
	return out
}

// skillUse is a skill call that arrived.
type skillUse struct {
	Agent string
	Skill string
	Args  map[string]any
}

// world stands in for the mesh: it runs agents with the planner as their
// model, and skills that only remember their calls.
type world struct {
	t       *testing.T
	replies map[string]string // what skills return
	fail    map[string]string // how skills fail
	down    map[string]string // agents that cannot be consulted

	mu         sync.Mutex
	uses       []skillUse
	dispatched []map[string]any
	consulted  []string
	handoffs   []string
}

func newWorld(t *testing.T) *world {
	return &world{t: t, replies: map[string]string{
		"tasks.search": "2 overdue tasks:\n1. Renew the certificate, due 2026-11-18, id t-7\n2. Pay the invoice, due 2026-11-19, id t-9",
		"knowledge.search": "3 passages found.\n\n1. Rate limiting > Configure (docs/limits.md)\nSet rate_limit in mesh.yaml to configure rate limiting of an agent.\n\n" +
			"2. Agents (docs/agents.md)\nAn agent has a card.\n\n3. Cooking (docs/pasta.md)\nBoil water.",
	}, fail: map[string]string{}, down: map[string]string{}}
}

// toolset is a fixed set of tools.
type toolset struct {
	tools []llm.Tool
	call  func(ctx context.Context, name string, args map[string]any) llm.ToolResult
}

func (s toolset) List(context.Context) []llm.Tool { return s.tools }

func (s toolset) Call(ctx context.Context, u mesh.ToolUse) llm.ToolResult {
	var args map[string]any
	if err := json.Unmarshal([]byte(u.Arguments), &args); err != nil {
		return llm.ToolResult{Text: err.Error(), Failed: true}
	}
	return s.call(ctx, u.Name, args)
}

// run lets an agent answer the history and returns its last reply.
func (w *world) run(ctx context.Context, tools llm.Tools, history ...llm.Message) string {
	w.t.Helper()
	loop := llm.Loop{Model: planner, Tools: tools}
	answer := ""
	for e, err := range loop.Run(ctx, history) {
		if err != nil {
			w.t.Errorf("loop: %v", err)
		}
		if e.Reply != nil && e.Reply.Text != "" {
			answer = e.Reply.Text
		}
		if e.Limit != nil {
			w.t.Error("the planner reached the limit of steps")
		}
	}
	return answer
}

func userSays(text string) llm.Message { return llm.Message{Role: llm.RoleUser, Text: text} }

// say sends the text to the main agent.
func (w *world) say(text string) string {
	w.t.Helper()
	return w.run(w.t.Context(), w.mainTools(), userSays(text))
}

const (
	consultCatalog = "Ask another agent.\n\n- knowledge: Answers questions from the documentation (skills: knowledge.search; tags: knowledge, documentation, search)\n" +
		"- orchestrator: Takes requests with several parts apart and delegates them (tags: orchestration)\n" +
		"- tasks: Keeps your tasks (skills: tasks.archive, tasks.create, tasks.get, tasks.search, tasks.update; tags: tasks, todo, overdue)"
	handoffCatalog = "Hand the conversation over.\n\n- skill-builder: Builds new skills with you (triggers: create skill, build skill, new skill)"
)

func (w *world) mainTools() toolset {
	return toolset{
		tools: []llm.Tool{{Name: "consult_agent", Description: consultCatalog}, {Name: "request_handoff", Description: handoffCatalog}},
		call: func(ctx context.Context, name string, args map[string]any) llm.ToolResult {
			agent, _ := args["agent"].(string)
			w.mu.Lock()
			defer w.mu.Unlock()
			if name == "request_handoff" {
				w.handoffs = append(w.handoffs, agent)
				return llm.ToolResult{Text: "handed over", Stop: true}
			}
			w.consulted = append(w.consulted, agent)
			status, result := "completed", w.down[agent]
			if result != "" {
				status = "failed"
			} else {
				w.mu.Unlock()
				result = w.agent(ctx, agent, args["task"].(string))
				w.mu.Lock()
			}
			return llm.ToolResult{Text: toJSON(map[string]any{"agent": agent, "status": status, "result": result})}
		},
	}
}

// agent runs the consulted agent.
func (w *world) agent(ctx context.Context, name, task string) string {
	if name == "orchestrator" {
		return w.run(ctx, w.orchestratorTools(), userSays(task))
	}
	return w.run(ctx, w.workerTools(name, granted(name+".*")), userSays(task))
}

// orchestratorTools run what is dispatched when the results are asked for, in
// the order of its dependencies.
func (w *world) orchestratorTools() toolset {
	var mu sync.Mutex
	var batch []map[string]any
	skills := library(w.t, testSkills)
	return toolset{
		tools: []llm.Tool{{Name: "dispatch_agent"}, {Name: "get_agent_results"}, getSkillTool(skills)},
		call: func(ctx context.Context, name string, args map[string]any) llm.ToolResult {
			mu.Lock()
			defer mu.Unlock()
			switch name {
			case "get_skill":
				return getSkill(ctx, skills, args)
			case "dispatch_agent":
				batch = append(batch, args)
				w.mu.Lock()
				w.dispatched = append(w.dispatched, args)
				w.mu.Unlock()
				return llm.ToolResult{Text: toJSON(map[string]any{"agent_id": args["agent_id"], "execution_id": "x", "status": "running"})}
			}
			return llm.ToolResult{Text: toJSON(map[string]any{"agents": w.runBatch(ctx, batch)})}
		},
	}
}

func (w *world) runBatch(ctx context.Context, batch []map[string]any) []map[string]any {
	results, status := map[string]string{}, map[string]string{}
	var out []map[string]any
	for len(out) < len(batch) {
		progress := false
		for _, d := range batch {
			id := d["agent_id"].(string)
			needs := list(d["depends_on"])
			if status[id] != "" || slices.ContainsFunc(needs, func(n string) bool { return status[n] == "" }) {
				continue
			}
			progress = true
			status[id], results[id] = "completed", ""
			for _, n := range needs {
				if status[n] != "completed" {
					status[id], results[id] = "skipped", "Skipped because dependency '"+n+"' failed."
				}
			}
			if status[id] == "completed" {
				results[id] = w.run(ctx, w.workerTools(id, granted(list(d["skills"])...)), userSays(briefing(d, results)))
				if strings.Contains(results[id], "could not use") {
					status[id] = "failed"
				}
			}
			out = append(out, map[string]any{"agent_id": id, "status": status[id], "result": results[id], "tool_calls_used": 1, "duration_ms": 3})
		}
		if !progress {
			w.t.Errorf("dependencies that can never be met: %v", batch)
			return out
		}
	}
	return out
}

// briefing is the first message of a sub-agent.
func briefing(d map[string]any, results map[string]string) string {
	text := d["mission"].(string)
	if c, ok := d["context"].(string); ok {
		text += "\n\n## Context\n" + c
	}
	if needs := list(d["depends_on"]); len(needs) > 0 {
		text += "\n\n## Results from prior agents\n"
		for _, n := range needs {
			text += "\nResults from " + n + ":\n```\n" + results[n] + "\n```\n"
		}
	}
	return text
}

func (w *world) workerTools(agent string, skills []skillDef) toolset {
	names := []string{}
	desc := "Use a skill.\n"
	for _, s := range skills {
		names = append(names, s.Name)
		desc += fmt.Sprintf("\n### %s\n%s\n%s\n", s.Name, s.Description, toJSON(s.Parameters))
	}
	schema := toJSON(map[string]any{"type": "object", "properties": map[string]any{"skill": map[string]any{"type": "string", "enum": names}, "arguments": map[string]any{"type": "object"}}})
	return toolset{
		tools: []llm.Tool{{Name: "use_skill", Description: desc, Parameters: json.RawMessage(schema)}},
		call: func(_ context.Context, _ string, args map[string]any) llm.ToolResult {
			name, _ := args["skill"].(string)
			values, _ := args["arguments"].(map[string]any)
			w.mu.Lock()
			defer w.mu.Unlock()
			if !slices.Contains(names, name) {
				return llm.ToolResult{Text: "Skill '" + name + "' is not available to this agent.", Failed: true}
			}
			w.uses = append(w.uses, skillUse{agent, name, values})
			if why := w.fail[name]; why != "" {
				return llm.ToolResult{Text: why, Failed: true}
			}
			if r := w.replies[name]; r != "" {
				return llm.ToolResult{Text: r}
			}
			return llm.ToolResult{Text: "Done with " + name + "."}
		},
	}
}

func list(v any) []string {
	var out []string
	items, _ := v.([]any)
	for _, it := range items {
		out = append(out, it.(string))
	}
	return out
}

func toJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// pages are the skills as pages, so that the catalog and the texts of discovery
// are those of the mesh.
func pages(skills []skillDef) fstest.MapFS {
	out := fstest.MapFS{}
	for _, s := range skills {
		front := toJSON(map[string]any{"name": s.Name, "description": s.Description, "access": s.Access, "tags": s.Tags, "parameters": s.Parameters})
		out[strings.Replace(s.Name, ".", "/", 1)+".md"] = &fstest.MapFile{Data: []byte("---\n" + front + "\n---\n# " + s.Name + "\n")}
	}
	return out
}

// library loads the skills.
func library(t *testing.T, skills []skillDef) *meshskill.Catalog {
	t.Helper()
	c, problems := meshskill.Load(pages(skills))
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	return c
}

// getSkill answers the tool get_skill as the mesh does.
func getSkill(ctx context.Context, c *meshskill.Catalog, args map[string]any) llm.ToolResult {
	var q command.Query
	if err := json.Unmarshal([]byte(toJSON(args)), &q); err != nil {
		return llm.ToolResult{Text: err.Error(), Failed: true}
	}
	r := command.Discover(ctx, command.Local(c), q)
	return llm.ToolResult{Text: r.Content, Failed: r.Failed()}
}

// getSkillTool defines the tool.
func getSkillTool(c *meshskill.Catalog) llm.Tool {
	about, parameters := command.Definition(c.Domains())
	return llm.Tool{Name: toolGetSkill, Description: about, Parameters: parameters}
}

// listAll is the answer of get_skill about all skills.
func listAll(c *meshskill.Catalog) string {
	var list []map[string]any
	for _, s := range c.List() {
		list = append(list, map[string]any{"name": s.Name, "description": s.Description, "parameters": command.Schema(s), "access": s.Access, "tags": s.Tags})
	}
	return toJSON(map[string]any{"search": "x", "skills": list})
}

// testCatalog is what the planner makes of the skills.
func testCatalog(t *testing.T) *catalog {
	t.Helper()
	return newCatalog(readSkills(listAll(library(t, testSkills))))
}
