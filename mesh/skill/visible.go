package skill

import (
	"strings"
	"unicode"
)

var lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\v", "\n", "\f", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n")

// Visible returns the text with one kind of line end and without characters
// that cannot be seen, apart from those that join letters.
func Visible(text string) string {
	const nonJoiner, joiner = '\u200c', '\u200d'
	return strings.Map(func(r rune) rune {
		if ' ' <= r && r <= '~' { // most of any text
			return r
		}
		if r != '\n' && r != '\t' && r != nonJoiner && r != joiner && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co) {
			return -1
		}
		return r
	}, lineEnds.Replace(strings.ToValidUTF8(text, "\ufffd")))
}
