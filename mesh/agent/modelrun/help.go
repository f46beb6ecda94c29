package modelrun

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/text"
	"agentmesh/mesh/thread"
)

// ToolHelp is the tool with which a model asks who dispatched its agent for what it lacks.
const ToolHelp = "request_help"

const helpSchema = `{"type":"object","properties":{` +
	`"partial_results":{"type":"string","description":"What you have so far; it is your result if nobody can help."},` +
	`"reason":{"type":"string","description":"What blocks you, and what you need: a fact, a decision, another skill. Whoever gave you the task sees nothing else of your work."}},` +
	`"required":["reason"]}`

// helping is what a model is told that may ask for help.
const helping = `When you cannot go on without a fact, a decision or a skill that you do not have, call request_help with what you need and what you have so far. Do not explain in your reply what blocks you, and do not guess: whoever gave you the task answers, and you go on.`

// help is the tool of a run whose agent may ask for help. The run ends with what is asked,
// and the next one makes the call again, which then has the answer.
type help struct{ answers map[string]string } // by the id of the call

var _ llm.Waiter = (*help)(nil)

// List implements llm.Tools.
func (h *help) List(context.Context) []llm.Tool {
	return []llm.Tool{{Name: ToolHelp, Parameters: json.RawMessage(helpSchema),
		Description: "Ask whoever gave you the task for what you need and do not have. You go on with the answer."}}
}

// Waits implements llm.Waiter: the time of the answer is not the call's.
func (h *help) Waits(tool string) bool { return tool == ToolHelp }

// Call implements llm.Tools.
func (h *help) Call(_ context.Context, use mesh.ToolUse) llm.ToolResult {
	if answer, ok := h.answers[use.ID]; ok {
		return llm.ToolResult{Text: text.HelpAnswered(answer)}
	}
	reason, _, err := wanted(use)
	if err != nil {
		return llm.ToolResult{Text: mesh.FieldOf(err) + " " + mesh.DetailOf(err), Failed: true, Cause: mesh.CauseInvalid}
	}
	return llm.ToolResult{Ask: reason}
}

// wanted reads the arguments of a call of ToolHelp.
func wanted(use mesh.ToolUse) (reason, partial string, err error) {
	const op = "modelrun.request_help"
	var a struct {
		Reason  string `json:"reason"`
		Partial string `json:"partial_results"`
	}
	if err := llm.Arguments(op, use, &a); err != nil {
		return "", "", err
	}
	switch {
	case strings.TrimSpace(a.Reason) == "":
		return "", "", mesh.InvalidField(op, "reason", "is missing; say what blocks you and what you need")
	case len(a.Reason) > mesh.MaxHelp:
		return "", "", mesh.InvalidField(op, "reason", "has %d bytes; shorten it to at most %d", len(a.Reason), mesh.MaxHelp)
	case len(a.Partial) > mesh.MaxHelp:
		return "", "", mesh.InvalidField(op, "partial_results", "has %d bytes; shorten it to at most %d", len(a.Partial), mesh.MaxHelp)
	}
	return a.Reason, a.Partial, nil
}

// mayAsk gives a run whose mission says so the tool, with the answer if its message is one.
func (m *modelRun) mayAsk(ctx context.Context) error {
	if m.about.Mission == nil || !m.about.Mission.Help {
		return nil
	}
	h := &help{answers: map[string]string{}}
	if answer, ok := mesh.HelpAnswerOf(m.inv.Message.GetMetadata()); ok {
		err := m.inv.Mesh.Transcript(ctx, func(t *thread.Transcript, _ bool) bool {
			if own := t.Party(m.inv.Execution); own.Mission != nil && askedBefore(own, answer.Call) {
				h.answers[answer.Call] = m.inv.Text()
			}
			return true
		})
		if err != nil {
			return err
		}
	}
	m.Tools = Combine(m.Tools, h)
	m.System = strings.TrimSpace(m.System + "\n\n" + helping)
	return nil
}

// askedBefore reports whether the call was last made before the message came that is worked
// on: ids of calls may come again.
func askedBefore(own *thread.Party, call string) bool {
	for _, r := range slices.Backward(own.Replies) {
		if slices.ContainsFunc(r.Tools, func(u mesh.ToolUse) bool { return u.ID == call && u.Name == ToolHelp }) {
			return r.Seq < own.Ran
		}
	}
	return false
}

// needs keeps the first request for help of a reply; the others are made again.
func (m *modelRun) needs(a *llm.Ask) {
	if m.help == nil {
		_, partial, _ := wanted(a.Use) // it was read before
		m.help = &agent.Ask{Text: a.Text, Help: &mesh.Help{Call: a.Use.ID, Partial: partial}}
	}
}
