package command

import "strings"

// A fence is a line that opens a code block (CommonMark §4.5).
type fence struct {
	mark  byte // '`' or '~'
	width int  // how many of them
	// indent is how many spaces stand before a fence of the reply itself.
	indent int
	// inner is where the content of the list item begins whose first line the
	// fence is, in columns; 0 for a fence of the reply itself.
	inner int
	// command says that the block is one of commands.
	command bool
}

// minFence is the least width of a fence, and maxIndent the most columns
// before one: what stands further to the right is indented code.
const (
	minFence  = 3
	maxIndent = 3
)

// opens reports whether the line, without its end, opens a block.
func opens(line string) (fence, bool) {
	columns, rest := indentation(line)
	if columns > maxIndent {
		return fence{}, false
	}
	f := fence{indent: columns}
	if n := marker(rest); n > 0 {
		spaces, inside := indentation(rest[n:])
		f.inner, rest = columns+n+spaces, inside
	}
	var info string
	if f.mark, f.width, info = run(rest); f.width < minFence || f.mark == '`' && strings.Contains(info, "`") {
		return fence{}, false
	}
	f.command = f.inner == 0 && f.mark == '`' && strings.TrimRight(info, " \t") == "cmd"
	return f, true
}

// closes reports whether the line closes the block.
func (f fence) closes(line string) bool {
	columns, rest := indentation(line)
	mark, width, info := run(rest)
	return columns >= f.inner && columns <= f.inner+maxIndent &&
		mark == f.mark && width >= f.width && strings.Trim(info, " \t") == ""
}

// leaves reports whether the line ends the list item that the fence is in, and
// so the block.
func (f fence) leaves(line string) bool {
	columns, rest := indentation(line)
	return rest != "" && columns < f.inner
}

// content returns a line of the block without the indentation that it has
// because the fence has it.
func (f fence) content(line string) string {
	for range f.indent {
		line = strings.TrimPrefix(line, " ")
	}
	return line
}

// indentation returns the width of the white space that the line begins with,
// in columns, and what follows it.
func indentation(line string) (columns int, rest string) {
	const tab = 4
	for i := range len(line) {
		switch line[i] {
		case ' ':
			columns++
		case '\t':
			columns += tab - columns%tab
		default:
			return columns, line[i:]
		}
	}
	return columns, ""
}

// marker returns the length of the list marker that the text begins with, as
// "-" or "12.", or 0.
func marker(text string) int {
	const most = 9 // digits of a number
	n := len(text) - len(strings.TrimLeft(text, "0123456789"))
	switch {
	case n == 0 && text != "" && strings.IndexByte("-*+", text[0]) >= 0,
		n > 0 && n <= most && n < len(text) && strings.IndexByte(".)", text[n]) >= 0:
		n++
	default:
		return 0
	}
	if n < len(text) && (text[n] == ' ' || text[n] == '\t') {
		return n
	}
	return 0
}

// run returns the backticks or tildes that the text begins with, and what
// follows them.
func run(text string) (mark byte, width int, info string) {
	if text == "" || text[0] != '`' && text[0] != '~' {
		return 0, 0, text
	}
	info = strings.TrimLeft(text, text[:1])
	return text[0], len(text) - len(info), info
}

// A candidate follows a line byte by byte as long as it may still become the
// one that opens a block of commands. It says no exactly when [opens] would,
// whatever follows.
type candidate struct {
	spaces, marks, word int
}

// next takes the line's next byte and reports whether the line is still one.
func (c *candidate) next(b byte) bool {
	const word = "cmd"
	switch {
	case b == ' ' && c.marks == 0:
		c.spaces++
		return c.spaces <= maxIndent
	case b == '`' && c.word == 0:
		c.marks++
	case c.marks >= minFence && c.word < len(word) && b == word[c.word]:
		c.word++
	case c.word == len(word) && (b == ' ' || b == '\t'):
		return true
	default:
		return false
	}
	return true
}
