package offline

import (
	"slices"
	"strings"
)

// rest reads the words that went nowhere yet, by what the skill does.
func (f *form) rest() {
	switch {
	case f.s.reads():
		f.search()
	case f.letters():
		f.letter()
	case f.s.target() != nil:
		f.works()
	case f.verb == "replace":
		f.replace()
	default:
		f.create()
	}
}

// letters reports whether the skill writes to somebody.
func (f *form) letters() bool {
	return f.s.act == actSend || f.s.act == actDraft && f.s.first(kindAddress) != nil && f.s.first(kindBody) != nil
}

// isThing reports whether the token only names the kind of thing that the skill
// works on.
func (f *form) isThing(t *token) bool {
	return t.kind == word && (f.s.kinds[things[t.stem]] && !(occasions[t.low] && !t.is("meeting", "event", "appointment", "calendar", "call")) ||
		t.is("list", "todo", "to-do") && f.s.kinds["task"] || strings.EqualFold(stem(f.s.domain()), t.stem))
}

// filler reports whether the token says nothing by itself.
func (f *form) filler(t *token) bool {
	return t.in(glue) || t.in(determiners) || t.in(prepositions) || f.isThing(t)
}

// runs returns the stretches of words before the text that went nowhere yet.
func (f *form) runs() (out [][2]int) {
	for i := 0; i < f.head(); i++ {
		j := i
		for j < f.head() && !f.used[j] && f.c.at(j).kind != punct {
			j++
		}
		if j > i {
			out = append(out, [2]int{i, j})
			i = j
		}
	}
	return out
}

// loose refuses words that limit, deny or count: they are no part of a name.
func (f *form) loose(i, j int, named bool) bool {
	for k := i; k < j; k++ {
		t, before := f.c.at(k), f.c.at(k-1)
		counts := t.kind == quoted || t.is("him", "her", "them", "another") || t.in(ordinals) || t.is("and") && f.c.at(k+1).in(determiners) || f.isThing(t) && plural(t) ||
			!before.capital() && (numberOf(t) > 0 || t.low != "" && t.low[0] >= '0' && t.low[0] <= '9')
		if t.in(limits) || t.in(negations) || t.kind == email || t.is("all", "any", "both", "everything", "or", "again", "twice") || named && counts {
			f.refuse(k, j)
			return true
		}
	}
	return false
}

func plural(t *token) bool {
	return strings.HasSuffix(t.low, "s") && t.stem != t.low && !strings.HasSuffix(t.low, "ss")
}

// quotes uses the quotations that went nowhere yet.
func (f *form) quotes() (out []string) {
	for i := range f.c.toks {
		if f.c.at(i).kind == quoted && !f.used[i] {
			out = append(out, f.c.at(i).text)
			f.eat(i, i+1)
		}
	}
	return out
}

// aQuote returns the only quotation that went nowhere yet, and uses it.
func (f *form) aQuote() (string, bool) {
	had := slices.Clone(f.used)
	if q := f.quotes(); len(q) == 1 {
		return q[0], true
	}
	f.used = had
	return "", false
}

// letter finds what is to be sent.
func (f *form) letter() {
	body := f.writes()
	if q, ok := f.aQuote(); ok && f.args[body.Name] == nil {
		f.set(body, q)
	}
	for _, r := range f.runs() {
		i, j := r[0], r[1]
		for i < j && (f.c.at(i).in(determiners) || f.c.at(i).in(glue) && !f.c.at(i).is("me")) {
			f.eat(i, i+1)
			i++
		}
		own := !slices.ContainsFunc(f.c.toks[i:j], func(t token) bool { return !f.filler(&t) && !t.is("know", "too") })
		switch {
		case own || f.c.at(i).is("know"):
			f.eat(i, j)
		case f.args[body.Name] != nil || f.take != "":
			f.refuse(i, j)
		case !f.loose(i, j, false):
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
		if p := f.s.first(kindTime); p != nil && (f.args[p.Name] != nil || f.asks(p)) {
			f.left = append(f.left, "when")
		}
	}
	if title := f.s.first(kindTitle); title != nil && f.verb == "rename" {
		for i := 2; i < f.head(); i++ {
			if f.c.at(i).is("to", "as") && !f.used[i] {
				f.guard(i+1, f.head(), true)
				if k := slices.IndexFunc(f.c.toks[i:], func(t token) bool { return t.is("or") }); k >= 0 {
					f.refuse(i+k, len(f.c.toks))
				}
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
	f.of, _ = f.aQuote()
	quoted, it := f.of != "", false
	var words []string
	for _, r := range f.runs() {
		i, j := r[0], r[1]
		if f.loose(i, j, true) {
			return
		}
		if f.c.at(i-1).kind == punct && i > 0 && len(words) > 0 {
			f.refuse(i, j)
			return
		}
		for ; i < j; i++ {
			t := f.c.at(i)
			it = it || t.is("it", "that", "this", "one")
			event := !quoted && occasions[t.low] && f.s.kinds["meeting"] && !t.is("meeting", "event", "appointment", "call")
			if event || !f.filler(t) && !t.in(pronouns) || t.is("with") && len(words) > 0 {
				words = append(words, t.text)
			}
			f.eat(i, i+1)
		}
	}
	switch {
	case quoted && len(words) > 0:
		f.left = append(f.left, strings.Join(words, " "))
	case len(words) > 0:
		f.of = strings.Join(words, " ")
	case !quoted && it:
		f.of = "it"
	}
	f.take = target.Name
}

// replace finds what is to be replaced by what.
func (f *form) replace() {
	q, at, mode := f.quotes(), f.s.named("find"), f.s.named("mode")
	if at == nil || mode == nil || len(q) != 2 || !slices.Contains(mode.Enum, "text") {
		f.left = append(f.left, "what is to be replaced by what (both in quotes)")
		return
	}
	f.set(at, q[0])
	f.set(f.s.first(kindBody), q[1])
	f.set(mode, "text")
}

// search finds what is looked for.
func (f *form) search() {
	query := f.s.first(kindQuery)
	if query == nil { // or what is required of a skill that has none
		query = f.plainly()
	}
	words := f.quotes()
	quotes, wide := len(words), f.s.answers() || f.s.recalls()
	for _, r := range f.runs() {
		i, j := r[0], r[1]
		if !wide && slices.ContainsFunc(f.c.toks[i:j], func(t token) bool { return t.in(limits) || t.in(negations) || t.is("or") }) {
			f.refuse(i, j)
			return
		}
		for ; i < j; i++ {
			t := f.c.at(i)
			plain := f.s.first(kindQuery) == nil && f.s.words[t.stem] > 0 || t.in(asides) || f.filler(t) || t.in(questionHead) || t.is("find", "look", "docs", "documentation", "remember", "said", "say", "told", "using", "way")
			if !plain || wide && t.capital() && i > 0 && !t.in(asides) {
				words = append(words, t.text)
			}
			if query != nil || plain {
				f.eat(i, i+1)
			}
		}
	}
	if wide && len(words) == 0 && slices.ContainsFunc(f.c.toks, func(t token) bool { return t.is("me", "i") }) {
		words = []string{"me"}
	}
	switch {
	case len(words) == 0:
	case query == nil || f.args[query.Name] != nil || quotes > 0 && len(words) > 1:
		f.left = append(f.left, strings.Join(words, " "))
	default:
		f.set(query, strings.Join(words, " "))
	}
}

// plainly returns the required parameter of which nothing more is known, or nil.
func (f *form) plainly() *param {
	return f.s.param(func(p *param) bool { return p.Required && f.args[p.Name] == nil && p.kind == kindOther })
}

// create names what is created, or written.
func (f *form) create() {
	title, body := f.s.first(kindTitle), f.s.first(kindBody)
	if f.s.act == actChange || f.s.first(kindPath) != nil || title == nil {
		title = body
	}
	if title == nil {
		title = f.plainly()
	}
	if title == nil {
		return
	}
	for _, p := range []*param{f.writes(), title, body} { // a quotation is the first that is open
		if p != nil && f.args[p.Name] == nil && !(p == body && title != body && f.args[title.Name] == nil && p != f.writes()) {
			if q, ok := f.aQuote(); ok {
				f.set(p, q)
			}
		}
	}
	if f.args[title.Name] != nil {
		return
	}
	if w := f.writes(); title != w && w != nil && f.args[w.Name] != nil && title.Required {
		f.set(title, clip(firstLine(f.args[w.Name]), 60))
		return
	}
	for i := 1; i < f.head(); i++ { // "on the calendar", "to my todo list", "a task"
		domain := i > 1 && f.c.at(i).is(f.s.domain()) && f.c.at(i-1).in(determiners) && f.c.at(i-2).is("in", "on", "to")
		if !f.used[i] && (domain || !f.s.kinds["meeting"] && f.isThing(f.c.at(i)) && !plural(f.c.at(i))) {
			f.eat(i, i+1)
			for k := i - 1; k > 0 && (f.c.at(k).in(determiners) || f.c.at(k).is("new", "to", "on", "in", "as")); k-- {
				f.eat(k, k+1)
			}
		}
	}
	f.phraseFor(title)
}

func firstLine(v any) string {
	s, _ := v.(string)
	s, _, _ = strings.Cut(strings.TrimSpace(s), "\n")
	return s
}

// phraseFor takes the words that are left as the parameter's.
func (f *form) phraseFor(p *param) {
	var words []string
	for n, r := range f.runs() {
		i, j := r[0], r[1]
		joined := f.c.at(i).is("with", "about", "on", "for", "in", "at", "re", "of")
		for i < j && (f.c.at(i).in(determiners) || f.c.at(i).in(glue) && !joined || n == 0 && f.c.at(i).is("new", "for", "that", "to")) {
			f.eat(i, i+1)
			i++
		}
		for j > i && (f.c.at(j-1).in(prepositions) || f.c.at(j-1).in(determiners) || f.c.at(j-1).is("and")) {
			j--
			f.eat(j, j+1)
		}
		switch {
		case i >= j:
		case f.loose(i, j, p.kind == kindTitle):
			return
		case len(words) > 0 && !joined, f.c.at(r[0]).is("and", "or"), slices.ContainsFunc(f.c.toks[i:j], func(t token) bool { return t.kind == quoted }):
			f.refuse(i, j)
			return
		default:
			words = append(words, f.c.words(i, j))
			f.eat(i, j)
		}
	}
	if len(words) > 0 {
		f.set(p, capitalize(strings.Join(words, " ")))
	}
}

// asks reports whether the user is asked for the parameter.
func (f *form) asks(p *param) bool {
	return slices.ContainsFunc(f.missing, func(s slot) bool { return s.param == p.Name })
}

// require asks for what is required and not there.
func (f *form) require() {
	for i := range f.s.Parameters {
		p := &f.s.Parameters[i]
		wanted := p.Required || p.kind == kindBody && (f.letters() || f.s.first(kindPath) != nil && f.s.act == actChange)
		found := f.args[p.Name] != nil || f.asks(p) || p.Name == f.take && (f.of != "" || len(f.object.toks) > 0)
		body := f.s.first(kindBody)
		if wanted && !found && !(p.kind == kindTitle && body != nil && body.Required) { // which is made of the text
			f.missing = append(f.missing, slot{param: p.Name, kind: p.kind, ask: f.question(p)})
		}
	}
}

// questions are how the user is asked for an argument, by what it is.
var questions = map[paramKind]string{
	kindAddress: "To which e-mail address?", kindTime: "When? Please say the day and the time.", kindBody: "What shall it say?",
	kindID: "Which one is meant? Please say its id or its name.",
}

// question asks for the parameter.
func (f *form) question(p *param) string {
	if q := questions[p.kind]; q != "" {
		return q
	}
	about, _, _ := strings.Cut(p.Description, ",")
	return strings.TrimSuffix("What is the "+strings.ReplaceAll(p.Name, "_", " ")+"? ("+about+")", " ()")
}

// leftovers names the words that went nowhere.
func (f *form) leftovers() {
	said := func(i int) bool {
		t := f.c.at(i)
		asked := (f.verb == "" || f.s.reads()) && (t.in(asides) || t.in(questionHead))
		value := f.s.named(t.low)
		return f.used[i] || t.kind == punct || t.in(glue) || t.in(determiners) || asked || f.isThing(t) && !(plural(t) && !f.s.reads()) ||
			t.in(prepositions) && t.kind == word && (i+1 < len(f.used) && f.used[i+1] || i > 0 && f.used[i-1]) || t.is("date") || value != nil && f.args[value.Name] != nil
	}
	for i := range f.c.toks {
		j := i
		for j < len(f.c.toks) && !said(j) {
			j++
		}
		if j > i {
			f.refuse(i, j)
		}
	}
}
