package llm

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/text"
)

// resume takes the history in, and runs the calls of its last reply that have
// no result. It reports whether the run ends with them.
func (r *run) resume(ctx context.Context, history []Message) (end bool) {
	messages, at, open := paired(history)
	r.messages = messages
	if len(open) == 0 {
		return false
	}
	results, end := r.call(ctx, open, r.tools(ctx), "")
	if end || r.left {
		return true
	}
	after := at + 1
	for after < len(messages) && messages[after].Role == RoleTool {
		after++
	}
	all := append(toolMessages(results), messages[at+1:after]...)
	order := func(m Message) int {
		return slices.IndexFunc(messages[at].Tools, func(u mesh.ToolUse) bool { return u.ID == m.ToolID })
	}
	slices.SortStableFunc(all, func(a, b Message) int { return order(a) - order(b) })
	r.messages = slices.Concat(messages[:at+1], all, messages[after:])
	return false
}

// paired returns the history as providers take it: each call is followed by
// its result, in the order of the calls, and nothing else is a result. Replies
// that say nothing are left out. The calls of the last reply that have no
// result are open; at is where it is.
func paired(history []Message) (out []Message, at int, open []mesh.ToolUse) {
	last := len(history) - 1
	for last >= 0 && history[last].Role != RoleAssistant {
		last--
	}
	for i, m := range history {
		switch {
		case m.Role == RoleTool:
			continue // it is with its call
		case m.Role == RoleAssistant && strings.TrimSpace(m.Text) == "" && len(m.Tools)+len(m.Files) == 0:
			continue
		}
		out = append(out, m)
		if i == last {
			at = len(out) - 1
		}
		for _, use := range m.Tools {
			switch res, ok := resultOf(history[i+1:], use.ID); {
			case ok:
				out = append(out, res)
			case i == last:
				open = append(open, use)
			default:
				out = append(out, Message{Role: RoleTool, Text: text.CallInterrupted(), ToolID: use.ID, Name: use.Name, Failed: true, Cause: mesh.CauseInterrupted})
			}
		}
	}
	return out, at, open
}

// resultOf finds the result of a call before the next reply.
func resultOf(after []Message, id string) (Message, bool) {
	for _, m := range after {
		if m.Role == RoleAssistant {
			break
		}
		if m.Role == RoleTool && m.ToolID == id {
			return m, true
		}
	}
	return Message{}, false
}

// render returns the messages as a model is shown them: commands are part of
// the text of the reply that made them, and what they came to is a message
// after the results of its other calls. What was rendered before stays the
// same when messages are added.
func render(messages []Message, c Commands) []Message {
	out := make([]Message, 0, len(messages)+1)
	for i := 0; i < len(messages); i++ {
		m := messages[i]
		if !slices.ContainsFunc(m.Tools, isCommand) {
			out = append(out, m)
			continue
		}
		uses := m.Tools
		m.Tools = slices.DeleteFunc(slices.Clone(uses), isCommand)
		if m.Text == "" && len(m.Tools) == 0 {
			m.Text = block(uses)
		}
		out = append(out, m)
		var results []*CallResult
		for ; i+1 < len(messages) && messages[i+1].Role == RoleTool; i++ {
			res := messages[i+1]
			at := slices.IndexFunc(uses, func(u mesh.ToolUse) bool { return u.ID == res.ToolID })
			if at < 0 || !isCommand(uses[at]) {
				out = append(out, res)
				continue
			}
			results = append(results, &CallResult{Use: uses[at], ToolResult: ToolResult{Text: res.Text, Failed: res.Failed, Cause: res.Cause, Metadata: res.Metadata}})
		}
		if len(results) > 0 {
			out = append(out, resultMessage(c, results))
		}
	}
	return out
}

func isCommand(u mesh.ToolUse) bool { return u.Name == CommandTool }

// resultMessage is the message with the results of commands, marked as such.
func resultMessage(c Commands, results []*CallResult) Message {
	var m Message
	if c != nil {
		m = c.Results(results)
	} else {
		m.Text = plainResults(results)
	}
	m.Role, m.ToolID, m.Results = RoleUser, results[0].Use.ID, results
	return m
}

// plainResults renders the results of commands for a loop that has none any
// more (S3-091).
func plainResults(results []*CallResult) string {
	var parts []string
	for _, res := range results {
		name := CommandTool
		if words := strings.Fields(commandLine(res.Use)); len(words) > 0 {
			name = words[0]
		}
		parts = append(parts, "[Command Result: "+name+"]\n"+res.Text)
	}
	return strings.Join(parts, "\n\n")
}

// block is the text that makes the calls.
func block(uses []mesh.ToolUse) string {
	lines := []string{"```" + CommandTool}
	for _, u := range uses {
		lines = append(lines, commandLine(u))
	}
	return strings.Join(append(lines, "```"), "\n")
}

// commandLine is the line that a command was made by.
func commandLine(u mesh.ToolUse) string {
	var c CommandCall
	_ = json.Unmarshal([]byte(u.Arguments), &c) // what cannot be read has no line
	return c.Line
}
