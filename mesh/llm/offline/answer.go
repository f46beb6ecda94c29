package offline

import (
	"regexp"
	"slices"
	"strings"
)

// sourcePattern finds the documents that a search names.
var sourcePattern = regexp.MustCompile(`[A-Za-z0-9_][A-Za-z0-9_./-]*\.(?:md|markdown|txt|rst|adoc|html?)(?:#[A-Za-z0-9_-]+)?`)

const (
	maxPassages = 3
	maxPassage  = 700 // runes
)

// A passage is what a search found in one place.
type passage struct {
	head   string // the line that names the document
	text   string
	source string
	hits   int // how many of the question's words it has
}

// answerFrom composes an answer from the result of a full-text search: the
// passages that have most of the question's words, and where they are from. It
// returns "" if the result names no documents.
func answerFrom(question, result string) string {
	found := passages(result)
	if len(found) == 0 {
		return ""
	}
	words := map[string]bool{}
	for _, t := range tokenize(question) {
		if t.kind == word && !stopWords[t.low] || t.kind == quoted {
			words[t.stem] = true
		}
	}
	for i := range found {
		seen := map[string]bool{}
		for _, t := range tokenize(found[i].head + " " + found[i].text) {
			if words[t.stem] {
				seen[t.stem] = true
			}
		}
		found[i].hits = len(seen)
	}
	slices.SortStableFunc(found, func(a, b passage) int { return b.hits - a.hits })
	var lines, sources []string
	for _, p := range found {
		if len(lines) == maxPassages || len(lines) > 0 && p.hits*2 < found[0].hits {
			break
		}
		if p.text == "" {
			continue
		}
		lines = append(lines, clip(p.text, maxPassage))
		if !slices.Contains(sources, p.source) {
			sources = append(sources, p.source)
		}
	}
	if len(lines) == 0 {
		return ""
	}
	if found[0].hits == 0 {
		lines, sources = slices.Insert(lines[:1], 0, "The documents do not say much about this. The closest passage is:"), sources[:1]
	}
	return strings.Join(lines, "\n\n") + "\n\nSources: " + strings.Join(sources, ", ")
}

// passages takes a search result apart at the lines that name documents, which
// stand before the passages or, if the result does not begin with one, after
// them.
func passages(result string) []passage {
	lines := strings.Split(result, "\n")
	at := []int{}
	for i, l := range lines {
		if sourcePattern.MatchString(l) && headLike(l) {
			at = append(at, i)
		}
	}
	if len(at) == 0 {
		return nil
	}
	before := 0
	for _, l := range lines[:at[0]] {
		if strings.TrimSpace(l) != "" {
			before++
		}
	}
	var out []passage
	for n, i := range at {
		from, to := i+1, len(lines)
		if n+1 < len(at) {
			to = at[n+1]
		}
		if before > 1 {
			from, to = 0, i
			if n > 0 {
				from = at[n-1] + 1
			}
		}
		var body []string
		for _, l := range lines[from:to] {
			body = append(body, strings.TrimSpace(l))
		}
		out = append(out, passage{head: lines[i], text: strings.TrimSpace(strings.Join(body, "\n")), source: sourcePattern.FindString(lines[i])})
	}
	return out
}

// headLike reports whether a line only names a document, and is not a sentence
// that mentions one.
func headLike(l string) bool {
	rest := sourcePattern.ReplaceAllString(l, "")
	return len(strings.Fields(rest)) <= 14 && !strings.HasSuffix(strings.TrimSpace(l), ".")
}
