package terminal

import (
	"bytes"
	"fmt"
	"io"
	"strings"

	"github.com/clipperhouse/displaywidth"
)

// The marks around what an agent said, in what is written. Text of others
// cannot hold them: whoever writes it drops control characters.
const (
	saidBegin = '\x0e'
	saidEnd   = '\x0f'
)

// Said marks text as said by an agent, which may be Markdown. What stands
// before it in the same line names who says it.
func Said(text string) string { return string(saidBegin) + text + string(saidEnd) }

// echoRows bounds how much of an entered text stays in the scrollback.
const echoRows = 12

// A screen draws. It is not safe for concurrent use.
type screen struct {
	out  io.Writer
	size func() (columns, rows int)
	md   markdown

	lead  string          // of the line that is still written: who says it
	open  strings.Builder // the rest of it
	said  bool            // what comes is said by an agent
	agent bool            // the open line was

	prompt, status string
	editor         editor
	notice         string // about the last key, until the next one
	laid           layout // the text that is typed, as it was drawn last

	drawn  []int // the columns of each row of the live area
	cursor place // in it
	width  int   // of the terminal when it was drawn
}

// write adds text above the live area.
func (s *screen) write(text string) {
	var done bytes.Buffer
	for text != "" {
		n := strings.IndexAny(text, "\n\x0e\x0f")
		if n < 0 {
			s.open.WriteString(text)
			break
		}
		s.open.WriteString(text[:n])
		switch text[n] {
		case '\n':
			s.finish(&done)
		case saidBegin:
			if !s.agent {
				s.lead = s.open.String()
				s.open.Reset()
			}
			s.said, s.agent = true, true
		case saidEnd:
			s.said = false
		}
		text = text[n+1:]
	}
	s.draw(done.Bytes())
}

// finish ends the open line and writes its rows.
func (s *screen) finish(done *bytes.Buffer) {
	width, _ := s.size()
	lead, text := shown(s.lead), shown(s.open.String())
	var rows []string
	switch {
	case s.agent:
		if lead != "" {
			s.md.fenced = "" // somebody begins to speak
		}
		rows = s.md.line([]span{{s.style(named), lead}}, text, width)
	case noteStyle(text) != "":
		rows = wrap([]span{{s.style(noteStyle(text)), text}}, width, "  ")
	default:
		rows = []string{text} // a table, or something to copy
	}
	for _, r := range rows {
		done.WriteString(r + "\r\n")
	}
	s.lead, s.agent = "", s.said
	s.open.Reset()
}

// style is the style where there is colour.
func (s *screen) style(style string) string {
	if !s.md.color {
		return ""
	}
	return style
}

// short is the prompt as far as it leaves room for a text.
func (s *screen) short(width int) string {
	return displaywidth.TruncateString(s.prompt, max(4, width*2/3), "… ")
}

// echo leaves what was entered above the live area.
func (s *screen) echo(text string) {
	width, _ := s.size()
	prompt := s.short(width)
	rows, _ := lay(prompt, clean(text), 0, width)
	rows[0] = styled(s.style(bold), prompt) + strings.TrimPrefix(rows[0], prompt)
	if more := len(rows) - echoRows; more > 1 {
		rows = append(rows[:echoRows], styled(s.style(faint), fmt.Sprintf("  … and %d lines more, %d characters in all", more, len([]rune(text)))))
	}
	s.draw([]byte(strings.Join(rows, "\r\n") + "\r\n"))
}

// draw writes what is finished, and the live area anew.
func (s *screen) draw(finished []byte) {
	var b bytes.Buffer
	s.toTop(&b)
	b.Write(finished)
	width, height := s.size()
	rows, cursor := s.live(width, height)
	s.drawn = s.drawn[:0]
	for i, r := range rows {
		if i > 0 {
			b.WriteString("\r\n")
		}
		b.WriteString(r.text)
		s.drawn = append(s.drawn, r.columns)
	}
	if n := len(rows) - 1 - cursor.row; n > 0 || cursor.column != s.drawn[len(rows)-1] {
		if n > 0 {
			fmt.Fprintf(&b, "\x1b[%dA", n)
		}
		b.WriteByte('\r')
		if cursor.column > 0 {
			fmt.Fprintf(&b, "\x1b[%dC", cursor.column)
		}
	}
	s.cursor, s.width = cursor, width
	_, _ = s.out.Write(b.Bytes()) // a terminal that is gone has nobody to tell
}

// erase takes the live area away; an open line is finished.
func (s *screen) erase() {
	var b bytes.Buffer
	s.toTop(&b)
	if s.open.Len() > 0 || s.lead != "" {
		s.finish(&b)
	}
	s.drawn, s.cursor = nil, place{}
	_, _ = s.out.Write(b.Bytes()) // as in draw
}

// toTop goes to the first row of the live area and clears from there. A
// terminal that became narrower has broken its rows.
func (s *screen) toTop(b *bytes.Buffer) {
	if s.drawn == nil {
		return
	}
	width, _ := s.size()
	up := s.cursor.row
	if width < s.width {
		up = s.cursor.column / width
		for _, columns := range s.drawn[:s.cursor.row] {
			up += max(1, (columns+width-1)/width)
		}
	}
	if up > 0 {
		fmt.Fprintf(b, "\x1b[%dA", up)
	}
	b.WriteString("\r\x1b[J")
}

// A row is a row of the live area.
type row struct {
	text    string
	columns int
}

// live lays the live area out: the end of the open line, the status, a notice,
// and what of the text that is typed is around the cursor.
func (s *screen) live(width, height int) ([]row, place) {
	prompt := s.short(width)
	typed, cursor := s.laid.of(prompt, s.editor.text, s.editor.at, width)
	limit := max(1, height/2)
	if len(typed) > limit {
		from := min(max(0, cursor.row-limit/2), len(typed)-limit)
		typed, cursor.row = typed[from:from+limit], cursor.row-from
	}
	var rows []row
	add := func(style, text string) {
		rows = append(rows, row{styled(s.style(style), text), displaywidth.String(text)})
	}
	if text := shown(s.seen(width * height * 4)); text != "" {
		open := wrap([]span{{"", text}}, width, "")
		for _, r := range open[max(0, len(open)-max(1, height-len(typed)-3)):] {
			add("", r)
		}
	}
	for _, line := range []string{s.status, s.notice} {
		if line != "" {
			add(faint, displaywidth.TruncateString(shown(line), width-1, "…"))
		}
	}
	cursor.row += len(rows)
	for i, r := range typed {
		n := displaywidth.String(r)
		if i == 0 && strings.HasPrefix(r, prompt) {
			r = styled(s.style(bold), prompt) + r[len(prompt):]
		}
		rows = append(rows, row{r, n})
	}
	return rows, cursor
}

// seen is the end of the open line, of about n bytes. How long the line is
// costs nothing: it is drawn for each piece of it.
func (s *screen) seen(n int) string {
	text := s.open.String()
	if len(text) < n {
		text = tail(s.lead, n-len(text)) + text
	}
	return tail(text, n)
}

// tail is the end of text, of about n bytes: more is not seen.
func tail(text string, n int) string {
	if len(text) <= n {
		return text
	}
	return strings.ToValidUTF8(text[len(text)-n:], "")
}
