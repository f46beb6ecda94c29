package dispatch

import (
	"context"
	"slices"
	"sync"

	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/text"
	"agentmesh/mesh/thread"
)

// suspend notes that the run ends because somebody waits for the user.
func (d *Dispatcher) suspend() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.paused = true
}

// pause waits until nothing is at work, and returns who waits for the user,
// because of the named orders, or of all when there are no names; none if those
// can end without. If there are some, it is all that wait, for what the user
// answers is for all of them.
func (d *Dispatcher) pause(ctx context.Context, ids []string) (waiting []string) {
	d.mu.Lock()
	jobs, _ := d.jobsOf(ids) // they were waited for
	stuck := slices.ContainsFunc(jobs, behind(func(j *job) bool { return j.Status == StatusWaiting }))
	d.paused = d.paused || stuck
	d.mu.Unlock()
	if !stuck {
		return nil
	}
	all, err := d.await(ctx, nil, ModeAll, false)
	if err != nil {
		return nil
	}
	for _, r := range all {
		if r.Status == StatusWaiting {
			waiting = append(waiting, r.AgentID)
		}
	}
	return waiting
}

// asked has, by the id of a call, who it waits for that waits for the user.
type asked struct {
	d  *Dispatcher
	mu sync.Mutex
	by map[string][]string
}

// ask is the result of a call that waits for those.
func (a *asked) ask(ctx context.Context, call string, waiting []string) llm.ToolResult {
	a.mu.Lock()
	if a.by == nil {
		a.by = map[string][]string{}
	}
	a.by[call] = waiting
	a.mu.Unlock()
	questions, report := a.d.question(ctx, waiting)
	return llm.ToolResult{Ask: agent.AskAbout(questions, report).Text}
}

// Asked implements [modelrun.Asker].
func (a *asked) Asked(ctx context.Context, call string) (questions []mesh.Question, report *agent.Report, ok bool) {
	a.mu.Lock()
	waiting, ok := a.by[call]
	a.mu.Unlock()
	if !ok {
		return nil, nil, false
	}
	questions, report = a.d.question(ctx, waiting)
	return questions, report, true
}

// question is what the user must be asked for the sake of those who wait: about
// calls, and, if some met a limit, one report of what all did.
func (d *Dispatcher) question(ctx context.Context, waiting []string) (questions []mesh.Question, report *agent.Report) {
	d.mu.Lock()
	all := results(d.order)
	d.mu.Unlock()
	var reports []agent.Report
	for _, r := range all {
		if r.wants == nil || !slices.Contains(waiting, r.AgentID) {
			continue
		}
		if r.Status == StatusAsks {
			questions = append(questions, r.wants.help.forUser(r))
			continue
		}
		questions = append(questions, r.wants.questions...)
		if r.wants.report != nil {
			reports = append(reports, r.wants.report.Under(r.ExecutionID))
		}
	}
	if len(reports) == 0 {
		return questions, nil
	}
	merged := agent.Merge(reports)
	merged.Add(d.others(ctx, all)...)
	return questions, &merged
}

// others is the work of agents that are done, and of those that have not begun.
func (d *Dispatcher) others(ctx context.Context, all []Result) []agent.Work {
	work, err := d.inv.Mesh.Actions(ctx)
	if err != nil {
		work = new(thread.Actions)
		d.opts.Logger.WarnContext(ctx, "what agents did cannot be read for a report", "execution", d.inv.Execution, "err", err)
	}
	var out []agent.Work
	for _, r := range all {
		mission := brief(r.Mission)
		switch r.Status {
		case StatusCompleted:
			did := agent.Done(work.Below(r.ExecutionID))
			if len(did) == 0 {
				did = []agent.Work{{Execution: string(r.ExecutionID), Done: []string{mission}}}
			}
			out = append(out, did...)
		case StatusPending:
			out = append(out, agent.Work{Execution: string(r.ExecutionID), Open: []string{text.NotBegun(mission)}})
		case StatusFailed:
			if r.limited {
				out = append(out, agent.Work{Execution: string(r.ExecutionID), Open: []string{text.NotAsked(mission)}})
			}
		case StatusTimeout, StatusCanceled, StatusSkipped, StatusAsks:
			out = append(out, agent.Work{Execution: string(r.ExecutionID), Open: []string{text.NotDone(mission, public(r.Status))}})
		}
	}
	return out
}
