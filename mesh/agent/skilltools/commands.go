package skilltools

import (
	"context"
	"encoding/json"
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/command"
	"agentmesh/mesh/text"
)

// commands reads command blocks out of a model's text.
type commands struct{}

// Split implements [llm.Commands].
func (commands) Split() llm.Splitter { return &splitter{} }

type splitter struct{ command.Splitter }

// Close implements [llm.Splitter].
func (s *splitter) Close() (text string, calls []mesh.ToolUse, problem string) {
	text, lines, err := s.Splitter.Close()
	for _, l := range lines {
		calls = append(calls, mesh.ToolUse{Name: llm.CommandTool, Arguments: command.JSON(llm.CommandCall{Line: l.Raw, At: l.At})})
	}
	if err != nil {
		problem = mesh.DetailOf(err)
	}
	return text, calls, problem
}

// Results implements [llm.Commands] (S3-091).
func (commands) Results(results []*llm.CallResult) llm.Message {
	parts := make([]string, 0, len(results))
	for _, r := range results {
		name := llm.CommandTool
		if words := strings.Fields(commandLine(r.Use)); len(words) > 0 {
			name = mesh.Clip(words[0], 64)
		}
		text := r.Text
		if r.Failed {
			text = "Error: " + text
		}
		parts = append(parts, "[Command Result: "+name+"]\n"+text)
	}
	return llm.Message{Role: llm.RoleUser, Text: strings.Join(parts, "\n\n")}
}

// commandLine is the line that made the call.
func commandLine(use mesh.ToolUse) string {
	var c llm.CommandCall
	_ = json.Unmarshal([]byte(use.Arguments), &c) // what cannot be read has no line
	return c.Line
}

// command runs one line of a command block.
func (t *Tools) command(ctx context.Context, use mesh.ToolUse) llm.ToolResult {
	var args llm.CommandCall
	if err := json.Unmarshal([]byte(use.Arguments), &args); err != nil {
		return failedTool(mesh.CauseInvalid, text.UnreadableCommand())
	}
	if args.Skill != "" {
		return t.run(ctx, &skill.Call{ID: use.ID, Skill: args.Skill, Args: args.Arguments, Source: mesh.SourceCommand})
	}
	c, err := command.Line{Raw: args.Line, At: args.At}.Parse()
	if err != nil {
		return failedTool(mesh.CauseInvalid, mesh.DetailOf(err))
	}
	if c.Skill == command.GetSkill && !t.look {
		return failedTool(mesh.CauseMissing, text.NoDiscovery())
	}
	if c.Discovery() {
		return plainResult(command.Help(ctx, t.catalog(), c))
	}
	call := &skill.Call{ID: use.ID, Skill: c.Skill, Source: mesh.SourceCommand}
	// The executor tells of a skill that is not there or not allowed.
	var known *skill.Skill
	if t.allowed(c.Skill) {
		if s, err := t.lookup(ctx, c.Skill); err == nil {
			known = s
		}
	}
	call.Args = command.Args(c.Flags, known)
	r := t.run(ctx, call)
	if note := c.Note(); note != "" && r.Ask == "" {
		r.Text = strings.TrimSpace(r.Text + "\n\n" + note)
	}
	return r
}

func plainResult(r *skill.Result) llm.ToolResult {
	return llm.ToolResult{Text: r.Content, Failed: r.Failed()}
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
