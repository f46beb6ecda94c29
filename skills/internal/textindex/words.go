package textindex

import (
	"slices"
	"strings"
	"unicode"
)

// maxWords bounds how many words of a query count.
const maxWords = 32

// Words returns the words of a query, in lower case and each once. Those that
// only make a question of it, as "how" and "the", are dropped unless nothing
// else is there.
func Words(query string) []string {
	var all, telling []string
	for _, w := range Fields(query) {
		if slices.Contains(all, w) || len(all) == 4*maxWords {
			continue
		}
		all = append(all, w)
		if !slices.Contains(asking, w) {
			telling = append(telling, w)
		}
	}
	if len(telling) > 0 {
		all = telling
	}
	return all[:min(len(all), maxWords)]
}

// Fields returns the words of a text, in lower case.
func Fields(text string) []string {
	return strings.FieldsFunc(strings.ToLower(text), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) })
}

var asking = strings.Fields(`a an and any are at be by can could did do does for from give has have how i if in into is it
	its let me my of on or our please s shall should show so some t tell than that the their them then there these they this
	to us use was we were what when where which who whose why will with would you your`)

// Stem returns the word, which is in lower case, without the usual English
// endings, for comparing.
func Stem(w string) string { return stem(w, 3) }

// maxExcerpt bounds an excerpt, in bytes.
const maxExcerpt = 1200

// Excerpt returns the run of whole paragraphs that has the most of the words
// and fits in 1200 bytes; where the one that has them does not fit, of its
// lines, and of a line the beginning.
func Excerpt(body string, words []string) string {
	if len(body) <= maxExcerpt {
		return body
	}
	text := body
	for _, between := range []string{"\n\n", "\n"} {
		if text = densest(strings.Split(text, between), between, words); len(text) <= maxExcerpt {
			return text
		}
	}
	return strings.ToValidUTF8(text[:maxExcerpt], "") + " …"
}

// densest returns the run of pieces that has the most of the words and fits,
// one piece at least.
func densest(pieces []string, between string, words []string) string {
	best, most := "", -1
	for i := range pieces {
		run := strings.Join(pieces[i:i+fitting(pieces[i:], len(between))], between)
		hits, low := 0, strings.ToLower(run)
		for _, w := range words {
			hits += min(strings.Count(low, stem(w, 4)), 3)
		}
		if hits > most {
			best, most = run, hits
		}
	}
	return best
}

// fitting returns how many of the first pieces fit in an excerpt with so many
// bytes between them, but one at least.
func fitting(pieces []string, between int) int {
	size := len(pieces[0])
	n := 1
	for n < len(pieces) && size+between+len(pieces[n]) <= maxExcerpt {
		size += between + len(pieces[n])
		n++
	}
	return n
}

// stem cuts the usual English endings if so many letters are left. It is for
// comparing and counting words; the index has its own, better stems.
func stem(w string, least int) string {
	for _, end := range []string{"ing", "ed", "es", "s", "e"} {
		if cut, ok := strings.CutSuffix(w, end); ok && len(cut) >= least {
			return cut
		}
	}
	return w
}
