package textindex

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// tokens returns what the index has of a text, or, of a query, what is looked
// up in it: words in one form whatever way they are written.
//
// Where no space ends a word, nobody can tell the words without a dictionary.
// There each character makes a token with the one that follows, and the last
// one of a run a token alone. So the pairs of a query are found within longer
// runs, a single character is the beginning of a token wherever it stands, and
// there are no more tokens than characters.
func tokens(text string, query bool) []string {
	var out []string
	for _, raw := range Fields(text) {
		if strings.IndexFunc(raw, func(r rune) bool { return r >= utf8.RuneSelf }) < 0 {
			out = append(out, raw)
			continue
		}
		for _, w := range Fields(fold(raw)) { // one letter may stand for several words
			out = cut(out, w, query)
		}
	}
	return out
}

// cut appends the tokens of a word, which may be of several scripts.
func cut(out []string, w string, query bool) []string {
	for w != "" {
		n := strings.IndexFunc(w, spaceless)
		if n < 0 {
			return append(out, w)
		}
		if n > 0 {
			out = append(out, w[:n])
			w = w[n:]
		}
		if n = strings.IndexFunc(w, func(r rune) bool { return !spaceless(r) && !unicode.IsMark(r) }); n < 0 {
			n = len(w)
		}
		out = pairs(out, w[:n], query)
		w = w[n:]
	}
	return out
}

// pairs appends the tokens of a run of characters of such a script.
func pairs(out []string, run string, query bool) []string {
	var ends []int // of the characters, each with its marks
	for at, r := range run {
		if at > 0 && !unicode.IsMark(r) {
			ends = append(ends, at)
		}
	}
	ends = append(ends, len(run))
	from := 0
	for i, end := range ends {
		switch {
		case i+1 < len(ends):
			out = append(out, run[from:ends[i+1]])
		case !query || i == 0:
			out = append(out, run[from:])
		}
		from = end
	}
	return out
}

// single reports whether the token is one character of such a script.
func single(token string) bool {
	first, n := utf8.DecodeRuneInString(token)
	return spaceless(first) && strings.IndexFunc(token[n:], func(r rune) bool { return !unicode.IsMark(r) }) < 0
}

// spaceless reports whether the letter is of a script in which no space ends a
// word. That is so in Korean as well: its particles are written to the words.
func spaceless(r rune) bool {
	const first = '\u0e01' // Thai is the first of them
	return r >= first && (unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana, unicode.Bopomofo, unicode.Hangul, unicode.Yi,
		unicode.Nushu, unicode.Tangut, unicode.Thai, unicode.Lao, unicode.Khmer, unicode.Myanmar, unicode.Tai_Le, unicode.New_Tai_Lue,
		unicode.Tai_Tham, unicode.Tai_Viet, unicode.Ahom, unicode.Balinese, unicode.Javanese) || unicode.Is(kana, r))
}

// kana are the letters of Japanese that belong to two scripts.
var kana = &unicode.RangeTable{R16: []unicode.Range16{{Lo: 0x3006, Hi: 0x3006, Stride: 1}, {Lo: 0x3031, Hi: 0x3035, Stride: 1}, {Lo: 0x30fc, Hi: 0x30fc, Stride: 1}}}

// pictograph reports whether the symbol says something by itself, as those of
// the emoji do and the lines of a table do not. Where there is nothing but
// emoji, those that are yet to be defined are taken for such.
func pictograph(r rune) bool {
	const only = 0x1f000
	return unicode.Is(pictographs, r) && (r >= only || unicode.Is(unicode.So, r))
}

var pictographs = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x231a, Hi: 0x231b, Stride: 1}, {Lo: 0x23e9, Hi: 0x23f3, Stride: 1},
		{Lo: 0x2600, Hi: 0x27bf, Stride: 1}, {Lo: 0x2b50, Hi: 0x2b55, Stride: 1},
	},
	R32: []unicode.Range32{{Lo: 0x1f000, Hi: 0x1f3fa, Stride: 1}, {Lo: 0x1f400, Hi: 0x1faff, Stride: 1}}, // without the shades of skin
}

// fold returns the text without what is written in one way here and in another
// there: case, width, ligatures, composed letters and the marks of left out.
func fold(text string) string {
	return norm.NFC.String(strings.Map(func(r rune) rune {
		if r < utf8.RuneSelf {
			return unicode.ToLower(r)
		}
		if unicode.Is(left, r) {
			return -1
		}
		return unicode.ToLower(unicode.ToUpper(r)) // the letters with two small forms, as the Greek sigma
	}, norm.NFKD.String(text)))
}

// left are marks that many leave out, or that change looks only: accents, the
// vowels of Hebrew and Arabic, and what chooses the variant of a character.
var left = &unicode.RangeTable{
	R16: []unicode.Range16{
		{Lo: 0x0300, Hi: 0x036f, Stride: 1}, {Lo: 0x0591, Hi: 0x05bd, Stride: 1}, {Lo: 0x05bf, Hi: 0x05bf, Stride: 1},
		{Lo: 0x05c1, Hi: 0x05c2, Stride: 1}, {Lo: 0x05c4, Hi: 0x05c5, Stride: 1}, {Lo: 0x05c7, Hi: 0x05c7, Stride: 1},
		{Lo: 0x0640, Hi: 0x0640, Stride: 1}, {Lo: 0x064b, Hi: 0x065f, Stride: 1}, {Lo: 0x0670, Hi: 0x0670, Stride: 1},
		{Lo: 0x20d0, Hi: 0x20f0, Stride: 1}, {Lo: 0xfe00, Hi: 0xfe0f, Stride: 1},
	},
	R32: []unicode.Range32{{Lo: 0xe0100, Hi: 0xe01ef, Stride: 1}},
}
