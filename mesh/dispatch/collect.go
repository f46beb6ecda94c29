package dispatch

import (
	"cmp"
	"context"
	"slices"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/text"
)

// cancel is cancel_agent (S1-055).
func (o *Orchestration) cancel(use mesh.ToolUse) llm.ToolResult {
	const op = "dispatch.cancel"
	var a struct {
		AgentID     string `json:"agent_id"`
		ExecutionID string `json:"execution_id"`
	}
	if err := llm.Arguments(op, use, &a); err != nil {
		return failure(err)
	}
	id, err := o.which(op, a.AgentID, a.ExecutionID)
	if err != nil {
		return failure(err)
	}
	return answer(o.about(id, o.d.Cancel(id)))
}

// which is the id of the agent that a call is about; one that is not there for an
// execution of others.
func (o *Orchestration) which(op, agentID, executionID string) (string, error) {
	if (agentID == "") == (executionID == "") {
		return "", mesh.InvalidField(op, "agent_id", "or execution_id must be given, and not both")
	}
	for _, r := range o.d.List() {
		if executionID != "" && string(r.ExecutionID) == executionID {
			return r.AgentID, nil
		}
	}
	return agentID, nil
}

// about is what a model is told of the outcome of what it wanted of an agent.
func (o *Orchestration) about(id, outcome string) map[string]any {
	out := map[string]any{"status": outcome}
	for _, r := range o.d.List() {
		if r.AgentID == id {
			out["agent_id"], out["execution_id"] = r.AgentID, r.ExecutionID
			if outcome == alreadyCompleted || outcome == notAsking {
				out["state"] = public(r.Status)
			}
		}
	}
	return out
}

// list is list_agents (S1-056).
func (o *Orchestration) list() llm.ToolResult {
	type line struct {
		AgentID     string           `json:"agent_id"`
		ExecutionID mesh.ExecutionID `json:"execution_id"`
		Agent       string           `json:"agent,omitempty"`
		Status      string           `json:"status"`
		Task        string           `json:"task"`
	}
	lines := []line{}
	for _, r := range o.d.List() {
		lines = append(lines, line{r.AgentID, r.ExecutionID, r.Agent, public(r.Status), mesh.Clip(r.Mission, maxMission)})
	}
	return answer(map[string]any{"agents": lines})
}

// public is the status as models read it.
func public(status string) string {
	if status == StatusWaiting || status == StatusAsks {
		return StatusAwaiting
	}
	return status
}

func (o *Orchestration) collect(ctx context.Context, use mesh.ToolUse) llm.ToolResult {
	const op = "dispatch.collect"
	var a struct {
		AgentIDs []string `json:"agent_ids"`
		Mode     Mode     `json:"mode"`
		Wait     *int     `json:"wait_seconds"`
	}
	if err := llm.Arguments(op, use, &a); err != nil {
		return failure(err)
	}
	wait := maxWait
	const most = int(maxWait / time.Second)
	if a.Wait != nil {
		wait = time.Duration(max(-1, min(*a.Wait, most+1))) * time.Second // it may be any number
	}
	switch a.Mode = cmp.Or(a.Mode, ModeAll); {
	case a.Mode != ModeAll && a.Mode != ModeAny && a.Mode != ModeNone:
		return failure(mesh.InvalidField(op, "mode", "is %q; it must be all, any or none", mesh.Clip(string(a.Mode), maxAgentID)))
	case wait < 0 || wait > maxWait:
		return failure(mesh.InvalidField(op, "wait_seconds", "is %d; it must be 0 to %d", *a.Wait, most))
	}
	waiting, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	results, err := o.d.await(waiting, a.AgentIDs, a.Mode, o.d.opts.Profile != ProfileCollect)
	if err != nil {
		return failure(err)
	}
	if a.Mode == ModeAll && !o.d.asked() {
		if waiting := o.d.pause(waiting, a.AgentIDs); len(waiting) > 0 {
			return o.ask(ctx, use.ID, waiting)
		}
	}
	remedy := text.DispatchForLess
	if len(results) > 1 {
		remedy = text.NameItAlone
	}
	first := o.d.deliver(results)
	for i, r := range results {
		results[i].Delivered = r.Terminal() && !slices.Contains(first, r.ExecutionID)
		switch results[i].Status = public(r.Status); r.Status {
		case StatusRunning, StatusPending:
			results[i].Result = text.AgentAtWork()
		case StatusAsks: // which it is told by itself
			results[i].Result = text.AgentNeedsHelp(ToolAnswer)
		}
	}
	told := fitting(results, remedy, func(results []Result) llm.ToolResult {
		out := map[string]any{"agents": results}
		if failures := failuresIn(results); len(failures) > 0 {
			out["failures"] = failures
		}
		return answer(out)
	})
	told.Delivered = first
	return told
}

// fitting returns what a model is told of the results: all of it, or as much of each
// as the model can be shown of all, for a cut in the middle would take the last
// ones away and leave no JSON.
func fitting(results []Result, remedy text.Remedy, tell func([]Result) llm.ToolResult) llm.ToolResult {
	shown := append([]Result{}, results...)
	told := tell(shown)
	for most := mesh.MaxResult / max(1, len(results)); len(told.Text) > mesh.MaxResult && most > 0; most = most * 3 / 4 {
		for i, r := range results {
			shown[i].Result = shortened(r.Result, most, remedy)
		}
		told = tell(shown)
	}
	return told
}

// maxFailure is how much of a failed agent's result is told twice, in bytes.
const maxFailure = 1000

// failuresIn says in a line each what did not complete (S0-090).
func failuresIn(results []Result) []string {
	var out []string
	for _, r := range results {
		switch r.Status {
		case StatusFailed, StatusTimeout, StatusSkipped, StatusCanceled:
			out = append(out, text.AgentFailed(r.AgentID, mesh.Clip(r.Result, maxFailure)))
		}
	}
	return out
}
