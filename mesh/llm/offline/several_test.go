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
	meshskill "agentmesh/mesh/skill"
	"agentmesh/mesh/skill/command"
)

// crew are the agents that main may ask, as their cards describe them.
const crew = "Ask another agent.\n" +
	"\n- calendar: Creates meetings and other calendar events, and says what is planned (skills: calendar.create, calendar.list; tags: calendar, meeting, event, schedule, agenda)" +
	"\n- knowledge: Answers questions from the documentation and names its sources (skills: knowledge.search; tags: knowledge, documentation, search)" +
	"\n- mail: Sends email messages (skills: mail.send; tags: email, mail, send)" +
	"\n- orchestrator: Takes requests with several parts apart, lets other agents work on them at the same time, and sums up what came of it (skills: orchestration; tags: orchestration)" +
	"\n- tasks: Keeps the to-do list: creates, finds, changes and archives tasks (skills: tasks.archive, tasks.create, tasks.get, tasks.search, tasks.update; tags: task, todo, archive, create, overdue, open, update)" +
	"\n- worker: Does one task with whatever skills it is given, also those of several domains (skills: *; tags: worker)"

func (b *bench) mainTools() []llm.Tool {
	tools := []llm.Tool{{Name: toolConsult, Description: crew}}
	if b.handoffs {
		tools = append(tools, llm.Tool{Name: toolHandoff, Description: handoffCatalog})
	}
	return tools
}

func (b *bench) mainCall(ctx context.Context, w way, u mesh.ToolUse, args map[string]any) llm.ToolResult {
	name, task := fmt.Sprint(args["agent"]), fmt.Sprint(args["task"])
	if u.Name == toolHandoff {
		b.handed = append(b.handed, name)
		return llm.ToolResult{Text: "handed over", Stop: true}
	}
	var result string
	if name == "orchestrator" {
		result = b.orchestrate(ctx, w, task)
	} else {
		result = b.work(w, []string{name + ".*"}, task)
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
func (b *bench) work(w way, patterns []string, mission string) string {
	tools, system := b.face(w, patterns)
	system = "You do exactly one mission and return its result.\n\n" + system
	return b.run(&benchTools{bench: b, tools: tools, patterns: patterns}, system, w.face == byCommand, userSays(mission))
}

// orchestrate dispatches agents one after the other, in an order in which those
// that wait come later.
func (b *bench) orchestrate(_ context.Context, w way, task string) string {
	var mu sync.Mutex
	var orders []map[string]any
	tools := &benchTools{bench: b, tools: []llm.Tool{{Name: toolDispatch}, {Name: toolResults}, getSkillTool(b.skills)}}
	tools.call = func(ctx context.Context, u mesh.ToolUse, args map[string]any) llm.ToolResult {
		mu.Lock()
		defer mu.Unlock()
		switch u.Name {
		case toolGetSkill:
			b.note(toJSON(args))
			return getSkill(ctx, b.skills, args)
		case toolDispatch:
			orders = append(orders, args)
			b.ordered = append(b.ordered, args)
			return llm.ToolResult{Text: toJSON(map[string]any{"agent_id": args["agent_id"], "status": "accepted"})}
		}
		return llm.ToolResult{Text: toJSON(map[string]any{"agents": b.dispatch(w, orders)})}
	}
	return b.run(tools, "Available skill domains: some", false, userSays(task))
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

const handoffCatalog = "Hand the conversation over.\n\n- skill-builder: Builds new skills with you (triggers: create skill, build skill, new skill)"

// briefing is the first message of an agent that was dispatched, as the mesh
// writes it.
func briefing(d map[string]any, results map[string]string) string {
	text := fmt.Sprint(d["mission"])
	if c, ok := d["context"].(string); ok {
		text += "\n\n## Additional context\n" + c
	}
	if needs := list(d["depends_on"]); len(needs) > 0 {
		text += "\n\n## Results from prior agents"
		for _, n := range needs {
			text += "\nResults from " + n + ":\n```\n" + strings.ReplaceAll(results[n], "```", "'''") + "\n```\n"
		}
	}
	return text
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
