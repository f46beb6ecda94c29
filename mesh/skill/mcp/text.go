package mcp

import (
	"regexp"
	"strings"
	"unicode"

	"agentmesh/mesh"
)

var (
	lineEnds = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\v", "\n", "\f", "\n", "\u0085", "\n", "\u2028", "\n", "\u2029", "\n")
	// fence and header are what the mesh and its models mark commands and
	// their results with.
	fence  = regexp.MustCompile("(?i)([`~]{3,}[ \t]*)(cmd)")
	header = regexp.MustCompile(`(?im)^([ \t>]*)(\[\s*Command\s+Result)`)
)

// clean returns a text from elsewhere with one kind of line end, without
// characters that cannot be seen, apart from those that join letters, and with
// broken marks of commands and results.
func clean(text string) string {
	const nonJoiner, joiner = '\u200c', '\u200d'
	text = strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && r != nonJoiner && r != joiner && unicode.In(r, unicode.Cc, unicode.Cf, unicode.Co) {
			return -1
		}
		return r
	}, lineEnds.Replace(strings.ToValidUTF8(text, "\ufffd")))
	return header.ReplaceAllString(fence.ReplaceAllString(text, "${1}quoted-$2"), `$1\$2`)
}

// line returns a text from elsewhere as one clean line of about so many bytes
// at most.
func line(text string, most int) string {
	// The limit comes first: a text of megabytes is not worth cleaning.
	text = mesh.Clip(text, 8*most)
	return mesh.Clip(strings.Join(strings.Fields(clean(text)), " "), most)
}
