package offline

import (
	"slices"
	"strings"
)

// subject returns the clause without what somebody is to be told, what a task is
// about, or how something is called: that may be about anything.
func subject(cl clause) clause {
	creates := slices.Contains(actsOf(cl.at(0).stem), doCreate)
	for i := 1; i < len(cl.tokens); i++ {
		t, next := cl.at(i), cl.at(i+1)
		plain := next.kind == word && !determiners[next.low] && !pronouns[next.low] && !next.capital()
		switch {
		case creates && t.is("to") && plain, // "remind me to call the office" is not about calls
			t.is("called", "titled", "named"),
			t.is("that", "saying", "says", ":") && !next.is("is", "are", "was", "were", "i", "my", "have", "has"):
			return clause{cl.text, cl.tokens[:i]}
		}
	}
	return cl
}

// mentions returns what the clause is about, and its plain words.
func (c *catalog) mentions(cl clause) (about map[concept]bool, plain map[string]bool) {
	about, plain = map[concept]bool{}, map[string]bool{}
	own := cl.question() && ownThings(cl)
	cl = subject(cl)
	for i := range cl.tokens {
		t := cl.at(i)
		if t.kind == email && !cl.meets(i) {
			about[aMail] = true
		}
		if t.kind != word {
			continue
		}
		if occasions[t.low] && i > 0 {
			about[aMeeting] = true
		}
		plain[t.low] = true
		if own && recalls(t) {
			about[aMemory] = true
		}
		if stopWords[t.low] && t.low != "how" || t.is("know") {
			continue
		}
		// Only the head of a clause is a verb: "show" in "create a show" is
		// a thing.
		for _, a := range append(thingsOf(t.stem), t.stem) {
			about[a] = true
		}
	}
	head := cl.at(0)
	if len(actsOf(head.stem)) > 0 && len(thingsOf(head.stem)) == 0 {
		delete(about, head.stem)
	}
	if head.is("note") && (len(cl.tokens) == 1 || cl.at(1).is("down")) {
		about[aMemory] = true // "note that it rains"
	}
	return about, plain
}

// occasions are what events are called by, rather than what kind of thing they
// are: "cancel my lunch with Bob" is about the calendar, and only about a lunch.
var occasions = set("lunch dinner breakfast brunch")

// meets reports whether the address i is of somebody to be met, as in "a call
// with ann@example.org and bob@example.org": that is not about mail.
func (c clause) meets(i int) bool {
	for i--; c.at(i).kind == email || c.at(i).is(",", "and", "&"); i-- {
		if i < 0 {
			return false
		}
	}
	return c.at(i).is("with", "invite") && !slices.Contains(verbOf(c), doSend)
}

// reminds reports whether somebody with an address is to be reminded.
func reminds(cl clause) bool { return cl.at(0).is("remind") && cl.at(1).kind == email }

// reminder returns of what, or "".
func reminder(cl clause) string {
	if !reminds(cl) {
		return ""
	}
	i := 1
	for cl.at(i).kind == email || cl.at(i).is(",", "and", "&") {
		i++
	}
	if cl.at(i).is("to", "of", "about", "that", ":") {
		i++
	}
	return cl.from(i).words()
}

// recalls reports whether the word asks, of somebody's own things, for what was
// said before.
func recalls(t *token) bool { return t.is("know", "told", "tell", "said", "say", "mentioned") }

// verbOf returns what the clause wants done.
func verbOf(cl clause) []concept {
	cl = cl.trimmed()
	head := cl.at(0)
	if head.kind != word {
		return nil
	}
	if cl.question() || head.is("there", "any") || head.is("tell", "show", "give") && cl.at(1).is("me", "us") {
		return []concept{doSearch}
	}
	if nounVerbs[head.low] && cl.imperative(nil) == 0 {
		return nil // "schedule for tomorrow" is a thing
	}
	if reminds(cl) {
		return []concept{doSend} // and makes no task
	}
	acts := actsOf(head.stem)
	if head.is("add", "append", "put", "write") && addsTo(cl) || head.is("set") && sets(cl) {
		return []concept{doUpdate}
	}
	addressed := slices.ContainsFunc(cl.tokens, func(t token) bool { return t.kind == email })
	if len(acts) == 0 && addressed && slices.ContainsFunc(cl.tokens, func(t token) bool { return t.is(delivered...) }) {
		return []concept{doSend} // "a report of my tasks sent to …"
	}
	return acts
}

// writesMail reports whether what the clause wants made is a mail: "write an
// email about my tasks" makes no task.
func writesMail(cl clause) bool {
	at := 1
	for determiners[cl.at(at).low] || cl.at(at).is("new", "short", "quick") {
		at++
	}
	t := cl.at(at)
	return len(actsOf(cl.at(0).stem)) > 0 && t.is("mail", "email", "e-mail", "message", "letter") && !cl.at(at+1).is("task", "skill", "note")
}

// addsTo reports whether the clause puts something into what is there already:
// "to the note Plans", "to notes/a.txt".
func addsTo(cl clause) bool {
	for i := 1; i+1 < len(cl.tokens); i++ {
		next := cl.at(i + 1)
		if !cl.at(i).is("to", "into") {
			continue
		}
		if next.kind == word && pathPattern.MatchString(next.text) {
			return true
		}
		for j := i + 1; determiners[next.low] && j < min(i+5, len(cl.tokens)); j++ {
			if t := cl.at(j); t.kind == word && placeNouns[t.low] {
				return true
			}
		}
	}
	return false
}

// sets reports whether the clause gives what is there another value: "set the
// due date of it to Friday", but not "set a reminder to call".
func sets(cl clause) bool {
	return !cl.at(1).is("a", "an", "up") && slices.ContainsFunc(cl.tokens[1:], func(t token) bool { return t.is("to") })
}

// delivered are the participles that say that something is sent.
var delivered = []string{"sent", "emailed", "mailed", "forwarded", "delivered"}

// best returns the skill for the clause, or nil if none is about it.
func (c *catalog) best(cl clause) *skill {
	for _, s := range c.rank(cl) {
		if s.fits() {
			return s.skill
		}
	}
	return nil
}

// explanation reports whether the clause asks for something to be explained,
// and not for somebody's own things.
func explanation(cl clause) bool {
	cl = cl.trimmed()
	if forbids(cl) {
		return false
	}
	if !slices.ContainsFunc(cl.tokens, func(t token) bool { return t.kind == quoted || t.kind == word && !stopWords[t.low] }) {
		return false // it asks for nothing in particular
	}
	return howTo(cl) || !ownThings(cl) && len(cl.tokens) > 2 && cl.question() || explains([]part{{clause: cl}})
}

// ownThings reports whether the clause speaks of what is somebody's own: that
// is in no document.
func ownThings(cl clause) bool {
	return slices.ContainsFunc(cl.tokens, func(t token) bool { return t.is("my", "our", "mine", "ours", "me", "i", "we", "us") })
}

// carries reports whether the clause hands over something that must be read
// first, and not words of its own.
func carries(cl clause, s *skill) bool {
	sends := s.sends()
	if reminds(cl) {
		return manyThings(newClause(reminder(cl)))
	}
	for i := range cl.tokens {
		t := cl.at(i)
		if t.kind == quoted || i > 0 && t.is("saying", "that", "about", "regarding", "titled", "called") {
			return i > 0 && t.is("about", "regarding") && manyThings(cl.from(i))
		}
		if t.kind == word && reportWords[t.low] {
			return true
		}
	}
	return sends
}

// manyThings reports whether the words name a report, somebody's own things, or
// several: "about my tasks" is a reason to look them up, "about the task" none.
func manyThings(c clause) bool {
	return slices.ContainsFunc(c.tokens, func(t token) bool {
		return t.is("my", "our", "all") || t.kind == word && (reportWords[t.low] || len(thingsOf(t.stem)) > 0 && strings.HasSuffix(t.low, "s"))
	})
}
