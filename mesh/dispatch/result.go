package dispatch

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/agent"
)

// The results of agents that were stopped and had said nothing.
const (
	saidTimeout  = "The agent took too long and was stopped."
	saidCanceled = "The agent was stopped before it was done."
)

// result is what the agent said and, unless it completed, why it did not: its
// question, the failure, or that it was stopped (S0-030, S0-083).
func result(status, text string, last mesh.TaskMoved) string {
	why := textOf(last.Message.GetParts())
	switch status {
	case StatusCompleted:
		if text != "" {
			return text
		}
	case StatusWaiting:
		return why
	case StatusTimeout:
		why = saidTimeout
	case StatusCanceled:
		if last.State != a2apb.TaskState_TASK_STATE_CANCELED || why == "" {
			why = saidCanceled
		}
	}
	if text == "" || why == "" {
		return text + why
	}
	return text + "\n\n" + why
}

// open returns the result of an agent that was stopped or lost, with the skill calls
// of which nobody knows what became: who reads it must not have them made again as if
// nothing had happened.
func (d *Dispatcher) open(ctx context.Context, j *job, r Result) string {
	if !slices.Contains([]string{StatusFailed, StatusTimeout, StatusCanceled}, r.Status) {
		return r.Result
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
	defer cancel()
	did, err := d.inv.Mesh.Actions(ctx)
	if err != nil {
		d.opts.Logger.WarnContext(ctx, "unsettled calls of an agent not read", "execution", j.exec.ID, "err", err)
		return r.Result
	}
	return withOpen(r.Result, agent.Unsettled(did.Below(j.exec.ID)))
}

// maxOpen is how many unsettled calls a result names.
const maxOpen = 10

// withOpen adds the calls to a result, which is cut to make room for them.
func withOpen(result string, calls []string) string {
	if len(calls) == 0 {
		return result
	}
	note := "\n\nIt is not known whether these skill calls had an effect. Find out before anything is done again:"
	for _, c := range calls[:min(len(calls), maxOpen)] {
		note += "\n- " + c
	}
	if n := len(calls) - maxOpen; n > 0 {
		note += fmt.Sprintf("\n- and %d more", n)
	}
	return mesh.Clip(result, mesh.MaxResult-len(note)-2*len("…")) + note
}

// quote makes another agent's words safe to put into a prompt.
func quote(s string) string { return strings.ReplaceAll(s, "```", "'''") }

// What can be done about the rest of a result that was too long.
const (
	saidNoMore = "there is no way to get them: if they matter, say so"
	saidAlone  = "get them with agent_ids that names this agent alone"
	saidAsk    = "there is no way to get them: ask the agent for less, or for one part after the other"
	saidLess   = "there is no way to get them: dispatch an agent for less, or for one part after the other"
)

// shortened returns a text of at most that many bytes, and of a longer one the
// beginning, with what is missing and what can be done about it.
func shortened(s string, most int, remedy string) string {
	if len(s) <= most {
		return s
	}
	const note = "\n[%d of %d bytes are missing here; %s.]"
	room := max(0, most-len(note)-len(remedy)-2*len("1000000"))
	for room > 0 && !utf8.RuneStart(s[room]) {
		room--
	}
	return s[:room] + fmt.Sprintf(note, len(s)-room, len(s), remedy)
}
