package offline

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
)

// crew are the agents that main may ask, as their cards describe them.
var crew = []llm.Agent{
	{Name: "calendar", Description: "Creates meetings and other calendar events, and says what is planned", Skills: []string{"calendar.create", "calendar.list"}, Tags: strings.Fields("calendar meeting event schedule agenda"), Ask: true},
	{Name: "knowledge", Description: "Answers questions from the documentation and names its sources", Skills: []string{"knowledge.search"}, Tags: strings.Fields("knowledge documentation search"), Ask: true},
	{Name: "mail", Description: "Sends email messages", Skills: []string{"mail.send"}, Tags: strings.Fields("email mail send"), Ask: true},
	{Name: "orchestrator", Description: "Takes requests with several parts apart, lets other agents work on them at the same time, and sums up what came of it",
		Skills: []string{"orchestration"}, Tags: []string{"orchestration"}, Ask: true, Orchestrates: true},
	{Name: "tasks", Description: "Keeps the to-do list: creates, finds, changes and archives tasks", Skills: strings.Fields("tasks.archive tasks.create tasks.get tasks.search tasks.update"),
		Tags: strings.Fields("task todo archive create overdue open update"), Ask: true},
	{Name: "worker", Description: "Does one task with whatever skills it is given, also those of several domains", Skills: []string{"*"}, Tags: []string{"worker"}, Ask: true},
}

// builder can be handed over to.
var builder = llm.Agent{Name: "skill-builder", Description: "Builds new skills with you", Handoff: true, Triggers: []string{"create skill", "build skill", "new skill"}}

func (b *bench) mainFacts() *llm.Facts {
	f := &llm.Facts{Consults: true, Agents: slices.Clone(crew)}
	if b.handoffs {
		f.Agents = append(f.Agents, builder)
	}
	return f
}

func (b *bench) mainTools() []llm.Tool {
	tools := []llm.Tool{{Name: toolConsult}}
	if b.handoffs {
		tools = append(tools, llm.Tool{Name: toolHandoff})
	}
	return tools
}

func (b *bench) mainCall(ctx context.Context, w way, u mesh.ToolUse, args map[string]any) llm.ToolResult {
	name, task := fmt.Sprint(args["agent"]), fmt.Sprint(args["task"])
	if u.Name == toolHandoff {
		b.handed = append(b.handed, name)
		return llm.ToolResult{Text: "handed over", Stop: true}
	}
	mission := &llm.Mission{Text: task, Answers: list(args["answers"])}
	var result string
	if name == "orchestrator" {
		result = b.orchestrate(w, mission)
	} else {
		result = b.work(w, []string{name + ".*"}, mission)
	}
	return llm.ToolResult{Text: toJSON(with(map[string]any{"agent": name}, result))}
}

// with adds what an agent said, or asked.
func with(m map[string]any, result string) map[string]any {
	question, asks := strings.CutPrefix(result, askMark)
	m["status"], m["result"] = "completed", question
	if asks {
		m["status"] = "awaiting"
	}
	return m
}

// work lets an agent with the skills do its mission.
func (b *bench) work(w way, patterns []string, m *llm.Mission) string {
	return b.run(b.face(w, patterns), m, userSays(m.Text))
}

// orchestrate dispatches agents one after the other, in an order in which those
// that wait come later.
func (b *bench) orchestrate(w way, m *llm.Mission) string {
	var mu sync.Mutex
	var orders []map[string]any
	tools := &benchTools{bench: b, tools: []llm.Tool{{Name: toolDispatch}, {Name: toolResults}}, facts: &llm.Facts{Dispatches: true, Skills: b.known([]string{"*"})}}
	tools.call = func(_ context.Context, u mesh.ToolUse, args map[string]any) llm.ToolResult {
		mu.Lock()
		defer mu.Unlock()
		if u.Name == toolDispatch {
			orders = append(orders, args)
			b.ordered = append(b.ordered, args)
			return llm.ToolResult{Text: toJSON(map[string]any{"agent_id": args["agent_id"], "status": "accepted"})}
		}
		return llm.ToolResult{Text: toJSON(map[string]any{"agents": b.dispatch(w, orders)})}
	}
	return b.run(tools, m, userSays(m.Text))
}

func (b *bench) dispatch(w way, orders []map[string]any) []map[string]any {
	results := map[string]string{}
	var out []map[string]any
	for len(out) < len(orders) {
		before := len(out)
		for _, o := range orders {
			id := fmt.Sprint(o["agent_id"])
			_, done := results[id]
			waits := slices.ContainsFunc(list(o["depends_on"]), func(n string) bool { _, ok := results[n]; return !ok })
			if done || waits {
				continue
			}
			results[id] = b.work(w, list(o["skills"]), briefing(o, results))
			out = append(out, with(map[string]any{"agent_id": id}, results[id]))
		}
		if len(out) == before {
			b.t.Fatalf("dependencies that can never be met: %v", orders)
		}
	}
	return out
}

// briefing is the mission of an agent that was dispatched.
func briefing(o map[string]any, results map[string]string) *llm.Mission {
	m := &llm.Mission{Text: fmt.Sprint(o["mission"]), Results: map[string]string{}}
	m.Context, _ = o["context"].(string)
	for _, n := range list(o["depends_on"]) {
		m.Results[n] = results[n]
	}
	return m
}

func list(v any) []string {
	var out []string
	items, _ := v.([]any)
	for _, it := range items {
		out = append(out, fmt.Sprint(it))
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
