package offline

import (
	"regexp"
	"slices"
	"strings"
)

// pathPattern is what looks like a path: with a slash, or with the ending of a
// file.
var pathPattern = regexp.MustCompile(`^[\w.-]+(?:/[\w.-]+)+$|^[\w-]+\.[a-z][a-z0-9]{0,5}$`)

// namesPath reports whether a word of the clause is a path.
func namesPath(c clause) bool {
	return slices.ContainsFunc(c.tokens, func(t token) bool { return t.kind == word && pathPattern.MatchString(t.text) })
}

// placeNouns are the words after which the place of something stands.
var placeNouns = set("file note notes document folder directory page")

// path finds where something is: what looks like a path, or the words beside
// "the file", "the note" or "the folder", whichever the parameter is about.
func (f *filler) path(p *param) string {
	nouns := pieces(p.Name)
	for _, t := range tokenize(strings.ToLower(p.Description)) {
		if placeNouns[t.low] {
			nouns = append(nouns, t.low)
			break // what it is, and not what it is of
		}
	}
	folder := slices.ContainsFunc(nouns, func(n string) bool { return n == "folder" || n == "directory" })
	for i := range f.cl.tokens {
		if t := f.cl.at(i); (t.kind == word || t.kind == quoted) && pathPattern.MatchString(t.text) && folder == !strings.Contains(t.text[strings.LastIndex(t.text, "/")+1:], ".") {
			f.quotes[t.start] = true
			return t.text
		}
	}
	for i := range f.cl.tokens {
		if t := f.cl.at(i); i > 0 && t.is(nouns...) {
			if s := f.beside(i); s != "" {
				return s
			}
		}
	}
	if !p.Required {
		return ""
	}
	for i := range f.cl.tokens {
		if t := f.cl.at(i); t.kind == word && pathPattern.MatchString(t.text) {
			return t.text
		}
	}
	return f.quote()
}

// beside returns the name that stands after the noun i, or before it.
func (f *filler) beside(i int) string {
	at := i + 1
	for f.cl.at(at).is("called", "named", "titled", ":") {
		at++
	}
	if t := f.cl.at(at); t.kind == quoted || t.kind == word && !prepositions[t.low] && !auxiliaries[t.low] && !ends[t.low] && !t.is("saying", "says", "called") {
		return f.phrase(at, true)
	}
	begin := i
	for begin > 1 && f.cl.at(begin-1).kind == word && !determiners[f.cl.at(begin-1).low] && !prepositions[f.cl.at(begin-1).low] && !f.cl.at(begin-1).is("new") {
		begin--
	}
	if determiners[f.cl.at(begin-1).low] {
		return clause{f.cl.text, f.cl.tokens[begin:i]}.words()
	}
	return ""
}

// sender finds whom something is from, or to: a name or an address after that
// word.
func (f *filler) sender(p *param) string {
	before := "from"
	if slices.ContainsFunc(pieces(p.Name), func(w string) bool { return w == "to" || w == "recipient" }) {
		before = "to"
	}
	for i := 1; i < len(f.cl.tokens); i++ {
		t := f.cl.at(i)
		if !f.cl.at(i-1).is(before) || f.times.covers(t.start) {
			continue
		}
		if t.kind == email || t.kind == quoted || t.capital() && !isDateWord(t.low) {
			return f.phrase(i, true)
		}
	}
	return ""
}

// finding fills the parameters of a skill that finds the thing which another
// one is to work on.
func (f *filler) finding(p *param) any {
	words := thingWords(f.cl, f.target)
	removes := slices.Contains(verbOf(f.cl), doRemove)
	switch kindOf(p) {
	case kindQuery:
		return text(strings.Join(words, " "))
	case kindTime:
		if removes && len(f.target.Parameters) > 1 { // else the time is the new one
			return text(f.time(p))
		}
	case kindChoice:
		if done := "done"; f.cl.at(0).is("reopen") && isStatus(p.Name) && slices.Contains(p.options(), done) {
			return asType(p, []string{done})
		}
		if removes {
			return f.choice(p)
		}
	}
	return nil
}
