package offline

import (
	"slices"
	"strings"
)

// told returns the words of the clause that are to be told: those after
// "saying", after "that" where something is sent, or after "text:".
func (f *filler) told() string {
	at := f.toldAt()
	if at < 0 {
		return ""
	}
	rest := f.cl.from(at)
	if q := rest.at(0); q.kind == quoted {
		return q.text
	}
	for i := range rest.tokens { // "and cc Ann", "but don't tell Eve" is not told to anybody
		cc := rest.from(i + 1)
		copies := cc.at(0).is("cc", "bcc") && cc.at(1).kind == email
		if rest.at(i).is("and", "but", ",") && (copies || f.skill.sends() && forbids(cc) && slices.ContainsFunc(cc.tokens, func(t token) bool { return t.kind == email })) {
			rest.tokens = rest.tokens[:i]
			break
		}
	}
	return rest.words()
}

// toldAt returns the place of the first word that is to be told, or -1.
func (f *filler) toldAt() int {
	sends := f.skill.sends()
	for i := 1; i+1 < len(f.cl.tokens); i++ {
		t, before, next := f.cl.at(i), f.cl.at(i-1), f.cl.at(i+1)
		that := t.is("that") && (sends || before.capital() || strings.HasPrefix(before.text, "#")) && !reportWords[before.low] && !before.is("all")
		entitled := t.is(":") && f.hasTitle() && slices.ContainsFunc(f.cl.tokens[:i], func(t token) bool { return t.is("titled", "called", "named") })
		if !t.is("saying", "says") && !that && !entitled && !(t.is("description", "body", "note", "notes", "text", "message") && next.is(":")) {
			continue
		}
		if f.cl.at(i+1).is("that", ":") {
			return i + 2
		}
		return i + 1
	}
	return -1
}

// invitation returns what an address is invited to, or "".
func (f *filler) invitation() string {
	if !f.cl.at(0).is("invite") || f.cl.at(1).kind != email {
		return ""
	}
	for i := range f.cl.tokens {
		if f.cl.at(i).is("to", "for") {
			return undetermined(f.phrase(i+1, false))
		}
	}
	return ""
}
