package knowledge

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"

	"golang.org/x/net/html"
	"golang.org/x/net/html/atom"
	"golang.org/x/net/html/charset"
)

// noise are elements of which nothing is text of the page.
var noise = map[atom.Atom]bool{
	atom.Script: true, atom.Style: true, atom.Noscript: true, atom.Template: true, atom.Nav: true, atom.Header: true, atom.Footer: true,
	atom.Aside: true, atom.Svg: true, atom.Iframe: true, atom.Select: true, atom.Button: true, atom.Textarea: true,
}

// blocks are elements at which a paragraph begins and ends.
var blocks = map[atom.Atom]bool{
	atom.P: true, atom.Div: true, atom.Ul: true, atom.Ol: true, atom.Table: true, atom.Section: true, atom.Article: true, atom.Main: true,
	atom.Blockquote: true, atom.Dl: true, atom.Dt: true, atom.Dd: true, atom.Figure: true, atom.Form: true, atom.Hr: true, atom.Body: true,
}

// page reads an HTML document as it comes, without a tree of it: elements may be closed in any
// order, or never.
type page struct {
	splitter
	line  int
	quiet []atom.Atom // elements of noise that are open
	text  strings.Builder
	pre   bool
	hides bool
}

// readHTML cuts a page at its headings. The title is that of its head, else the first heading.
func readHTML(_ context.Context, _ *Index, file string, data []byte) (*document, error) {
	in, err := charset.NewReader(bytes.NewReader(data), "")
	if err != nil {
		return nil, errors.New("is in an encoding that is not known; save it as UTF-8")
	}
	p := page{line: 1}
	z := html.NewTokenizer(io.LimitReader(in, maxText))
	z.SetMaxBuf(maxFile)
	for {
		kind := z.Next()
		if kind == html.ErrorToken {
			break
		}
		lines := bytes.Count(z.Raw(), []byte("\n"))
		p.token(z.Token())
		p.line += lines
	}
	if err := z.Err(); !errors.Is(err, io.EOF) {
		return nil, errors.New("is no HTML that can be read; save it again")
	}
	if p.hides {
		return nil, nil
	}
	p.paragraph()
	doc := p.document(file)
	if len(doc.sections) == 0 {
		return nil, errors.New("has no text outside of its menus and scripts, or not all of its elements end; mend it, or save it in another format")
	}
	return doc, nil
}

// maxQuiet is how deep elements nest that are left out; of deeper ones the end is not looked for.
const maxQuiet = 200

func (p *page) token(t html.Token) {
	switch {
	case t.Type == html.TextToken:
		p.say(t.Data)
	case t.Type == html.StartTagToken && noise[t.DataAtom]:
		if len(p.quiet) < maxQuiet {
			p.quiet = append(p.quiet, t.DataAtom)
		}
	case len(p.quiet) > 0:
		for n := len(p.quiet) - 1; n >= 0 && t.Type == html.EndTagToken; n-- {
			if p.quiet[n] == t.DataAtom { // what is open within it ends with it
				p.quiet = p.quiet[:n]
				break
			}
		}
	case t.Type == html.StartTagToken || t.Type == html.SelfClosingTagToken:
		p.open(t)
	case t.Type == html.EndTagToken:
		p.shut(t.DataAtom)
	}
}

func (p *page) say(text string) {
	if len(p.quiet) > 0 {
		return
	}
	if p.pre {
		p.text.WriteString(text)
		return
	}
	words := strings.Join(strings.Fields(text), " ")
	if text != "" && strings.TrimLeft(text, " \t\r\n") != text {
		words = " " + words
	}
	if words != " " && strings.TrimRight(text, " \t\r\n") != text {
		words += " "
	}
	p.text.WriteString(words)
}

func (p *page) open(t html.Token) {
	switch a := t.DataAtom; {
	case headingLevel(a) > 0:
		p.paragraph()
	case a == atom.Title:
		p.paragraph()
	case a == atom.Meta:
		p.meta(t)
	case a == atom.Br:
		p.text.WriteString("\n")
	case a == atom.Li:
		p.paragraph()
		p.text.WriteString("- ")
	case a == atom.Tr:
		p.paragraph()
		p.text.WriteString("| ")
	case a == atom.Pre:
		p.paragraph()
		p.pre = true
	case blocks[a]:
		p.paragraph()
	}
}

func (p *page) meta(t html.Token) {
	name, content := "", ""
	for _, a := range t.Attr {
		switch a.Key {
		case "name":
			name = strings.ToLower(a.Val)
		case "content":
			content = strings.ToLower(a.Val)
		}
	}
	p.hides = p.hides || name == "robots" && strings.Contains(content, "noindex") || name == "search" && content == "false"
}

func (p *page) shut(a atom.Atom) {
	switch {
	case a == atom.Title:
		p.title = strings.Join(strings.Fields(p.text.String()), " ")
		p.text.Reset()
	case headingLevel(a) > 0:
		title := strings.Join(strings.Fields(p.text.String()), " ")
		p.text.Reset()
		if title != "" {
			p.begin(p.line, headingLevel(a), title)
		}
	case a == atom.Td || a == atom.Th:
		p.text.WriteString(" | ")
	case a == atom.Pre, a == atom.Li, a == atom.Tr, blocks[a]:
		p.paragraph()
		p.pre = p.pre && a != atom.Pre
	}
}

// paragraph ends the one that was open.
func (p *page) paragraph() {
	text := strings.Trim(p.text.String(), "\n")
	p.text.Reset()
	if text = strings.TrimRight(text, " \t"); strings.Trim(text, "-| \n\t") == "" {
		return
	}
	row := strings.HasPrefix(text, "- ") || strings.HasPrefix(text, "| ")
	switch {
	case p.pre:
		text = "```\n" + text + "\n```"
	case !row:
		text = strings.TrimLeft(text, " ")
	}
	for line := range strings.SplitSeq(text, "\n") {
		p.take(p.line, line)
	}
	if !row {
		p.take(p.line, "")
	}
}

// headingLevel is 1 to 6, or 0 for other elements.
func headingLevel(a atom.Atom) int {
	for i, h := range []atom.Atom{atom.H1, atom.H2, atom.H3, atom.H4, atom.H5, atom.H6} {
		if a == h {
			return i + 1
		}
	}
	return 0
}
