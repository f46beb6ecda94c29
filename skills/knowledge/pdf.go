package knowledge

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"os/exec"
	"path"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"time"

	"github.com/ledongthuc/pdf"
)

// What reading a PDF file may take.
const (
	pdfTime   = 30 * time.Second
	pdfMemory = 256 << 20 // bytes of the process
	pdfStack  = 64 << 20  // bytes
	pdfPages  = 5000
)

var errNoPDF = errors.New("is no PDF file that can be read; print it into a PDF file anew, or save it in another format")

// errNoProcess says nothing of the file.
var errNoProcess = errors.New("is a PDF file, for which no process could be started; it is tried again")

// pdfText is what the process says of a file.
type pdfText struct {
	Title string   `json:"title"`
	Pages []string `json:"pages"`
}

// readPDF has a process read the file: what a parser takes for a file that was made to harm it
// cannot be bounded from within the process that it runs in. The process knows nothing but the file.
func readPDF(ctx context.Context, ix *Index, file string, data []byte) (*document, error) {
	if len(ix.opts.PDF) == 0 {
		return nil, errors.New("is a PDF file, which is not read here; save it in another format")
	}
	ctx, cancel := context.WithTimeout(ctx, pdfTime)
	defer cancel()
	cmd := exec.CommandContext(ctx, ix.opts.PDF[0], ix.opts.PDF[1:]...) //nolint:gosec // the program itself
	cmd.Env, cmd.Stdin, cmd.WaitDelay = []string{}, bytes.NewReader(data), time.Second
	out := capped{most: 2*maxText + maxText/2} // JSON escapes some
	cmd.Stdout = &out
	var said pdfText
	err := cmd.Run()
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return nil, fmt.Errorf("takes longer to read than %v; split it, or save it in another format", pdfTime)
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case out.full:
		return nil, errBomb
	case err != nil && !errors.As(err, new(*exec.ExitError)):
		return nil, fmt.Errorf("%w: %w", errNoProcess, err)
	case err != nil || json.Unmarshal(out.Bytes(), &said) != nil:
		return nil, errNoPDF
	}
	title := strings.TrimSpace(said.Title)
	if title == "" {
		title = strings.TrimSuffix(path.Base(file), path.Ext(file))
	}
	doc := &document{title: title, paged: true}
	for i, text := range said.Pages {
		if strings.TrimSpace(text) != "" {
			doc.sections = append(doc.sections, section{body: text, line: i + 1})
		}
	}
	if len(doc.sections) == 0 {
		return nil, errors.New("has no text, as if it were scanned; have its text recognised")
	}
	return doc, nil
}

// capped is a buffer that takes so much and fails then, which ends who writes.
type capped struct {
	bytes.Buffer
	most int
	full bool
}

func (c *capped) Write(b []byte) (int, error) {
	if c.full = c.full || c.Len()+len(b) > c.most; c.full {
		return 0, io.ErrShortWrite
	}
	return c.Buffer.Write(b)
}

// ReadPDF writes the title and the pages of a PDF file as JSON. It is for a process of its own,
// which it ends when the file takes too much memory or time, and which may die of it.
func ReadPDF(in io.Reader, out io.Writer) error {
	debug.SetMaxStack(pdfStack)
	go bound() // until the process ends
	data, err := io.ReadAll(io.LimitReader(in, maxPaper))
	if err != nil {
		return err
	}
	text, err := pagesOf(data)
	if err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(text)
}

// bound ends the process at its limits.
func bound() {
	sample := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}, {Name: "/memory/classes/heap/stacks:bytes"}}
	for end := time.Now().Add(pdfTime); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if metrics.Read(sample); sample[0].Value.Uint64()+sample[1].Value.Uint64() > pdfMemory {
			break
		}
	}
	os.Exit(exitBound)
}

// exitBound is how the process ends at its limits.
const exitBound = 3

// pagesOf is the text of each page. The parser panics at what it does not understand; the pages
// that it does understand count.
func pagesOf(data []byte) (text pdfText, err error) {
	defer func() {
		if r := recover(); r != nil {
			err = fmt.Errorf("%w: %v", errNoPDF, r)
		}
	}()
	r, err := pdf.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		return text, err
	}
	text.Title = r.Trailer().Key("Info").Key("Title").Text()
	size, good := 0, false
	for i := range min(r.NumPage(), pdfPages) {
		page, ok := pageOf(r, i+1)
		if size += len(page); size > maxText {
			return text, errBomb
		}
		text.Pages, good = append(text.Pages, page), good || ok
	}
	if !good {
		return text, errNoPDF
	}
	return text, nil
}

func pageOf(r *pdf.Reader, number int) (text string, ok bool) {
	defer func() { ok = recover() == nil }()
	return lined(r.Page(number).Content().Text), true
}

// lined puts glyphs together: a new line where one stands higher or lower than the one before
// it, a paragraph where that is more than a line, and a space where there is room for one.
func lined(glyphs []pdf.Text) string {
	var b strings.Builder
	for i, g := range glyphs {
		if i > 0 {
			last := glyphs[i-1]
			size := max(math.Abs(g.FontSize), math.Abs(last.FontSize), 1)
			switch down := math.Abs(last.Y - g.Y); {
			case down > 1.9*size:
				b.WriteString("\n\n")
			case down > 0.5*size:
				b.WriteString("\n")
			case g.X-last.X-last.W > 0.18*size && last.W > 0 && last.S != " " && g.S != " ":
				b.WriteString(" ")
			}
		}
		b.WriteString(g.S)
	}
	return b.String()
}
