package offline

import (
	"slices"
	"strings"
)

// letter finds what is to be sent.
func (f *form) letter() {
	body, subject := f.s.first(kindBody), f.s.first(kindTitle)
	for i := 1; i < f.head(); i++ {
		if t := f.c.at(i); !t.is("about", "regarding") || f.used[i] || subject == nil || i > 1 && !f.used[i-1] && !f.isThing(f.c.at(i-1)) {
			continue
		}
		j := i + 1
		for j < f.head() && !f.used[j] {
			j++
		}
		f.guard(i+1, j, false)
		f.set(subject, capitalize(f.c.words(i+1, j)))
		f.eat(i, j)
	}
	if body == nil {
		return
	}
	if q, ok := f.aQuote(); ok && f.args[body.Name] == nil {
		f.set(body, q)
	}
	for _, r := range f.runs() {
		i, j := r[0], r[1]
		for i < j && (f.c.at(i).in(determiners) || f.c.at(i).in(glue) && !f.c.at(i).is("me")) {
			f.eat(i, i+1)
			i++
		}
		own := !slices.ContainsFunc(f.c.toks[i:j], func(t token) bool {
			return !f.isThing(&t) && !t.in(glue) && !t.in(determiners) && !t.in(prepositions) && !t.is("know", "too")
		})
		switch {
		case i >= j:
		case own || f.c.at(i).is("know"):
			f.eat(i, j)
		case f.args[body.Name] != nil || f.take != "":
			f.refuse(i, j)
		case f.loose(i, j, false):
		default:
			for j > i && f.c.at(j-1).in(prepositions) {
				j--
				f.eat(j, j+1)
			}
			f.take, f.object = body.Name, clause{f.c.text, f.c.toks[i:j]}
			f.eat(i, j)
		}
	}
}

// works finds the thing to work on, and what is to be done with it.
func (f *form) works() {
	target := f.s.target()
	if away := f.s.takesAway(); away != nil && slices.Contains(actsOf(f.verb), actRemove) {
		f.set(away, true)
		for i := range f.s.Parameters {
			if p := &f.s.Parameters[i]; p.kind == kindTime && (f.args[p.Name] != nil || slices.ContainsFunc(f.missing, func(s slot) bool { return s.param == p.Name })) {
				f.left = append(f.left, "when")
			}
		}
	}
	if title := f.s.first(kindTitle); title != nil && f.verb == "rename" {
		for i := 2; i < f.head(); i++ {
			if f.c.at(i).is("to", "as") && !f.used[i] {
				f.guard(i+1, f.head(), true)
				f.set(title, strings.Trim(capitalize(f.c.words(i+1, f.head())), `"“”`))
				f.eat(i, f.head())
			}
		}
	}
	for i := range f.c.toks { // "the due date of X", "the priority of X"
		if p := f.s.named(f.c.at(i).low); p != nil && f.args[p.Name] != nil && f.c.at(i).kind == word {
			f.eat(i, i+1)
			if f.c.at(i+1).is("date", "time", "of") {
				f.eat(i+1, i+2)
			}
		}
	}
	if f.args[target.Name] == nil {
		f.find(target)
	}
	if f.s.act != actChange {
		return
	}
	if p := f.s.first(kindAddress); p != nil && f.args[p.Name] != nil {
		f.left = append(f.left, "who is to be added or left out") // the argument would be all of them
	}
	for name := range f.args {
		if name != target.Name {
			return
		}
	}
	if !slices.ContainsFunc(f.missing, func(s slot) bool { return s.kind == kindTime }) {
		f.left = append(f.left, "what is to change")
	}
}

// find takes the words for the thing, by which it is looked for.
func (f *form) find(target *param) {
	if q, ok := f.aQuote(); ok {
		f.of = q
	}
	var words []string
	it := false
	for _, r := range f.runs() {
		i, j := r[0], r[1]
		if f.loose(i, j, true) {
			return
		}
		if i > 0 && f.c.at(i-1).kind == punct && len(words) > 0 {
			f.refuse(i, j)
			return
		}
		for ; i < j; i++ {
			t := f.c.at(i)
			it = it || t.is("it", "that", "this", "one")
			if !f.isThing(t) && !t.in(glue) && !t.in(determiners) && !t.in(prepositions) && !t.in(pronouns) || f.of == "" && occasions[t.low] && f.s.kinds["meeting"] && !t.is("meeting", "event", "appointment", "call") || t.is("with") && len(words) > 0 {
				words = append(words, t.text)
			}
			f.eat(i, i+1)
		}
	}
	switch {
	case f.of != "" && len(words) > 0:
		f.left = append(f.left, strings.Join(words, " "))
	case len(words) > 0:
		f.of = strings.Join(words, " ")
	case f.of == "" && it:
		f.of = "it"
	}
	f.take = target.Name
}

// edit finds what is to be written where.
func (f *form) edit() {
	body := f.s.first(kindBody)
	if body == nil || f.args[body.Name] != nil {
		return
	}
	if at := f.s.named("find"); at != nil && f.verb == "replace" {
		var quotes []string
		for i := range f.c.toks {
			if f.c.at(i).kind == quoted && !f.used[i] {
				quotes = append(quotes, f.c.at(i).text)
				f.eat(i, i+1)
			} else if f.c.at(i).is("with", "by") {
				f.eat(i, i+1)
			}
		}
		if mode := f.s.named("mode"); len(quotes) == 2 && mode != nil && slices.Contains(mode.Enum, "text") {
			f.set(at, quotes[0])
			f.set(body, quotes[1])
			f.set(mode, "text")
			return
		}
		f.left = append(f.left, "what is to be replaced by what (both in quotes)")
		return
	}
	if q, ok := f.aQuote(); ok {
		f.set(body, q)
		return
	}
	for i := 1; i < f.head(); i++ {
		if f.isThing(f.c.at(i)) {
			f.eat(i, i+1)
		}
	}
	f.phraseFor(body)
}

// search finds what is looked for.
func (f *form) search() {
	query := f.s.first(kindQuery)
	if query == nil {
		query = f.placeless()
	}
	if q, ok := f.aQuote(); ok {
		if query == nil {
			f.left = append(f.left, q)
		} else {
			f.set(query, q)
		}
	}
	var words []string
	wide := f.s.answers() || f.s.recalls()
	for _, r := range f.runs() {
		i, j := r[0], r[1]
		if !wide && slices.ContainsFunc(f.c.toks[i:j], func(t token) bool { return t.in(limits) || t.in(negations) || t.is("or") }) {
			f.refuse(i, j)
			return
		}
		for ; i < j; i++ {
			t := f.c.at(i)
			plain := f.s.first(kindQuery) == nil && f.s.words[t.stem] > 0 || t.in(asides) || t.in(glue) || t.in(prepositions) || t.in(determiners) || t.kind == word && (f.isThing(t) || t.in(questionHead) || t.is("find", "look", "docs", "documentation", "remember", "said", "say", "told", "using", "way"))
			if !plain || wide && t.capital() && i > 0 && !t.in(asides) {
				words = append(words, t.text)
			}
			if query != nil || plain {
				f.eat(i, i+1)
			}
		}
	}
	if query == nil || f.args[query.Name] != nil {
		if query != nil && len(words) > 0 {
			f.left = append(f.left, strings.Join(words, " "))
		}
		return
	}
	if wide && len(words) == 0 && slices.ContainsFunc(f.c.toks, func(t token) bool { return t.is("me", "i") }) {
		words = []string{"me"}
	}
	if len(words) > 0 {
		f.set(query, strings.Join(words, " "))
	}
}

// placeless is the only parameter that is required of a skill that looks things
// up without a query.
func (f *form) placeless() *param {
	for i := range f.s.Parameters {
		if p := &f.s.Parameters[i]; p.Required && f.args[p.Name] == nil && p.kind == kindOther {
			return p
		}
	}
	return nil
}
