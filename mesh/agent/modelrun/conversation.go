package modelrun

import (
	"context"
	"encoding/json"
	"slices"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/command"
	"agentmesh/mesh/text"
	"agentmesh/mesh/thread"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// A conversation is what was said in a thread, for the model of an execution.
type conversation struct {
	*thread.Transcript
	grant     *mesh.Grant
	continued bool // the message was worked on before
}

// Conversation returns the conversation as messages for the agent's model, with
// what its own models said and which tools they called, up to the message that
// is being answered, which is last. Calls of this execution that have not ended
// have no result: [llm.Loop] settles them. An execution that another agent
// dispatched sees its mission and itself, nothing else.
//
// The conversation is read from its end: whole turns, until enough says that what
// there is will do. It is asked with more each time, and must not change it. Nil
// reads all.
func Conversation(ctx context.Context, inv *agent.Invocation, enough func([]llm.Message) bool) (messages []llm.Message, err error) {
	err = inv.Mesh.Transcript(ctx, func(t *thread.Transcript, whole bool) bool {
		c := conversation{t, inv.Grant, inv.Continued}
		own := c.own()
		if own.Turn == "" {
			mission := a2a.TextOf(own.Mission)
			wants := said(mission, own.Mission)
			words := said(inv.Text(), inv.Message)
			if _, answers := mesh.HelpAnswerOf(inv.Message.GetMetadata()); answers { // the call that asked has it
				words = wants
			}
			messages = c.alone(wants, words)
			messages[0].Text = text.Task(messages[0].Text)
			return mission != ""
		}
		messages = c.history(said(inv.Text(), inv.Message))
		return !whole && enough != nil && enough(messages)
	})
	return messages, err
}

// carryOut is the conversation with a model that carries out a template: the
// instruction, what was done about it already, and what the user said since.
func carryOut(ctx context.Context, inv *agent.Invocation, instruction string) (messages []llm.Message, err error) {
	err = inv.Mesh.Transcript(ctx, func(t *thread.Transcript, _ bool) bool {
		c := conversation{t, inv.Grant, inv.Continued}
		mission := said(instruction, c.own().Mission)
		words := mission
		if inv.SkillCall == nil && len(c.own().Replies) > 0 { // a model has begun with it, and the message goes on
			words = said(inv.Text(), inv.Message)
		}
		messages = c.alone(mission, words)
		return true
	})
	return messages, err
}

// said is a message of the user, or who stands for one, with the files of m.
func said(words string, m *a2apb.Message) llm.Message {
	return llm.Message{Role: llm.RoleUser, Text: words, Files: filesOf(m.GetParts())}
}

// alone is the transcript of an execution that knows its mission and what it did
// for it, and goes on with the words.
func (c conversation) alone(mission, words llm.Message) []llm.Message {
	replies, read := c.own().Replies, c.own().Read
	if mission.Text == "" || len(replies) == 0 && len(read) == 0 {
		return []llm.Message{words}
	}
	out := instructed([]llm.Message{mission}, read)
	told := words.Text == mission.Text
	for _, r := range replies {
		if !told && c.continued && r.Seq > c.own().Ran {
			out, told = append(out, words), true
		}
		out = c.exchange(out, r, "")
	}
	if !told {
		out = append(out, words)
	}
	return out
}

// history is the transcript of an execution that has the user's stream:
// all that was said in other turns before it began, and then its own turn up to
// the user's last message with the words, which is added if it is not there, and
// what the execution did about it already. What was said in other turns while it
// waited for its user is theirs: its own last reply, whose calls may still have
// to be made, stays the last one, and the messages before it what they were.
func (c conversation) history(words llm.Message) []llm.Message {
	own := c.grant.Execution
	lines := c.In(c.own().Turn)
	out := c.spoken(c.Before(own))
	for i, l := range slices.Backward(lines) {
		if u := l.Utterance(); l.Reply != nil || u.Role != thread.RoleUser || u.Text != words.Text {
			continue
		}
		out = append(out, c.spoken(lines[:i+1])...)
		for _, l := range lines[i+1:] {
			if l.Reply != nil && l.Execution == own {
				out = c.exchange(out, l.Reply, "")
			}
		}
		return out
	}
	return append(append(out, c.spoken(lines)...), words)
}

// spoken is what the lines are for the agent's model: what its own models replied,
// and what others said.
func (c conversation) spoken(lines []*thread.Line) []llm.Message {
	out := make([]llm.Message, 0, len(lines))
	for _, l := range lines {
		who := c.Party(l.Execution)
		mine := l.Execution != "" && who.Agent == c.grant.Agent
		switch {
		case l.Reply != nil && mine:
			out = c.exchange(out, l.Reply, c.missing(l.Execution, who))
		case l.Reply != nil, mine && len(who.Replies) > 0:
			// replies of others are their own, and ours say what we said
		default:
			u := l.Utterance()
			files := filesOf(l.Files())
			if u.Text == "" && len(files) == 0 {
				continue
			}
			role := llm.RoleUser
			if u.Role == thread.RoleAgent {
				role = llm.RoleAssistant
			}
			out = append(out, llm.Message{Role: role, Text: u.Text, Files: files, Name: u.Agent, Asks: l.Asks})
		}
	}
	return out
}

// own is what is known of this execution.
func (c conversation) own() *thread.Party { return c.Party(c.grant.Execution) }

// missing is why results are not there; "" for those that are still to come.
func (c conversation) missing(execution mesh.ExecutionID, p *thread.Party) mesh.Cause {
	switch {
	case execution == c.grant.Execution:
		return ""
	case p.Waits:
		return mesh.CauseWaiting
	}
	return mesh.CauseInterrupted
}

// exchange adds a reply, the results of its calls, in the order of the calls, and what
// the model was told then. missing stands for results that are not there, since providers refuse
// calls without results; "" leaves them out.
func (c conversation) exchange(out []llm.Message, r *thread.Reply, missing mesh.Cause) []llm.Message {
	said := llm.Message{Role: llm.RoleAssistant, Text: r.Text, Tools: r.Tools}
	if r.Finish == llm.FinishAsk {
		said.Asks = llm.FinishAsk
	}
	out = append(out, said)
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
	for _, told := range r.Told {
		if d := c.delivery(told); len(d.Executions) > 0 {
			out = append(out, d.Message())
		}
	}
	return instructed(out, r.Read)
}

// instructed adds what the model read of what it was told while it worked.
func instructed(out []llm.Message, read []thread.Instruction) []llm.Message {
	for _, i := range read {
		out = append(out, llm.Message{Role: llm.RoleUser, Text: text.Instruction(i.Text), ToolID: i.ID})
	}
	return out
}

// delivery is what a model was told, as it was told.
func (c conversation) delivery(b thread.Delivery) llm.Delivery {
	d := llm.Delivery{Executions: b.Executions, Text: b.Text}
	for _, id := range b.Executions {
		p := c.Party(id)
		if needs, waits := b.Needs[id]; waits {
			d.Results = append(d.Results, llm.AgentResult(id, p.Label, thread.StatusAwaiting, needs))
		} else if p.Ended != nil {
			d.Results = append(d.Results, llm.AgentResult(id, p.Label, thread.StatusOf(p.Ended.State, p.Ended.Reason), p.Ended.Result))
		}
	}
	return d
}

// isTemplate reports whether the metadata of a result says that it is a template:
// its blocks are for the model.
func isTemplate(metadata string) bool {
	var r skill.Result
	return metadata != "" && json.Unmarshal([]byte(metadata), &r.Metadata) == nil && r.Template()
}
