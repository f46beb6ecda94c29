package offline

import (
	"slices"
	"strings"
)

// isThing reports whether the token only names the kind of thing that the skill
// works on.
func (f *form) isThing(t *token) bool {
	return t.kind == word && f.s.kinds[things[t.stem]] && (!occasions[t.low] || t.is("meeting", "event", "appointment", "calendar", "call")) ||
		t.is("list", "todo", "to-do") && f.s.kinds["task"] || t.kind == word && strings.EqualFold(stem(f.s.domain()), t.stem)
}

// runs returns the stretches of words before the text that went nowhere yet,
// without what says nothing at their ends.
func (f *form) runs() (out [][2]int) {
	for i := 0; i < f.head(); i++ {
		if f.used[i] || f.c.at(i).kind == punct {
			continue
		}
		j := i
		for j < f.head() && !f.used[j] && f.c.at(j).kind != punct {
			j++
		}
		out = append(out, [2]int{i, j})
		i = j
	}
	return out
}

// loose refuses words that limit, deny or count: they are no part of a name.
func (f *form) loose(i, j int, named bool) bool {
	for k := i; k < j; k++ {
		t := f.c.at(k)
		if t.in(limits) || t.in(negations) || t.kind == email || t.is("all", "any", "both", "everything", "or", "again", "twice") ||
			named && (t.is("him", "her", "them") || t.kind == quoted || t.low != "" && t.low[0] >= '0' && t.low[0] <= '9' && !f.c.at(k-1).capital() || t.is("and") && f.c.at(k+1).in(determiners) || t.is("another") || t.in(ordinals) || numberOf(t) > 0 && !f.c.at(k-1).capital() || f.isThing(t) && plural(t)) {
			f.refuse(k, j)
			return true
		}
	}
	return false
}

func plural(t *token) bool {
	return strings.HasSuffix(t.low, "s") && t.stem != t.low && !strings.HasSuffix(t.low, "ss")
}

// aQuote returns the only quotation that is not used yet, and uses it.
func (f *form) aQuote() (string, bool) {
	at := -1
	for i := range f.c.toks {
		if f.c.at(i).kind == quoted && !f.used[i] {
			if at >= 0 {
				return "", false
			}
			at = i
		}
	}
	if at < 0 {
		return "", false
	}
	f.eat(at, at+1)
	return f.c.at(at).text, true
}

// create names what is created.
func (f *form) create() {
	title := f.s.first(kindTitle)
	if title == nil {
		for i := range f.s.Parameters {
			p := &f.s.Parameters[i]
			if p.Required && f.args[p.Name] == nil && (p.kind == kindOther || p.kind == kindBody) {
				f.phraseFor(p)
			}
		}
		return
	}
	if f.args[title.Name] != nil && title != f.writes() {
		if body := f.s.first(kindBody); body != nil && f.args[body.Name] == nil {
			if q, ok := f.aQuote(); ok {
				f.set(body, q)
			}
		}
	}
	if f.args[title.Name] != nil {
		return
	}
	if q, ok := f.aQuote(); ok {
		if body := f.writes(); body != title && f.args[body.Name] == nil {
			f.set(body, q)
		} else {
			f.set(title, q)
		}
		return
	}
	if body := f.s.first(kindBody); body != nil && f.args[body.Name] != nil && title.Required && body == f.writes() {
		f.set(title, clip(firstLine(f.args[body.Name]), 60))
		return
	}
	event := f.s.kinds["meeting"]
	for i := 2; i < f.head(); i++ { // "on the calendar"
		if f.c.at(i).is(f.s.domain()) && f.c.at(i-1).in(determiners) && f.c.at(i-2).is("in", "on", "to") {
			f.eat(i-2, i+1)
		}
	}
	for i := 1; i < f.head() && !event; i++ { // "to my todo list", "a task"
		if f.isThing(f.c.at(i)) && !f.used[i] && !plural(f.c.at(i)) {
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
	named := p.kind == kindTitle
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
		case f.loose(i, j, named):
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

// require asks for what is required and not there.
func (f *form) require() {
	for i := range f.s.Parameters {
		p := &f.s.Parameters[i]
		asked := slices.ContainsFunc(f.missing, func(s slot) bool { return s.param == p.Name })
		letter := f.s.act == actSend || f.s.act == actDraft
		if !p.Required && !(p.kind == kindBody && (letter || f.s.first(kindPath) != nil && f.s.act == actChange)) || f.args[p.Name] != nil || p.Name == f.take && (f.of != "" || len(f.object.toks) > 0) || asked {
			continue
		}
		if p.kind == kindTitle && f.s.first(kindBody) != nil && f.s.first(kindBody).Required {
			continue // it is made of the text
		}
		f.missing = append(f.missing, slot{param: p.Name, kind: p.kind, ask: f.question(p)})
	}
}

// question asks for the parameter.
func (f *form) question(p *param) string {
	what := strings.ReplaceAll(p.Name, "_", " ")
	about, _, _ := strings.Cut(p.Description, ",")
	switch p.kind {
	case kindAddress:
		return "To which e-mail address?"
	case kindTime:
		return "When? Please say the day and the time."
	case kindBody:
		return "What shall it say?"
	case kindID:
		return "Which one is meant? Please say its id or its name."
	}
	if about == "" {
		return "What is the " + what + "?"
	}
	return "What is the " + what + "? (" + about + ")"
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
		if said(i) {
			continue
		}
		j := i
		for j < len(f.c.toks) && !said(j) {
			j++
		}
		f.refuse(i, j)
	}
}
