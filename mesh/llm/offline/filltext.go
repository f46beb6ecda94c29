package offline

import (
	"regexp"
	"slices"
	"strings"
)

// markerBefore reports whether the token before i is one of the words, with
// nothing but a colon between.
func (f *filler) markerBefore(i int, words ...string) bool {
	for i--; i >= 0 && f.cl.at(i).is(":", "is", "of", "as"); i-- {
	}
	return f.cl.at(i).is(words...)
}

// title returns a subject, name or headline, or "".
func (f *filler) title(p *param) string {
	s := f.headline()
	if d := strings.ToLower(p.Description); strings.Contains(d, "lower-case") || strings.Contains(d, "snake") {
		s = strings.Trim(notInName.ReplaceAllString(strings.ToLower(s), "_"), "_")
	}
	return s
}

var notInName = regexp.MustCompile(`[^a-z0-9]+`)

func (f *filler) headline() string {
	if s := reminder(f.cl); s != "" {
		return capitalize(clip(undetermined(s), 60))
	}
	if s := f.invitation(); s != "" {
		return capitalize(s)
	}
	if slices.Contains(f.skill.acts(), doUpdate) {
		return f.newTitle()
	}
	for i := range f.cl.tokens {
		if t := f.cl.at(i); t.kind == quoted && !f.quotes[t.start] && f.markerBefore(i, "called", "titled", "named", "subject", "title", "name") {
			f.quotes[t.start] = true
			return t.text
		}
	}
	sends := f.skill.sends()
	if !sends && !f.markedQuote() {
		if q := f.quote(); q != "" {
			return q
		}
	}
	for i := range f.cl.tokens {
		t := f.cl.at(i)
		if i > 0 && t.is("called", "titled", "named", "subject") {
			for f.cl.at(i+1).is(":", "is", "line") {
				i++
			}
			s := f.phrase(i+1, false)
			if s == "" { // a name that begins with a mark, as ".profile"
				s = clip(squeeze(f.cl.text[t.end:f.cl.at(len(f.cl.tokens)-1).end]), 60)
			}
			if s != "" {
				return capitalize(s)
			}
		}
	}
	if s := f.topic(); s != "" {
		return capitalize(s)
	}
	s := f.object()
	if mailWords[strings.ToLower(s)] && sends {
		s = "" // "send an email" names no subject
	}
	if told := f.told(); s == "" && told != "" {
		return capitalize(clip(told, 60))
	}
	if i := slices.IndexFunc(f.cl.tokens, func(t token) bool { return t.kind == quoted }); i >= 0 && s == "" {
		return capitalize(clip(squeeze(f.cl.at(i).text), 60))
	}
	if words := tokenize(s); len(f.inputs) > 0 && (s == "" || len(words) == 1 && (reportWords[words[0].low] || pronouns[words[0].low])) {
		first, _, _ := strings.Cut(strings.TrimSpace(f.inputs[0]), "\n")
		if first = strings.TrimRight(clip(squeeze(strings.Trim(first, "#*- ")), 70), ".:;"); first != "" {
			if s == "" || pronouns[strings.ToLower(s)] {
				return capitalize(first)
			}
			return capitalize(s) + ": " + first
		}
	}
	if s == "" {
		s = clip(f.cl.words(), 60)
	}
	return capitalize(s)
}

// newTitle returns the title that something is to get, or "": an update without
// one keeps the old.
func (f *filler) newTitle() string {
	renames := f.cl.at(0).is("rename", "retitle")
	for i := 1; i < len(f.cl.tokens); i++ {
		t := f.cl.at(i)
		renames = renames || t.is("title", "subject") || t.is("name") && f.cl.at(0).is("change", "set", "update")
		if renames && t.is("to", ":") {
			return capitalize(f.phrase(i+1, false))
		}
	}
	return ""
}

// markedQuote reports whether the next quotation is marked as the text itself.
func (f *filler) markedQuote() bool {
	for i := range f.cl.tokens {
		if t := f.cl.at(i); t.kind == quoted && !f.quotes[t.start] {
			return f.markerBefore(i, "saying", "says", "body", "text", "message", "description", "note", "that", "content")
		}
	}
	return false
}

// topic returns what follows "about", ":" or, where something is created, "to"
// or "that"; or "".
func (f *filler) topic() string {
	for i := range f.cl.tokens {
		t := f.cl.at(i)
		if i > 0 && t.is("about", "regarding", "concerning", "re") {
			return undetermined(f.phrase(i+1, false))
		}
	}
	if f.skill.sends() {
		return ""
	}
	reminds := f.cl.at(0).is("remind") && pronouns[f.cl.at(1).low]
	for i := range f.cl.tokens {
		t, next := f.cl.at(i), f.cl.at(i+1)
		if reminds && t.is("to") && next.kind == word && !f.times.covers(next.start) && f.plainObject(i) {
			return f.phrase(i+1, false) // however long it says when: "remind me on Friday at 3 to …"
		}
		if i == 0 || i > 6 || next.kind != word || f.times.covers(next.start) {
			continue
		}
		plain := !determiners[next.low] && !pronouns[next.low] && !next.capital() && !f.listNoun(next)
		if t.is(":") || t.is("that") || t.is("to") && plain && f.plainObject(i) {
			return f.phrase(i+1, false)
		}
	}
	return ""
}

// listNoun reports whether the word is where something is put: "my list".
func (f *filler) listNoun(t *token) bool { return t.is("list", "calendar", "todo", "tasks", "agenda") }

// plainObject reports whether the words between the verb and token i name only
// the kind of thing, as in "create a task to …", not a thing with a name of
// its own, as in "create a follow-up meeting to …".
func (f *filler) plainObject(i int) bool {
	for j := 1; j < i; j++ {
		t := f.cl.at(j)
		if t.kind != word || f.times.covers(t.start) || determiners[t.low] || pronouns[t.low] || stopWords[t.low] || f.cl.at(j-1).is("for") && t.capital() || len(thingsOf(t.stem)) > 0 || t.stem == stem(f.skill.domain()) ||
			slices.ContainsFunc(strings.Fields("high low medium urgent priority item quick"), func(w string) bool { return t.low == w }) {
			continue
		}
		return false
	}
	return true
}

// object returns what the verb of the clause is done to, without articles and
// without to whom; or "".
func (f *filler) object() string {
	i := 1
	if len(actsOf(f.cl.at(0).stem)) == 0 && !f.cl.question() && f.cl.imperative(nil) == 0 {
		i = 0
	}
	for f.cl.at(i).is("up", "out", "for") {
		i++
	}
	// "send Bob the report": the report.
	for f.cl.at(i).kind == email || f.cl.at(i).is("and", ",", "cc", "bcc") || pronouns[f.cl.at(i).low] && (determiners[f.cl.at(i+1).low] || f.cl.at(i+1).kind == word && !prepositions[f.cl.at(i+1).low]) ||
		f.cl.at(i).capital() && (determiners[f.cl.at(i+1).low] || f.cl.at(i+1).capital() && determiners[f.cl.at(i+2).low]) {
		i++
	}
	for determiners[f.cl.at(i).low] || f.cl.at(i).is("new") || i < len(f.cl.tokens) && f.times.covers(f.cl.at(i).start) {
		i++ // also "30 minute" of "a 30 minute call"
	}
	end := len(f.cl.tokens)
	if told := f.toldAt(); told >= 0 {
		end = told
	}
	if i >= end {
		return ""
	}
	j := i
	for ; j < end; j++ {
		t := f.cl.at(j)
		if t.is(".") && abbreviation(f.cl.at(j-1)) {
			continue
		}
		named := t.is("with", "for") && f.cl.at(j+1).capital() && !isDateWord(f.cl.at(j+1).low) && !f.skill.sends()
		if t.kind != word || f.times.covers(t.start) || prepositions[t.low] && !t.is("of") && !named || t.is("due", "saying", "says", "know", "cc", "bcc") || t.is(delivered...) {
			break
		}
	}
	for j > i && (prepositions[f.cl.at(j-1).low] || f.cl.at(j-1).is("and", "or")) {
		j--
	}
	return clause{f.cl.text, f.cl.tokens[i:j]}.words()
}

// undetermined takes an article off the beginning.
func undetermined(s string) string {
	w, rest, ok := strings.Cut(s, " ")
	if ok && slices.Contains([]string{"the", "a", "an", "my", "our"}, strings.ToLower(w)) {
		return rest
	}
	return s
}

// body returns the longer text, or "".
func (f *filler) body(p *param) string {
	if reminds(f.cl) && len(f.inputs) == 0 {
		return capitalize(reminder(f.cl))
	}
	hasTitle, sends := f.hasTitle(), f.skill.sends()
	update := slices.Contains(f.skill.acts(), doUpdate)
	main := !update || p.Name == "content" || p.Name == "text" || p.Name == "body"
	if p.Required && !hasTitle && !sends && slices.Contains(f.skill.acts(), doCreate) && f.skill.remembers(p) {
		return capitalize(f.statement())
	}
	if !main && !f.markedQuote() { // what names the thing is not what is told of it
		return capitalize(f.told())
	}
	if f.markedQuote() || sends || !hasTitle || update {
		if q := f.quote(); q != "" {
			return q
		}
	}
	if told := f.told(); told != "" {
		return capitalize(told)
	}
	if len(f.inputs) > 0 {
		return strings.Join(f.inputs, "\n\n")
	}
	if q := f.quote(); q != "" {
		return q
	}
	if f.cl.at(0).is("forward") && sends {
		return "" // what is forwarded is not known here
	}
	if !p.Required {
		if update && f.cl.at(0).is("add", "append", "write", "put") {
			for i := range f.cl.tokens { // "add to the note Ideas: learn to sail"
				if i > 1 && f.cl.at(i).is(":") {
					return capitalize(f.cl.from(i + 1).words())
				}
			}
			return capitalize(f.object())
		}
		return ""
	}
	for i := range f.cl.tokens {
		if i > 0 && f.cl.at(i).is("about", "regarding", "concerning") {
			if before := f.cl.at(i - 1); sends && kindWord(before) != "" && !mailWords[before.low] && !slices.Contains(thingsOf(before.stem), aMail) {
				return "" // "my notes about Oslo" are not known here
			}
			rest := f.cl.from(i + 1)
			if at := slices.IndexFunc(rest.tokens, func(t token) bool { return t.kind == email }); sends && at > 0 {
				return capitalize(f.phrase(i+1, false)) // without "to bob@example.org"
			}
			return capitalize(rest.words())
		}
	}
	for _, s := range []string{f.topic(), f.object()} {
		if w := strings.ToLower(s); pronouns[w] || reportWords[w] || mailWords[w] {
			return "" // "it" was said before, and is not known here; "a mail" says nothing
		}
		if s != "" {
			return capitalize(s)
		}
	}
	if f.skill.sends() {
		return "" // "email Bob" is no letter
	}
	return capitalize(f.cl.words())
}

func (f *filler) hasTitle() bool {
	return slices.ContainsFunc(f.skill.Parameters, func(q param) bool { return kindOf(&q) == kindTitle })
}

// remembers reports whether p is all that the skill must be told: then the
// clause is what p is to be, and not about it.
func (s *skill) remembers(p *param) bool {
	return !slices.ContainsFunc(s.Parameters, func(q param) bool { return q.Required && q.Name != p.Name || kindOf(&q) == kindPath })
}

// statement returns the clause without the words that say what to do with it.
func (f *filler) statement() string {
	rest := f.cl
	if len(actsOf(rest.at(0).stem)) > 0 && rest.imperative(nil) > 0 {
		rest = rest.from(1)
	}
	for i := range min(len(rest.tokens), 6) {
		if rest.at(i).is("that", ":") {
			rest = rest.from(i + 1)
			break
		}
	}
	if q := rest.at(0); len(rest.tokens) == 1 && q.kind == quoted {
		return q.text
	}
	return rest.words()
}

// query returns what to search for, or "".
func (f *filler) query(p *param) string {
	if q := f.quote(); q != "" {
		return q
	}
	for i := range f.cl.tokens {
		wanted := i > 1 && f.cl.at(i).is("for") && f.cl.at(0).is("search", "look", "scan", "check")
		if wanted || i > 0 && f.cl.at(i).is("about", "mentioning", "containing", "matching", "regarding", "concerning", "named", "called") {
			s := undetermined(f.phrase(i+1, false))
			about := *f
			about.cl = newClause("about " + s)
			if s != "" && (p.Required || len(about.contentWords(false)) > 0) {
				return s
			}
		}
	}
	if f.source {
		return ""
	}
	return strings.Join(f.contentWords(p.Required), " ")
}

// contentWords returns the words of the clause that say what it is about. For
// a search that has other filters, words that only name the kind of thing, its
// status or a time are left out.
func (f *filler) contentWords(all bool) []string {
	about := f.skill.kinds()
	var out []string
	for i := range f.cl.tokens {
		t := f.cl.at(i)
		if t.kind != word || determiners[t.low] || pronouns[t.low] || prepositions[t.low] || auxiliaries[t.low] || questionHead[t.low] ||
			ends[t.low] || fillers[t.low] || f.times.covers(t.start) {
			continue
		}
		if i == 0 && len(actsOf(t.stem)) > 0 || i == 1 && t.is("up", "out", "for") || !all && f.taken(t) {
			continue
		}
		if all && slices.Contains(about, aMemory) && slices.Contains(thingsOf(t.stem), aMemory) {
			continue // "do you remember"
		}
		if all {
			out = append(out, t.text)
			continue
		}
		if verbs[t.low] && !nounVerbs[t.low] {
			continue
		}
		thing := slices.ContainsFunc(append(thingsOf(t.stem), t.stem), func(c string) bool { return slices.Contains(about, c) })
		if thing || stopWords[t.low] || reportWords[t.low] || f.isChoice(t) || smallNumberOrDigit(t.low) || t.is("due", "item", "items", "top", "unread", "last", "latest", "newest", "recent", "recently", "many", "much") {
			continue
		}
		out = append(out, t.text)
	}
	return out
}

// taken reports whether another argument has the word, or a parameter is
// named so.
func (f *filler) taken(t *token) bool {
	return slices.ContainsFunc(f.skill.Parameters, func(p param) bool {
		v, _ := f.args[p.Name].(string)
		return v != "" && (slices.Contains(strings.Fields(v), t.text) || alike(t, p.Name))
	})
}

// alike reports whether the word is a form of the name: "assigned" of
// "assignee".
func alike(t *token, name string) bool {
	return t.kind == word && len(t.stem) > 4 && strings.HasPrefix(strings.ToLower(name), t.stem)
}

var fillers = set("i we me us please there any so not no yes like need want know how's i'd i'm also just get out")

// isChoice reports whether the word is a value of one of the skill's
// parameters.
func (f *filler) isChoice(t *token) bool {
	return slices.ContainsFunc(f.skill.Parameters, func(p param) bool {
		return kindOf(&p) == kindChoice && len(chosen(clause{f.cl.text, []token{{kind: word}, *t}}, p.options(), false)) > 0
	})
}
