package offline

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"agentmesh/mesh/llm"
)

// An assignment is a part of a request with the agent that is to do it.
type assignment struct {
	part
	id     string
	skills []*skill
	needs  []string // ids of the agents it waits for
	about  string   // what a word such as "it" in the part means, or ""
}

// planParts replies for an agent that delegates: it finds out what skills
// there are, dispatches an agent for each part of the request, collects their
// results, and sums up.
func planParts(t *turn) reply {
	switch {
	case len(t.called(toolResults)) > 0:
		return summary(t)
	case len(t.called(toolDispatch)) > 0:
		return collect(t)
	}
	find, deeds := searched(t)
	switch {
	case t.final:
		return untouched(t)
	case len(deeds) > 0:
		return t.perform(deeds)
	case find.refused != "":
		return say("The list of skills could not be read, so I cannot plan this: %s", sentence(clip(squeeze(find.refused), 200)))
	case !find.possible():
		return say("I cannot find out which skills there are, so I cannot plan this.")
	}
	assigned, unknown := assign(t, newCatalog(find.known))
	if len(assigned)+len(unknown) > maxParts {
		return tooMany()
	}
	if len(assigned) == 0 {
		return say("%s %s", puzzled(t.text), find.offers())
	}
	if t.tool(toolDispatch) == nil {
		return say("I know what to do, but I have no means left to delegate it.")
	}
	r := reply{}
	for _, a := range assigned {
		r.calls = append(r.calls, toolCall{toolDispatch, a.arguments(t.text, len(assigned)+len(unknown) > 1)})
	}
	return r
}

// searched returns what was found out about skills, and what is still to be
// asked. Only the searches of this planner count.
func searched(t *turn) (*discovery, []deed) {
	find := discover(t)
	if def := t.tool(toolGetSkill); def != nil {
		t.domains = domainsOf(def)
	}
	for _, r := range t.rounds {
		deeds := find.next()
		if ends, ok := t.outcomes(r, deeds); ok && len(deeds) > 0 {
			find.settle(deeds, ends)
		}
	}
	return find, find.next()
}

// domainsOf returns the domains that get_skill names.
func domainsOf(def *llm.Tool) []domain {
	for _, p := range schemaParams(def.Parameters) {
		if p.Name == "domain" {
			var out []domain
			for _, name := range p.Enum {
				out = append(out, domain{name: name})
			}
			return out
		}
	}
	return nil
}

// untouched tells that nothing was done about the request, and will not be.
func untouched(t *turn) reply {
	if t.text == "" {
		return say("I did nothing more.")
	}
	return say("I did nothing about %s.", quoteShort(t.text))
}

func (c *catalog) splitter() splitter { return splitter{matches: c.matches, verbs: c.verbs} }

// assign gives each part of the request to an agent, and returns the parts
// that no skill fits.
func assign(t *turn, cat *catalog) (assigned []assignment, unknown []part) {
	used := map[string]bool{}
	for _, u := range t.earlier {
		var args struct {
			ID string `json:"agent_id"`
		}
		if json.Unmarshal([]byte(u.Arguments), &args) == nil && u.Name == toolDispatch {
			used[args.ID] = true
		}
	}
	parts := cat.splitter().split(t.text)
	if len(parts) > maxParts { // which is refused, whatever they are
		return nil, parts
	}
	for _, p := range parts {
		a := assignment{part: p, skills: cat.choose(p.clause)}
		if len(a.skills) == 0 {
			unknown = append(unknown, p)
			continue
		}
		a.wait(assigned)
		a.id = freeID(a.skills[len(a.skills)-1].domain(), used)
		assigned = append(assigned, a)
	}
	return assigned, unknown
}

func freeID(domain string, used map[string]bool) string {
	for n := 1; ; n++ {
		id := fmt.Sprintf("%s-%d", domain, n)
		if !used[id] {
			used[id] = true
			return id
		}
	}
}

// wait says which of the earlier assignments a waits for: those of former
// stages, and the one that finds out what a word such as "it" means.
func (a *assignment) wait(earlier []assignment) {
	for _, e := range earlier {
		if e.stage < a.stage {
			a.needs = append(a.needs, e.id)
		}
	}
	if n := len(earlier); n > 0 && wordless(a.clause) && !slices.Contains(a.needs, earlier[n-1].id) {
		a.needs = append(a.needs, earlier[n-1].id) // "… and let Bob know"
	}
	word := referent(a.clause)
	for _, e := range slices.Backward(earlier) {
		if !e.skills[len(e.skills)-1].reads() {
			continue
		}
		if word != "" {
			a.about = fmt.Sprintf("“%s” means the result of %s.", word, e.id)
			if len(a.skills) == 1 && !slices.Contains(a.needs, e.id) {
				a.needs = append(a.needs, e.id)
			}
		}
		// What an earlier agent finds need not be found again.
		if len(a.skills) > 1 && e.skills[len(e.skills)-1] == a.skills[0] && (slices.Contains(a.needs, e.id) || word != "") {
			a.skills = a.skills[1:]
			if !slices.Contains(a.needs, e.id) {
				a.needs = append(a.needs, e.id)
			}
		}
		return
	}
}

// wordless reports whether the clause tells somebody without saying what.
func wordless(c clause) bool {
	if !c.at(0).is("notify", "tell", "let", "inform", "ping") {
		return false
	}
	return !slices.ContainsFunc(c.tokens[1:], func(t token) bool {
		return t.kind == quoted || t.kind == word && !t.is("know", "and", "too", "by", "via", "email", "mail", "e-mail", "message", "cc") && !t.capital() && !pronouns[t.low] && !determiners[t.low]
	})
}

// referent returns the words of the clause that mean something said before.
func referent(c clause) string {
	for i := range c.tokens {
		t, next := c.at(i), c.at(i+1)
		if i > 0 && t.is("that", "saying", "about") && next.kind == word && !reportWords[next.low] && !ends[next.low] {
			return ""
		}
		switch {
		case t.is("what") && next.is("you", "it") && c.at(i+2).is("find", "found", "get", "got", "say", "says"):
			return c.text[t.start:c.at(i+2).end]
		case i > 0 && t.is("it", "them") && !next.is("is", "was", "are", "were"), i > 0 && t.is("this", "that", "these", "those") && (next.kind == punct || prepositions[next.low]):
			return t.text
		case t.is("the", "this", "that", "these", "those", "a", "my") && next.kind == word && reportWords[next.low]:
			if c.at(i+2).is("called", "titled", "about") {
				return ""
			}
			return t.text + " " + next.text
		}
	}
	return ""
}

// arguments are those of dispatch_agent.
func (a *assignment) arguments(request string, several bool) map[string]any {
	var names []string
	for _, s := range a.skills {
		names = append(names, s.Name)
	}
	slices.Sort(names)
	args := map[string]any{"agent_id": a.id, "mission": capitalize(a.words()), "skills": names}
	var notes []string
	if several {
		notes = append(notes, "Original request: "+clip(squeeze(request), 1000))
	}
	if a.about != "" {
		notes = append(notes, a.about)
	}
	if len(notes) > 0 {
		args["context"] = strings.Join(notes, "\n")
	}
	if len(a.needs) > 0 {
		args["depends_on"] = a.needs
	}
	return args
}

// collect asks for the results of what could be dispatched.
func collect(t *turn) reply {
	var ids []string
	for _, c := range t.called(toolDispatch) {
		if !c.failed {
			ids = append(ids, c.arg("agent_id"))
		}
	}
	if len(ids) == 0 || t.tool(toolResults) == nil {
		return summary(t)
	}
	return reply{calls: []toolCall{{toolResults, map[string]any{"agent_ids": ids}}}}
}

type agentResult struct {
	ID     string `json:"agent_id"`
	Status string `json:"status"`
	Result string `json:"result"`
}

// summary tells what every agent did, what failed, what was left out, and what
// was not understood (S0-136).
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
		}
		if r.Status == "completed" {
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
	if missed := notUnderstood(t); missed != "" {
		text += "\n\n" + missed
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

// outcome tells what came of one mission; item says that it is one of several.
func outcome(mission string, r agentResult, item bool) string {
	result := strings.TrimSpace(r.Result)
	why := sentence(squeeze(result))
	if why == "" {
		why = "no reason was given."
	}
	mission = strings.TrimRight(clip(squeeze(mission), 120), ".:")
	var said string
	switch r.Status {
	case "completed":
		if result == "" {
			result = "done."
		}
		if !item {
			return result
		}
		if strings.Contains(result, "\n") {
			return "- " + mission + ":\n  " + strings.ReplaceAll(result, "\n", "\n  ")
		}
		return "- " + mission + ": " + result
	case "skipped":
		said = "was skipped: " + why
	case "timeout":
		said = "took too long and was stopped: " + why
	case "running", "pending":
		said = "is still running."
	case "refused":
		said = "could not be started: " + why
	default:
		said = "failed: " + why
	}
	if item {
		return "- " + mission + " — " + said
	}
	return fmt.Sprintf("I could not do this. %s %s", quoteShort(mission), said)
}

// notUnderstood names the parts that no skill fits, or "".
func notUnderstood(t *turn) string {
	find, _ := searched(t)
	if len(find.known) == 0 {
		return ""
	}
	_, unknown := assign(t, newCatalog(find.known))
	if len(unknown) == 0 {
		return ""
	}
	var said []string
	for _, p := range unknown {
		said = append(said, quoteShort(p.words()))
	}
	return fmt.Sprintf("I did not understand %s. %s", listed(said), find.offers())
}

// offers says what the skills can do, in one sentence.
func offers(c *catalog) string {
	if len(c.skills) == 0 {
		return "There are no skills at present."
	}
	const most = 12
	var can []string
	for _, s := range c.skills {
		if len(can) == most {
			can = append(can, "more")
			break
		}
		can = append(can, s.Name)
	}
	return "The skills I can use are " + listed(can) + "."
}
