package knowledge

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
)

// Of a DOCX file:
const (
	maxXML   = 32 << 20 // bytes of a part, unpacked: what is larger is a bomb
	maxDepth = 200      // elements within each other
)

var (
	errNoDOCX = errors.New("is no DOCX file that can be read; save it again")
	errBomb   = fmt.Errorf("is larger than the %d MiB that are read of a document; split it", maxText>>20)
)

// paper reads the paragraphs of a DOCX document. The line of a section is the number of the
// paragraph.
type paper struct {
	splitter
	levels map[string]int // of headings, by style
	number int
	size   int
	text   strings.Builder
	style  string
	item   bool
	row    []string
	state  int
	err    error
}

func readDOCX(ctx context.Context, _ *Index, file string, data []byte) (*document, error) {
	z, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return nil, errNoDOCX
	}
	p := paper{levels: map[string]int{}}
	style := ""
	// A document without styles has none.
	if err := elements(ctx, z, "word/styles.xml", func(e xml.StartElement) error {
		switch e.Name.Local {
		case "style":
			style = attr(e, "styleId")
		case "name":
			name := strings.ToLower(attr(e, "val"))
			level, err := strconv.Atoi(strings.TrimPrefix(name, "heading "))
			if name == "title" {
				level, err = 1, nil
			}
			if err == nil && level >= 1 && level <= 6 && len(p.levels) < 1000 {
				p.levels[style] = level
			}
		}
		return nil
	}, nil, nil); err != nil && !errors.Is(err, errMissing) {
		return nil, err
	}
	if err := elements(ctx, z, "word/document.xml", p.open, p.shut, p.say); err != nil {
		return nil, err
	}
	return p.document(file), nil
}

var errMissing = fmt.Errorf("%w (a part is missing)", errNoDOCX)

// elements calls open, shut and say, those that are not nil, with what a part of the file has.
func elements(ctx context.Context, z *zip.Reader, part string, open func(xml.StartElement) error, shut func(name string), say func(text []byte) error) (err error) {
	at := slices.IndexFunc(z.File, func(f *zip.File) bool { return f.Name == part })
	switch {
	case at < 0:
		return errMissing
	case z.File[at].UncompressedSize64 > maxXML: // where that is a lie, reading fails
		return errBomb
	}
	f, err := z.File[at].Open()
	if err != nil {
		return errNoDOCX
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	d := xml.NewDecoder(f)
	for depth := 0; ; {
		t, err := d.RawToken()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case depth > maxDepth:
			return errBomb
		case err != nil:
			return errNoDOCX
		case ctx.Err() != nil:
			return ctx.Err()
		}
		switch t := t.(type) {
		case xml.StartElement:
			depth++
			err = open(t)
		case xml.EndElement:
			if depth--; shut != nil {
				shut(t.Name.Local)
			}
		case xml.CharData:
			if say != nil {
				err = say(t)
			}
		}
		if err != nil {
			return err
		}
	}
}

func attr(e xml.StartElement, name string) string {
	for _, a := range e.Attr {
		if a.Name.Local == name {
			return a.Value
		}
	}
	return ""
}

func (p *paper) open(e xml.StartElement) error {
	switch e.Name.Local {
	case "p":
		p.number++
		p.style, p.item = "", false
	case "pStyle":
		p.style = attr(e, "val")
	case "numPr":
		p.item = true
	case "tab":
		return p.add("\t")
	case "br", "cr":
		return p.add("\n")
	case "t":
		p.state |= saying
	case "tr":
		p.state |= rowOpen
	}
	return nil
}

// States of a paper.
const (
	rowOpen = 1 << iota
	saying
)

func (p *paper) say(text []byte) error {
	if p.state&saying == 0 {
		return nil
	}
	return p.add(string(text))
}

func (p *paper) add(text string) error {
	if p.size += len(text); p.size > maxText {
		return errBomb
	}
	p.text.WriteString(text)
	return nil
}

func (p *paper) shut(name string) {
	switch name {
	case "t":
		p.state &^= saying
	case "p":
		text := strings.TrimSpace(p.text.String())
		p.text.Reset()
		switch level := p.levels[p.style]; {
		case text == "":
		case p.state&rowOpen != 0:
			p.row = append(p.row, strings.Join(strings.Fields(text), " "))
		case level > 0:
			p.begin(p.number, level, strings.Join(strings.Fields(text), " "))
		case p.item:
			p.take(p.number, "- "+text)
		default:
			for line := range strings.SplitSeq(text, "\n") {
				p.take(p.number, line)
			}
			p.take(p.number, "")
		}
	case "tr":
		if len(p.row) > 0 {
			p.take(p.number, "| "+strings.Join(p.row, " | ")+" |")
		}
		p.row, p.state = nil, p.state&^rowOpen
	}
}
