package modelrun

import (
	"cmp"
	"context"
	"slices"

	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/skill/command"
	"agentmesh/mesh/text"
)

// Combine returns the tools of all lists. Of tools with the same name the
// first is called. Lists may be nil. Where the model calls some by command blocks,
// no result of the others has one that it could repeat.
func Combine(tools ...llm.Tools) llm.Tools {
	return combined(slices.DeleteFunc(tools, func(t llm.Tools) bool { return t == nil }))
}

type combined []llm.Tools

func (c combined) List(ctx context.Context) []llm.Tool {
	var all []llm.Tool
	for _, tools := range c {
		for _, t := range tools.List(ctx) {
			if !slices.ContainsFunc(all, named(t.Name)) {
				all = append(all, t)
			}
		}
	}
	slices.SortStableFunc(all, func(a, b llm.Tool) int { return cmp.Compare(a.Name, b.Name) })
	return all
}

// Batch implements llm.Batcher for those of the tools that do.
func (c combined) Batch(ctx context.Context, uses []mesh.ToolUse) {
	for _, tools := range c {
		if b, ok := tools.(llm.Batcher); ok {
			b.Batch(ctx, uses)
		}
	}
}

// Discovers implements llm.Discoverer for those of the tools that do.
func (c combined) Discovers(name string) bool {
	return slices.ContainsFunc(c, func(tools llm.Tools) bool {
		d, ok := tools.(llm.Discoverer)
		return ok && d.Discovers(name)
	})
}

// Waits implements llm.Waiter for those of the tools that do.
func (c combined) Waits(tool string) bool {
	return slices.ContainsFunc(c, func(tools llm.Tools) bool {
		w, ok := tools.(llm.Waiter)
		return ok && w.Waits(tool)
	})
}

// Summary implements summarizer for those of the tools that do.
func (c combined) Summary(use mesh.ToolUse) (string, bool) {
	for _, tools := range c {
		if s, is := tools.(summarizer); is {
			if short, ok := s.Summary(use); ok {
				return short, true
			}
		}
	}
	return "", false
}

// Settles implements [Settler] for those of the tools that do.
func (c combined) Settles(call string) bool {
	return slices.ContainsFunc(c, func(tools llm.Tools) bool {
		s, ok := tools.(Settler)
		return ok && s.Settles(call)
	})
}

// Asked implements [Asker] for those of the tools that do.
func (c combined) Asked(ctx context.Context, call string) (questions []mesh.Question, report *agent.Report, ok bool) {
	for _, tools := range c {
		if a, is := tools.(Asker); is {
			if questions, report, ok = a.Asked(ctx, call); ok {
				return questions, report, true
			}
		}
	}
	return nil, nil, false
}

// A commander is Tools that a model may call in its text.
type commander interface{ Commands() llm.Commands }

func (c combined) Call(ctx context.Context, use mesh.ToolUse) llm.ToolResult {
	commands := slices.IndexFunc(c, func(tools llm.Tools) bool {
		s, ok := tools.(commander)
		return ok && s.Commands() != nil
	})
	if commands < 0 {
		return c.call(ctx, use)
	}
	if use.Name == llm.CommandTool {
		return c[commands].Call(ctx, use)
	}
	r := c.call(ctx, use)
	r.Text = command.Defuse(r.Text)
	return r
}

func (c combined) call(ctx context.Context, use mesh.ToolUse) llm.ToolResult {
	for _, tools := range c {
		if slices.ContainsFunc(tools.List(ctx), named(use.Name)) {
			return tools.Call(ctx, use)
		}
	}
	return llm.ToolResult{Text: text.UnknownTool(use.Name), Failed: true, Cause: mesh.CauseMissing}
}

func named(name string) func(llm.Tool) bool {
	return func(t llm.Tool) bool { return t.Name == name }
}
