package terminal

import (
	"strings"
	"unicode"

	"github.com/clipperhouse/displaywidth"
)

// tabWidth is how many columns a tab is shown as.
const tabWidth = 4

// A span is text in one style. The style is the numbers of a "select graphic
// rendition" sequence, or "".
type span struct{ style, text string }

// styled returns text in the style.
func styled(style, text string) string {
	if style == "" || text == "" {
		return text
	}
	return "\x1b[" + style + "m" + text + "\x1b[0m"
}

// shown is text as it may be put on a terminal: no control character is left
// but line feeds, and tabs have a width.
func shown(text string) string {
	return strings.ReplaceAll(strings.Map(inert, text), "\t", strings.Repeat(" ", tabWidth))
}

// wrap breaks spans into rows of at most width columns, at spaces where it
// can; all rows but the first begin with indent. There is at least one row.
func wrap(spans []span, width int, indent string) []string {
	w := wrapper{width: max(width, 2*displaywidth.String(indent), 8), indent: indent}
	for _, s := range spans {
		for rest := s.text; rest != ""; {
			n := strings.IndexFunc(rest, unicode.IsSpace)
			if n == 0 {
				n = len(rest) - len(strings.TrimLeftFunc(rest, unicode.IsSpace))
			} else if n < 0 {
				n = len(rest)
			}
			w.word(s.style, rest[:n])
			rest = rest[n:]
		}
	}
	w.end()
	return w.rows
}

// A wrapper is the state of wrap.
type wrapper struct {
	width  int
	indent string
	rows   []string
	row    strings.Builder
	used   int  // columns of the row
	begun  bool // more than the indent is in the row
	style  string
}

// word adds a word, or what is between two.
func (w *wrapper) word(style, word string) {
	space := unicode.IsSpace([]rune(word[:min(len(word), 4)])[0])
	n := displaywidth.String(word)
	if w.used+n > w.width && w.begun {
		if space {
			return // the break takes its place
		}
		w.next()
	}
	if w.used+n <= w.width {
		w.add(style, word, n)
		return
	}
	for g := displaywidth.StringGraphemes(word); g.Next(); { // wider than a row
		if w.used+g.Width() > w.width {
			w.next()
		}
		w.add(style, g.Value(), g.Width())
	}
}

func (w *wrapper) add(style, text string, n int) {
	w.turn(style)
	w.row.WriteString(text)
	w.used, w.begun = w.used+n, true
}

// turn goes on in the style.
func (w *wrapper) turn(style string) {
	if style == w.style {
		return
	}
	if w.style != "" {
		w.row.WriteString("\x1b[0m")
	}
	if style != "" {
		w.row.WriteString("\x1b[" + style + "m")
	}
	w.style = style
}

// end ends a row.
func (w *wrapper) end() {
	w.turn("")
	w.rows = append(w.rows, w.row.String())
	w.row.Reset()
}

func (w *wrapper) next() {
	w.end()
	w.row.WriteString(w.indent)
	w.used, w.begun = displaywidth.String(w.indent), false
}

// A place is a row and a column.
type place struct{ row, column int }

// A layout is what lay made of a text, kept for as long as that is the same.
type layout struct {
	prompt, text string
	at, width    int
	rows         []string // nil if nothing was laid yet
	cursor       place
}

// of is lay, of which it keeps the last result. Rows are not to be changed.
func (l *layout) of(prompt, text string, at, width int) (rows []string, cursor place) {
	if l.rows == nil || l.prompt != prompt || l.text != text || l.at != at || l.width != width {
		rows, cursor := lay(prompt, text, at, width)
		*l = layout{prompt, text, at, width, rows, cursor}
	}
	return l.rows, l.cursor
}

// lay breaks a prompt and the text behind it into rows of width columns, at
// any character, and says where the byte at is. A row that is full has another
// one below it: that is where the cursor goes.
func lay(prompt, text string, at, width int) (rows []string, cursor place) {
	var row strings.Builder
	row.WriteString(prompt)
	used := displaywidth.String(prompt)
	indent := strings.Repeat(" ", min(used, width/2))
	next := func(begin string) {
		rows = append(rows, row.String())
		row.Reset()
		row.WriteString(begin)
		used = len(begin)
	}
	i := 0
	for g := displaywidth.StringGraphemes(text); g.Next(); i += len(g.Value()) {
		if i <= at && at < i+len(g.Value()) {
			cursor = place{len(rows), used}
		}
		v, n := g.Value(), g.Width()
		if v == "\n" {
			next(indent)
			continue
		}
		if v == "\t" {
			v, n = strings.Repeat(" ", tabWidth), tabWidth
		}
		if used+n > width {
			next("")
			if at == i {
				cursor = place{len(rows), 0}
			}
		}
		row.WriteString(v)
		used += n
		if used >= width {
			next("")
		}
	}
	if at >= len(text) {
		cursor = place{len(rows), used}
	}
	return append(rows, row.String()), cursor
}
