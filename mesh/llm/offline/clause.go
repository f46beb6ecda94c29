package offline

import (
	"regexp"
	"slices"
	"strings"
)

// A clause is a stretch of a text, as tokens.
type clause struct {
	text string // the whole text that the tokens point into
	toks []token
}

func newClause(text string) clause { return clause{text, tokenize(text)} }

var noToken = token{kind: punct}

// at returns the i-th token, or an empty one.
func (c clause) at(i int) *token {
	if i < 0 || i >= len(c.toks) {
		return &noToken
	}
	return &c.toks[i]
}

// words returns the tokens i to j as they are written.
func (c clause) words(i, j int) string {
	if j = min(j, len(c.toks)); i >= j {
		return ""
	}
	return c.text[c.toks[i].start:c.toks[j-1].end]
}

func (c clause) all() string { return c.words(0, len(c.toks)) }

func (c clause) from(n int) clause { return clause{c.text, c.toks[min(n, len(c.toks)):]} }

// begins returns how many tokens of c the words are, at its beginning, or 0.
func (c clause) begins(phrase []string) int {
	for i, w := range phrase {
		if !c.at(i).is(w) {
			return 0
		}
	}
	return len(phrase)
}

func (c clause) starts(all ...string) bool {
	return slices.ContainsFunc(all, func(p string) bool { return c.begins(strings.Fields(p)) > 0 })
}

// opening returns how many tokens at the beginning are marks and polite words.
func (c clause) opening() int {
	n := 0
next:
	for n < len(c.toks) {
		if c.at(n).kind == punct {
			n++
			continue
		}
		for _, p := range politeness {
			if more := c.from(n).begins(p); more > 0 {
				n += more
				continue next
			}
		}
		break
	}
	return n
}

// trimmed takes marks off both ends, polite words off the beginning, and off the
// end what only asks for haste or thanks.
func (c clause) trimmed() clause {
	c.toks = c.toks[c.opening():]
	for n := len(c.toks); n > 0 && (c.toks[n-1].kind == punct || n > 1 && c.toks[n-1].in(politeTail) && (!c.at(n-1).is("you") || c.at(n-2).is("thank"))); n-- {
		c.toks = c.toks[:n-1]
	}
	return c
}

// order returns the verb with which the clause tells to do something, or "".
func (c clause) order() string {
	head, next := c.at(0), c.at(1)
	switch {
	case head.kind != word || verbs[head.low] == actNone:
		return ""
	case !nounVerbs[head.low]:
		return head.low
	case next.kind == email || next.kind == quoted, next.in(determiners), next.in(pronouns), next.is("me", "up", "out", "for", "at", ":", "that", "down", "all", "new"), strings.HasPrefix(next.low, "#"):
		return head.low
	case next.kind == word && !next.in(prepositions) && !next.in(questionHead) && !next.is("and"):
		return head.low
	}
	return ""
}

// question reports whether the clause asks to be told something.
func (c clause) question() bool {
	if c.at(0).is("when", "where", "who", "which") && c.at(1).in(pronouns) || c.at(0).is("when") && c.at(1).is("you", "i", "we") {
		return false // "when you have time" is a condition
	}
	return c.at(0).in(questionHead) && !c.starts("should i", "should we", "may", "might", "would", "could i", "can i", "did", "have you", "has", "was", "were", "will", "does", "do i need to", "why did", "why do you", "who did")
}

// explanation reports whether the clause asks how or why something is.
func (c clause) explanation() bool {
	return c.at(0).is("how", "how's", "why", "why's", "explain", "describe", "research") && !c.at(1).is("many", "much") ||
		c.starts("tell me about", "tell me how", "tell me what", "tell me why", "show me how", "look up how", "find out how", "what is a", "what is an", "what is the way", "what happens", "what are the") ||
		c.at(0).is("find", "search", "look") && slices.ContainsFunc(c.toks, func(t token) bool { return things[t.stem] == "doc" })
}

// personal reports whether the clause is about what is somebody's own.
func (c clause) personal() bool {
	return slices.ContainsFunc(c.toks, func(t token) bool {
		return t.is("my", "our", "i", "me", "we", "i'm", "mine") || t.is("remember", "overdue", "due")
	})
}

// A part is a stretch of a request that asks for one thing.
type part struct {
	clause
	stage int // how often "then" came before
}

var listMark = regexp.MustCompile(`^(?:\d{1,2}[.)]|[-*•])\s+`)

// split takes a request apart where another thing to do begins. begins says
// whether a clause does so for certain. It stops after maxParts.
func split(text string, begins func(clause) bool) []part {
	var out []part
	stage := 0
	for i, line := range strings.Split(strings.ReplaceAll(text, "\r\n", "\n"), "\n") {
		line = strings.TrimSpace(line)
		if mark := listMark.FindString(line); mark != "" {
			if line = line[len(mark):]; i > 0 && mark[0] >= '0' && mark[0] <= '9' && len(out) > 0 {
				stage++ // numbered steps come one after the other
			}
		}
		c, from := newClause(line), 0
		put := func(to int) {
			if p := (clause{c.text, c.toks[from:to]}).trimmed(); len(p.toks) > 0 && len(out) <= maxParts {
				out = append(out, part{clause: p, stage: stage})
			}
		}
		for i := 0; i < len(c.toks) && len(out) <= maxParts; {
			n, then := boundary(c, i, i == from)
			if n == 0 || !then && !c.at(i).is(".", "!", "?", ";") && !begins(c.from(i+n).trimmed()) {
				i++
				continue
			}
			put(i)
			if then && (len(out) > 0) {
				stage++
			}
			from, i = i+n, i+n
		}
		put(len(c.toks))
	}
	return lists(out)
}

var (
	thens = phrases("and then", "and after that", "and afterwards", "and finally", "after that", "afterwards", "then", "finally", "next")
	ands  = phrases("and also", "as well as", "and", "&", "also", "plus", "at the same time", "meanwhile", "while you are at it")
)

// boundary returns how many tokens at i may stand between two clauses, and
// whether the second one waits for the first.
func boundary(c clause, i int, begin bool) (n int, then bool) {
	for c.at(i+n).is(",", ".", "!", "?", ";") {
		then = then || c.at(i+n).is(";")
		n++
	}
	if n == 0 && c.at(i).kind != word && !c.at(i).is("&") {
		return 0, false
	}
	stop := n > 0 && !c.at(i).is(",")
	rest := c.from(i + n)
	for _, p := range thens {
		more := rest.begins(p)
		if more > 0 && (p[len(p)-1] != "next" || stop) && (n > 0 || begin || rest.at(more).kind == word && verbs[rest.at(more).low] != actNone || rest.at(more).is(",")) {
			if rest.at(more).is(",") {
				more++
			}
			return n + more, true
		}
	}
	for at := 0; at < len(ands); at++ {
		if more := rest.begins(ands[at]); more > 0 {
			for rest.at(more).is(",") {
				more++
			}
			rest, n, at = rest.from(more), n+more, -1 // "and also, at the same time, …"
		}
	}
	return n, then
}

// lists turns "create tasks: a, b and c" into one part for each.
func lists(parts []part) []part {
	var out []part
	for _, p := range parts {
		at := slices.IndexFunc(p.toks, func(t token) bool { return t.is(":") })
		choice := slices.ContainsFunc(p.toks, func(t token) bool { return t.is("or") || t.in(limits) })
		if thing := p.at(at - 1); choice || at < 1 || at > 5 || verbs[p.at(0).low] != actCreate || !strings.HasSuffix(thing.low, "s") || things[thing.stem] == "" {
			out = append(out, p)
			continue
		}
		head := p.at(0).text + " a " + strings.TrimSuffix(p.at(at-1).low, "s") + ": "
		from := at + 1
		for i := from; i <= len(p.toks) && len(out) <= maxParts; i++ {
			if t := p.at(i); i == len(p.toks) || t.is(",", "and", ";") {
				if i > from {
					out = append(out, part{clause: newClause(head + p.words(from, i)), stage: p.stage})
				}
				from = i + 1
			}
		}
	}
	return out
}

// smallTalk reports whether the clause greets or thanks and asks for nothing.
func (c clause) smallTalk() bool {
	return !slices.ContainsFunc(c.toks, func(t token) bool { return t.kind != punct && !t.in(chatter) })
}

var chatter = set("hi hello hey good morning evening afternoon day thanks thank you thx cheers bye goodbye please very much so many a lot for the your help there ok okay great nice cool perfect dear again and all it's is that fine welcome")

// aboutSelf reports whether the clause asks what the agent is or can do.
func (c clause) aboutSelf() bool {
	for _, p := range selfQuestions {
		if n := c.begins(p); n > 0 && !slices.ContainsFunc(c.toks[n:], func(t token) bool {
			return t.kind != punct && !t.in(chatter) && !t.is("me", "do", "available", "to", "have", "can", "there", "are")
		}) {
			return true
		}
	}
	return false
}

var selfQuestions = phrases("help", "who are you", "what are you", "what can you do", "what do you do", "what can i do", "what can i ask", "how can you help", "what can you help", "what skills", "which skills", "what agents", "which agents", "list agents", "list the agents", "list skills")
