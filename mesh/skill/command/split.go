package command

import (
	"fmt"
	"strings"

	"agentmesh/mesh"
)

// A Line is one command of a reply.
type Line struct {
	// Raw is the command as it was written, without white space around it. It
	// has line ends only within quotes.
	Raw string
	// At is the line of the reply in which it begins, from 1.
	At int
}

// Parse reads the command, as [Parse] does. Its error also says where in the
// reply the line is.
func (l Line) Parse() (*Command, error) {
	c, err := parse(l.Raw)
	if err != nil {
		err.Detail = fmt.Sprintf("Line %d of your reply: %s", l.At, err.Detail)
		return nil, err
	}
	return c, nil
}

// A Splitter takes the command blocks out of one reply while it arrives. What
// is left is the text for the user: without white space around it, with one
// kind of line end, and with at most one empty line in a row. The zero Splitter
// is ready.
type Splitter struct {
	out   strings.Builder // what Write or Close returns next
	space []byte          // white space that is text only if more text follows
	begun bool            // there was text
	cr    bool            // the last byte was a carriage return

	line  []byte // of the line that arrives, all
	shown bool   // the line is text, and in out
	maybe candidate
	done  int // lines that have ended

	open  bool  // within a fenced block, which
	block fence // is this one
	begin int   // the line that opened it
	body  strings.Builder
	lines []Line
}

// Write takes the next piece of the reply and returns the text for the user
// that is certain now. Pieces are cut anywhere; if they are cut between
// characters, so is the text.
func (s *Splitter) Write(piece string) (text string) {
	for i := range len(piece) {
		b := piece[i]
		again := b == '\n' && s.cr
		s.cr = b == '\r'
		switch {
		case again:
		case b == '\n', b == '\r':
			s.end()
			s.line, s.shown, s.maybe = s.line[:0], false, candidate{}
		default:
			s.line = append(s.line, b)
			s.arrived(b)
		}
	}
	return s.take()
}

// Close ends the reply. It returns the rest of the text and all commands in
// their order. If the last block is not closed, none of its lines are among
// them, and problem says so to the model.
func (s *Splitter) Close() (text string, lines []Line, problem error) {
	if len(s.line) > 0 {
		s.finish()
	}
	if s.open && s.block.command {
		problem = mesh.Errorf(mesh.Invalid, "command.Split",
			"The command block that begins in line %d of your reply is not closed, so nothing in it was run. Write it again and end it with a line of %d backticks, as:\n%s",
			s.begin, s.block.width, example(s.block.width))
	}
	return s.take(), s.lines, problem
}

// example is a block as it should be.
func example(width int) string {
	marks := strings.Repeat("`", width)
	return marks + "cmd\ntasks.search --status overdue\n" + marks
}

func (s *Splitter) take() string {
	text := s.out.String()
	s.out.Reset()
	return text
}

// arrived shows the byte, the last one of s.line, if it is certain to be text.
func (s *Splitter) arrived(b byte) {
	switch {
	case s.open && s.block.command:
	case s.shown:
		s.show(b)
	case s.open && s.block.inner == 0 || !s.maybe.next(b):
		s.showLine()
	}
}

// end ends the line that arrived, which has an end.
func (s *Splitter) end() {
	if s.finish() {
		s.show('\n')
	}
}

// finish ends the line that arrived and reports whether what follows it
// belongs to the text.
func (s *Splitter) finish() (text bool) {
	s.done++
	line := string(s.line)
	switch {
	case s.open && s.block.command:
		if !s.block.closes(line) {
			s.body.WriteString(s.block.content(line) + "\n")
			return false
		}
		s.lines = append(s.lines, commands(strings.TrimSuffix(s.body.String(), "\n"), s.begin+1)...)
		s.body.Reset()
		s.open = false
		return true // the paragraphs before and after the block stay apart
	case s.open && s.block.closes(line):
		s.open = false
	case !s.open, s.block.leaves(line):
		if s.block, s.open = opens(line); s.open {
			s.begin = s.done
		}
		if s.open && s.block.command {
			return false
		}
	}
	s.showLine()
	return true
}

func (s *Splitter) showLine() {
	if s.shown {
		return
	}
	s.shown = true
	for _, b := range s.line {
		s.show(b)
	}
}

// show appends to the text. White space waits until something follows it, and
// of three or more line ends in a row two are left.
func (s *Splitter) show(b byte) {
	switch {
	case b == '\n' && strings.HasSuffix(string(s.space[max(0, len(s.space)-2):]), "\n\n"):
	case b == ' ' || b == '\t' || b == '\n':
		s.space = append(s.space, b)
	default:
		if s.begun {
			s.out.Write(s.space)
		}
		s.space, s.begun = s.space[:0], true
		s.out.WriteByte(b)
	}
}

// commands cuts the content of a block, which begins in line at of the reply,
// into commands.
func commands(body string, at int) []Line {
	var lines []Line
	for len(body) > 0 {
		_, end, _ := scan(body)
		raw := body[:end]
		if text := strings.Trim(raw, " \t"); text != "" {
			lines = append(lines, Line{Raw: text, At: at})
		}
		at += 1 + strings.Count(raw, "\n")
		body = strings.TrimPrefix(body[end:], "\n")
	}
	return lines
}
