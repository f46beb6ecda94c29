package offline

import (
	"slices"
	"strconv"
	"strings"
)

// choice returns the values of p that the clause names.
func (f *filler) choice(p *param) any {
	acts := f.skill.acts()
	found := chosen(f.cl, p.options(), slices.Contains(acts, doUpdate))
	found = slices.DeleteFunc(found, func(v string) bool { return !f.meant(p, v, len(found) > 1) })
	if len(found) == 0 {
		return nil
	}
	if p.Type == "array" {
		return found
	}
	if f.skill.reads() {
		return strings.Join(found, ",")
	}
	return found[len(found)-1]
}

// meant reports whether a value that stands in the clause is meant for p, and
// not just a word of it: "all my overdue todos" asks for the status overdue,
// and "a task to get the report done" for none.
func (f *filler) meant(p *param, value string, others bool) bool {
	named := func() bool {
		return slices.ContainsFunc(f.cl.tokens, func(t token) bool {
			return t.kind == word && slices.Contains(pieces(p.Name), t.low) || t.is("urgent", "important")
		})
	}
	switch {
	case isStatus(p.Name) && slices.Contains(f.skill.acts(), doCreate):
		return named()
	case value == "todo":
		return named() || f.cl.at(0).is("reopen") || f.skill.domain() != "tasks" && !slices.Contains(thingsOf(stem(f.skill.domain())), "a:task")
	case slices.Contains([]string{"all", "any", "none"}, value):
		return !others
	case slices.Contains([]string{"low", "normal", "medium", "high"}, value):
		return named()
	}
	return true
}

func (f *filler) number(p *param) any {
	named := f.after(p)
	limit := kindNames[kindNumber][strings.ToLower(p.Name)] || strings.Contains(p.Name, "limit")
	for i := range f.cl.tokens {
		t := f.cl.at(i)
		if t.kind != word || f.times.covers(t.start) {
			continue
		}
		n, err := strconv.ParseFloat(t.low, 64)
		if small, ok := smallNumbers[t.low]; ok && small > 1 {
			n, err = float64(small), nil
		}
		if err != nil {
			continue
		}
		isLimit := limit && f.cl.at(i-1).is("top", "first", "last", "latest", "most", "limit", "maximum", "only", "next")
		if named == i || isLimit || p.Required && !limit {
			if p.Type == "integer" || n == float64(int64(n)) {
				return int64(n)
			}
			return n
		}
	}
	return nil
}

// after returns the place of the token after the parameter's name in the
// clause, or -1.
func (f *filler) after(p *param) int {
	names := pieces(p.Name)
	for i := range f.cl.tokens {
		at := i + len(names)
		if alike(f.cl.at(i), p.Name) {
			at = i + 1
		} else if f.cl.from(i).begins(strings.Join(names, " ")) == 0 {
			continue
		}
		for f.cl.at(at).is(":", "is", "of", "to", "=") {
			at++
		}
		if at < len(f.cl.tokens) {
			return at
		}
	}
	return -1
}

// id returns what names the one thing that the clause is about: an id of its
// own words, or that of what others found under its name.
func (f *filler) id(p *param) any {
	if id := findID(f.cl, f.skill); id != "" {
		return id
	}
	if !p.Required {
		return nil
	}
	var words []string
	if names(f.cl, f.skill) {
		words = thingWords(f.cl, f.skill)
	}
	return text(foundThing(f.inputs, words))
}

// flag returns true if the clause says the name of the flag, or wants done what
// the flag is called, as "cancel" for delete.
func (f *filler) flag(p *param) any {
	for _, w := range pieces(p.Name) {
		if slices.Contains(actsOf(stem(w)), doRemove) && slices.Contains(verbOf(f.cl), doRemove) {
			return true
		}
		for i := range f.cl.tokens {
			if t := f.cl.at(i); t.kind == word && !stopWords[w] && t.stem == stem(w) {
				return true
			}
		}
	}
	return nil
}

func (f *filler) list(p *param) any {
	want := stem(strings.ToLower(p.Name))
	for i := range f.cl.tokens {
		if t := f.cl.at(i); t.kind == word && i > 0 && (t.stem == want || t.stem+"g" == want) && len(t.stem) > 2 {
			var out []string
			for j := i + 1; j < len(f.cl.tokens); j++ {
				n := f.cl.at(j)
				if n.is(",", "and", ":", "&", "with") {
					continue
				}
				if n.kind == punct || n.kind == word && prepositions[n.low] {
					break
				}
				out = append(out, n.text)
			}
			if len(out) > 0 {
				return out
			}
		}
	}
	if p.Required {
		var out []string
		for i := range f.cl.tokens {
			if t := f.cl.at(i); t.kind == quoted && !f.quotes[t.start] {
				f.quotes[t.start] = true
				out = append(out, t.text)
			}
		}
		if len(out) > 0 {
			return out
		}
		if q := f.query(p); q != "" {
			return []string{q}
		}
	}
	return nil
}
