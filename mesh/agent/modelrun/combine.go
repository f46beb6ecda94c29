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

// Follows implements llm.Batcher for those of the tools that do.
func (c combined) Follows(name string) bool {
	return one(c, func(b llm.Batcher) bool { return b.Follows(name) })
}

// one reports whether it is so for one of the tools that are a T; others are not asked
// after it.
func one[T any](c combined, is func(T) bool) bool {
	return slices.ContainsFunc(c, func(tools llm.Tools) bool {
		t, ok := tools.(T)
		return ok && is(t)
	})
}

// Discovers implements llm.Discoverer for those of the tools that do.
func (c combined) Discovers(name string) bool {
	return one(c, func(d llm.Discoverer) bool { return d.Discovers(name) })
}

// Know implements llm.Knower for those of the tools that do.
func (c combined) Know(ctx context.Context, f *llm.Facts) error {
	for _, tools := range c {
		if k, ok := tools.(llm.Knower); ok {
			if err := k.Know(ctx, f); err != nil {
				return err
			}
		}
	}
	return nil
}

// Waits implements llm.Waiter for those of the tools that do.
func (c combined) Waits(tool string) bool {
	return one(c, func(w llm.Waiter) bool { return w.Waits(tool) })
}

// Settles implements [Settler] for those of the tools that do.
func (c combined) Settles(call string) bool {
	return one(c, func(s Settler) bool { return s.Settles(call) })
}

// Summary implements summarizer for those of the tools that do.
func (c combined) Summary(use mesh.ToolUse) (short string, ok bool) {
	ok = one(c, func(s summarizer) (knows bool) { short, knows = s.Summary(use); return knows })
	return short, ok
}

// Asked implements [Asker] for those of the tools that do.
func (c combined) Asked(ctx context.Context, call string) (questions []mesh.Question, report *agent.Report, ok bool) {
	ok = one(c, func(a Asker) (waits bool) { questions, report, waits = a.Asked(ctx, call); return waits })
	return questions, report, ok
}

// Limit implements [Limiter] for those of the tools that do.
func (c combined) Limit() (trip *llm.Trip) {
	one(c, func(l Limiter) bool { trip = l.Limit(); return trip != nil })
	return trip
}

// Report implements [Reporter] for those of the tools that do.
func (c combined) Report(ctx context.Context) (questions []mesh.Question, report agent.Report) {
	var all []agent.Report
	for _, tools := range c {
		if r, ok := tools.(Reporter); ok {
			q, one := r.Report(ctx)
			questions, all = union(questions, q), append(all, one)
		}
	}
	return questions, agent.Merge(all)
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
