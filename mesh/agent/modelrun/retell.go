package modelrun

import (
	"context"
	"slices"
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/thread"
)

// retell has what the model said in a run that was cut off said again: the user is shown it
// in place of what was shown of it then. A run that was only to end ends with that.
func (m *modelRun) retell(ctx context.Context) error {
	return m.inv.Mesh.Transcript(ctx, func(t *thread.Transcript, _ bool) bool {
		own := t.Party(m.inv.Execution)
		var all strings.Builder
		m.answered, m.asking = false, ""
		for _, r := range own.Replies {
			if r.Seq <= own.Ran {
				continue
			}
			words := m.spoken(r)
			if all.Len() > 0 && words != "" && !strings.HasSuffix(all.String(), "\n") {
				all.WriteString("\n\n")
				words = strings.TrimLeft(words, "\n")
			}
			all.WriteString(words)
			m.answered = len(r.Tools) == 0 && strings.TrimSpace(r.Text) != "" && len(r.Told) == 0 && len(r.Read) == 0
			if m.asking = ""; m.answered && r.Finish == llm.FinishAsk {
				m.asking = r.Text
			}
		}
		m.said = all.String()
		m.gap = m.said != ""
		return true
	})
}

// spoken is what the user is shown of a reply.
func (m *modelRun) spoken(r *thread.Reply) string {
	switch {
	case r.Finish == llm.FinishAsk:
		return ""
	case m.Commands == nil:
		return r.Text
	}
	split := m.Commands.Split()
	words := split.Write(r.Text)
	rest, _, _ := split.Close()
	return words + rest
}

// fills returns what says that a conversation is more than the model is shown of
// it; nil where that has no bound.
func (m *modelRun) fills(ctx context.Context) func([]llm.Message) bool {
	if m.Fit == nil {
		return nil
	}
	req := llm.Request{Model: m.Name, System: m.System, Context: m.Context, Fresh: m.Fresh}
	if m.Tools != nil {
		req.Tools = m.Tools.List(ctx)
	}
	return func(history []llm.Message) bool {
		asked := req
		asked.Messages = bare(history)
		return m.Fit(&asked, mesh.Usage{}) > 0
	}
}

// bare returns the messages without the calls that are in their text as well, and without files,
// of which nothing is shown yet.
func bare(history []llm.Message) []llm.Message {
	isCommand := func(u mesh.ToolUse) bool { return u.Name == llm.CommandTool }
	out := slices.Clone(history)
	for i, m := range out {
		out[i].Files = nil
		if slices.ContainsFunc(m.Tools, isCommand) {
			out[i].Tools = slices.DeleteFunc(slices.Clone(m.Tools), isCommand)
		}
	}
	return out
}
