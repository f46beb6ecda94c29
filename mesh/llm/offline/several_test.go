package offline

import (
	"context"
	"fmt"
	"slices"
	"sync"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
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
	return llm.ToolResult{Text: toJSON(map[string]any{"agent": name, "status": "completed", "result": result})}
}

// work lets an agent with the skills do its mission.
func (b *bench) work(w way, patterns []string, mission string) string {
	tools, system := b.face(w, patterns)
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
			out = append(out, map[string]any{"agent_id": id, "status": "completed", "result": results[id]})
		}
		if len(out) == before {
			b.t.Fatalf("dependencies that can never be met: %v", orders)
		}
	}
	return out
}
