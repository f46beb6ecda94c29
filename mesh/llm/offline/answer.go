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
	head   string // the line that names it
	title  string // as the search numbers its passages, or ""
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
		text := clip(p.text, maxPassage)
		if p.title != "" {
			text = "**" + p.title + "**\n\n" + text
		}
		lines = append(lines, text)
		if !slices.Contains(sources, p.source) {
			sources = append(sources, p.source)
		}
	}
	if len(lines) == 0 {
		return ""
	}
	// A passage that has a third of the words or less is hardly about them.
	if found[0].hits*3 <= len(words) {
		lines, sources = slices.Insert(lines[:1], 0, "The documents do not say much about this. The closest passage is:"), sources[:1]
	}
	return strings.Join(lines, "\n\n") + "\n\nSources: " + strings.Join(sources, ", ")
}

// titlePattern is the title of a numbered passage.
var titlePattern = regexp.MustCompile(`^(?:#+ )?\d+[.)] `)

// passages takes a search result apart at the lines that name documents, which
// stand before the passages or, if nothing follows the last one, after them.
func passages(result string) []passage {
	var lines []string
	for l := range strings.SplitSeq(result, "\n") {
		if !strings.HasPrefix(strings.ToLower(l), "sources:") {
			lines = append(lines, l)
		}
	}
	var at []int
	for i, l := range lines {
		if sourcePattern.MatchString(l) && headLike(l) {
			at = append(at, i)
		}
	}
	if len(at) == 0 {
		return nil
	}
	after := strings.TrimSpace(strings.Join(lines[at[len(at)-1]+1:], "")) == ""
	var out []passage
	for n, i := range at {
		from, to := i+1, len(lines)
		if n+1 < len(at) {
			to = at[n+1]
		}
		if after {
			from, to = 0, i
			if n > 0 {
				from = at[n-1] + 1
			}
		}
		p := passage{head: lines[i], source: sourcePattern.FindString(lines[i])}
		if i > 0 && titlePattern.MatchString(lines[i-1]) {
			p.head, p.title = lines[i-1], titlePattern.ReplaceAllString(lines[i-1], "")
		}
		var body []string
		for j, l := range lines[from:to] {
			if next := from + j + 1; next < len(lines) && titlePattern.MatchString(l) && slices.Contains(at, next) {
				continue // the title of the next passage
			}
			body = append(body, strings.TrimRight(l, " \t"))
		}
		p.text = strings.TrimSpace(strings.Join(body, "\n"))
		out = append(out, p)
	}
	return out
}

// headLike reports whether a line only names a document, and is not a sentence
// that mentions one.
func headLike(l string) bool {
	rest := sourcePattern.ReplaceAllString(l, "")
	return len(strings.Fields(rest)) <= 14 && !strings.HasSuffix(strings.TrimSpace(l), ".")
}
