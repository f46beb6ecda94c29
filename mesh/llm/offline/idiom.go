package offline

import (
	"slices"
	"strings"
)

// An idiom is a way to say something that the rules know in other words.
type idiom struct {
	says  phrases // how it begins, longest first; a mark after it belongs to it
	means string
	// own says that the idiom only counts of somebody's own things, or of what
	// has a name: "what do you know about Ann".
	own bool
}

// idioms are looked through in their order.
var idioms = []idiom{
	{means: "remember that", says: newPhrases(append(intoMemory(),
		"keep in mind that", "keep in mind", "keep it in mind that", "bear in mind that", "bear in mind", "don't forget that", "do not forget that", "never forget that",
		"you should know that", "just so you know", "for the record", "for future reference", "be aware that", "make a mental note that", "note to self",
		"memorize this", "memorise this", "remember this", "remember the following", "don't ever forget that")...)},
	{means: "remind me to", says: newPhrases(
		"don't forget to", "do not forget to", "never forget to", "don't let me forget to", "do not let me forget to", "remember to", "make sure i")},
	{means: "write a note saying", says: newPhrases("take a note that", "jot down that", "write down that", "take a note", "jot down", "take down")},
	{means: "search memory for", says: newPhrases(
		"what do you remember about", "what do you remember of", "what do you recall about", "what have i told you about", "what did i tell you about", "what did i say about",
		"what have i said about", "have i told you about", "did i tell you about", "recall what i said about", "remind me what i said about", "do you remember what i said about")},
	{means: "search memory for", own: true, says: newPhrases("what do you know about", "what do you know of", "what all do you know about", "do you know")},
	{means: "list my open tasks due", says: newPhrases("what do i have to do", "what do i need to do", "what must i do", "what's on my plate", "what is on my plate", "what have i got to do")},
	{means: "list my calendar for", says: newPhrases("am i free", "am i busy", "what's on for", "what's my day like", "do i have anything on", "what do i have on", "do i have time")},
}

// intoMemory are the ways to say that something is to be kept in the memory.
func intoMemory() []string {
	var out []string
	for _, that := range []string{" that", ""} {
		for _, whose := range []string{"", "your ", "my ", "the "} {
			for _, what := range []string{"", "it ", "this ", "the fact "} {
				for _, verb := range []string{"save", "store", "put", "add", "commit", "write", "keep", "record"} {
					for _, to := range []string{"to", "in", "into"} {
						out = append(out, verb+" "+what+to+" "+whose+"memory"+that)
					}
				}
			}
		}
	}
	return out
}

// rephrased returns the text with the idioms that begin its sentences in other
// words. What is in quotes, or further on in a sentence, stays as it is.
func rephrased(text string) string {
	c := newClause(text)
	index := indexOf(c)
	var b strings.Builder
	from, at := 0, 0
	for i := range c.tokens {
		before := c.at(i - 1)
		if i < at {
			continue // the same opening goes on
		}
		if i > 0 && !before.is(".", "!", "?", ";", "\n") && !(before.is("and", "then") && !index.openEnded(0, i-1)) {
			continue
		}
		at = i + politely(c.from(i))
		if n := c.from(at).kept(index.stop[min(at, len(c.tokens))] - at); n > 0 && c.at(at).start >= from {
			b.WriteString(text[from:c.at(at).start] + "remember that " + text[c.at(at+1).start:c.at(at+n-1).end])
			from = c.at(at + n).end
			for c.at(at+n).is("to", "in", "into", "your", "my", "the", "memory") {
				from = c.at(at + n).end
				n++
			}
			continue
		}
		means, n := c.from(at).idiom(index.stop[min(at, len(c.tokens))] - at)
		if n == 0 || c.at(at).start < from {
			continue
		}
		b.WriteString(text[from:c.at(at).start])
		b.WriteString(means)
		from = c.at(at + n - 1).end
	}
	if from == 0 {
		return text
	}
	return b.String() + text[from:]
}

var asking = newPhrases(
	"i would like you to", "i want you to", "i need you to", "i'd like you to", "could you please", "can you please", "would you please",
	"could you", "can you", "would you", "will you", "please", "also", "hey", "hi", "hello", "ok", "okay", "and")

// politely returns how many tokens of the clause are a polite opening.
func politely(c clause) int {
	n := 0
	for {
		more := c.from(n).startsWith(asking)
		if more == 0 {
			return n
		}
		for n += more; c.at(n).is(","); {
			n++
		}
	}
}

// idiom returns what the beginning of the clause means, and how many tokens it
// is; 0 if it is no idiom. end is where its sentence ends.
func (c clause) idiom(end int) (means string, n int) {
	for _, id := range idioms {
		if n := c.startsWith(id.says); n > 0 {
			if n == len(c.tokens) && id.means != "list my open tasks due" && id.means != "list my calendar for" {
				continue
			}
			for n < len(c.tokens) && c.at(n).is(":", ",") {
				n++
			}
			if id.own && !ownOrNamed(clause{c.text, c.tokens[min(n, end):end]}) {
				continue
			}
			return id.means, n
		}
	}
	return "", 0
}

// kept reports whether the clause ends with what is to be kept where: "save my
// size to your memory"; it is about the first n tokens after the verb. end is
// where its sentence ends.
func (c clause) kept(end int) (n int) {
	if !c.at(0).is("save", "store", "put", "add", "keep", "commit") {
		return 0
	}
	if !c.at(end - 1).is("memory") {
		return 0
	}
	n = end - 2
	if c.at(n).is("your", "my", "the") {
		n--
	}
	if n < 2 || !c.at(n).is("to", "in", "into") {
		return 0
	}
	return n
}

var knowing = newPhrases("what do you know about", "what do you know of")

// everywhere asks memories and documents about a topic that may be in either,
// if there are memories to ask.
func (s splitter) everywhere(text string) string {
	c := newClause(text).trimmed()
	n := c.startsWith(knowing)
	if n == 0 || n == len(c.tokens) || slices.ContainsFunc(c.tokens, func(t token) bool { return t.kind == punct }) {
		return text
	}
	memories := "search memory for " + c.from(n).words()
	if !s.matches(newClause(memories)) {
		return text
	}
	return memories + "\nsearch the documentation for " + c.from(n).words()
}

// ownOrNamed reports whether the clause speaks of somebody's own things, or of
// somebody by name.
func ownOrNamed(c clause) bool {
	return ownThings(c) || slices.ContainsFunc(c.tokens, func(t token) bool { return t.capital() })
}

// forbids reports whether the clause says what is not to be done.
func forbids(c clause) bool {
	c = c.trimmed()
	return c.startsWith(refusals) > 0
}

var refusals = newPhrases(
	"don't", "dont", "do not", "never", "no need to", "not", "i don't want", "i do not want", "you don't need to", "you do not need to", "you must not", "you mustn't",
	"you should not", "you shouldn't", "stop", "avoid", "refrain from", "i wouldn't", "i would not", "let's not")

// Subjects of sentences that tell something, and verbs that follow a name in
// them.
var (
	speakers = set("i i'm i've i'd we we're we've he he's she she's they they're it it's you you're you've somebody someone nobody")
	narrated = set("sent got wrote said told asked made came went gave took wants needs says thinks was is has had did does will would should found created deleted")
)

// remark reports whether the clause only tells something, or names no more than
// a kind of thing: then nothing is to be changed because of it.
func remark(c clause) bool {
	c = c.trimmed()
	head, next := c.at(0), c.at(1)
	switch {
	case len(c.tokens) == 1:
		return head.kind == word && len(thingsOf(head.stem)) > 0
	case head.kind != word || c.imperative(nil) == 2 || c.question():
		return false
	case speakers[head.low]:
		return true
	case head.capital() && narrated[next.low]:
		return true
	case head.is("call", "ring", "phone", "meet"):
		return pronouns[next.low] || next.capital() && !isDateWord(next.low)
	}
	for i := 1; i < len(c.tokens); i++ { // "Buy milk is done"
		if t := c.at(i); t.kind != word || t.is("saying", "that", "called", "titled", "about", "to") {
			return false
		} else if t.is("is", "are", "was", "were", "isn't", "aren't", "wasn't") {
			return true
		}
	}
	return false
}
