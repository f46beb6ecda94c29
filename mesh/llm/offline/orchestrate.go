package offline

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
)

// planParts replies for an agent that delegates: it plans, dispatches an agent for
// each job, collects their results, and sums up.
func planParts(t *turn) reply {
	var ids []string
	for _, c := range t.called(toolDispatch) {
		if !c.failed {
			ids = append(ids, c.arg("agent_id"))
		}
	}
	switch {
	case len(t.called(toolResults)) > 0 || len(ids) == 0 && len(t.called(toolDispatch)) > 0 || len(ids) > 0 && t.final:
		return summary(t)
	case len(ids) > 0:
		return reply{calls: []toolCall{{toolResults, map[string]any{"agent_ids": ids}}}}
	case t.final:
		return say("I did nothing about %s.", quoteShort(t.text))
	}
	jobs, r, ok := t.jobs()
	if !ok {
		return r
	}
	for _, j := range jobs {
		r.calls = append(r.calls, toolCall{toolDispatch, j.order()})
	}
	return r
}

// order is the job as arguments of dispatch_agent. Its steps are in the context:
// the agent need not read the words again.
func (j *job) order() map[string]any {
	var names []string
	for _, s := range j.steps {
		names = append(names, s.Skill)
	}
	slices.Sort(names)
	args := map[string]any{"agent_id": j.id, "mission": capitalize(j.words), "skills": slices.Compact(names), "context": encode(j.steps)}
	if len(j.needs) > 0 {
		args["depends_on"] = j.needs
	}
	return args
}

type agentResult struct {
	ID     string `json:"agent_id"`
	Status string `json:"status"`
	Result string `json:"result"`
}

// Statuses of agents, as the tools say them.
const (
	statusCompleted = "completed"
	statusAwaiting  = "awaiting"
)

// summary tells what every agent did, what failed and what was left out
// (S0-136). What the only agent asks is asked.
func summary(t *turn) reply {
	results := map[string]agentResult{}
	if got := t.called(toolResults); len(got) > 0 {
		var list struct{ Agents []agentResult }
		last := got[len(got)-1]
		if err := json.Unmarshal([]byte(last.result), &list); err != nil || last.failed {
			return say("The results of the agents could not be collected: %s", sentence(clip(squeeze(last.result), 300)))
		}
		for _, a := range list.Agents {
			results[a.ID] = a
		}
	}
	dispatched := t.called(toolDispatch)
	var lines []string
	done := 0
	for _, d := range dispatched {
		r, ok := results[d.arg("agent_id")]
		switch {
		case d.failed:
			r = agentResult{Status: "refused", Result: d.result}
		case !ok:
			r = agentResult{Status: "unknown", Result: "nothing was heard of it"}
		case r.Status == statusAwaiting && len(dispatched) == 1 && !t.final:
			return reply{text: r.Result, ask: true}
		case r.Status == statusCompleted:
			done++
		}
		lines = append(lines, outcome(d.arg("mission"), r, len(dispatched) > 1))
	}
	text := strings.Join(lines, "\n")
	if len(dispatched) > 1 {
		head := headline(done, len(dispatched))
		if t.final && done > 0 { // agents that were stopped tell themselves what they left
			head = fmt.Sprintf("This is how far the %d steps came:", len(dispatched))
		}
		text = head + "\n\n" + text
	}
	return reply{text: strings.TrimSpace(text)}
}

func headline(done, all int) string {
	switch done {
	case all:
		return fmt.Sprintf("These are the results of the %d steps:", all)
	case 0:
		return fmt.Sprintf("None of the %d steps was finished:", all)
	}
	return fmt.Sprintf("%d of %d steps were finished, the others were not:", done, all)
}

// fates are what is said of missions that were not completed, by their status.
var fates = map[string]string{
	"skipped": "was skipped: ", "timeout": "took too long and was stopped: ", "running": "is still running. ", "pending": "is still running. ",
	"refused": "could not be started: ", statusAwaiting: "was not done: ",
}

// outcome tells what came of one mission; item says that it is one of several.
func outcome(mission string, r agentResult, item bool) string {
	result := strings.TrimSpace(r.Result)
	mission = strings.TrimRight(clip(squeeze(mission), 120), ".:")
	why := cmp.Or(fates[r.Status], "failed: ") + sentence(cmp.Or(squeeze(result), "no reason was given"))
	switch done := r.Status == statusCompleted; {
	case !done && item:
		return "- " + mission + " — " + why
	case !done:
		return fmt.Sprintf("I could not do this. %s %s", quoteShort(mission), why)
	case !item:
		return cmp.Or(result, "done.")
	case strings.Contains(result, "\n"):
		return "- " + mission + ":\n  " + strings.ReplaceAll(result, "\n", "\n  ")
	}
	return "- " + mission + ": " + cmp.Or(result, "done.")
}
