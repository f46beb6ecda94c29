package mainagent

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/registry"
)

// ToolHandoff is the name of the tool that hands the conversation over.
const ToolHandoff = "request_handoff"

// What of the model's words a handoff carries, in bytes: the mesh takes 500 and
// 2000, and an ellipsis comes on top.
const (
	maxReason  = 497
	maxSummary = 1997
)

// tryLater offers alternatives where something did not work (S4-063).
const tryLater = "Would you like me to help you with something else, or try again later?"

// handoffs is the tool by which the model gives the user's stream to another
// agent. When that has happened, the run ends.
type handoffs struct {
	inv    *agent.Invocation
	agents []*meshv1.Agent
}

// List implements llm.Tools.
func (h *handoffs) List(context.Context) []llm.Tool {
	if len(h.agents) == 0 {
		return nil
	}
	var names []string
	var catalog strings.Builder
	for _, a := range h.agents {
		names = append(names, a.GetName())
		about := mesh.Clip(a.GetCard().GetDescription(), 1000)
		if t := registry.Params(a.GetCard()).HandoffTriggers; len(t) > 0 {
			about += " (triggers: " + strings.Join(t, ", ") + ")"
		}
		// One line whatever the card says: it must not describe others.
		catalog.WriteString("\n- " + a.GetName() + ": " + strings.Join(strings.Fields(about), " ") + closed(a, mesh.ActHandoff))
	}
	text := func(about string) map[string]any { return map[string]any{"type": "string", "description": about} }
	who := text("Who takes over.")
	who["enum"] = names
	schema, err := json.Marshal(map[string]any{
		"type": "object", "required": []string{"agent", "reason", "summary"},
		"properties": map[string]any{
			"agent":   who,
			"reason":  text("Why, in one sentence."),
			"summary": text("What the agent should know of the conversation, so that the user need not repeat it."),
		},
	})
	if err != nil {
		return nil
	}
	return []llm.Tool{{Name: ToolHandoff, Parameters: schema,
		Description: "Hand the conversation over to an agent that works with the user directly, until it gives control back. " +
			"Use it when the user asks for what the agent is there for. Agents:" + catalog.String()}}
}

// Know implements llm.Knower.
func (h *handoffs) Know(_ context.Context, f *llm.Facts) error {
	for _, a := range h.agents {
		f.Agents = append(f.Agents, llm.Agent{Name: a.GetName(), Description: a.GetCard().GetDescription(), Handoff: true, Triggers: registry.Params(a.GetCard()).HandoffTriggers})
	}
	return nil
}

// Call implements llm.Tools.
func (h *handoffs) Call(ctx context.Context, use mesh.ToolUse) llm.ToolResult {
	var args struct{ Agent, Reason, Summary string }
	if err := json.Unmarshal([]byte(use.Arguments), &args); err != nil {
		return refused("The arguments agent, reason and summary must be texts.")
	}
	i := slices.IndexFunc(h.agents, func(a *meshv1.Agent) bool { return a.GetName() == args.Agent })
	if i < 0 {
		return refused(fmt.Sprintf("There is no agent %q to hand over to; the tool's description lists those that there are.", args.Agent))
	}
	if refusal := lacks(h.agents[i]); refusal != nil { // control stays here, and nobody announces that it does not
		return llm.ToolResult{Text: refusal.Detail + ".", Failed: true, Cause: mesh.CauseDenied}
	}
	started, err := h.inv.Mesh.StartHandoff(ctx, &meshv1.StartHandoffRequest{
		TargetAgent: args.Agent, Reason: mesh.Clip(args.Reason, maxReason), ContextSummary: mesh.Clip(args.Summary, maxSummary),
	})
	if err != nil {
		res := refused(h.explain(ctx, h.agents[i], err))
		if mesh.IsCode(err, mesh.Denied) {
			res.Cause = mesh.CauseDenied
		}
		return res
	}
	return llm.ToolResult{Stop: true, Text: "The conversation is with " + started.GetTargetAgentId() + " now."}
}

// explain says for the user why there was no handoff, and what can be done
// (S4-063, S4-065).
func (h *handoffs) explain(ctx context.Context, target *meshv1.Agent, err error) string {
	name := called(target)
	switch mesh.CodeOf(err) {
	case mesh.Unavailable, mesh.NotFound, mesh.Timeout:
		return "The " + name + " is currently unavailable. " + tryLater
	case mesh.Precondition:
		if active, err := h.inv.Mesh.Handoff(ctx); err == nil && mesh.HandoffState(active.GetState()).Stands() {
			with := active.GetTargetAgentId()
			if i := slices.IndexFunc(h.agents, func(a *meshv1.Agent) bool { return a.GetName() == with }); i >= 0 {
				with = called(h.agents[i])
			}
			return "You are currently in a session with the " + with + ". Would you like to finish that first?"
		}
	}
	return cmp.Or(mesh.DetailOf(err), "The "+name+" could not be reached.")
}

func called(a *meshv1.Agent) string { return cmp.Or(a.GetCard().GetName(), a.GetName()) }

func refused(text string) llm.ToolResult { return llm.ToolResult{Text: text, Failed: true} }

// welcome says what came of a handoff that has ended (S4-042, S4-046), and whether it can be
// gone on with.
func welcome(h *meshv1.Handoff, kept bool) string {
	result := sentence(h.GetResultSummary())
	switch mesh.HandoffOutcome(h.GetState()) {
	case mesh.HandoffCancelled:
		if result == "" && kept {
			result = "What you said there is kept."
		}
		return join("You are back with me, no problem.", result, "Let me know if you would like to continue it later.")
	case mesh.HandoffError:
		return join("I am sorry, this could not be finished.", result, tryLater)
	}
	if result == "" {
		return "Great, that is done. What would you like to do next?"
	}
	first, rest, _ := strings.Cut(result, " ")
	if slices.Contains([]string{"Your", "The", "A", "An", "It", "This"}, first) {
		return "Great, " + strings.ToLower(first) + " " + rest
	}
	return "Great! " + result
}

// parked says, before the message is answered that found it so, that a session is parked which
// is not offered: to another user than its own, or while its agent is away.
func parked(h *meshv1.Handoff) string {
	return "The session with " + h.GetTargetAgentId() + " is parked, as nobody said anything in it for a while; nothing of it is lost, and it goes on when you ask for it.\n\n"
}

func join(parts ...string) string {
	return strings.Join(slices.DeleteFunc(parts, func(s string) bool { return s == "" }), " ")
}

// sentence begins s with a capital and ends it with a mark.
func sentence(s string) string {
	s = strings.TrimSpace(s)
	if s == "" {
		return ""
	}
	r, n := utf8.DecodeRuneInString(s)
	s = string(unicode.ToUpper(r)) + s[n:]
	if !strings.ContainsAny(s[len(s)-1:], ".!?") {
		s += "."
	}
	return s
}
