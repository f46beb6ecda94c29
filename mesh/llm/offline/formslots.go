package offline

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// labels are other words that introduce an argument, by what it is.
var labels = map[paramKind]map[string]bool{
	kindTitle: set("called titled named entitled title subject object"),
	kindBody:  set("text body content saying says reading"),
	kindList:  set("tagged tag"),
}

// labelled returns the parameter that token i introduces, as in "called X", "subject
// X", "tags a, b", or nil.
func (f *form) labelled(i int) *param {
	t, next := f.c.at(i), f.c.at(i+1)
	if t.kind != word || next.kind == punct && !next.is(":") || f.verb != "" && i == 0 {
		return nil
	}
	p := f.s.named(t.low)
	for k := range f.s.Parameters {
		if q := &f.s.Parameters[k]; p == nil && labels[q.kind][t.low] && (q.kind != kindBody || q == f.writes()) {
			p = q
		}
	}
	if p == nil && t.is("about", "regarding") && f.letters() && (i < 2 || f.c.at(i-1).kind == email || f.isThing(f.c.at(i-1))) {
		p = f.s.first(kindTitle)
	}
	if p == nil && t.is("prio") {
		p = f.s.named("priority")
	}
	for next.is("is", "should", "be") { // "the text is: …"
		i++
		next = f.c.at(i + 1)
	}
	marked := next.kind == quoted || next.is(":")
	switch {
	case p == nil || p.Name == f.s.domain() || f.s.reads() && p.kind == kindTitle && !marked, f.s.kinds[things[t.stem]] && !marked:
		return nil // "a note" is the thing, and no argument
	case p.kind == kindOther || p.kind == kindList || p.kind == kindTitle || p.kind == kindPlace && !f.s.reads() || p.kind == kindBody && marked:
		return p
	case p.kind == kindNumber && digitsOnly(next.low), p.kind == kindChoice && slices.Contains(p.Enum, next.low):
		return p
	}
	return nil
}

// explicit takes what is given by the name of its parameter.
func (f *form) explicit() {
	for i := 0; i < f.head(); i++ {
		p := f.labelled(i)
		if p == nil || f.used[i] || f.args[p.Name] != nil {
			continue
		}
		from := i + 1
		for f.c.at(from).is(":", "is", "to", "of", "it", "should", "be") && from < f.head() {
			from++
		}
		stop := func(k int) bool {
			t := f.c.at(k)
			return k >= f.head() || f.used[k] || f.labelled(k) != nil || t.kind == punct && !t.is(",", "&") || t.in(ends) && !(t.is("for", "from") && p.kind == kindTitle)
		}
		end := from
		switch {
		case f.c.at(from).kind == quoted:
			end++
			f.set(p, f.c.at(from).text)
		case p.kind == kindBody:
			f.content = from // what follows is the text
		case p.kind == kindList:
			for ; !stop(end) && f.c.at(end).kind != quoted; end++ {
				if t := f.c.at(end); t.kind != punct && !t.is("and", "&") {
					f.set(p, strings.TrimPrefix(t.text, "#"))
				}
			}
		default:
			for end++; !stop(end) && f.c.at(end).kind == word; end++ {
			}
			f.guard(from, end, true)
			value := f.c.words(from, end)
			if f.c.at(i).is("about", "regarding") {
				value = capitalize(value)
			}
			f.set(p, value)
		}
		f.eat(i, end)
		for k := i - 1; k > 0 && f.c.at(k).is("with", "the", "a", "and", ",", "under"); k-- {
			f.eat(k, k+1)
		}
	}
}

func digitsOnly(s string) bool { return s != "" && digits.FindString(s) == s }

var ends = set("due on at by with tomorrow today next for from and that to tagged in until")

// durations takes how long something takes.
func (f *form) durations() {
	p := f.s.first(kindDuration)
	for i := 1; p != nil && i < f.head(); i++ {
		d, n := length(f.c, i)
		if n == 0 || f.used[i] || f.c.at(i-1).is("in", "within") {
			continue
		}
		before := f.c.at(i - 1)
		if f.args[p.Name] != nil || before.is("by", "after", "before", "every") || f.s.target() != nil && !before.is("to", "for") {
			f.refuse(i, i+n)
			continue
		}
		f.eatBefore(i, "for")
		f.eat(i, i+n)
		switch p.Type {
		case "integer", "number":
			f.set(p, int64(d/time.Minute))
		default:
			f.set(p, brief(d))
		}
	}
}

func brief(d time.Duration) string {
	return strings.TrimSuffix(strings.TrimSuffix(d.String(), "0s"), "h0m") + map[bool]string{true: "h"}[strings.HasSuffix(d.String(), "h0m0s")]
}

var plainID = regexp.MustCompile(`^[a-z]{1,3}-[a-z0-9]*\d[a-z0-9]*$`)
var idForm = regexp.MustCompile(`^#?[A-Za-z]{0,3}[-_]?[A-Za-z0-9]*\d[A-Za-z0-9]*$`)
var idExample = regexp.MustCompile(`\bas ([a-z]{1,4}[-_])[a-z0-9]`)

// references takes ids, and where files and notes are.
func (f *form) references() {
	for i := 1; i < f.head(); i++ {
		t, before := f.c.at(i), f.c.at(i-1)
		if f.used[i] || t.kind == punct || t.kind == email {
			continue
		}
		if p := f.s.first(kindID); p != nil && f.args[p.Name] == nil && t.kind == word {
			m := idExample.FindStringSubmatch(p.Description)
			like := m != nil && strings.HasPrefix(t.low, m[1]) && len(t.low) > len(m[1]) || m == nil && !strings.Contains(p.Description, " as ") && plainID.MatchString(t.low)
			named := before.is("id", "number", "no") || f.s.kinds[things[before.stem]]
			if like || (named || strings.HasPrefix(t.text, "#")) && idForm.MatchString(t.text) {
				f.set(p, strings.TrimPrefix(t.text, "#"))
				f.eat(i, i+1)
				f.eatBefore(i, "id", "number", "no")
				continue
			}
		}
		p := f.s.first(kindPath)
		if p == nil || f.args[p.Name] != nil {
			continue
		}
		file := t.kind != punct && pathForm.MatchString(t.text)
		if file || (before.is("folder", "directory", "file", "note") || before.is("named", "called") && f.s.first(kindTitle) == nil) && !t.in(ends) && !t.in(prepositions) && (t.kind == quoted || t.kind == word) && !t.is("saying", "that", "called", "named", "titled", "about", "with") {
			end := i + 1
			for !file && t.kind == word && f.c.at(end).capital() && end < f.head() {
				end++
			}
			f.set(p, strings.Trim(f.c.words(i, end), `"“”'`))
			f.eat(i, end)
			if before.in(prepositions) || before.is("folder", "directory", "file", "named", "called") {
				f.eat(i-1, i)
			}
		}
	}
}

var pathForm = regexp.MustCompile(`^(?:[\w.-]+/)+[\w.-]+$|^[\w-]+\.(?:txt|md|csv|json|ya?ml|log|html?|xml|pdf|go|py|sh|ini|conf)$`)

// chosen takes words for one of a few values, numbers of things, flags, places
// and people.
func (f *form) chosen() {
	for k := range f.s.Parameters {
		p := &f.s.Parameters[k]
		if f.args[p.Name] != nil {
			continue
		}
		switch p.kind {
		case kindChoice:
			f.choose(p)
		case kindFlag:
			for i := 1; i < f.head(); i++ {
				if t := f.c.at(i); !f.used[i] && t.is(p.Name) && f.s.act != actRemove && verbs[p.Name] == actNone {
					f.eat(i, i+1)
					f.set(p, true)
				}
			}
		case kindNumber:
			for i := 1; i < f.head() && f.s.reads(); i++ {
				n := numberOf(f.c.at(i))
				if f.used[i] || n <= 0 || !f.c.at(i-1).is("top", "first", "next", "last", "latest", "newest") {
					continue
				}
				f.eat(i-1, i+1)
				f.set(p, int64(n))
			}
		case kindPlace:
			f.name(p, "in", "at")
		case kindPerson:
			switch {
			case p.Name == "from":
				f.name(p, "from")
			case f.s.reads():
				f.name(p, p.Name)
			case f.verb == "assign":
				f.name(p, "to")
			case f.s.act == actCreate:
				f.name(p, "for")
			}
		}
	}
}

func numberOf(t *token) int {
	if n, err := strconv.Atoi(t.low); err == nil && digitsOnly(t.low) && len(t.low) < 4 {
		return n
	}
	return numbers[t.low]
}

// spaced makes words of a name.
var spaced = strings.NewReplacer("_", " ", "-", " ")

// choose takes the words for the parameter's values.
func (f *form) choose(p *param) {
	for i := range f.head() {
		t := f.c.at(i)
		if t.kind != word || i > 0 && f.used[i] || i == 0 && f.s.reads() && f.verb != "" || t.in(questionHead) || f.isThing(t) && !f.c.at(i-1).is("as", "to") {
			continue
		}
		for _, o := range p.Enum {
			words := strings.Fields(spaced.Replace(strings.ToLower(o)))
			n := f.c.from(i).begins(words)
			if n == 0 && (t.low == strings.ToLower(o) || slices.Contains(strings.Fields(sameChoice[strings.ToLower(o)]), t.stem)) {
				n = 1
			}
			if n == 0 || o == "all" && !f.s.kinds[things[f.c.at(i+1).stem]] {
				continue
			}
			if had := f.args[p.Name]; had != nil && p.Type != "array" {
				if had != o {
					f.refuse(i, i+n)
				}
				break
			}
			f.set(p, o)
			f.eat(i, i+n)
			f.eatBefore(i, "as", "to")
			if name := strings.ToLower(p.Name); f.c.at(i + n).is(name) {
				f.eat(i+n, i+n+1)
			} else {
				f.eatBefore(i, name)
			}
			break
		}
	}
}

// name takes a name behind one of the words.
func (f *form) name(p *param, behind ...string) {
	for i := 2; i < f.head(); i++ {
		t := f.c.at(i)
		if f.used[i] || !f.c.at(i-1).is(behind...) || !(t.capital() || t.kind == email || t.kind == quoted) || t.in(dayWords) || f.args[p.Name] != nil {
			continue
		}
		end := i + 1
		for t.kind == word && end < f.head() && !f.used[end] && (f.c.at(end).capital() || digitsOnly(f.c.at(end).low)) && !f.c.at(end).in(dayWords) {
			end++
		}
		f.set(p, strings.Trim(f.c.words(i, end), `"“”`))
		f.eat(i-1, end)
	}
}
