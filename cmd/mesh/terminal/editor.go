package terminal

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/clipperhouse/displaywidth"
)

// An editor is a text that is being typed, with a cursor in it. It is a plain
// value: it reads and draws nothing.
type editor struct {
	text   string
	at     int // cursor, in bytes
	killed string

	history   *History
	entry     int    // of the history that is shown; its length for what is typed
	draft     string // what was typed before going back
	searching bool   // a search goes on
	search    string // what it looks for
}

// apply changes the text as the command says.
func (e *editor) apply(k key) {
	if k.command != searchBack {
		e.searching = false
	}
	switch k.command {
	case insert:
		e.replace(e.at, e.at, k.text)
	case newline:
		e.replace(e.at, e.at, "\n")
	case yank:
		e.replace(e.at, e.at, e.killed)
	case backspace:
		e.replace(e.before(), e.at, "")
	case deleteRight, endOfInput:
		e.replace(e.at, e.behind(), "")
	case killLeft:
		e.kill(e.lineStart(), e.at)
	case killRight:
		e.kill(e.at, max(e.lineEnd(), min(e.at+1, e.lineEnd()+1, len(e.text))))
	case killWordLeft:
		e.kill(e.wordLeft(), e.at)
	case killWordRight:
		e.kill(e.at, e.wordRight())
	case earlier, later, searchBack:
		e.recall(k.command)
	default:
		e.move(k.command)
	}
}

// adds is how many bytes a key adds to the text that were not in it.
func (e *editor) adds(k key) int {
	switch k.command {
	case insert:
		return len(k.text)
	case newline:
		return len("\n")
	case yank:
		return len(e.killed)
	default:
		return 0
	}
}

// move moves the cursor.
func (e *editor) move(c command) {
	switch c {
	case left:
		e.at = e.before()
	case right:
		e.at = e.behind()
	case home:
		e.at = e.lineStart()
	case end:
		e.at = e.lineEnd()
	case wordLeft:
		e.at = e.wordLeft()
	case wordRight:
		e.at = e.wordRight()
	case up:
		if start := e.lineStart(); start > 0 && !e.recalled() {
			e.at = column(e.text, strings.LastIndexByte(e.text[:start-1], '\n')+1, displaywidth.String(e.text[start:e.at]))
			return
		}
		e.recall(earlier)
	case down:
		if stop := e.lineEnd(); stop < len(e.text) && !e.recalled() {
			e.at = column(e.text, stop+1, displaywidth.String(e.text[e.lineStart():e.at]))
			return
		}
		e.recall(later)
	}
}

// recalled reports whether the text is an entry of the history as it was.
func (e *editor) recalled() bool {
	return e.entry < e.history.len() && e.text == e.history.at(e.entry)
}

// column is the place in the line at start that is width columns to the right,
// or the line's end.
func column(text string, start, width int) int {
	line, _, _ := strings.Cut(text[start:], "\n")
	at := start
	for g := displaywidth.StringGraphemes(line); g.Next() && width >= g.Width() && width > 0; at += len(g.Value()) {
		width -= g.Width()
	}
	return at
}

// replace puts s in the place of the bytes from to to, with the cursor behind.
func (e *editor) replace(from, to int, s string) {
	e.text = e.text[:from] + s + e.text[to:]
	e.at = from + len(s)
}

// kill takes the bytes away, to be put back by yank.
func (e *editor) kill(from, to int) {
	if from < to {
		e.killed = e.text[from:to]
		e.replace(from, to, "")
	}
}

// set makes text the text, with the cursor at its end.
func (e *editor) set(text string) { e.text, e.at = text, len(text) }

// take returns the text and begins anew.
func (e *editor) take() string {
	text := e.text
	e.set("")
	e.draft, e.entry, e.searching = "", e.history.len(), false
	return text
}

// recall shows another entry of the history. A search shows the last one
// before that holds what stood when it began.
func (e *editor) recall(c command) {
	if e.entry == e.history.len() {
		e.draft = e.text
	}
	if c == searchBack && !e.searching {
		e.searching, e.search = true, e.text
	}
	step := -1
	if c == later {
		step = 1
	}
	for i := e.entry + step; i >= 0 && i <= e.history.len(); i += step {
		switch {
		case i == e.history.len():
			e.set(e.draft)
		case c == searchBack && (!strings.Contains(e.history.at(i), e.search) || e.history.at(i) == e.text):
			continue
		default:
			e.set(e.history.at(i))
		}
		e.entry = i
		return
	}
}

// before is where the character before the cursor begins.
func (e *editor) before() int {
	if e.at == 0 {
		return 0
	}
	start := e.lineStart()
	if start == e.at {
		return e.at - 1
	}
	last := start
	for g := displaywidth.StringGraphemes(e.text[start:e.at]); g.Next(); {
		last, start = start, start+len(g.Value())
	}
	return last
}

// behind is where the character at the cursor ends.
func (e *editor) behind() int {
	g := displaywidth.StringGraphemes(e.text[e.at:min(len(e.text), e.at+maxCharacter)])
	if !g.Next() {
		return e.at
	}
	return e.at + len(g.Value())
}

// maxCharacter bounds what is looked at as one character, in bytes.
const maxCharacter = 256

func (e *editor) lineStart() int { return strings.LastIndexByte(e.text[:e.at], '\n') + 1 }

func (e *editor) lineEnd() int {
	if n := strings.IndexByte(e.text[e.at:], '\n'); n >= 0 {
		return e.at + n
	}
	return len(e.text)
}

func (e *editor) wordLeft() int {
	head := strings.TrimRightFunc(e.text[:e.at], apart)
	i := strings.LastIndexFunc(head, apart)
	if i < 0 {
		return 0
	}
	_, n := utf8.DecodeRuneInString(head[i:])
	return i + n
}

func (e *editor) wordRight() int {
	rest := strings.TrimLeftFunc(e.text[e.at:], apart)
	n := strings.IndexFunc(rest, apart)
	if n < 0 {
		n = len(rest)
	}
	return len(e.text) - len(rest) + n
}

// apart reports whether a character parts words.
func apart(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && r != '_' }
