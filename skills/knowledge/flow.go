package knowledge

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// block matches lines of markdown that do not go on the line before them: items of lists, rows
// of tables, headings, quotes, rules, code, markup, and definitions of links.
var block = regexp.MustCompile(`^(?: {0,3}(?:[-*+][ \t]|\d{1,9}[.)][ \t]|#{1,6}(?:[ \t]|$)|>|<|\[[^\]]+\]:|[-=*_]{3,}[ \t]*$|\|)| {4,}|\t)`)

// flow joins the lines of paragraphs and of items of lists, so that whoever shows the text decides
// where lines end. Code, tables and lines that end on purpose stay as they are.
func flow(text string) string {
	var out []string
	fence, joins := "", false // joins: the next line may go on the last one
	for line := range strings.SplitSeq(text, "\n") {
		bare := strings.TrimLeft(line, " \t")
		switch mark := fenceOf(bare); {
		case fence != "":
			if strings.HasPrefix(mark, fence) && strings.Trim(bare, fence[:1]+" \t") == "" {
				fence = ""
			}
			out, joins = append(out, line), false
		case mark != "":
			out, fence, joins = append(out, line), mark, false
		case joins && bare != "" && continues(line, bare, out[len(out)-1]):
			last := out[len(out)-1]
			out[len(out)-1] = last + between(last, bare) + strings.TrimRight(bare, "\t")
		default:
			table := strings.HasPrefix(bare, "|") || strings.HasPrefix(bare, "#")
			code := strings.HasPrefix(line, "    ") || strings.HasPrefix(line, "\t")
			out, joins = append(out, line), bare != "" && !table && !code
		}
		if joins = joins && !strings.HasSuffix(line, "  ") && !strings.HasSuffix(line, "\\"); joins {
			out[len(out)-1] = strings.TrimRight(out[len(out)-1], " \t")
		}
	}
	return strings.Join(out, "\n")
}

// continues reports whether the line goes on the last one. What is indented goes on an item.
func continues(line, bare, last string) bool {
	if item := strings.TrimLeft(last, " "); line != bare && itemed.MatchString(item) {
		line = bare
	}
	return !block.MatchString(line)
}

var itemed = regexp.MustCompile(`^(?:[-*+]|\d{1,9}[.)])[ \t]`)

// fenceOf is the run that begins or ends a block of code, or "".
func fenceOf(line string) string {
	for _, c := range []string{"`", "~"} {
		if rest := strings.TrimLeft(line, c); len(line)-len(rest) >= 3 {
			return line[:len(line)-len(rest)]
		}
	}
	return ""
}

// between is what separates two lines when they are one: nothing in scripts without spaces.
func between(last, next string) string {
	a, _ := utf8.DecodeLastRuneInString(last)
	b, _ := utf8.DecodeRuneInString(next)
	if wide := func(r rune) bool {
		return unicode.In(r, unicode.Han, unicode.Hiragana, unicode.Katakana) || r >= 0x3000 && r < 0x3040 || r >= 0xff00 && r < 0xff60
	}; wide(a) && wide(b) {
		return ""
	}
	return " "
}
