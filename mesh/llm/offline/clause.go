package offline

import (
	"regexp"
	"strings"
)

// A clause is a stretch of a text, as tokens.
type clause struct {
	text   string // the whole text that the tokens point into
	tokens []token
}

func newClause(text string) clause { return clause{text, tokenize(text)} }

// words returns the clause as it is written.
func (c clause) words() string {
	if len(c.tokens) == 0 {
		return ""
	}
	return c.text[c.tokens[0].start:c.tokens[len(c.tokens)-1].end]
}

// from returns the clause without its first n tokens.
func (c clause) from(n int) clause { return clause{c.text, c.tokens[min(n, len(c.tokens)):]} }

// begins returns how many tokens of the clause the phrase is, at its
// beginning; 0 if it does not begin with it.
func (c clause) begins(phrase string) int {
	n := 0
	for w := range strings.FieldsSeq(phrase) {
		if n >= len(c.tokens) || !c.tokens[n].is(w) {
			return 0
		}
		n++
	}
	return n
}

// phrases are ways to begin a clause. Where several fit, the first counts.
type phrases map[string][][]string // by their first word

func newPhrases(all ...string) phrases {
	p := phrases{}
	for _, one := range all {
		words := strings.Fields(one)
		p[words[0]] = append(p[words[0]], words)
	}
	return p
}

// startsWith returns the length of the first phrase that c begins with, in
// tokens, or 0.
func (c clause) startsWith(p phrases) int {
	if len(c.tokens) == 0 || c.tokens[0].kind != word && c.tokens[0].kind != punct {
		return 0
	}
	for _, words := range p[c.tokens[0].low] {
		if len(words) <= len(c.tokens) && c.are(words) {
			return len(words)
		}
	}
	return 0
}

// are reports whether the first tokens are the words.
func (c clause) are(words []string) bool {
	for i, w := range words {
		if !c.tokens[i].is(w) {
			return false
		}
	}
	return true
}

// opening returns how many tokens at the beginning are marks and polite
// openings.
func (c clause) opening() int {
	n := 0
	for {
		for c.at(n).kind == punct && n < len(c.tokens) {
			n++
		}
		more := c.from(n).startsWith(politeness)
		if more == 0 {
			return n
		}
		n += more
	}
}

// trimmed takes marks off both ends and polite openings off the beginning.
func (c clause) trimmed() clause {
	c.tokens = c.tokens[c.opening():]
	for n := len(c.tokens); n > 0 && c.tokens[n-1].kind == punct; n-- {
		c.tokens = c.tokens[:n-1]
	}
	return c
}

var noToken = token{kind: punct}

// at returns the i-th token, or an empty one. It is not to be changed.
func (c clause) at(i int) *token {
	if i < 0 || i >= len(c.tokens) {
		return &noToken
	}
	return &c.tokens[i]
}

// question reports whether the clause asks for something to be told.
func (c clause) question() bool {
	t := c.at(0)
	if t.kind != word {
		return false
	}
	if !questionHead[t.low] {
		return false
	}
	return !t.is("can", "could", "will", "would", "do", "have", "has") || c.at(1).is("i", "we", "it", "they", "he", "she", "you", "the", "my", "our", "this", "that", "any", "an", "a", "agents")
}

// imperative reports how surely the clause begins with a verb that tells to do
// something: 0 not, 1 a verb the planner does not know, 2 one it knows. known
// says which words are verbs because skills are named so.
func (c clause) imperative(known map[string]bool) int {
	c = c.trimmed()
	head, next := c.at(0), c.at(1)
	if head.kind != word {
		return 0
	}
	object := next.kind == email || next.kind == quoted || determiners[next.low] || pronouns[next.low] ||
		(next.kind == word && (strings.HasPrefix(next.text, "#") || next.capital() && !isDateWord(next.low)))
	if verbs[head.low] || known[head.low] {
		stands := next.kind != punct && !ends[next.low] || next.is(":")
		if nounVerbs[head.low] || !verbs[head.low] {
			particle := next.is("for", "up", "at", "to", "on", "out", "down") && head.is("search", "look", "check", "write", "reply", "set", "put", "note")
			stands = stands && (object || particle || !prepositions[next.low] && !auxiliaries[next.low])
		}
		if stands {
			return 2
		}
		return 0
	}
	unknownWord := !stopWords[head.low] && !prepositions[head.low] && !determiners[head.low] && !smallNumberOrDigit(head.low) &&
		!isDateWord(head.low) && !questionHead[head.low] && !strings.HasSuffix(head.low, "ly") && !strings.HasSuffix(head.low, "ing") &&
		len(head.low) > 2
	if unknownWord && object && !(head.capital() && head.start > 0) {
		return 1
	}
	return 0
}

func smallNumberOrDigit(w string) bool {
	_, ok := smallNumbers[w]
	return ok || (w != "" && w[0] >= '0' && w[0] <= '9')
}

var skillName = regexp.MustCompile(`^[a-z][a-z0-9_]*\.[a-z][a-z0-9_]*$`)

// calledByName returns the skill that the clause calls by its whole name, as
// "use tasks.search to …" or "tasks.search: …", or "".
func calledByName(cl clause) string {
	cl = cl.trimmed()
	at := 0
	if cl.at(0).is("use", "run", "execute") {
		at = 1
	}
	if cl.at(at).is("the") {
		at++
	}
	if cl.at(at).is("skill") {
		at++
	}
	if t := cl.at(at); t.kind == word && skillName.MatchString(t.low) {
		return t.low
	}
	return ""
}
