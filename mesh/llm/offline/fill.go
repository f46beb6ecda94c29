package offline

import (
	"slices"
	"strings"
	"time"
)

// A filler finds the arguments of one call in the words of a clause.
type filler struct {
	cl    clause
	skill *skill
	now   time.Time
	times timing
	// inputs are what earlier agents and calls found out.
	inputs []string
	// known is other text of the conversation; only addresses are taken from it.
	known string
	// source says that the call reads for another one of the same clause, so
	// that most words of the clause are not about it.
	source bool
	// target is the skill for which this one finds a thing, or nil.
	target *skill

	quotes  map[int]bool // used quotations, by their place
	args    map[string]any
	missing []string // what a person must still tell
	assumed []string // what was chosen without being told
}

// fill sets args, missing and assumed.
func (f *filler) fill() {
	f.cl = f.cl.trimmed()
	f.times = readTimes(f.cl.text, f.now)
	if len(f.cl.tokens) > 0 {
		f.times.within(f.cl.at(0).start, f.cl.at(len(f.cl.tokens)-1).end)
	}
	f.quotes, f.args = map[int]bool{}, map[string]any{}
	f.keepDay()
	if slices.ContainsFunc(f.skill.Parameters, func(p param) bool { return kindOf(&p) == kindTime }) {
		for _, s := range f.times.odd { // no time at all would be taken for one that was not given
			f.missing = append(f.missing, "a date or time that is clear, as 2026-12-01 or 14:30, instead of “"+f.cl.text[s[0]:s[1]]+"”")
		}
	}
	// What to search for are the words that nothing else took.
	for _, queries := range []bool{false, true} {
		for i := range f.skill.Parameters {
			p := &f.skill.Parameters[i]
			if (kindOf(p) == kindQuery) != queries {
				continue
			}
			if v := f.value(p); v != nil {
				f.args[p.Name] = v
			} else if p.Required && p.Default == "" {
				f.missing = append(f.missing, f.want(p))
			}
		}
	}
	alters := slices.Contains(f.skill.acts(), doUpdate) && f.skill.action() != "replace" && len(f.skill.Parameters) > 1
	if alters && f.target == nil && len(f.missing) == 0 && !f.changes() {
		f.missing = append(f.missing, "what is to be changed")
	}
}

// changes reports whether the call of a skill that changes something says what
// is to change.
func (f *filler) changes() bool {
	for name := range f.args {
		i := slices.IndexFunc(f.skill.Parameters, func(p param) bool { return p.Name == name })
		p := &f.skill.Parameters[i]
		if !isID(p.Name) && kindOf(p) != kindPath && p.Name != "version" {
			return true
		}
	}
	return false
}

// want says what is missing for the parameter.
func (f *filler) want(p *param) string {
	switch kindOf(p) {
	case kindAddress:
		if who := f.person(); who != "" {
			return "the e-mail address of " + who
		}
		return "an e-mail address (" + p.Name + ")"
	case kindID:
		return "which " + strings.TrimSuffix(f.skill.domain(), "s") + " is meant (its " + p.Name + ")"
	}
	if p.Description != "" {
		return p.Name + " (" + clip(strings.TrimRight(p.Description, "."), 80) + ")"
	}
	return p.Name
}

// value returns the argument for p, or nil.
func (f *filler) value(p *param) any {
	if f.target != nil {
		return f.finding(p)
	}
	if old, text, ok := f.swap(); ok && f.skill.has("find") {
		switch {
		case p.Name == "find":
			return old
		case p.Name == "mode" && slices.Contains(p.options(), "text"):
			return "text"
		case kindOf(p) == kindBody:
			return text
		}
	}
	switch kindOf(p) {
	case kindAddress:
		return f.address(p)
	case kindChoice:
		return f.choice(p)
	case kindTime:
		return text(f.time(p))
	case kindDuration:
		return f.duration(p)
	case kindTitle:
		return text(f.title(p))
	case kindBody:
		return text(f.body(p))
	case kindQuery:
		return text(f.query(p))
	case kindNumber:
		return f.number(p)
	case kindID:
		return f.id(p)
	case kindFlag:
		return f.flag(p)
	case kindList:
		return f.list(p)
	case kindPath:
		return text(f.path(p))
	case kindPerson:
		return text(f.sender(p))
	}
	return text(f.other(p))
}

// text returns s, or nil for "".
func text(s string) any {
	if s == "" {
		return nil
	}
	return s
}

// asType returns the values as the parameter's type wants them.
func asType(p *param, values []string) any {
	if len(values) == 0 {
		return nil
	}
	if p.Type == "array" {
		return values
	}
	return strings.Join(values, ", ")
}

// address returns the addresses for p: those after "cc" for a parameter for
// copies, and those before it for others.
func (f *filler) address(p *param) any {
	want := ""
	for _, w := range pieces(p.Name) {
		if w == "cc" || w == "bcc" {
			want = w
		}
	}
	told := f.toldAt()
	var found []string
	for i, mode := 0, ""; i < len(f.cl.tokens); i++ {
		t := f.cl.at(i)
		if t.is("cc", "bcc") {
			mode = t.low
		}
		// Whom the message is about need not be whom it is for.
		about := told >= 0 && i >= told && mode == "" && len(found) > 0
		if t.kind == email && mode == want && !about && !slices.Contains(found, t.text) {
			found = append(found, t.text)
		}
	}
	if len(found) == 0 && want == "" {
		found = f.lookUp()
	}
	return asType(p, found)
}

// lookUp finds the address of whom the clause names, or means by a pronoun, in
// the rest of what the user said. It never makes one up, and takes none from
// what skills or agents returned: anybody may have written that.
func (f *filler) lookUp() []string {
	all := emailPattern.FindAllString(f.known, -1)
	slices.Sort(all)
	all = slices.Compact(all)
	who := strings.ToLower(f.person())
	if who == "" {
		for i := range f.cl.tokens {
			if f.cl.at(i).is("him", "her", "them") && len(all) == 1 {
				return all
			}
		}
		return nil
	}
	var match []string
	for _, a := range all {
		if local, _, _ := strings.Cut(strings.ToLower(a), "@"); local == who || strings.HasPrefix(local, who+".") {
			match = append(match, a)
		}
	}
	if len(match) == 1 {
		return match
	}
	return nil
}

// person returns the name of whom something is for, or "".
func (f *filler) person() string {
	for i := range f.cl.tokens {
		t := f.cl.at(i)
		place := i == 1 || f.cl.at(i-1).is("to", "with", "for", "cc", "invite")
		if i > 0 && place && t.capital() && !isDateWord(t.low) && !stopWords[t.low] {
			return t.text
		}
	}
	return ""
}

// other fills a parameter that means nothing to the planner: by its name in
// the clause, by a quotation, or, if it is required, by what a person would
// most likely mean.
func (f *filler) other(p *param) string {
	name := strings.ToLower(p.Name)
	if strings.Contains(name, "channel") {
		for i := range f.cl.tokens {
			if t := f.cl.at(i); strings.HasPrefix(t.text, "#") && len(t.text) > 1 {
				return t.text
			}
		}
	}
	if alike(f.cl.at(0), p.Name) { // "assign the task to Bob"
		for i := len(f.cl.tokens) - 2; i > 0; i-- {
			if f.cl.at(i).is("to") {
				return f.phrase(i+1, true)
			}
		}
		return ""
	}
	if i := f.after(p); i >= 0 && !prepositions[f.cl.at(i).low] {
		return f.phrase(i, false)
	}
	if name == "location" || name == "place" || name == "room" {
		return f.location()
	}
	if !p.Required {
		return ""
	}
	if q := f.quote(); q != "" {
		return q
	}
	for i := range f.cl.tokens {
		t := f.cl.at(i)
		if i > 0 && f.cl.at(i-1).is("in", "for", "at", "to", "from", "of") && t.capital() && !isDateWord(t.low) {
			return f.phrase(i, true)
		}
	}
	return f.query(p)
}

// swap reads which text comes in place of which: replace "a" with "b".
func (f *filler) swap() (old, text string, ok bool) {
	a, by, b := f.cl.at(1), f.cl.at(2), f.cl.at(3)
	if !f.cl.at(0).is("replace", "change", "swap") || a.kind != quoted || b.kind != quoted || !by.is("with", "by", "to", "for") {
		return "", "", false
	}
	return a.text, b.text, true
}

// location finds "in room 5" and "at the Harbour Café".
func (f *filler) location() string {
	for i := range f.cl.tokens {
		t := f.cl.at(i)
		if !f.cl.at(i-1).is("in", "at") || t.kind != word || f.times.covers(t.start) {
			continue
		}
		if determiners[t.low] {
			i++
			t = f.cl.at(i)
		}
		if t.is("room", "office") || t.capital() && !isDateWord(t.low) {
			return f.phrase(i, true)
		}
	}
	return ""
}

// quote returns the next quotation that is not used yet, or "".
func (f *filler) quote() string {
	for i := range f.cl.tokens {
		t := f.cl.at(i)
		if name := f.cl.at(i+1).kind == email; t.kind == quoted && !f.quotes[t.start] && !name {
			f.quotes[t.start] = true
			return t.text
		}
	}
	return ""
}

// phrase returns the words from token i up to the end of the thought: a mark,
// a time, an address; and, if narrow, also a preposition.
func (f *filler) phrase(i int, narrow bool) string {
	if t := f.cl.at(i); t.kind == quoted {
		f.quotes[t.start] = true
		return t.text
	} else if t.kind == email {
		return t.text
	}
	j := i
	for ; j < len(f.cl.tokens); j++ {
		t := f.cl.at(j)
		if t.is(".") && abbreviation(f.cl.at(j-1)) {
			continue
		}
		if t.kind == email || t.kind == punct && !t.is("&", "(", ")") || f.times.covers(t.start) || t.is("saying", "due", "called", "titled", "named") && j > i {
			break
		}
		if narrow && j > i && t.kind == word && prepositions[t.low] && !t.is("of") {
			break
		}
	}
	for j > i && (f.cl.at(j-1).kind == punct || prepositions[f.cl.at(j-1).low] || f.cl.at(j-1).is("and", "cc", "due", "scheduled", "set")) {
		j--
	}
	return clause{f.cl.text, f.cl.tokens[i:j]}.words()
}
