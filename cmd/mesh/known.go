package main

import (
	"context"
	"runtime/debug"
	"strings"
	"sync"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/command"
	"agentmesh/skills/memory"
	"agentmesh/skills/tasks"
)

// contextTime is how long a turn waits for what is known before the model is
// asked.
const contextTime = 2 * time.Second

// A lookup is a skill that only reads, and whose result a model is given without
// having called it.
type lookup struct {
	title, skill string
	args         func(inv *agent.Invocation) map[string]any
}

// lookups are what is known before the model is asked: the open tasks of the
// tenant, and what the memory has about the message.
var lookups = []lookup{
	{"Active tasks:", "tasks.search", func(*agent.Invocation) map[string]any { return map[string]any{"limit": int64(5)} }},
	{"From the memory:", "memory.search", func(inv *agent.Invocation) map[string]any {
		return map[string]any{"query": mesh.Clip(inv.Text(), 500), "limit": int64(5)}
	}},
}

// known returns what gets the results of the lookups that the agent may make, at
// the same time and each within the limit. They are data, and quoted as such. One
// that finds nothing is left out, and so is one that fails: it never fails a turn.
func (k *kit) known(limit time.Duration) func(context.Context, *agent.Invocation) string {
	code := map[string]skill.Code{"tasks.search": tasks.Search, "memory.search": k.memory().Search} // which only read
	return func(ctx context.Context, inv *agent.Invocation) string {
		ctx, cancel := context.WithTimeout(ctx, limit)
		defer cancel()
		parts := make([]string, len(lookups))
		var all sync.WaitGroup
		for i, l := range lookups {
			if inv.Grant.AllowsSkill(l.skill) {
				all.Go(func() { parts[i] = k.look(ctx, inv, l, code[l.skill]) })
			}
		}
		all.Wait()
		return strings.TrimSpace(strings.Join(parts, "\n\n"))
	}
}

// look makes one lookup; "" if it fails or finds nothing.
func (k *kit) look(ctx context.Context, inv *agent.Invocation, l lookup, search skill.Code) string {
	defer func() {
		if p := recover(); p != nil {
			k.logger.ErrorContext(ctx, "a part of the context is missing", "skill", l.skill, "panic", p, "stack", string(debug.Stack()))
		}
	}()
	env := &skill.Env{Tenant: inv.Thread.Tenant, User: inv.User, Thread: inv.Thread.ID, State: inv.Mesh.State(), Now: k.now, Logger: k.logger}
	r, err := search(ctx, &skill.Call{Skill: l.skill, Args: l.args(inv)}, env)
	if err != nil || r.Status == skill.StatusError {
		k.logger.WarnContext(ctx, "a part of the context is missing", "skill", l.skill, "err", err)
		return ""
	}
	if r.Metadata["count"] == 0 {
		return ""
	}
	return l.title + "\n" + command.Quote(r.Content)
}

// learns reports whether the user of the execution wants what agents find out to be
// remembered. Where that cannot be read, nothing is.
func (k *kit) learns(ctx context.Context, inv *agent.Invocation) bool {
	if !inv.Grant.AllowsSkill("memory.save") {
		return false
	}
	s, err := memory.SettingsOf(ctx, inv.Mesh.State())
	if err != nil {
		k.logger.WarnContext(ctx, "the settings of the memory cannot be read", "err", err)
	}
	return s.Learn
}
