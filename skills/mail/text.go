package mail

import (
	"bytes"
	"strings"

	"golang.org/x/net/html"

	"agentmesh/mesh"
	"agentmesh/skills/internal/quote"
)

// visible is text as quote.Visible shows it, cut after most bytes, with no
// blank lines around it and at most one between others.
func visible(s string, most int) string {
	var out []string
	blank := true // so that none comes first
	for line := range strings.SplitSeq(quote.Visible(mesh.Clip(s, most)), "\n") {
		line = strings.TrimRight(line, " \t\u00a0")
		if line != "" || !blank {
			out = append(out, line)
		}
		blank = line == ""
	}
	return strings.TrimRight(strings.Join(out, "\n"), "\n")
}

// oneLine is visible text as one line.
func oneLine(s string) string { return quote.Line(mesh.Clip(s, 4*maxLine)) }

// htmlText is the text of a page as people would read it, roughly: without
// markup, scripts, styles and comments.
func htmlText(page []byte) string {
	z := html.NewTokenizer(bytes.NewReader(page))
	z.SetMaxBuf(len(page) + 1)
	var b strings.Builder
	hidden := "" // the element that is being skipped
	for {
		kind := z.Next()
		if kind == html.ErrorToken {
			return b.String() // the end, as its input is in memory
		}
		tag, _ := z.TagName()
		name := string(tag)
		switch {
		case kind == html.EndTagToken && name == hidden:
			hidden = ""
		case hidden != "":
		case kind == html.StartTagToken && (name == "script" || name == "style" || name == "title" || name == "template"):
			hidden = name
		case kind == html.TextToken:
			text := string(z.Text())
			b.WriteString(strings.NewReplacer("\r", " ", "\n", " ").Replace(html.UnescapeString(text)))
		case breaks(name):
			b.WriteByte('\n')
		}
	}
}

func breaks(tag string) bool {
	switch tag {
	case "br", "p", "div", "tr", "li", "ul", "ol", "table", "h1", "h2", "h3", "h4", "h5", "h6", "blockquote", "pre", "hr":
		return true
	}
	return false
}
