package agent

import (
	"context"
	"iter"
	"log/slog"
	"slices"
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
)

// A ModelRun is how an agent lets a model answer a message.
type ModelRun struct {
	Model llm.Model
	// Name is the model to ask for; "" is the provider's default.
	Name   string
	System string
	// Tools may be nil.
	Tools llm.Tools
	// History is the conversation, with the message to answer last. By
	// default it is the invocation's message alone.
	History []llm.Message
	// MaxSteps is how many replies may call tools; 0 is llm.DefaultMaxSteps.
	MaxSteps int
	// Progress returns what the user is told when a tool starts; false for
	// nothing. By default nothing is.
	Progress func(use mesh.ToolUse) (Progress, bool)
	// Logger gets the stacks of tools that panic. The default discards.
	Logger *slog.Logger
}

// RunModel lets the model answer the invocation's message: it yields the text
// as it comes, records every reply in the thread, and ends when the model has
// answered or a tool stops it. A failure of the model ends it with its error.
func RunModel(ctx context.Context, inv *Invocation, run ModelRun) iter.Seq2[Output, error] {
	return func(yield func(Output, error) bool) {
		history := run.History
		if len(history) == 0 {
			history = []llm.Message{{Role: llm.RoleUser, Text: inv.Text()}}
		}
		loop := &llm.Loop{
			Model: run.Model, Tools: run.Tools, Name: run.Name, System: run.System,
			MaxSteps: run.MaxSteps, Logger: run.Logger,
		}
		m := modelRun{inv: inv, progress: run.Progress, steps: loop.MaxSteps}
		for e, err := range loop.Run(ctx, history) {
			out, err := m.output(ctx, e, err)
			if err != nil {
				yield(nil, err)
				return
			}
			if out != nil && !yield(out, nil) {
				return
			}
		}
	}
}

// modelRun is one RunModel under way.
type modelRun struct {
	inv      *Invocation
	progress func(mesh.ToolUse) (Progress, bool)
	steps    int
	said     string // the last text
	gap      bool   // a reply with text ended: what comes next is a new paragraph
}

// output returns what the agent says about the event, or nil.
func (m *modelRun) output(ctx context.Context, e llm.Event, err error) (Output, error) {
	switch {
	case err != nil:
		return nil, err
	case e.Text != "":
		text := e.Text
		if m.gap && !strings.HasSuffix(m.said, "\n") {
			text = "\n\n" + strings.TrimLeft(text, "\n")
		}
		m.said, m.gap = e.Text, false
		return Text{text}, nil
	case e.Reply != nil:
		m.gap = m.said != ""
		_, err := m.inv.Mesh.Record(ctx, &mesh.Event{Body: *e.Reply})
		return nil, err
	case e.Call != nil && m.progress != nil:
		if p, ok := m.progress(*e.Call); ok {
			return p, nil
		}
	case e.Limit:
		most := int64(m.steps)
		if most <= 0 {
			most = llm.DefaultMaxSteps
		}
		_, err := m.inv.Mesh.Record(ctx, &mesh.Event{Body: mesh.LimitTripped{
			Limit: "agent.steps", Detail: "The model had to answer without further tools", Used: most, Most: most,
		}})
		return nil, err
	}
	return nil, nil
}

// Conversation returns what was said as messages for a model, up to the user's
// message with the text, which is added if it is not there: a message that
// came after it has to wait for its own run.
func Conversation(items []HistoryItem, text string) []llm.Message {
	at := len(items) - 1
	for at >= 0 && (items[at].Role != RoleUser || items[at].Text != text) {
		at--
	}
	if at < 0 {
		items = append(slices.Clone(items), HistoryItem{Role: RoleUser, Text: text})
		at = len(items) - 1
	}
	var out []llm.Message
	for _, item := range items[:at+1] {
		role := llm.RoleUser
		if item.Role == RoleAgent {
			role = llm.RoleAssistant
		}
		out = append(out, llm.Message{Role: role, Text: item.Text, Name: item.Agent})
	}
	return out
}
