package command

import (
	"strings"
	"unicode"
	"unicode/utf8"
)

// A word is one word of a command.
type word struct {
	text string
	// bare says that it begins outside quotes, and plain that it has none.
	bare, plain bool
}

// scan reads the words of the first command in text and returns where it ends:
// at a line end outside quotes, or with the text. Where a quote is not closed
// it ends with the text if the quote may span lines, so that no line that was
// meant as part of a value is taken for a command.
func scan(text string) (words []word, end int, bad *Error) {
	s := scanner{text: text}
	for s.at < len(text) && text[s.at] != '\n' {
		if c := text[s.at]; c == ' ' || c == '\t' {
			s.at++
			continue
		}
		words = append(words, s.word())
	}
	return words, s.at, s.bad
}

type scanner struct {
	text string
	at   int
	line int    // where the line ends that was last looked at
	bad  *Error // the first
}

// word reads one word, which begins here.
func (s *scanner) word() word {
	begin, quoted := s.at, false
	var b strings.Builder
	var last rune // what was read last, if outside quotes
	for s.at < len(s.text) {
		r, size := utf8.DecodeRuneInString(s.text[s.at:])
		apostrophe := r == '\'' && (unicode.IsLetter(last) || unicode.IsDigit(last))
		switch {
		case r == ' ' || r == '\t' || r == '\n':
			return s.made(begin, b.String(), quoted)
		case (r == '"' || r == '\'') && !apostrophe:
			b.WriteString(s.quoted(s.at == begin || last == '='))
			last, quoted = 0, true
		default:
			b.WriteString(s.text[s.at : s.at+size])
			last = r
			s.at += size
		}
	}
	return s.made(begin, b.String(), quoted)
}

func (s *scanner) made(begin int, text string, quoted bool) word {
	first := s.text[begin]
	return word{text: text, bare: first != '"' && first != '\'', plain: !quoted}
}

// quoted reads what is in quotes, of which the first is here. Only a quote that
// begins a value may span lines, and only if its word ends with it: in all
// other cases one was probably forgotten, and what is between the two would
// silently become part of a value.
func (s *scanner) quoted(spans bool) string {
	mark, rest := s.text[s.at:s.at+1], s.text[s.at+1:]
	if !spans {
		rest = s.text[s.at+1 : s.lineEnd()]
	}
	n := strings.Index(rest, mark)
	if n < 0 {
		s.fail("the %s before %s is opened and never closed. Close it; a value that contains ``` needs a block that opens and closes with more backticks",
			name(mark), excerpt(rest))
		s.at += 1 + len(rest)
		return rest
	}
	s.at += n + 2
	value := rest[:n]
	if strings.Contains(value, "\n") && s.at < len(s.text) && !strings.ContainsRune(" \t\n", rune(s.text[s.at])) {
		s.fail("the %s before %s is closed only in a later line, in the middle of a word. Put a closing one at the end of its value", name(mark), excerpt(value))
	}
	return value
}

// lineEnd returns where the line ends that is read now. It looks once for each
// line, however many quotes that has.
func (s *scanner) lineEnd() int {
	if s.line <= s.at {
		s.line = len(s.text)
		if n := strings.IndexByte(s.text[s.at:], '\n'); n >= 0 {
			s.line = s.at + n
		}
	}
	return s.line
}

func name(mark string) string {
	if mark == "'" {
		return "single quote (')"
	}
	return `double quote (")`
}

func (s *scanner) fail(format string, args ...any) {
	if s.bad == nil {
		s.bad = refuse(KindTokenize, format, args...)
	}
}
