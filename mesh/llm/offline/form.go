package offline

import (
	"regexp"
	"slices"
	"strings"
	"time"
)

// A form is a clause that is read for one skill: each word of it goes into an
// argument, says nothing, or is left over.
type form struct {
	c    clause
	s    *skill
	verb string // "" of questions
	now  time.Time

	used    []bool
	args    map[string]any
	missing []slot
	left    []string // words that were not understood
	of      string   // words for the thing that the skill works on
	take    string   // the parameter that the result of another step fills
	object  clause   // what is to be sent, as the words say
	content int      // the token at which a text to write down begins, or -1
}

// A slot is an argument that only the user can give.
type slot struct {
	param string
	kind  paramKind
	ask   string
	// day is what is known of a time already, and whose is whose address it is.
	day *moment
}

func newForm(c clause, s *skill, verb string, now time.Time) *form {
	return &form{c: c, s: s, verb: verb, now: now, used: make([]bool, len(c.toks)), args: map[string]any{}, content: -1}
}

// read reads the clause for the skill.
func read(c clause, s *skill, verb string, now time.Time) *form {
	f := newForm(c, s, verb, now)
	if verb != "" {
		f.eat(0, 1)
		if c.at(1).is("up", "out", "down", "in") && !c.at(2).in(dayWords) {
			f.eat(1, 2)
		}
	}
	if s.act == actRemember && verb != "" {
		f.remember()
		return f
	}
	f.explicit()
	f.findContent()
	f.addresses()
	f.durations()
	f.clocks()
	f.references()
	f.chosen()
	f.text()
	f.rest()
	f.require()
	f.leftovers()
	return f
}

func (f *form) eat(i, j int) {
	for ; i < j && i < len(f.used); i++ {
		f.used[i] = true
	}
}

// eatBefore uses the token before i if it is one of the words.
func (f *form) eatBefore(i int, words ...string) {
	if f.c.at(i - 1).is(words...) {
		f.eat(i-1, i)
	}
}

func (f *form) set(p *param, value any) {
	if p == nil {
		return
	}
	if s, ok := value.(string); ok && (p.Type == "array" || p.kind == kindAddress && p.Type == "") {
		had, _ := f.args[p.Name].([]string)
		value = append(had, s)
	}
	f.args[p.Name] = value
}

func (f *form) refuse(i, j int) {
	f.eat(i, j)
	f.left = append(f.left, f.c.words(i, j))
}

// head is where the part of the clause ends that is no text to write down.
func (f *form) head() int {
	if f.content >= 0 {
		return f.content
	}
	return len(f.c.toks)
}

// writes reports whether the skill takes a text, and which parameter gets it.
func (f *form) writes() *param {
	body, title := f.s.first(kindBody), f.s.first(kindTitle)
	if body != nil && (body.Required || title == nil || !f.s.reads() && body.Name != "description" && body.Name != "note") {
		return body
	}
	return title
}

// findContent finds where a text to write down begins: after "saying", a colon,
// "that" or "to".
func (f *form) findContent() {
	sends := f.s.act == actSend || f.s.act == actDraft
	if f.content >= 0 || f.writes() == nil || f.args[f.writes().Name] != nil || f.s.reads() || f.s.target() != nil {
		return
	}
	for i := 1; i < len(f.c.toks); i++ {
		t, next := f.c.at(i), f.c.at(i+1)
		if f.used[i] {
			continue
		}
		marks := t.is("saying", "says", "reading", ":")
		if t.is("that") {
			marks = (sends || f.verb != "" && f.s.first(kindBody) != nil && i < 3) && next.kind != punct
		}
		if t.is("to") && next.kind == word && !next.in(determiners) && !next.capital() && !next.in(pronouns) {
			marks = f.s.first(kindTime) != nil && f.s.first(kindAddress) == nil || sends && f.verb != "send" && f.verb != "forward" && i > 1
			marks = marks && !slices.ContainsFunc(f.c.toks[i+1:min(i+4, len(f.c.toks))], func(t token) bool { return t.is("list", "todos", "todo") })
		}
		if marks && i+1 < len(f.c.toks) {
			f.eat(i, i+1)
			f.content = i + 1
			return
		}
	}
}

// text puts the text to write down into its argument.
func (f *form) text() {
	if f.content < 0 {
		return
	}
	p, i, end := f.writes(), f.content, len(f.c.toks)
	for end > i && f.used[end-1] {
		end--
	}
	for i < end && (f.used[i] || f.c.at(i).is(":")) {
		f.eat(i, i+1)
		i++
	}
	if i >= end {
		return
	}
	if f.c.at(i).kind == quoted {
		f.set(p, f.c.at(i).text)
		f.eat(i, i+1)
		f.content = -1 // what follows is no part of the text
		return
	}
	f.guard(i, end, f.s.act != actSend && f.s.act != actDraft)
	f.set(p, capitalize(f.gather(i, end)))
}

// gather returns the words from i to j without those that went elsewhere, and
// uses them.
func (f *form) gather(i, j int) string {
	var said []string
	for k := i; k < j; k++ {
		n := k
		for n < j && !f.used[n] {
			n++
		}
		if n > k {
			said = append(said, f.c.words(k, n))
			f.eat(k, n)
			k = n
		}
	}
	return strings.Trim(strings.ReplaceAll(strings.TrimSpace(strings.Join(said, " ")), "  ", " "), " ,;:.")
}

// guard refuses a text that has words in it which may say when, whether or how
// often to do what is asked: they would be written down instead.
func (f *form) guard(i, j int, own bool) {
	for k := i; k < j; k++ {
		t, before := f.c.at(k), f.c.at(k-1)
		if f.used[k] {
			continue
		}
		apart := before.is(",", "and", "&") || k > i && f.used[k-1]
		unmade := own && (t.in(periods) || nth.MatchString(t.low) || apart && f.s.named(t.low) != nil || f.isThing(t) && before.is("a", "an", "another", "one"))
		if unmade || t.in(limits) || !own && k > i && t.in(later) || t.kind == email || t.is("or") && (k == i || f.used[k-1] || f.c.at(k-1).is(",")) || t.is("no", "sorry") && f.c.at(k+1).is("wait", ",", "i") || t.is("i") && f.c.at(k+1).is("mean") {
			f.left = append(f.left, f.c.words(k, j))
			return
		}
	}
}

// remember keeps the words as they are.
func (f *form) remember() {
	p, i := f.s.first(kindBody), 1
	for i < len(f.c.toks) && (f.c.at(i).is("that", ":", ",", "down") || f.c.at(i).is("this") && f.c.at(i+1).is(":")) {
		i++
	}
	switch {
	case p == nil || i >= len(f.c.toks):
		f.missing = append(f.missing, slot{param: "content", kind: kindBody, ask: "What shall I remember?"})
	case f.c.at(i).is("to") || f.c.at(1).is("when", "if", "how", "what"), i == len(f.c.toks)-1 && f.c.at(i).in(negations):
		f.left = append(f.left, f.c.all())
	default:
		f.set(p, capitalize(strings.Trim(f.c.words(i, len(f.c.toks)), " .")))
	}
	f.eat(0, len(f.used))
}

// addresses takes the e-mail addresses, and names that stand for one.
func (f *form) addresses() {
	main, last, copying := f.s.first(kindAddress), -1, false
	if f.s.reads() || main == nil {
		return
	}
	for i, end := 1, f.addressed(); i < end; i++ {
		t, before := f.c.at(i), f.c.at(i-1)
		if t.is("cc") {
			copying = true
			f.eat(i, i+1)
			f.eatBefore(i, "and", ",")
			continue
		}
		whom := t.is("him", "her", "them", "everyone", "everybody") && (f.verb == "invite" || !f.c.at(i+1).is("to"))
		name := (main.Required || f.verb == "invite") && i < f.head() && (t.capital() && !t.in(dayWords) || whom) &&
			(i == 1 || before.is("to") || last == i-2 && before.is("and", ","))
		if t.kind != email && !name {
			continue
		}
		if last >= 0 && !f.between(last+1, i, "and", ",", "&", "cc", "to") {
			f.refuse(i, i+1)
			continue
		}
		p := main
		if copying {
			p = f.s.named("cc")
		}
		from := i
		if before.is("to", "with", "and", ",", "for", "invite", "&") && (last >= 0 || !before.is("and", ",")) {
			from--
		}
		if last >= 0 && f.c.at(from-1).is(",", "and") {
			from--
		}
		f.eat(from, i+1)
		switch last = i; {
		case p == nil:
			f.refuse(from, i+1)
		case name:
			for f.c.at(i+1).capital() && i+1 < f.head() { // a second name
				i++
			}
			f.eat(from, i+1)
			who := f.c.words(last, i+1)
			f.missing = append(f.missing, slot{param: p.Name, kind: kindAddress, ask: "What is the e-mail address of " + who + "?"})
			last = i
		default:
			f.set(p, t.text)
		}
	}
}

// addressed is where the addresses end: before the text to write down, unless
// they come after it, as in "saying hi to bob@x.org".
func (f *form) addressed() int {
	at := len(f.c.toks)
	for f.content >= 0 && at > f.content+1 && (f.c.at(at-1).kind == email || f.c.at(at-1).is("and", ",", "to", "cc")) {
		at--
	}
	if tail := f.c.at(at); f.content >= 0 && !tail.is("to", "cc") && !f.c.at(at+1).is("cc") {
		return f.content
	}
	return len(f.c.toks)
}

// between reports whether the tokens from i to j are only of these words.
func (f *form) between(i, j int, words ...string) bool {
	return !slices.ContainsFunc(f.c.toks[i:max(i, j)], func(t token) bool { return !t.is(words...) })
}

// periods are times that are no day: they are no part of a title either.
var periods = set("week weeks month months year years weekend quarter fortnight tmrw tmr tomorow")

var nth = regexp.MustCompile(`^\d+(?:st|nd|rd|th)$`)
