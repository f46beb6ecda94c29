package textindex

import (
	"slices"
	"strings"
	"unicode"
)

// maxWords bounds how many words of a query count. A language without spaces
// makes a word of each of its characters.
const maxWords = 64

// Words returns the words of a query, each once and in the form in which the
// index has them. Those that only make a question of it, as "how" and "the",
// are dropped unless nothing else is there. Of scripts in which no space ends
// a word, they are the pairs of characters that follow each other, and a
// character that stands alone.
func Words(query string) []string {
	var all, telling []string
	for _, w := range tokens(query, true) {
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

// Fields returns the words of a text as they are written, in lower case: runs
// of letters, digits and their marks. A pictograph is a word of its own.
func Fields(text string) []string {
	var out []string
	low := strings.ToLower(text)
	start, half := -1, false // of the run; whether the last word is half a flag
	end := func(at int) {
		if start >= 0 {
			out = append(out, low[start:at])
		}
		start = -1
	}
	for at, r := range low {
		flag := unicode.Is(unicode.Regional_Indicator, r)
		switch {
		case unicode.In(r, unicode.L, unicode.Nd, unicode.Nl):
			if start < 0 {
				start = at
			}
		case unicode.IsMark(r): // of the run, or of nothing that counts
		case flag && half:
			out[len(out)-1] += string(r)
		case pictograph(r):
			end(at)
			out = append(out, string(r))
		default:
			end(at)
		}
		half = flag && !half
	}
	end(len(low))
	return out
}

var asking = strings.Fields(`a an and any are at be by can could did do does for from give has have how i if in into is it
	its let me my of on or our please s shall should show so some t tell than that the their them then there these they this
	to us use was we were what when where which who whose why will with would you your`)

// Stem returns the word, which is in lower case, without the usual English
// endings, for comparing.
func Stem(w string) string { return stem(w, 3) }

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
