package dispatch

import (
	"context"
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/text"
)

// maxTold is how much of a result is delivered by itself, in bytes.
const maxTold = 16 << 10

// callWait stands for the call of a run that waits for its agents without one.
const callWait = "agents"

// Drain implements llm.Collector. With ProfileCollect the model fetches its results, and
// is told of the others when the run ends. Whoever is at work then ends first.
func (o *Orchestration) Drain(ctx context.Context, last bool) []llm.Delivery {
	if last {
		_, _ = o.d.await(ctx, nil, ModeAll, false) // fails only where nothing is at work
	}
	if o.d.opts.Profile == ProfileCollect && !last {
		return nil
	}
	return o.deliveries()
}

// Wait implements llm.Collector. With ProfileCollect the answer of the model is the end,
// after what is done by then.
func (o *Orchestration) Wait(ctx context.Context) ([]llm.Delivery, *llm.Ask) {
	if o.d.opts.Profile == ProfileCollect {
		return o.deliveries(), nil
	}
	waiting, ok := o.d.Next(ctx)
	switch {
	case ok:
		return o.deliveries(), nil
	case len(waiting) == 0:
		return nil, nil
	}
	o.d.suspend()
	return nil, &llm.Ask{Use: mesh.ToolUse{ID: callWait}, Text: o.ask(ctx, callWait, waiting).Ask}
}

// Suspend implements llm.Collector.
func (o *Orchestration) Suspend() { o.d.suspend() }

func (o *Orchestration) deliveries() []llm.Delivery {
	var out []llm.Delivery
	for _, r := range o.d.Take() {
		out = append(out, llm.Delivery{
			Executions: []mesh.ExecutionID{r.ExecutionID}, Text: report(r),
			Results: []*llm.CallResult{llm.AgentResult(r.ExecutionID, r.AgentID, r.Status, r.Result)},
		})
	}
	for _, r := range o.d.takeAsks() {
		out = append(out, llm.Delivery{
			Executions: []mesh.ExecutionID{r.ExecutionID}, Text: helpReport(r),
			Results: []*llm.CallResult{llm.AgentResult(r.ExecutionID, r.AgentID, StatusAwaiting, r.Result)},
		})
	}
	return out
}

// report is the message with a result (S1-018, S1-019). The result is data of another
// agent: it is cut, and quoted so that it cannot be taken for more.
func report(r Result) string {
	quoted := quoted(r.Result, maxTold, text.AskForLess)
	name := nameOf(r)
	switch r.Status {
	case StatusCompleted:
		return text.SubAgentCompleted(name, string(r.ExecutionID), quoted)
	case StatusTimeout:
		return text.SubAgentTimedOut(name, string(r.ExecutionID), quoted)
	case StatusCanceled:
		return text.SubAgentCancelled(name, string(r.ExecutionID), quoted)
	case StatusSkipped:
		return text.SubAgentSkipped(name, string(r.ExecutionID), quoted)
	case StatusAwaiting:
		return text.SubAgentAsks(name, string(r.ExecutionID), quoted)
	}
	return text.SubAgentFailed(name, string(r.ExecutionID), quoted)
}

// nameOf is what the model calls the agent of a result: by the id that it chose or, where
// it chose none, by the agent's name.
func nameOf(r Result) string {
	if r.Agent != "" && strings.HasPrefix(r.AgentID, r.Agent+"-") {
		return r.Agent
	}
	return r.AgentID
}
