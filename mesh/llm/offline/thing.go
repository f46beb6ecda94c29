package offline

import (
	"regexp"
	"slices"
	"strings"
	"time"
)

// thingWords returns the words by which the clause names the one thing that the
// skill is to work on: "the task Buy milk", "my milk task", "the meeting with
// Bob", or what is in quotes. Words that say what is to become of it are not
// among them.
func thingWords(cl clause, s *skill) []string {
	cl = newClause(cl.trimmed().words()) // a clause of a long text is as cheap as one of its own
	kinds := append(thingsOf(stem(s.domain())), stem(s.domain()))
	times := readTimes(cl.text, time.Unix(0, 0)) // where times are, and not which
	var out []string
	for i := 1; i < len(cl.tokens); i++ {
		t := cl.at(i)
		thing := slices.ContainsFunc(append(thingsOf(t.stem), t.stem), func(k string) bool { return slices.Contains(kinds, k) })
		switch {
		case t.kind == quoted:
			return strings.Fields(t.text)
		case t.is("about", "called", "named", "titled", "with", "of", "up", "off", "out") || t.is(":") && i < 3 || times.covers(t.start):
		case t.kind != word, t.is("to", "as", "from", "for", "by", "on", "at", "so", "because", "and", "until", "in", "into", "please"):
			return out
		case i == len(cl.tokens)-1 && len(out) > 0 && s.chooses(t): // "mark Buy milk done"
		case thing || determiners[t.low] || pronouns[t.low] || s.takes(t) || t.is("entry", "item", "one", "date", "new", "it"):
		default:
			out = append(out, t.text)
		}
	}
	return out
}

// takes reports whether the word names one of the skill's parameters.
func (s *skill) takes(t *token) bool {
	return slices.ContainsFunc(s.Parameters, func(p param) bool { return slices.Contains(pieces(p.Name), t.low) })
}

// chooses reports whether the word is a value of one of the skill's parameters.
func (s *skill) chooses(t *token) bool {
	return slices.ContainsFunc(s.Parameters, func(p param) bool {
		return kindOf(&p) == kindChoice && len(chosen(clause{"", []token{{kind: word}, *t}}, p.options(), false)) > 0
	})
}

// names reports whether the clause says which thing is meant, so that it can be
// found, and does not just refer to what was said before.
func names(cl clause, s *skill) bool {
	cl = cl.trimmed()
	if referent(cl) != "" && !slices.ContainsFunc(cl.tokens, func(t token) bool { return t.kind == quoted }) {
		return false
	}
	if len(thingWords(cl, s)) > 0 {
		return true
	}
	// "cancel tomorrow's meeting"
	return slices.Contains(verbOf(cl), doRemove) && len(cl.tokens) > 2 && slices.ContainsFunc(cl.tokens, func(t token) bool { return isDateWord(t.low) })
}

// What a skill writes beside a thing: "id t-4f", "[t-4f]", "[id 1a2b3c]".
var foundID = regexp.MustCompile(`(?i)\bid[:=#]?\s*([a-z0-9][a-z0-9_-]{0,39})\b|\[([a-z]{1,4}[-_][a-z0-9]{1,36}|\d{1,12})\]`)

// foundThing returns the id of the one thing in the texts that has all the
// words, or "" if there is none or there are several.
func foundThing(texts []string, words []string) string {
	var ids, exact []string
	for _, text := range texts {
		for line := range strings.SplitSeq(text, "\n") {
			id := idIn(line)
			if id == "" || !hasWords(line, words) {
				continue
			}
			if !slices.Contains(ids, id) {
				ids = append(ids, id)
			}
			if titleIs(line, words) && !slices.Contains(exact, id) {
				exact = append(exact, id)
			}
		}
	}
	switch {
	case len(ids) == 1:
		return ids[0]
	case len(exact) == 1:
		return exact[0]
	}
	return ""
}

// idIn returns the one id that the line has, or "".
func idIn(line string) string {
	all := foundID.FindAllStringSubmatch(line, -1)
	id := ""
	for _, m := range all {
		found := m[1] + m[2]
		if !strings.ContainsAny(found, "0123456789-_") {
			continue // "id card"
		}
		if id != "" && id != found {
			return ""
		}
		id = found
	}
	return id
}

// hasWords reports whether the line has all the words, in any form.
func hasWords(line string, words []string) bool {
	have := map[string]bool{}
	for _, t := range tokenize(strings.NewReplacer("\"", " ", "'", " ", "[", " ", "]", " ").Replace(line)) {
		have[t.stem], have[t.low] = true, true
	}
	return !slices.ContainsFunc(words, func(w string) bool {
		return slices.ContainsFunc(tokenize(w), func(t token) bool { return t.kind == word && !have[t.stem] && !have[t.low] })
	})
}

var itemNumber = regexp.MustCompile(`^\s*(?:\d+[.)]|[-*])\s+`)

// titleIs reports whether the line begins with the words and nothing else
// before what is told of the thing.
func titleIs(line string, words []string) bool {
	rest, ok := strings.CutPrefix(strings.ToLower(itemNumber.ReplaceAllString(line, "")), strings.ToLower(strings.Join(words, " ")))
	return ok && len(words) > 0 && (rest == "" || strings.HasPrefix(rest, " (") || strings.HasPrefix(rest, " [") || strings.HasPrefix(rest, ","))
}
