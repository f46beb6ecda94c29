package offline

import (
	"cmp"
	"encoding/json"
	"slices"
	"strings"
)

// agents reads the catalog in the description of a tool.
func (t *turn) agents(tool string) []agentLine {
	if def := t.tool(tool); def != nil {
		return agentsIn(def.Description)
	}
	return nil
}

// tells reports whether the agent's own words have one of the stems.
func (a *agentLine) tells(stems ...string) bool {
	all := strings.Join(append([]string{a.name, a.description}, a.tags...), " ")
	return slices.ContainsFunc(tokenize(strings.NewReplacer(".", " ", "_", " ", "-", " ").Replace(all)), func(t token) bool {
		return slices.ContainsFunc(stems, func(s string) bool { return strings.HasPrefix(t.stem, s) })
	})
}

func (a *agentLine) delegates() bool { return a.tells("orchestrat") }
func (a *agentLine) answers() bool   { return a.tells("documentation", "knowledg") }

// planRoute replies for an agent that consults others or hands over to them.
func planRoute(t *turn) reply {
	if r, ok := t.chat(); ok {
		return r
	}
	asked := t.called(toolConsult)
	if n := len(asked); n > 0 && (n > len(t.answers) || t.final) {
		return consulted(&asked[n-1], t.final)
	} else if n > 0 { // what it asked the user has an answer now
		task, _ := withAnswers(asked[n-1].arg("task"))
		return t.consult(asked[n-1].arg("agent"), task)
	}
	switch {
	case t.final && t.text == "":
		return say("I did nothing more.")
	case t.final:
		return say("I did nothing about %s.", quoteShort(t.text))
	}
	c := newClause(t.text).trimmed()
	agents := t.agents(toolConsult)
	if name, task := addressee(c, agents); name != "" {
		return t.consult(name, task)
	}
	if name := choose(t.text, agents); name != "" {
		return t.consult(name, t.text)
	}
	return say("I did not understand %s. %s", quoteShort(t.text), t.abilities())
}

// answersHeading begins what the user answered, in what another agent is asked:
// a list of texts as JSON.
const answersHeading = "\n\n## Answers\n"

func (t *turn) consult(agent, task string) reply {
	task = strings.ReplaceAll(task, "##", "#") // what the user wrote is no section
	if len(t.answers) > 0 {
		task += answersHeading + encode(t.answers)
	}
	return reply{calls: []toolCall{{toolConsult, map[string]any{"agent": agent, "task": task}}}}
}

// withAnswers takes the answers off a task.
func withAnswers(text string) (task string, answers []string) {
	if i := strings.LastIndex(text, answersHeading); i >= 0 && json.Unmarshal([]byte(text[i+len(answersHeading):]), &answers) == nil {
		return text[:i], answers
	}
	return text, nil
}

// chat replies to what is no work: what belongs to another agent, small talk, and
// what the agent can do. It returns false for everything else.
func (t *turn) chat() (reply, bool) {
	for _, c := range slices.Backward(t.calls) {
		switch {
		case !c.done || c.use.Name != toolHandoff:
		case c.failed:
			return say("I could not connect you with %s: %s", c.arg("agent"), sentence(c.result)), true
		default:
			return say("You are connected with %s.", c.arg("agent")), true
		}
	}
	said := newClause(t.text)
	if n := len(t.answers); n > 0 && len(t.called(toolConsult)) <= n {
		said = newClause(t.answers[n-1])
	}
	asked := said.trimmed()
	if r, ok := t.handoff(asked); ok && !t.final && len(t.called(toolConsult)) <= len(t.answers) {
		return r, true
	}
	switch {
	case len(t.answers) > 0 || len(t.results) > 0 || t.steps != nil || len(t.calls) > 0 && len(t.called(toolGetSkill)) == 0 || t.final:
		return reply{}, false
	case said.smallTalk() && slices.ContainsFunc(said.toks, func(t token) bool { return t.is("thanks", "thank", "thx") }):
		return say("You are welcome."), true
	case len(asked.toks) == 0 || said.smallTalk():
		return say("Hello. %s", t.can()), true
	case !asked.aboutSelf():
		return reply{}, false
	}
	if got := t.called(toolGetSkill); len(got) > 0 {
		t.domains = domainsIn(got[len(got)-1].result)
	} else if t.tool(toolGetSkill) != nil {
		return reply{calls: []toolCall{{toolGetSkill, map[string]any{}}}}, true
	}
	return say("%s", t.can()), true
}

// can says what the agent has skills for, or which others it can ask.
func (t *turn) can() string {
	if t.role() == router {
		return t.abilities()
	}
	about := slices.Clone(t.domains)
	for _, s := range t.listed {
		i := slices.IndexFunc(about, func(d domain) bool { return d.name == s.domain() })
		switch {
		case i < 0:
			about = append(about, domain{s.domain(), s.action()})
		case len(t.domains) == 0:
			about[i].description += ", " + s.action()
		}
	}
	if len(about) == 0 && t.tool(toolGetSkill) == nil {
		return "I have no skills at present."
	}
	slices.SortFunc(about, func(a, b domain) int { return cmp.Compare(a.name, b.name) })
	var lines []string
	for _, d := range about {
		lines = append(lines, "- "+sentence(strings.TrimSuffix(d.name+": "+d.description, ": ")))
	}
	for _, a := range t.agents(toolHandoff) {
		lines = append(lines, "- "+a.name+": "+sentence(a.description))
	}
	if len(lines) == 0 {
		return "Ask me what I can do, or tell me what to do."
	}
	return "I can help you with these:\n" + strings.Join(lines, "\n")
}

// abilities says what the agents of the catalogs are for.
func (t *turn) abilities() string {
	var can []string
	for _, a := range append(t.agents(toolConsult), t.agents(toolHandoff)...) {
		can = append(can, "- "+a.name+": "+sentence(a.description))
	}
	if len(can) == 0 {
		return "There is no agent that I could ask for you."
	}
	slices.Sort(can)
	return "I can pass your request on to these agents:\n" + strings.Join(slices.Compact(can), "\n")
}

// consulted answers with what the agent said, or asks what it asks.
func consulted(c *call, final bool) reply {
	var said struct{ Agent, Status, Result string }
	if err := json.Unmarshal([]byte(c.result), &said); err != nil {
		said.Result, said.Status = c.result, statusCompleted
	}
	said.Agent = cmp.Or(said.Agent, c.arg("agent"))
	result := strings.TrimSpace(said.Result)
	switch {
	case strings.HasPrefix(said.Status, "cancel") && result != "":
		return reply{text: result} // it tells what it did before
	case said.Status == statusAwaiting && result != "":
		return reply{text: result, ask: !final}
	case c.failed || said.Status != statusCompleted:
		return say("I could not get an answer from the %s agent: %s Without it I cannot answer this, because I have no knowledge of my own; please try again later.",
			said.Agent, sentence(squeeze(clip(cmp.Or(result, "it did not answer"), 400))))
	case result == "":
		return say("The %s agent finished without saying anything.", said.Agent)
	}
	return reply{text: result}
}

// handoff finds a trigger in what the user says. Whoever asks how something is
// done wants an answer and no handoff.
func (t *turn) handoff(c clause) (reply, bool) {
	if c.at(0).in(questionHead) || slices.ContainsFunc(c.toks, func(t token) bool { return t.in(negations) || t.in(limits) }) {
		return reply{}, false
	}
	for _, a := range t.agents(toolHandoff) {
		for _, trigger := range a.triggers {
			if triggered(c, tokenize(trigger)) {
				return reply{calls: []toolCall{{toolHandoff, map[string]any{
					"agent":   a.name,
					"reason":  "The user's request matches “" + trigger + "”.",
					"summary": "The user said: " + clip(squeeze(t.text), 500),
				}}}}, true
			}
		}
	}
	return reply{}, false
}

// triggered reports whether the clause begins with the trigger's words in their
// order, with at most three plain words between two of them: "create a really
// good skill", but not "create a task about my skill". A trigger without a verb,
// as "new skill", may follow words that say nothing.
func triggered(c clause, want []token) bool {
	at := 0
	for n, w := range want {
		gap := 0
		for ; at < len(c.toks) && !sameWord(c.at(at), &w); at++ {
			g := c.at(at)
			idle := g.in(glue) || g.is("i", "need", "want", "would", "like", "we") || verbs[c.at(0).low] == actCreate
			if n > 0 && gap == 3 || g.kind != word || prepositions[g.low] || things[g.stem] != "" || n == 0 && !idle {
				return false
			}
			gap++
		}
		if at >= len(c.toks) {
			return false
		}
		at++
	}
	return len(want) > 0
}

// sameWord reports whether a word means what the trigger's word says; only
// verbs have synonyms.
func sameWord(t, want *token) bool {
	if t.kind != word {
		return false
	}
	acts := actsOf(want.low)
	return t.stem == want.stem || len(acts) > 0 && !nounVerbs[t.low] && slices.ContainsFunc(actsOf(t.low), func(a act) bool { return a == acts[0] })
}

// addressee returns the agent that the user names as the one to do it, and what
// it is to do: "ask worker-2 to …", "let the tasks agent …", "mail: …". It
// returns "" if no agent is named so.
func addressee(c clause, agents []agentLine) (name, task string) {
	asks, lets := c.at(0).is("ask", "tell", "get"), c.at(0).is("let", "have")
	rest := c
	if asks || lets {
		rest = rest.from(1)
	}
	if rest.at(0).is("the") {
		rest = rest.from(1)
	}
	i := slices.IndexFunc(agents, func(a agentLine) bool { return rest.at(0).is(a.name, "@"+a.name) })
	if i < 0 {
		return "", ""
	}
	at := strings.HasPrefix(rest.at(0).low, "@")
	if rest = rest.from(1); rest.at(0).is("agent") {
		rest = rest.from(1)
	}
	marked := rest.at(0).is(":", ",")
	ordered := asks && (rest.at(0).is("to", "about", "for") || rest.at(0).in(questionHead)) || lets && rest.order() != ""
	if !at && !marked && !ordered {
		return "", ""
	}
	if marked || rest.at(0).is("to") {
		rest = rest.from(1)
	}
	if rest.at(0).is("about") {
		return agents[i].name, "Tell me " + rest.all()
	}
	if task = rest.all(); task == "" {
		return "", ""
	}
	return agents[i].name, task
}

// choose returns the agent for what is asked, or "": a question about how things
// are goes to an agent with documents, all else to the one that takes requests
// apart, which knows all skills.
func choose(text string, agents []agentLine) string {
	parts := split(text, func(c clause) bool { return c.order() != "" || c.question() })
	if len(parts) == 0 {
		return ""
	}
	c := plainly(parts[0].clause)
	asks := c.explanation() || c.order() == "" && c.question() && !c.personal() && !slices.ContainsFunc(c.toks, func(t token) bool {
		return things[t.stem] != "" && things[t.stem] != "doc"
	})
	may := asks || slices.ContainsFunc(parts, func(p part) bool {
		c := plainly(p.clause)
		return c.order() != "" || c.question() || skillCall.MatchString(c.at(0).low)
	})
	if at := slices.IndexFunc(agents, func(a agentLine) bool { return a.answers() && !a.delegates() }); at >= 0 && asks && len(parts) == 1 {
		return agents[at].name
	}
	if at := slices.IndexFunc(agents, func(a agentLine) bool { return a.delegates() }); at >= 0 && may {
		return agents[at].name
	}
	return fitting(c, agents)
}

// fitting returns the agent whose words fit what is asked best, or "".
func fitting(c clause, agents []agentLine) string {
	best, most := "", 0
	for _, a := range agents {
		s := learn(skill{Name: a.name, Description: a.description, Tags: append(slices.Clone(a.tags), a.skills...)})
		if fit := s.about(c.toks); fit > most && (c.order() != "" || c.question()) {
			best, most = a.name, fit
		}
	}
	return best
}
