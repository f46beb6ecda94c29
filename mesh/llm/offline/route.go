package offline

import (
	"cmp"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
)

// agents are those that may be asked or, if not ask, handed over to.
func (t *turn) agents(ask bool) []llm.Agent {
	return slices.DeleteFunc(slices.Clone(t.facts.Agents), func(a llm.Agent) bool { return ask && !a.Ask || !ask && !a.Handoff })
}

// planRoute replies for an agent that consults others or hands over to them.
func planRoute(t *turn) reply {
	if r, ok := t.chat(); ok {
		return r
	}
	asked := t.called(toolConsult)
	if n := len(asked); n > 0 {
		last := &asked[n-1]
		if told, _ := last.args["answers"].([]any); len(told) >= len(t.answers) || t.final {
			return consulted(last, t.final)
		}
		return t.consult(last.arg("agent"), last.arg("task")) // what it asked the user has an answer now
	}
	if t.final {
		return say("I did nothing about %s.", quoteShort(t.text))
	}
	c := newClause(t.text).trimmed()
	agents := t.agents(true)
	if name, task := addressee(c, agents); name != "" {
		return t.consult(name, task)
	}
	if name := choose(t.text, agents); name != "" {
		return t.consult(name, t.text)
	}
	return say("I did not understand %s. %s", quoteShort(t.text), t.can())
}

func (t *turn) consult(agent, task string) reply {
	args := map[string]any{"agent": agent, "task": task}
	if len(t.answers) > 0 {
		args["answers"] = t.answers
	}
	return reply{calls: []toolCall{{toolConsult, args}}}
}

// chat replies to what is no work: what belongs to another agent, small talk, and
// what the agent can do. It returns false for everything else.
func (t *turn) chat() (reply, bool) {
	for _, c := range slices.Backward(t.calls) {
		switch {
		case !c.done || c.tool != toolHandoff:
		case c.cause == mesh.CauseDenied:
			return say("%s", sentence(c.result)), true
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
	case len(t.answers) > 0 || len(t.results) > 0 || t.steps != nil || len(t.calls) > 0 || t.final:
		return reply{}, false
	case said.smallTalk() && slices.ContainsFunc(said.toks, func(t token) bool { return t.is("thanks", "thank", "thx") }):
		return say("You are welcome."), true
	case len(asked.toks) == 0 || said.smallTalk():
		return say("Hello. %s", t.can()), true
	case !asked.aboutSelf():
		return reply{}, false
	}
	return say("%s", t.can()), true
}

// can says what the agent has skills for, and which others it can ask.
func (t *turn) can() string {
	about := map[string][]string{}
	for _, s := range t.skills {
		about[s.domain()] = append(about[s.domain()], s.action())
	}
	for _, a := range t.facts.Agents {
		about[a.Name] = []string{squeeze(a.Description)}
	}
	if len(about) == 0 {
		return "There is nothing that I could use, and no agent that I could ask."
	}
	var lines []string
	for _, name := range slices.Sorted(maps.Keys(about)) {
		lines = append(lines, "- "+name+": "+sentence(strings.Join(about[name], ", ")))
	}
	return "I can help you with these, or pass your request on:\n" + strings.Join(lines, "\n")
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
	case c.cause == mesh.CauseDenied: // later is no better
		return say("%s", sentence(result))
	case c.failed || said.Status != statusCompleted:
		return say("I could not get an answer from the %s agent: %s Without it I cannot answer this, because I have no knowledge of my own; please try again later.",
			said.Agent, sentence(squeeze(clip(cmp.Or(result, "it did not answer"), 400))))
	case result == "":
		return say("The %s agent finished without saying anything.", said.Agent)
	}
	return reply{text: result}
}

// handoff finds a trigger in what the user says. Whoever asks how something is
// done wants an answer and no handoff, and so does who limits what triggers it or turns it
// round. What comes after that is for the agent: of a skill that does something every day,
// it is what the skill does.
func (t *turn) handoff(c clause) (reply, bool) {
	if c.at(0).in(questionHead) {
		return reply{}, false
	}
	for _, a := range t.agents(false) {
		for _, trigger := range a.Triggers {
			end, ok := triggered(c, tokenize(trigger))
			if ok && !slices.ContainsFunc(c.toks[:end], func(t token) bool { return t.in(negations) || t.in(limits) }) {
				return reply{calls: []toolCall{{toolHandoff, map[string]any{
					"agent":   a.Name,
					"reason":  "The user's request matches “" + trigger + "”.",
					"summary": "The user said: " + clip(squeeze(t.text), 500),
				}}}}, true
			}
		}
	}
	return reply{}, false
}

// triggered reports whether the clause begins with the trigger's words in their
// order, and where they end, with at most three plain words between two of them: "create a really
// good skill", but not "create a task about my skill". A trigger without a verb,
// as "new skill", may follow words that say nothing.
func triggered(c clause, want []token) (end int, ok bool) {
	at := 0
	for n, w := range want {
		gap := 0
		for ; at < len(c.toks) && !sameWord(c.at(at), &w); at++ {
			g := c.at(at)
			idle := g.in(glue) || g.is("i", "need", "want", "would", "like", "we") || verbs[c.at(0).low] == actCreate
			if n > 0 && gap == 3 || g.kind != word || prepositions[g.low] || things[g.stem] != "" || n == 0 && !idle {
				return 0, false
			}
			gap++
		}
		if at >= len(c.toks) {
			return 0, false
		}
		at++
	}
	return at, len(want) > 0
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
func addressee(c clause, agents []llm.Agent) (name, task string) {
	asks, lets := c.at(0).is("ask", "tell", "get"), c.at(0).is("let", "have")
	rest := c
	if asks || lets {
		rest = rest.from(1)
	}
	if rest.at(0).is("the") {
		rest = rest.from(1)
	}
	i := slices.IndexFunc(agents, func(a llm.Agent) bool { return rest.at(0).is(a.Name, "@"+a.Name) })
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
		return agents[i].Name, "Tell me " + rest.all()
	}
	if task = rest.all(); task == "" {
		return "", ""
	}
	return agents[i].Name, task
}

// choose returns the agent for what is asked, or "": a question about how things
// are goes to an agent with documents, all else to the one that takes requests
// apart, which knows all skills.
func choose(text string, agents []llm.Agent) string {
	parts := split(text, func(c clause) bool { return c.order() != "" || c.question() })
	if len(parts) == 0 {
		return ""
	}
	c := plainly(parts[0].clause)
	asks := c.explanation() || c.order() == "" && c.question() && !c.personal() && !slices.ContainsFunc(c.toks, func(t token) bool {
		return things[t.stem] != "" && things[t.stem] != "doc"
	})
	if !slices.ContainsFunc(parts, func(p part) bool {
		c := plainly(p.clause)
		_, typed := c.command()
		return c.order() != "" || c.question() || c.explanation() || typed
	}) {
		return ""
	}
	if asks && len(parts) == 1 {
		if name := fitting(c, agents, "doc"); name != "" {
			return name
		}
	}
	if at := slices.IndexFunc(agents, func(a llm.Agent) bool { return a.Orchestrates }); at >= 0 {
		return agents[at].Name
	}
	return fitting(c, agents, "")
}

// fitting returns the agent whose words fit what is asked best, or "": one for that
// kind of thing, if there is one to be.
func fitting(c clause, agents []llm.Agent, kind string) string {
	best, most := "", 0
	for _, a := range agents {
		s := learn(llm.Skill{Name: a.Name, Description: a.Description, Tags: append(slices.Clone(a.Tags), a.Skills...)})
		fit := s.about(c.toks)
		if kind != "" && !a.Orchestrates && slices.ContainsFunc(tokenize(strings.Join(a.Tags, " ")), func(t token) bool { return things[t.stem] == kind }) {
			fit = 1
		} else if kind != "" {
			fit = 0
		}
		if fit > most {
			best, most = a.Name, fit
		}
	}
	return best
}
