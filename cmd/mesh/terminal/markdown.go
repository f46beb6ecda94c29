package terminal

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Styles.
const (
	bold      = "1"
	faint     = "2"
	italic    = "3"
	underline = "4"
	code      = "36"
	named     = "1;36"
	good      = "32"
	bad       = "31"
	asking    = "33"
)

// maxInline bounds the lines in which emphasis is looked for, in bytes: that
// takes quadratic time at worst.
const maxInline = 16 << 10

// A markdown renders Markdown line by line, as lines are finished: what a line
// means depends only on those before it. Without color it only wraps.
type markdown struct {
	color  bool
	fenced string // the fence that the text is in, or ""
}

var (
	headingLine = regexp.MustCompile(`^ {0,3}#{1,6} +`)
	itemLine    = regexp.MustCompile(`^(\s*)([-*+]|\d{1,9}[.)]) +`)
	quoteLine   = regexp.MustCompile(`^ {0,3}> ?`)
	fenceLine   = regexp.MustCompile("^ {0,3}(```+|~~~+)")
	ruleLine    = regexp.MustCompile(`^ {0,3}(-\s*-\s*-[\s-]*|\*\s*\*\s*\*[\s*]*|_\s*_\s*_[\s_]*)$`)
)

// line returns the rows of a finished line that an agent said. lead stands
// before it in its row, as who says it.
func (m *markdown) line(lead []span, text string, width int) []string {
	if f := fenceLine.FindStringSubmatch(text); f != nil && (m.fenced == "" || strings.HasPrefix(f[1], m.fenced)) {
		if m.fenced == "" {
			m.fenced = f[1]
		} else {
			m.fenced = ""
		}
		return m.unwrapped(lead, faint, text)
	}
	switch {
	case m.fenced != "":
		return m.unwrapped(lead, code, text)
	case !m.color:
		return wrap(append(lead, span{"", text}), width, "")
	case strings.HasPrefix(text, "|"): // a table is aligned as it is
		return m.unwrapped(lead, "", text)
	case ruleLine.MatchString(text):
		return wrap(append(lead, span{faint, strings.Repeat("─", min(width, 40))}), width, "")
	}
	if at := headingLine.FindString(text); at != "" {
		return wrap(append(lead, inline(bold, text[len(at):])...), width, "")
	}
	if at := quoteLine.FindString(text); at != "" {
		return wrap(append(append(lead, span{faint, "│ "}), inline(faint, text[len(at):])...), width, "│ ")
	}
	if at := itemLine.FindStringSubmatch(text); at != nil {
		mark := at[2]
		if strings.ContainsAny(mark, "-*+") {
			mark = "•"
		}
		head := at[1] + mark + " "
		return wrap(append(append(lead, span{"", head}), inline("", text[len(at[0]):])...), width, strings.Repeat(" ", utf8.RuneCountInString(head)))
	}
	return wrap(append(lead, inline("", text)...), width, "")
}

// unwrapped leaves it to the terminal to break the line, so that it is copied
// as it was written.
func (m *markdown) unwrapped(lead []span, style, text string) []string {
	if !m.color {
		style = ""
	}
	var row strings.Builder
	for _, s := range append(lead, span{style, text}) {
		row.WriteString(styled(s.style, s.text))
	}
	return []string{row.String()}
}

// inline finds emphasis, code and links in a text that has the style already.
func inline(style, text string) []span {
	if len(text) > maxInline {
		return []span{{style, text}}
	}
	var all []span
	plain := 0 // where what is not told yet begins
	tell := func(upTo int) {
		if plain < upTo {
			all = append(all, span{style, text[plain:upTo]})
		}
	}
	for i := 0; i < len(text); {
		spans, n := marked(style, text, i)
		if n == 0 {
			i++
			continue
		}
		tell(i)
		all = append(all, spans...)
		i += n
		plain = i
	}
	tell(len(text))
	return all
}

// marked returns what the mark at text[i:] begins, and how many bytes that is;
// 0 where there is none.
func marked(style, text string, i int) ([]span, int) {
	rest := text[i:]
	switch rest[0] {
	case '\\':
		if len(rest) > 1 && strings.ContainsRune("\\`*_[]#-", rune(rest[1])) {
			return []span{{style, rest[1:2]}}, 2
		}
	case '`':
		mark := rest[:len(rest)-len(strings.TrimLeft(rest, "`"))]
		if n := strings.Index(rest[len(mark):], mark); n > 0 {
			return []span{{join(style, code), rest[len(mark) : len(mark)+n]}}, n + 2*len(mark)
		}
		return []span{{style, mark}}, len(mark)
	case '*', '_':
		return emphasis(style, text, i)
	case '[':
		label, target, ok := strings.Cut(rest[1:], "](")
		stop := strings.IndexByte(target, ')')
		if ok && stop > 0 && !strings.ContainsAny(label, "[]") && !strings.Contains(target[:stop], " ") {
			return []span{{join(style, underline), label}, {style, " (" + target[:stop] + ")"}}, len(label) + stop + 4
		}
	}
	return nil, 0
}

// emphasis returns what is emphasised at text[i:].
func emphasis(style, text string, i int) ([]span, int) {
	mark, with := text[i:i+1], italic
	switch {
	case strings.HasPrefix(text[i:], "***"):
		mark, with = "***", bold+";"+italic
	case strings.HasPrefix(text[i+1:], mark):
		mark, with = text[i:i+2], bold
	}
	before, _ := utf8.DecodeLastRuneInString(text[:i])
	body := text[i+len(mark):]
	first, _ := utf8.DecodeRuneInString(body)
	if body == "" || unicode.IsSpace(first) || isWord(before) && mark[0] == '_' {
		return nil, 0
	}
	for from := 1; from < len(body); {
		n := strings.Index(body[from:], mark)
		if n < 0 {
			return nil, 0
		}
		n += from
		last, _ := utf8.DecodeLastRuneInString(body[:n])
		after, _ := utf8.DecodeRuneInString(body[n+len(mark):])
		doubled := len(mark) == 1 && strings.HasPrefix(body[n+1:], mark) // it is the mark of something else
		if !unicode.IsSpace(last) && !doubled && !(isWord(after) && mark[0] == '_') {
			return inline(join(style, with), body[:n]), n + 2*len(mark)
		}
		from = n + len(mark)
		if doubled {
			from++
		}
	}
	return nil, 0
}

func isWord(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }

// join is both styles.
func join(a, b string) string {
	if a == "" {
		return b
	}
	return a + ";" + b
}

// noteStyle is how a line is shown that nobody said, by how it begins.
func noteStyle(line string) string {
	first, _ := utf8.DecodeRuneInString(strings.TrimLeft(line, " "))
	switch first {
	case '✓':
		return good
	case '✗':
		return bad
	case '!', '?':
		return asking
	case '·', '→', '←', '■':
		return faint
	}
	return ""
}
