package offline

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
)

// planParts replies for an agent that delegates: it plans, dispatches an agent for
// each job, collects their results, and sums up.
func planParts(t *turn) reply {
	if t.facts.Pushed {
		return planPushed(t)
	}
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
		r.calls = append(r.calls, toolCall{toolDispatch, t.order(j)})
	}
	return r
}

// planPushed is planParts where results come by themselves: a job begins when those that
// it needs are done, and their results are in its task. While agents are at work there is
// nothing to say.
func planPushed(t *turn) reply {
	jobs, r, ok := t.jobs()
	if !ok {
		return r
	}
	reported := t.reported()
	waits, fate := false, map[string]agentResult{}
	for _, j := range jobs {
		d, began := t.dispatched(j)
		switch got, done := reported[d.execution()]; {
		case began && d.failed:
			fate[j.id] = agentResult{Status: "refused", Result: d.result}
		case began && done:
			fate[j.id] = got
		case began:
			waits = true
		case !t.final && j.ready(fate):
			r.calls = append(r.calls, toolCall{toolDispatch, map[string]any{"name": t.agentFor(j), "task": j.task(fate)}})
		}
	}
	switch {
	case len(r.calls) > 0:
		return r
	case waits && !t.final:
		return reply{}
	}
	return summaryOf(t, jobs, fate)
}

// summaryOf tells what came of the jobs.
func summaryOf(t *turn, jobs []*job, fate map[string]agentResult) reply {
	var lines []string
	done := 0
	for _, j := range jobs {
		r, ok := fate[j.id]
		switch {
		case ok && r.Status == statusCompleted:
			done++
		case ok && r.Status == statusAwaiting && len(jobs) == 1 && !t.final:
			return reply{text: r.Result, ask: true}
		case !ok && len(j.needs) > 0:
			r = agentResult{Status: "skipped", Result: "what it needs was not done"}
		case !ok:
			r = agentResult{Status: "unknown", Result: "nothing was heard of it"}
		}
		lines = append(lines, outcome(capitalize(j.words), r, len(jobs) > 1))
	}
	text := strings.Join(lines, "\n")
	if len(jobs) > 1 {
		text = headline(done, len(jobs)) + "\n\n" + text
	}
	return reply{text: strings.TrimSpace(text)}
}

// ready reports whether what the job needs is done.
func (j *job) ready(fate map[string]agentResult) bool {
	return !slices.ContainsFunc(j.needs, func(id string) bool { return fate[id].Status != statusCompleted })
}

// task is the job for an agent that is told nothing else.
func (j *job) task(fate map[string]agentResult) string {
	task := capitalize(j.words)
	for _, id := range j.needs {
		task += "\n\n" + clip(fate[id].Result, maxNeeded)
	}
	return task
}

// maxNeeded is how much of a result goes into a task, in bytes.
const maxNeeded = 4 << 10

// dispatched is the call that dispatched an agent for the job, of those that have ended.
func (t *turn) dispatched(j *job) (call, bool) {
	for _, c := range t.called(toolDispatch) {
		if strings.HasPrefix(c.arg("task"), capitalize(j.words)) {
			return c, true
		}
	}
	return call{}, false
}

// execution is that of the agent which the call dispatched.
func (c *call) execution() string {
	var answer struct {
		ID string `json:"execution_id"`
	}
	_ = json.Unmarshal([]byte(c.result), &answer) // of a call that failed there is none
	return answer.ID
}

// reported are the results that came by themselves, by their executions.
func (t *turn) reported() map[string]agentResult {
	out := map[string]agentResult{}
	for _, c := range t.called(llm.AgentTool) {
		out[c.id] = agentResult{ID: c.arg("agent_id"), Status: c.metadata, Result: c.result}
	}
	return out
}

// agentFor is the agent with the fewest skills that has those of the job's steps, or else
// one that does with any.
func (t *turn) agentFor(j *job) string {
	best, worker, least := "", "", 0
	for _, a := range t.facts.Agents {
		lacks := func(s *step) bool { return !slices.Contains(a.Skills, s.Skill) }
		switch n := len(a.Skills); {
		case slices.Contains(a.Skills, anySkill):
			worker = a.Name
		case !slices.ContainsFunc(j.steps, lacks) && (best == "" || n < least):
			best, least = a.Name, n
		}
	}
	return cmp.Or(best, worker)
}

// anySkill is the skill of agents that do with any.
const anySkill = "*"

// order is the job as arguments of dispatch_agent. Its steps are in the context:
// the agent need not read the words again.
func (t *turn) order(j *job) map[string]any {
	var names []string
	for _, s := range j.steps {
		if names = append(names, s.Skill); !s.skill.Page {
			continue
		}
		for _, k := range t.skills { // which of them its page calls shows when it is read
			if !k.Page {
				names = append(names, k.Name)
			}
		}
	}
	slices.Sort(names)
	args := map[string]any{"agent_id": j.id, "mission": capitalize(j.words), "skills": slices.Compact(names)}
	if steps := encode(j.steps); len(steps) <= mesh.MaxContext { // else the agent reads the words itself
		args["context"] = steps
	}
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
