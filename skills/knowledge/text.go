package knowledge

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"
)

// A section is the text between two headings.
type section struct {
	heading string // "Limits > Per caller"
	body    string
	line    int // of the heading, from 1
}

var heading = regexp.MustCompile(`^ {0,3}(#{1,6})(?:[ \t]+(.*?))?[ \t]*#*[ \t]*$`)

// maxSection is about how long a section gets, in bytes: a longer one goes on in
// another of the same heading, so that looking for an excerpt is quick.
const maxSection = 32 << 10

// split cuts a document at its markdown headings. Headings in code blocks are
// text. The title is the first heading of level one, else the file's name.
func split(file, text string) (title string, sections []section) {
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n", "\x00", "").Replace(strings.TrimPrefix(text, "\ufeff"))
	title = strings.TrimSuffix(path.Base(file), path.Ext(file))
	s := splitter{markdown: !strings.EqualFold(path.Ext(file), ".txt")}
	front := false
	for i, line := range strings.Split(text, "\n") {
		if s.markdown && strings.TrimRight(line, " \t") == "---" && (i == 0 || front) {
			front = !front // YAML front matter is not text
			continue
		}
		if !front {
			s.take(i+1, line)
		}
	}
	if front { // it was no front matter, but a rule in the first line
		s = splitter{markdown: s.markdown}
		for i, line := range strings.Split(text, "\n") {
			s.take(i+1, line)
		}
	}
	s.end()
	if s.title != "" {
		title = s.title
	}
	return title, s.done
}

type splitter struct {
	markdown bool
	title    string
	fence    string // what closes the code block that we are in
	trail    [7]string
	now      section
	body     strings.Builder // of now
	done     []section
}

func (s *splitter) take(number int, line string) {
	if s.now.line == 0 {
		s.now.line = number
	}
	if s.markdown {
		indented := strings.TrimLeft(line, " ")
		switch {
		case s.fence != "":
			if strings.HasPrefix(indented, s.fence) && strings.Trim(indented, s.fence[:1]+" \t") == "" {
				s.fence = ""
			}
		case strings.HasPrefix(indented, "```") || strings.HasPrefix(indented, "~~~"):
			s.fence = indented[:len(indented)-len(strings.TrimLeft(indented, indented[:1]))]
		default:
			if m := heading.FindStringSubmatch(line); m != nil {
				s.begin(number, len(m[1]), strings.TrimSpace(m[2]))
				return
			}
		}
	}
	s.body.WriteString(line + "\n")
	if n := s.body.Len(); n > maxSection && strings.TrimSpace(line) == "" || n > 2*maxSection {
		goesOn := section{heading: s.now.heading, line: number + 1}
		s.end()
		s.now = goesOn
	}
}

func (s *splitter) begin(number, level int, text string) {
	s.end()
	if level == 1 && s.title == "" {
		s.title = text
	}
	s.trail[level] = text
	clear(s.trail[level+1:])
	names := slices.DeleteFunc(slices.Clone(s.trail[2:]), func(h string) bool { return h == "" })
	if s.trail[1] != "" && s.trail[1] != s.title {
		names = slices.Insert(names, 0, s.trail[1])
	}
	s.now = section{heading: strings.Join(names, " > "), line: number}
}

func (s *splitter) end() {
	s.now.body = strings.Trim(s.body.String(), "\n")
	s.body.Reset()
	if strings.TrimSpace(s.now.body) != "" {
		s.done = append(s.done, s.now)
	}
	s.now = section{}
}

// maxWords bounds how many words of a query count.
const maxWords = 32

// queryWords returns the words of the query, in lower case and each once.
// Those that only make a question of it are dropped unless nothing else is
// there.
func queryWords(query string) []string {
	var all, telling []string
	for _, w := range strings.FieldsFunc(strings.ToLower(query), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) && !unicode.IsMark(r) }) {
		if slices.Contains(all, w) || len(all) == 4*maxWords {
			continue
		}
		all = append(all, w)
		if !slices.Contains(asking, w) {
			telling = append(telling, w)
		}
	}
	if len(telling) > 0 {
		all = telling
	}
	return all[:min(len(all), maxWords)]
}

var asking = strings.Fields(`a an and any are at be by can could did do does for from give has have how i if in into is it
	its let me my of on or our please s shall should show so some t tell than that the their them then there these they this
	to us use was we were what when where which who whose why will with would you your`)

// match returns the FTS5 expression for any of the words. A quoted word is
// text to FTS5, whatever it contains.
func match(words []string) string {
	return `"` + strings.Join(words, `" OR "`) + `"`
}

// maxExcerpt bounds an excerpt, in bytes.
const maxExcerpt = 1200

// excerpt returns the run of whole paragraphs that has the most of the words
// and fits; where the one that has them does not fit, of its lines, and of a
// line the beginning.
func excerpt(body string, words []string) string {
	if len(body) <= maxExcerpt {
		return body
	}
	text := body
	for _, between := range []string{"\n\n", "\n"} {
		if text = densest(strings.Split(text, between), between, words); len(text) <= maxExcerpt {
			return text
		}
	}
	return strings.ToValidUTF8(text[:maxExcerpt], "") + " …"
}

// densest returns the run of pieces that has the most of the words and fits,
// one piece at least.
func densest(pieces []string, between string, words []string) string {
	best, most := "", -1
	for i := range pieces {
		run := strings.Join(pieces[i:i+fitting(pieces[i:], len(between))], between)
		hits, low := 0, strings.ToLower(run)
		for _, w := range words {
			hits += min(strings.Count(low, stem(w)), 3)
		}
		if hits > most {
			best, most = run, hits
		}
	}
	return best
}

// fitting returns how many of the first pieces fit in an excerpt with so many
// bytes between them, but one at least.
func fitting(pieces []string, between int) int {
	size := len(pieces[0])
	n := 1
	for n < len(pieces) && size+between+len(pieces[n]) <= maxExcerpt {
		size += between + len(pieces[n])
		n++
	}
	return n
}

// stem cuts the usual English endings, for counting only.
func stem(w string) string {
	for _, end := range []string{"ing", "ed", "es", "s", "e"} {
		if cut, ok := strings.CutSuffix(w, end); ok && len(cut) >= 4 {
			return cut
		}
	}
	return w
}
