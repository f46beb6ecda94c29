package textindex

import "strings"

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
	counts := make([]int, len(words))
	count := func(piece string, by int) {
		low := fold(piece)
		for i, w := range words {
			counts[i] += by * strings.Count(low, stem(w, 4))
		}
	}
	// The run from at to end moves along the pieces, so that each of them is
	// counted in and out once.
	from, to, most := 0, 0, -1
	end, size := 0, -len(between)
	for at := range pieces {
		for end < len(pieces) && (end == at || size+len(between)+len(pieces[end]) <= maxExcerpt) {
			size += len(between) + len(pieces[end])
			count(pieces[end], 1)
			end++
		}
		hits := 0
		for _, n := range counts {
			hits += min(n, 3)
		}
		if hits > most {
			from, to, most = at, end, hits
		}
		size -= len(between) + len(pieces[at])
		count(pieces[at], -1)
	}
	return strings.Join(pieces[from:to], between)
}
