package orchestrator

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"sync"

	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/dispatch"
	"agentmesh/mesh/llm"
)

// watched are the tools of an orchestrator that tell when agents begin and end.
type watched struct {
	*dispatch.Orchestration
	dispatcher *dispatch.Dispatcher
	tell       func(agent.Progress)
	// open has the ids of agents of whose beginning the user was told here, and not
	// of their end; over those of whose end nobody need be told any more.
	open, over sync.Map
}

// watch returns the tools over d.
func watch(d *dispatch.Dispatcher, tell func(agent.Progress)) *watched {
	w := &watched{Orchestration: dispatch.NewOrchestration(d), dispatcher: d, tell: tell}
	for _, r := range d.List() { // before the run was cut or waited
		if r.Terminal() {
			w.over.Store(r.AgentID, true)
		}
	}
	return w
}

var (
	_ llm.Batcher   = (*watched)(nil)
	_ llm.Collector = (*watched)(nil)
)

// Batch implements llm.Batcher.
func (w *watched) Batch(ctx context.Context, uses []mesh.ToolUse) {
	before := len(w.dispatcher.List())
	w.Orchestration.Batch(ctx, uses)
	for _, r := range w.dispatcher.List()[before:] {
		w.open.Store(r.AgentID, true)
		if r.Status == dispatch.StatusPending {
			w.tell(agent.Progress{Text: "Next: " + mission(r)})
		} else {
			w.tell(agent.Progress{Text: "Started: " + mission(r)})
		}
	}
}

// Call implements llm.Tools. When the model waits for results, the user is told of
// each agent that ends, or has ended since it began, and of all of them before the
// model answers.
func (w *watched) Call(ctx context.Context, use mesh.ToolUse) llm.ToolResult {
	if use.Name != dispatch.ToolResults {
		return w.Orchestration.Call(ctx, use)
	}
	defer w.watch(ctx)()
	return w.Orchestration.Call(ctx, use)
}

// Drain implements llm.Collector.
func (w *watched) Drain(ctx context.Context, last bool) []llm.Delivery {
	come := w.Orchestration.Drain(ctx, last)
	w.ended(come)
	return come
}

// Wait implements llm.Collector.
func (w *watched) Wait(ctx context.Context) ([]llm.Delivery, *llm.Ask) {
	come, ask := w.Orchestration.Wait(ctx)
	w.ended(come)
	return come, ask
}

// ended tells of those that are delivered.
func (w *watched) ended(come []llm.Delivery) {
	for _, r := range w.dispatcher.List() {
		if slices.ContainsFunc(come, func(d llm.Delivery) bool { return slices.Contains(d.Executions, r.ExecutionID) }) {
			w.end(r)
		}
	}
}

// watch tells of agents as they end, until the function that it returns is called.
func (w *watched) watch(ctx context.Context) (stop func()) {
	watching, cancel := context.WithCancel(ctx)
	var watchers sync.WaitGroup
	for _, r := range w.dispatcher.List() {
		if _, open := w.open.Load(r.AgentID); open || atWork(r) {
			watchers.Go(func() { w.await(watching, r.AgentID) })
		}
	}
	return func() {
		if slices.ContainsFunc(w.dispatcher.List(), atWork) {
			cancel() // the others end by themselves
		}
		watchers.Wait()
		cancel()
	}
}

// await tells when the agent has ended.
func (w *watched) await(ctx context.Context, id string) {
	r, done := w.dispatcher.Done(ctx, id)
	if done {
		w.end(r)
	}
}

// end tells once that an agent has ended.
func (w *watched) end(r dispatch.Result) {
	if r.Status == dispatch.StatusAsks { // it goes on
		w.tell(agent.Progress{Text: "Asks: " + mission(r)})
		return
	}
	w.open.Delete(r.AgentID)
	if _, told := w.over.LoadOrStore(r.AgentID, true); told {
		return
	}
	switch r.Status {
	case dispatch.StatusCompleted:
		w.tell(agent.Progress{Text: "Done: " + mission(r)})
	case dispatch.StatusSkipped:
		w.tell(agent.Progress{Text: "Skipped: " + mission(r)})
	default:
		w.tell(agent.Progress{Text: "Failed: " + mission(r) + " (" + brief(cmp.Or(r.Result, r.Status)) + ")"})
	}
}

func mission(r dispatch.Result) string { return brief(cmp.Or(r.Mission, r.AgentID)) }

func atWork(r dispatch.Result) bool { return !r.Terminal() }

// brief is the beginning of the text on one line.
func brief(s string) string {
	const most = 100
	r := []rune(strings.Join(strings.Fields(s), " "))
	if len(r) > most {
		return string(r[:most]) + "…"
	}
	return string(r)
}
