package agent

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strings"

	"agentmesh/mesh"
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
	return slices.ContainsFunc(c, func(tools llm.Tools) bool {
		w, ok := tools.(llm.Waiter)
		return ok && w.Waits(tool)
	})
}

// skillCall implements namer for those of the tools that do.
func (c combined) skillCall(use mesh.ToolUse) (name, args string, ok bool) {
	for _, tools := range c {
		if n, is := tools.(namer); is {
			if name, args, ok = n.skillCall(use); ok {
				return name, args, true
			}
		}
	}
	return "", "", false
}

// Settles implements [Settler] for those of the tools that do.
func (c combined) Settles(call string) bool {
	return slices.ContainsFunc(c, func(tools llm.Tools) bool {
		s, ok := tools.(Settler)
		return ok && s.Settles(call)
	})
}

// Asked implements [Asker] for those of the tools that do.
func (c combined) Asked(ctx context.Context, call string) (questions []mesh.Question, report *Report, ok bool) {
	for _, tools := range c {
		if a, is := tools.(Asker); is {
			if questions, report, ok = a.Asked(ctx, call); ok {
				return questions, report, true
			}
		}
	}
	return nil, nil, false
}

func (c combined) Call(ctx context.Context, use mesh.ToolUse) llm.ToolResult {
	commands := slices.IndexFunc(c, func(tools llm.Tools) bool {
		s, ok := tools.(*SkillTools)
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
	return failedTool(mesh.CauseMissing, text.UnknownTool(use.Name))
}

func named(name string) func(llm.Tool) bool {
	return func(t llm.Tool) bool { return t.Name == name }
}

func failedTool(cause mesh.Cause, words string) llm.ToolResult {
	return llm.ToolResult{Text: words, Failed: true, Cause: cause}
}

func nonNil[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

// toJSON returns v, which has a JSON form, on one line and readable for models.
func toJSON(v any) string {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return "null"
	}
	return strings.TrimSuffix(b.String(), "\n")
}

// explain adds what may be told of err to the text.
func explain(text string, err error) string {
	if detail := mesh.DetailOf(err); detail != "" {
		return text + ": " + detail
	}
	return text + ": internal error"
}
