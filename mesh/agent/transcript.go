package agent

import (
	"context"
	"slices"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/text"
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
		s := &m.story
		_, leg := s.legs[s.own]
		return !leg && s.mission != "" || enough != nil && enough(s.transcript(text))
	}
	if err := m.read(ctx, will); err != nil {
		return nil, mesh.Wrap("agent.Transcript", err)
	}
	return m.story.transcript(text), nil
}

func (s *story) transcript(text string) []llm.Message {
	if _, leg := s.legs[s.own]; !leg {
		return s.alone(s.mission, text)
	}
	return s.conversation(text)
}

// alone is the transcript of an execution that knows its mission and what it did
// for it, and goes on with the text.
func (s *story) alone(mission, text string) []llm.Message {
	if mission == "" || len(s.replied[s.own]) == 0 {
		return []llm.Message{{Role: llm.RoleUser, Text: text}}
	}
	out := []llm.Message{{Role: llm.RoleUser, Text: mission}}
	for _, r := range s.replied[s.own] {
		out = append(out, r.messages("")...)
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
func (s *story) conversation(text string) []llm.Message {
	own := slices.DeleteFunc(slices.Clone(s.lines), func(l *line) bool { return l.turn != s.of[s.own] })
	out := s.spoken(s.past)
	for i, l := range slices.Backward(own) {
		if l.said == nil || l.said.Role != RoleUser || l.said.Text != text {
			continue
		}
		out = append(out, s.spoken(own[:i+1])...)
		for _, l := range own[i+1:] {
			if l.reply != nil && l.execution == s.own {
				out = append(out, l.reply.messages("")...)
			}
		}
		return out
	}
	return append(append(out, s.spoken(own)...), llm.Message{Role: llm.RoleUser, Text: text})
}

func (s *story) spoken(lines []*line) []llm.Message {
	var out []llm.Message
	for _, l := range lines {
		switch {
		case l.reply != nil:
			out = append(out, l.reply.messages(s.missing(l.execution))...)
		case l.execution != "" && len(s.replied[l.execution]) > 0:
			// its replies say it
		default:
			item := l.said.item()
			if item.Text == "" {
				continue
			}
			role := llm.RoleUser
			if item.Role == RoleAgent {
				role = llm.RoleAssistant
			}
			out = append(out, llm.Message{Role: role, Text: item.Text, Name: item.Agent, Asks: l.said.asks})
		}
	}
	return out
}

// missing is why results are not there; "" for those that are still to come.
func (s *story) missing(execution string) mesh.Cause {
	switch {
	case execution == s.own:
		return ""
	case s.paused[execution]:
		return mesh.CauseWaiting
	}
	return mesh.CauseInterrupted
}

// messages are the reply and the results of its calls, in the order of the
// calls. missing stands for results that are not there, since providers refuse
// calls without results; "" leaves them out.
func (r *reply) messages(missing mesh.Cause) []llm.Message {
	out := []llm.Message{{Role: llm.RoleAssistant, Text: r.text, Tools: r.uses}}
	for _, u := range r.uses {
		result, ok := r.results[u.ID]
		switch {
		case !ok && missing == "":
			continue
		case !ok && missing == mesh.CauseWaiting:
			result = settled{text: text.CallWaiting(), failed: true, cause: missing}
		case !ok:
			result = settled{text: text.CallInterrupted(), failed: true, cause: missing}
		}
		out = append(out, llm.Message{Role: llm.RoleTool, Text: result.text, ToolID: u.ID, Name: u.Name, Failed: result.failed, Cause: result.cause})
	}
	return out
}
