package offline

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
)

// notice is said in the first answer of a conversation.
const notice = "(I am the offline planner: I follow rules and understand little; " +
	"set MESH_LLM_URL, MESH_LLM_KEY and MESH_LLM_MODEL to use a language model.)"

// An agentLine is an agent of the catalog in a tool's description.
type agentLine struct {
	name, description string
	skills, tags      []string
	triggers          []string
}

var linePattern = regexp.MustCompile(`(?m)^- ([a-z][a-z0-9_-]*): (.*?)(?: \(((?:skills|tags|triggers):[^()]*)\))?[ \t]*$`)

// agents reads the catalog in the description of a tool.
func (t *turn) agents(tool string) []agentLine {
	var out []agentLine
	def := t.tool(tool)
	if def == nil {
		return nil
	}
	for _, m := range linePattern.FindAllStringSubmatch(def.Description, -1) {
		a := agentLine{name: m[1], description: m[2]}
		for field := range strings.SplitSeq(m[3], ";") {
			key, values, _ := strings.Cut(field, ":")
			var list []string
			for v := range strings.SplitSeq(values, ",") {
				if v = strings.TrimSpace(v); v != "" {
					list = append(list, v)
				}
			}
			switch strings.TrimSpace(key) {
			case "skills":
				a.skills = list
			case "tags":
				a.tags = list
			case "triggers":
				a.triggers = list
			}
		}
		out = append(out, a)
	}
	return out
}

// mentionsAny reports whether the agent's own words contain one of the stems.
func (a *agentLine) mentionsAny(stems ...string) bool {
	all := strings.Join(append(append([]string{a.name, a.description}, a.tags...), a.skills...), " ")
	return slices.ContainsFunc(tokenize(strings.NewReplacer(".", " ", "_", " ", "-", " ").Replace(all)), func(t token) bool {
		return slices.ContainsFunc(stems, func(s string) bool { return strings.HasPrefix(t.stem, s) })
	})
}

func (a *agentLine) orchestrates() bool { return a.mentionsAny("orchestrat", "decompos") }
func (a *agentLine) knows() bool        { return a.mentionsAny("knowledg", "documentation", "question") }

// planRoute replies for an agent that consults others or hands over to them.
func planRoute(t *turn) reply {
	r := route(t)
	if t.first && (len(r.calls) == 0 || r.calls[0].tool == toolHandoff) {
		r.text = strings.TrimSpace(r.text + "\n\n" + notice)
	}
	return r
}

func route(t *turn) reply {
	for _, c := range slices.Backward(t.calls) {
		if c.done && c.use.Name == toolConsult {
			return consulted(&c)
		}
		if r, ok := handedOver(&c); ok {
			return r
		}
	}
	if t.final {
		return untouched(t)
	}
	asked := newClause(t.text).trimmed()
	if r, ok := t.handoff(asked); ok {
		return r
	}
	if thanks(newClause(t.text)) {
		return say("You are welcome.")
	}
	if len(asked.tokens) == 0 || smallTalk(asked) || aboutMe(asked) {
		return say("Hello. %s", t.abilities())
	}
	agents := t.agents(toolConsult)
	if name, task := addressee(asked, agents); name != "" {
		return reply{calls: []toolCall{{toolConsult, map[string]any{"agent": name, "task": task}}}}
	}
	parts := splitter{matches: func(c clause) bool { return c.imperative(nil) == 2 || c.question() }}.split(t.text)
	if name := choose(parts, agents); name != "" {
		return reply{calls: []toolCall{{toolConsult, map[string]any{"agent": name, "task": t.text}}}}
	}
	return say("%s %s", puzzled(t.text), t.abilities())
}

// handedOver says what came of a handoff; false if c is none that has ended.
func handedOver(c *call) (reply, bool) {
	switch {
	case !c.done || c.use.Name != toolHandoff:
		return reply{}, false
	case c.failed:
		return say("I could not connect you with %s: %s", c.arg("agent"), sentence(c.result)), true
	}
	return say("You are connected with %s.", c.arg("agent")), true
}

// thanks reports whether the clause thanks and asks for nothing.
func thanks(c clause) bool {
	return smallTalk(c) && slices.ContainsFunc(c.tokens, func(t token) bool { return t.is("thanks", "thank") })
}

// consulted answers with what the agent said.
func consulted(c *call) reply {
	var said struct{ Agent, Status, Result string }
	if err := json.Unmarshal([]byte(c.result), &said); err != nil {
		said.Result, said.Status = c.result, "completed"
	}
	if said.Agent == "" {
		said.Agent = c.arg("agent")
	}
	if strings.EqualFold(said.Status, "canceled") && strings.TrimSpace(said.Result) != "" {
		return reply{text: strings.TrimSpace(said.Result)} // it tells what it did before
	}
	if c.failed || said.Status != "" && !strings.EqualFold(said.Status, "completed") && !strings.HasSuffix(strings.ToLower(said.Status), "input_required") {
		why := said.Result
		if why == "" {
			why = "it did not answer"
		}
		return say("I could not get an answer from the %s agent: %s Without it I cannot answer this, because I have no knowledge of my own; please try again later.",
			said.Agent, sentence(squeeze(clip(why, 400))))
	}
	if strings.TrimSpace(said.Result) == "" {
		return say("The %s agent finished without saying anything.", said.Agent)
	}
	return reply{text: strings.TrimSpace(said.Result)}
}

// handoff finds a trigger in what the user says. Whoever asks how something is
// done wants an answer and no handoff.
func (t *turn) handoff(c clause) (reply, bool) {
	if c.at(0).is("how", "what", "what's", "why", "when", "where", "who", "which", "does", "is", "are") {
		return reply{}, false
	}
	for _, a := range t.agents(toolHandoff) {
		for _, trigger := range a.triggers {
			if triggered(newClause(t.text), trigger) {
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

// triggered reports whether the clause has the trigger's words in their order,
// with at most three plain words between two of them: "create a really good
// skill", but not "create a task about my skill".
func triggered(c clause, trigger string) bool {
	want := tokenize(trigger)
	for start := range c.tokens {
		if matchFrom(c, start, want) {
			return true
		}
	}
	return false
}

func matchFrom(c clause, at int, want []token) bool {
	for n, w := range want {
		gap := 0
		for ; at < len(c.tokens) && !sameWord(c.at(at), &w); at++ {
			g := c.at(at)
			if n == 0 || gap == 3 || g.kind != word || prepositions[g.low] || len(thingsOf(g.stem)) > 0 {
				return false
			}
			gap++
		}
		if at >= len(c.tokens) {
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
	if t.stem == want.stem {
		return true
	}
	acts := actsOf(want.stem)
	return len(acts) > 0 && !nounVerbs[t.low] && slices.ContainsFunc(actsOf(t.stem), func(a concept) bool { return slices.Contains(acts, a) })
}

func aboutMe(c clause) bool {
	for _, p := range []string{"help", "who are you", "what are you", "what can you do", "what do you do", "what can i do", "what can i ask", "how can you help", "what skills", "which skills", "what agents", "which agents", "list agents", "list the agents", "list skills"} {
		n := c.begins(p)
		more := slices.ContainsFunc(c.from(n).tokens, func(t token) bool { return t.kind != word || !stopWords[t.low] && !t.is("available") })
		if n > 0 && !more {
			return true
		}
	}
	return false
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
	ordered := asks && (rest.at(0).is("to", "about", "for") || rest.question()) || lets && rest.imperative(nil) == 2
	if !at && !marked && !ordered {
		return "", ""
	}
	if marked || rest.at(0).is("to") {
		rest = rest.from(1)
	}
	if rest.at(0).is("about") {
		return agents[i].name, "Tell me " + rest.words()
	}
	if task = rest.words(); task == "" {
		return "", ""
	}
	return agents[i].name, task
}

// choose returns the agent for what is asked, or "": what is to be done goes
// to the agent that takes requests apart, what is to be known to the agent
// whose words fit best.
func choose(parts []part, agents []agentLine) string {
	if len(parts) == 0 {
		return ""
	}
	told := slices.ContainsFunc(parts, func(p part) bool { return p.imperative(nil) > 0 })
	c := parts[0].clause
	i := slices.IndexFunc(agents, func(a agentLine) bool { return a.orchestrates() })
	// What is on somebody's own lists is in no document, and which skill has
	// it the agent knows that takes requests apart.
	own := slices.ContainsFunc(c.tokens, func(t token) bool {
		return t.is("my", "our", "have") || t.kind == word && slices.Contains(thingsOf(t.stem), aMemory)
	}) || ownQuestion(c) || whichThings(c)
	addressed := slices.ContainsFunc(c.tokens, func(t token) bool { return t.kind == email })
	if i >= 0 && (calledByName(c) != "" || told && !explains(parts) || len(parts) > 1 || addressed) {
		return agents[i].name
	}
	if fit := bestAgent(c, agents, false); fit != "" || i >= 0 && own && !howTo(c) && c.question() {
		if fit == "" {
			fit = agents[i].name
		}
		if !howTo(c) && !explains(parts) { // "tell me about …" sends nothing
			return fit
		}
	}
	return bestAgent(c, agents, told || c.question())
}

// whichThings reports whether the clause asks for things of a kind, as "what
// files are in the folder notes": a document can tell of the kind only.
func whichThings(c clause) bool {
	t := c.at(1)
	if c.at(0).is("how") && t.is("many") {
		t = c.at(2)
	} else if !c.at(0).is("what", "which") {
		return false
	}
	kind := kindWord(t)
	return kind != "" && kind != aDoc && strings.HasSuffix(t.low, "s")
}

// howTo reports whether the clause asks how or why something is.
func howTo(c clause) bool {
	return c.at(0).is("how", "how's", "why", "explain", "describe") && !c.at(1).is("many", "much")
}

// explains reports whether the one thing that is asked for is an explanation.
func explains(parts []part) bool {
	c := parts[0].clause
	if len(parts) > 1 {
		return false
	}
	about := c.at(0).is("explain", "describe", "research") || c.begins("tell me about") > 0 || c.begins("tell me how") > 0 || c.begins("tell me what") > 0 ||
		c.begins("show me how") > 0 || c.begins("look up how") > 0 || c.begins("find out how") > 0
	docs := slices.Contains(verbOf(c), doSearch) && slices.ContainsFunc(c.tokens, func(t token) bool { return t.is("documentation", "docs", "manual", "guide", "knowledge") })
	return about || docs
}

// bestAgent returns the agent whose words fit best. asks says that c is a
// question or an order, so that an agent that knows things fits anyway.
func bestAgent(c clause, agents []agentLine, asks bool) string {
	var lines []skill
	for _, a := range agents {
		if !a.orchestrates() {
			lines = append(lines, skill{Name: a.name, Description: a.description, Tags: append(slices.Clone(a.tags), strings.Fields(strings.NewReplacer(".", " ", "_", " ").Replace(strings.Join(a.skills, " ")))...)})
		}
	}
	cat := newCatalog(lines)
	best, most := "", 0.0
	for _, s := range cat.rank(c) {
		fit := s.evidence
		i := slices.IndexFunc(agents, func(a agentLine) bool { return a.name == s.skill.Name })
		if asks && agents[i].knows() {
			fit += 2.5
			if howTo(c) {
				fit += 10
			}
		}
		if fit > most && fit >= enough {
			best, most = s.skill.Name, fit
		}
	}
	return best
}
