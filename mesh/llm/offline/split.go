package offline

import (
	"slices"
	"strings"
)

// A part is one thing that a request asks for.
type part struct {
	clause
	// stage orders parts: a part waits for all parts of earlier stages, and
	// runs in parallel with those of its own.
	stage int
}

// A splitter takes requests apart.
type splitter struct {
	// matches reports whether a clause names something that can be done.
	matches func(clause) bool
	// verbs are words that begin a clause because skills are named so.
	verbs map[string]bool
}

// Words between clauses, longest first; those in sequence make what follows
// wait for everything before it.
var (
	sequence = newPhrases(
		"once that is done", "once this is done", "once it is done", "once that's done", "when that is done", "when that's done", "when you are done", "when done", "once done",
		"after this", "after that", "followed by", "afterwards", "afterward", "subsequently", "thereafter", "and then", "then", "finally", "lastly", "next", "at the end",
	)
	addition = newPhrases("as well as", "in addition", "and also", "and", "also", "plus", "&", "additionally", "at the same time", "meanwhile", "one more thing", "another thing", "but", "first of all", "first", "firstly")
)

// A cut is a place where a clause may begin.
type cut struct {
	at    int // token before which the text is cut
	after int // first token of the clause, after words such as "and then"
	hard  bool
	wait  bool // the clause waits for what is before it
}

// split takes the text apart. It cuts at "then", at ";" and between sentences,
// and at "and" and "," only where something that can be done begins; never
// inside quotations.
func (s splitter) split(text string) []part {
	text = s.everywhere(rephrased(text))
	all := newClause(text)
	if listed, ok := itemize(all); ok {
		all, text = listed, listed.text
	}
	if shared, ok := s.distribute(all); ok {
		all, text = shared, shared.text
	}
	cuts, index := s.cuts(all), indexOf(all)
	var parts []part
	stage, begin := 0, cut{hard: true}
	begin.after = skip(all, 0, &begin)
	flush := func(end int) {
		c := clause{text, all.tokens[min(begin.after, end):end]}.trimmed()
		if begin.wait && len(parts) > 0 {
			stage++
		}
		if len(c.tokens) > 0 && !smallTalk(c) {
			parts = append(parts, part{c, stage})
		}
	}
	for i, k := range cuts {
		if len(parts) > maxParts {
			break // which is refused, whatever comes
		}
		end := len(all.tokens)
		if i+1 < len(cuts) {
			end = cuts[i+1].at
		}
		from := min(begin.after, k.at)
		before := clause{text, all.tokens[from:k.at]}
		from += before.opening()
		before = before.trimmed()
		open := func() bool { return index.openEnded(from, from+len(before.tokens)) }
		if s.accept(k, before, clause{text, all.tokens[k.after:end]}, open) {
			flush(k.at)
			begin = k
		}
	}
	flush(len(all.tokens))
	return s.reorder(parts)
}

// distribute writes out what a request leaves out: of two verbs that share an
// object, "find and archive done tasks" is "find done tasks then archive them",
// and of two objects that share a verb, "send A to X and B to Y" is "send A to X
// and send B to Y".
func (s splitter) distribute(c clause) (clause, bool) {
	for i := 0; i+2 < len(c.tokens); i++ {
		if !c.at(i + 1).is("and") {
			continue
		}
		if text, ok := s.sharedObject(c, i); ok {
			return newClause(text), true
		}
		head := clause{c.text, c.tokens[:i+1]}.trimmed().at(0)
		if changes := actsOf(head.stem); head.kind == word && verbs[head.low] && (slices.Contains(changes, doUpdate) || slices.Contains(changes, doRemove)) && idLike(c.at(i+2)) {
			return newClause(c.text[:c.at(i).end] + " and " + head.text + " " + c.text[c.at(i+2).start:]), true
		}
		if text, ok := sharedVerb(c, i, head); ok {
			return newClause(text), true
		}
		if c.at(i).kind != email {
			continue
		}
		rest := c.from(i + 2)
		to := slices.IndexFunc(rest.tokens, func(t token) bool { return t.is("to") || t.kind != word })
		if slices.Contains(actsOf(head.stem), doSend) && determiners[rest.at(0).low] && rest.at(to).is("to") && rest.at(to+1).kind == email {
			return newClause(c.text[:rest.at(0).start] + head.text + " " + c.text[rest.at(0).start:]), true
		}
	}
	return c, false
}

// sharedVerb writes out the verb that shows two kinds of things: "list my tasks
// and my notes about Oslo" is about both of Oslo.
func sharedVerb(c clause, i int, head *token) (string, bool) {
	if head.kind != word || !verbs[head.low] || !slices.Contains(actsOf(head.stem), doSearch) || c.from(i+2).imperative(nil) > 1 {
		return "", false
	}
	second := i + 2
	for determiners[c.at(second).low] || c.at(second).is("open", "overdue", "new", "latest", "recent") {
		second++
	}
	one, other := kindWord(c.at(i)), kindWord(c.at(second))
	if one == "" || other == "" || one == other {
		return "", false
	}
	for j := i; j >= 0 && c.at(j).start > head.start; j-- {
		if c.at(j).kind != word || prepositions[c.at(j).low] {
			return "", false
		}
	}
	end := second + 1
	for c.at(end).kind != punct && !c.at(end).is("and", "then") {
		end++
	}
	tail := c.text[c.at(second).end:c.at(end-1).end]
	return c.text[:c.at(i).end] + tail + " and " + head.text + " " + c.text[c.at(i+2).start:], true
}

// kindWord returns what kind of things the word is for, or "".
func kindWord(t *token) string {
	if t.kind != word {
		return ""
	}
	if things := thingsOf(t.stem); len(things) > 0 {
		return things[0]
	}
	if placeNouns[t.low] || t.is("files", "documents", "folders") {
		return t.stem
	}
	return ""
}

// idLike reports whether the token is an id, as "t-4f" or "#12".
func idLike(t *token) bool {
	return t.kind == word && strings.ContainsAny(t.text, "0123456789") && (idPattern.MatchString(t.text) || strings.HasPrefix(t.text, "#"))
}

func (s splitter) sharedObject(c clause, i int) (string, bool) {
	first, second := c.at(i), c.at(i+2)
	starts := i == 0 || c.at(i-1).kind == punct || len(clause{c.text, c.tokens[:i]}.trimmed().tokens) == 0
	if !starts || !slices.Contains(actsOf(first.stem), doSearch) || !verbs[first.low] || nounVerbs[first.low] || c.from(i+2).imperative(s.verbs) != 2 {
		return "", false
	}
	end := i + 3
	for end < len(c.tokens) && c.at(end).kind == word && !prepositions[c.at(end).low] && !c.at(end).is("and", "then") {
		end++
	}
	if end == i+3 {
		return "", false
	}
	object := clause{c.text, c.tokens[i+3 : end]}.words()
	return c.text[:first.end] + " " + object + " then " + second.text + " them" + c.text[c.at(end-1).end:], true
}

// cuts returns the places where clauses may begin.
func (s splitter) cuts(c clause) []cut {
	var out []cut
	for i := 0; i < len(c.tokens); i++ {
		k := cut{at: i}
		t := &c.tokens[i]
		switch {
		case t.is(";"):
			k.hard, k.wait = true, true
		case t.is("!", "?", "\n") || t.is(".") && !abbreviation(c.at(i-1)):
			k.hard = true
		case t.is(",", "&"):
		case c.from(i).startsWith(sequence) > 0 || c.from(i).startsWith(addition) > 0:
			if i == 0 || t.is("next", "first", "plus") && !c.at(i-1).is(",", ".", ";", "\n", "and") {
				continue
			}
		default:
			continue
		}
		k.after = skip(c, i, &k)
		if k.after < len(c.tokens) {
			out = append(out, k)
		}
		i = max(i, k.after-1)
	}
	return out
}

// skip passes the marks and joining words at i, notes in k what they say, and
// returns where the clause begins.
func skip(c clause, i int, k *cut) int {
	for i < len(c.tokens) {
		t := &c.tokens[i]
		switch n := c.from(i).startsWith(sequence); {
		case t.kind == punct:
			k.hard = k.hard || t.is(";", "!", "?", "\n") || t.is(".") && !abbreviation(c.at(i-1))
			k.wait = k.wait || t.is(";")
			i++
			continue
		case n > 0 && (!t.is("next") || !isDateWord(c.at(i+1).low)):
			k.hard, k.wait = true, true
			i += n
			continue
		}
		if n := c.from(i).startsWith(addition); n > 0 {
			i += n
			continue
		}
		if t.is("please", "kindly", "also") && c.at(i+1).is(",") {
			i++
			continue
		}
		if listNumber(c, i) {
			k.hard, k.wait = true, true
			i++
			continue
		}
		break
	}
	return i
}

// listNumber reports whether token i is the number of a list's item, as in
// "1. find" or "2) send".
func listNumber(c clause, i int) bool {
	t := c.at(i)
	return t.kind == word && len(t.low) <= 2 && t.low[0] >= '0' && t.low[0] <= '9' && c.at(i+1).is(".", ")") &&
		(i == 0 || c.at(i-1).kind == punct)
}

// accept decides whether a clause really begins at k. open reports whether the
// one before is open-ended.
func (s splitter) accept(k cut, before, after clause, open func() bool) bool {
	if k.wait || forbids(after) && !open() {
		return true
	}
	if k.hard && smallTalk(after) {
		return true
	}
	bare := len(before.tokens) <= 1 && before.imperative(s.verbs) == 0 && !before.question()
	if bare && !k.hard {
		return false // "find and archive …": the object is still to come
	}
	sure := after.imperative(s.verbs)
	asks := after.trimmed().question()
	if sure == 0 && !asks {
		return false
	}
	if s.matches(after.trimmed()) {
		return true
	}
	return k.hard || !asks && !open()
}

// A clauseIndex finds at once what would else be looked for again and again in
// a long text: for each token, the next one of a kind, or the number of tokens.
type clauseIndex struct {
	intro []int // a word that introduces others, as "saying"
	toDo  []int // "to" with a verb, maybe
	stop  []int // the end of a sentence
}

func indexOf(c clause) *clauseIndex {
	n := len(c.tokens)
	x := &clauseIndex{make([]int, n+1), make([]int, n+1), make([]int, n+1)}
	x.intro[n], x.toDo[n], x.stop[n] = n, n, n
	for i := n - 1; i >= 0; i-- {
		x.intro[i], x.toDo[i], x.stop[i] = x.intro[i+1], x.toDo[i+1], x.stop[i+1]
		t, next := c.at(i), c.at(i+1)
		switch {
		case t.is("that", "saying", "says", "called", "titled", "named", ":", "about"):
			x.intro[i] = i
		case t.is("to") && next.kind == word && !next.capital() && !determiners[next.low] && !pronouns[next.low]:
			x.toDo[i] = i
		case t.is(".", "!", "?", ";", "\n"):
			x.stop[i] = i
		}
	}
	return x
}

// openEnded reports whether the clause of the tokens [from, end)
// introduces words that belong to it, whatever they are: "a task to review the
// code and fix the build".
func (x *clauseIndex) openEnded(from, end int) bool {
	return from+1 < end && x.intro[from+1] < end || from < end && x.toDo[from]+1 < end
}

// reorder turns "after finding A, B", "before doing B, A" and "B after finding
// A" into A, then B.
func (s splitter) reorder(parts []part) []part {
	var out []part
	shift := 0
	for i := 0; i < len(parts); i++ {
		p := parts[i]
		p.stage += shift
		inner, ok := subordinate(p.clause)
		switch {
		case ok && i+1 < len(parts) && p.at(0).is("before"):
			next := parts[i+1]
			next.stage = p.stage
			out = append(out, next, part{clause: inner, stage: p.stage + 1})
			shift++
			i++
			continue
		case ok:
			out = append(out, part{clause: inner, stage: p.stage})
			if i+1 < len(parts) && parts[i+1].stage+shift == p.stage {
				shift++
			}
			continue
		}
		if first, second, ok := s.inOrder(p.clause); ok {
			out = append(out, part{clause: first, stage: p.stage}, part{clause: second, stage: p.stage + 1})
			shift++
			continue
		}
		out = append(out, p)
	}
	return out
}

var havingDone = newPhrases("you have", "you've", "you are done", "you", "having")

// subordinate returns the clause without the words that say when it is done;
// false if it begins with none.
func subordinate(c clause) (clause, bool) {
	if !c.at(0).is("after", "before", "once", "when") {
		return c, false
	}
	inner := c.from(1)
	inner = inner.from(inner.startsWith(havingDone))
	head := inner.at(0)
	return inner, head.kind == word && len(actsOf(head.stem)) > 0 && !head.capital()
}

// inOrder finds a subordinate clause inside of another one.
func (s splitter) inOrder(c clause) (first, second clause, ok bool) {
	// A clause in which words such as "after" abound is no plain order.
	for i, tries := 1, 0; i < len(c.tokens) && tries < 4; i++ {
		inner, ok := subordinate(c.from(i))
		rest := clause{c.text, c.tokens[:i]}.trimmed()
		if !ok || c.at(i).is("when") || len(rest.tokens) == 0 {
			continue
		}
		tries++
		if !s.matches(inner) || !s.matches(rest) {
			continue
		}
		if c.at(i).is("before") {
			return rest, inner, true
		}
		return inner, rest, true
	}
	return clause{}, clause{}, false
}

func abbreviation(t *token) bool {
	return t.kind == word && (len(t.low) == 1 && t.low[0] >= 'a' || strings.Contains(" dr mr mrs ms prof e.g i.e etc vs no st approx ", " "+t.low+" "))
}

var greetings = set("hi hello hey thanks thank you good morning afternoon evening day there greetings cheers please ok okay bye goodbye howdy so much many very")

// smallTalk reports whether the clause asks for nothing.
func smallTalk(c clause) bool {
	for i := range c.tokens {
		if t := c.at(i); t.kind != punct && !greetings[t.low] {
			return false
		}
	}
	return true
}
