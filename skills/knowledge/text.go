package knowledge

import (
	"path"
	"regexp"
	"slices"
	"strings"
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
		case strings.HasPrefix(indented, "#"): // few lines do, and the pattern is slow to see it
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
