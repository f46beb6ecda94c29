package knowledge

import (
	"cmp"
	"context"
	"errors"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"agentmesh/mesh"
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

// hidden in the front matter of a page says that it is not for searching.
var hidden = regexp.MustCompile(`(?mi)^search:[ \t]*["']?(false|no|off)["']?[ \t]*(#.*)?$`)

// readText cuts a document at its markdown headings. Headings in code blocks are
// text. The title is the first heading of level one, else the file's name.
func readText(_ context.Context, _ *Index, file string, data []byte) (*document, error) {
	if !utf8.Valid(data) {
		return nil, errors.New("is not UTF-8 text; convert it")
	}
	text := strings.NewReplacer("\r\n", "\n", "\r", "\n", "\x00", "").Replace(strings.TrimPrefix(string(data), "\ufeff"))
	s := splitter{markdown: !strings.EqualFold(path.Ext(file), ".txt")}
	lines := strings.Split(text, "\n")
	from := 0
	if s.markdown && rule(lines[0]) { // YAML front matter is not text
		if end := slices.IndexFunc(lines[1:], rule); end >= 0 {
			from = end + 2
		}
	}
	if hidden.MatchString(strings.Join(lines[:from], "\n")) {
		return nil, nil
	}
	for i, line := range lines[from:] {
		s.take(from+i+1, line)
	}
	return s.document(file), nil
}

func rule(line string) bool { return strings.TrimRight(line, " \t") == "---" }

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
	text = mesh.Clip(text, maxTitle)
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

// document ends the sections, as those of the file.
func (s *splitter) document(file string) *document {
	s.end()
	return &document{title: cmp.Or(s.title, strings.TrimSuffix(path.Base(file), path.Ext(file))), sections: s.done}
}

func (s *splitter) end() {
	s.now.body = strings.Trim(s.body.String(), "\n")
	s.body.Reset()
	if strings.TrimSpace(s.now.body) != "" {
		s.done = append(s.done, s.now)
	}
	s.now = section{}
}
