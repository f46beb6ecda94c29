package agent

import (
	"context"
	"encoding/json"
	"slices"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/skill/command"
	"agentmesh/mesh/text"
	"agentmesh/mesh/thread"
)

// Transcript returns the conversation as messages for the agent's model, with
// what its own models said and which tools they called, up to the message that
// is being answered, which is last. Calls of this execution that have not ended
// have no result: [llm.Loop] settles them. An execution that another agent
// dispatched sees its mission and itself, nothing else.
//
// The conversation is read from its end: whole turns, until enough says that what
// there is will do. It is asked with more each time, and must not change it. Nil
// reads all.
func (m *Mesh) Transcript(ctx context.Context, text string, enough func([]llm.Message) bool) ([]llm.Message, error) {
	m.reading.Lock()
	defer m.reading.Unlock()
	will := func() bool {
		own := m.own()
		return own.Turn == "" && a2a.TextOf(own.Mission) != "" || enough != nil && enough(m.messages(text))
	}
	if err := m.read(ctx, will); err != nil {
		return nil, mesh.Wrap("agent.Transcript", err)
	}
	return m.messages(text), nil
}

// messages is the transcript of what was read.
func (m *Mesh) messages(text string) []llm.Message {
	if own := m.own(); own.Turn == "" {
		return m.alone(a2a.TextOf(own.Mission), text)
	}
	return m.conversation(text)
}

// alone is the transcript of an execution that knows its mission and what it did
// for it, and goes on with the text.
func (m *Mesh) alone(mission, text string) []llm.Message {
	replies := m.own().Replies
	if mission == "" || len(replies) == 0 {
		return []llm.Message{{Role: llm.RoleUser, Text: text}}
	}
	out := []llm.Message{{Role: llm.RoleUser, Text: mission}}
	for _, r := range replies {
		out = append(out, exchange(r, "")...)
	}
	if text != mission {
		out = append(out, llm.Message{Role: llm.RoleUser, Text: text})
	}
	return out
}

// conversation is the transcript of an execution that has the user's stream:
// all that was said in other turns before it began, and then its own turn up to
// the user's last message with the text, which is added if it is not there, and
// what the execution did about it already. What was said in other turns while it
// waited for its user is theirs: its own last reply, whose calls may still have
// to be made, stays the last one, and the messages before it what they were.
func (m *Mesh) conversation(text string) []llm.Message {
	t, own := m.transcript, m.grant.Execution
	lines := t.In(m.own().Turn)
	out := m.spoken(t.Before(own))
	for i, l := range slices.Backward(lines) {
		if u := l.Utterance(); l.Reply != nil || u.Role != thread.RoleUser || u.Text != text {
			continue
		}
		out = append(out, m.spoken(lines[:i+1])...)
		for _, l := range lines[i+1:] {
			if l.Reply != nil && l.Execution == own {
				out = append(out, exchange(l.Reply, "")...)
			}
		}
		return out
	}
	return append(append(out, m.spoken(lines)...), llm.Message{Role: llm.RoleUser, Text: text})
}

// spoken is what the lines are for the agent's model: what its own models replied,
// and what others said.
func (m *Mesh) spoken(lines []*thread.Line) []llm.Message {
	out := make([]llm.Message, 0, len(lines))
	for _, l := range lines {
		who := m.transcript.Party(l.Execution)
		mine := l.Execution != "" && who.Agent == m.grant.Agent
		switch {
		case l.Reply != nil && mine:
			out = append(out, exchange(l.Reply, m.missing(l.Execution, who))...)
		case l.Reply != nil, mine && len(who.Replies) > 0:
			// replies of others are their own, and ours say what we said
		default:
			u := l.Utterance()
			if u.Text == "" {
				continue
			}
			role := llm.RoleUser
			if u.Role == thread.RoleAgent {
				role = llm.RoleAssistant
			}
			out = append(out, llm.Message{Role: role, Text: u.Text, Name: u.Agent, Asks: l.Asks})
		}
	}
	return out
}

// own is what is known of this execution, as far as was read.
func (m *Mesh) own() *thread.Party {
	if m.transcript == nil {
		return &thread.Party{}
	}
	return m.transcript.Party(m.grant.Execution)
}

// missing is why results are not there; "" for those that are still to come.
func (m *Mesh) missing(execution mesh.ExecutionID, p *thread.Party) mesh.Cause {
	switch {
	case execution == m.grant.Execution:
		return ""
	case p.Waits:
		return mesh.CauseWaiting
	}
	return mesh.CauseInterrupted
}

// exchange is a reply and the results of its calls, in the order of the
// calls. missing stands for results that are not there, since providers refuse
// calls without results; "" leaves them out.
func exchange(r *thread.Reply, missing mesh.Cause) []llm.Message {
	said := llm.Message{Role: llm.RoleAssistant, Text: r.Text, Tools: r.Tools}
	if r.Finish == llm.FinishAsk {
		said.Asks = llm.FinishAsk
	}
	out := []llm.Message{said}
	for _, u := range r.Tools {
		result, ok := r.Results[u.ID]
		switch {
		case !ok && missing == "":
			continue
		case !ok && missing == mesh.CauseWaiting:
			result = thread.Result{Text: text.CallWaiting(), Failed: true, Cause: missing}
		case !ok:
			result = thread.Result{Text: text.CallInterrupted(), Failed: true, Cause: missing}
		case result.Skill && u.Name == llm.CommandTool && !isTemplate(result.Metadata):
			result.Text = command.Defuse(result.Text)
		}
		out = append(out, llm.Message{Role: llm.RoleTool, Text: result.Text, ToolID: u.ID, Name: u.Name, Failed: result.Failed, Cause: result.Cause, Metadata: result.Metadata})
	}
	return out
}

// isTemplate reports whether the metadata of a result says that it is a template:
// its blocks are for the model.
func isTemplate(metadata string) bool {
	var m struct {
		Interpret bool `json:"requires_interpretation"`
	}
	return metadata != "" && json.Unmarshal([]byte(metadata), &m) == nil && m.Interpret
}
