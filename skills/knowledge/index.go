// Package knowledge finds passages in a folder of documents.
//
// An [Index] is made of the folder's markdown and text files, cut into sections at their
// headings, and kept in memory. Any text is a legal query: it is words, never syntax.
// Searches may run concurrently, but not with Close. The index does not change once it is
// made: a changed folder is opened again.
//
// It does not answer questions. It returns passages with their sources, and
// whoever asked composes the answer.
package knowledge

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"unicode/utf8"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/skills/internal/textindex"
)

// Bounds of what is indexed.
const (
	maxFile  = 2 << 20 // bytes of one document
	maxFiles = 50_000
	batch    = 1000 // sections that are indexed together
)

// An Index is a folder of documents. It is made when it is first asked for, and all
// searches wait until it is.
type Index struct {
	fsys      fs.FS
	begin     sync.Once
	building  sync.WaitGroup
	cancel    context.CancelFunc // of building
	ctx       context.Context    //nolint:containedctx // of building, for which nobody in particular waits
	built     chan struct{}      // closed after which the following does not change
	texts     *textindex.Index
	documents int
	sections  int
	problems  []skill.Problem
	err       error
}

// suffixes are those of documents.
var suffixes = []string{".md", ".markdown", ".txt"}

// Open returns the index of the folder's documents, without hidden files. Files that
// cannot be used are told by Problems and do not hinder the others. The error
// is Unavailable if the folder cannot be read at all. The caller closes the
// Index.
func Open(fsys fs.FS) (*Index, error) {
	if _, err := fs.ReadDir(fsys, "."); err != nil {
		return nil, mesh.Errorf(mesh.Unavailable, "knowledge.Open", "The folder of documents cannot be read; check that it exists and its permissions: %w", err)
	}
	ix := &Index{fsys: fsys, built: make(chan struct{})}
	ix.ctx, ix.cancel = context.WithCancel(context.Background())
	return ix, nil
}

// Close gives the memory back. No search may be running.
func (ix *Index) Close() error {
	ix.cancel()
	ix.building.Wait()
	if ix.texts == nil {
		return nil
	}
	return mesh.Wrap("knowledge.Close", ix.texts.Close())
}

// Prepare begins to make the index, so that the first search waits for less. It does not
// wait.
func (ix *Index) Prepare() {
	ix.begin.Do(func() {
		ix.building.Go(func() {
			defer close(ix.built)
			ix.err = ix.build(ix.ctx)
		})
	})
}

// ready waits until the index is made.
func (ix *Index) ready(ctx context.Context) error {
	ix.Prepare()
	select {
	case <-ix.built:
		return ix.err
	case <-ctx.Done():
		return mesh.Wrap("knowledge.ready", ctx.Err())
	}
}

// Size returns how many documents and sections there are.
func (ix *Index) Size(ctx context.Context) (documents, sections int, err error) {
	err = ix.ready(ctx)
	return ix.documents, ix.sections, err
}

// Problems returns what was left out and why.
func (ix *Index) Problems(ctx context.Context) ([]skill.Problem, error) {
	err := ix.ready(ctx)
	return slices.Clone(ix.problems), err
}

func (ix *Index) build(ctx context.Context) (err error) {
	if ix.texts, err = textindex.New(ctx,
		textindex.Column{Name: "document", Weight: 4}, textindex.Column{Name: "section", Weight: 6}, textindex.Column{Name: "body", Weight: 1}); err != nil {
		return err
	}
	var docs []textindex.Doc
	flush := func() error {
		err := ix.texts.Apply(ctx, textindex.Changes{Put: docs})
		docs = docs[:0]
		return err
	}
	if err := fs.WalkDir(ix.fsys, ".", func(file string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			ix.skip(file, "cannot be read; check its permissions")
			if d != nil && d.IsDir() {
				return fs.SkipDir
			}
		case file != "." && strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return fs.SkipDir
			}
		case !d.IsDir() && slices.Contains(suffixes, strings.ToLower(path.Ext(file))):
			if docs = append(docs, ix.read(file)...); len(docs) >= batch {
				return flush()
			}
		}
		return ctx.Err()
	}); err != nil {
		return err
	}
	return flush()
}

func (ix *Index) skip(file, why string) {
	ix.problems = append(ix.problems, skill.Problem{Path: file, Detail: why})
}

// id is where a section is. It orders by path, then line.
func id(file string, line int) string { return fmt.Sprintf("%s\x00%09d", file, line) }

func place(id string) (file string, line int) {
	file, number, _ := strings.Cut(id, "\x00")
	line, _ = strconv.Atoi(number) // id made it
	return file, line
}

// read returns the sections of one file, or notes why there are none.
func (ix *Index) read(file string) []textindex.Doc {
	info, err := fs.Stat(ix.fsys, file)
	switch {
	case err != nil || !info.Mode().IsRegular():
		ix.skip(file, "is not a readable file; check its permissions")
		return nil
	case info.Size() > maxFile:
		ix.skip(file, "is too long to be indexed; split it")
		return nil
	case ix.documents == maxFiles:
		ix.skip(file, "is one document too many; index a smaller folder")
		return nil
	}
	data, err := fs.ReadFile(ix.fsys, file)
	if err != nil || !utf8.Valid(data) {
		ix.skip(file, "is not UTF-8 text; convert it")
		return nil
	}
	title, sections := split(file, string(data))
	docs := make([]textindex.Doc, len(sections))
	for i, s := range sections {
		docs[i] = textindex.Doc{ID: id(file, s.line), Texts: []string{title, s.heading, s.body}, Factor: 1}
	}
	ix.sections += len(sections)
	ix.documents++
	return docs
}

// A Passage is a section that matches a query.
type Passage struct {
	// Document is the document's title, and Section the headings that lead to
	// the section, as "Limits > Per caller", or "" above the first one.
	Document string
	Section  string
	// Path is the document's path in the folder and Line where the section
	// begins.
	Path string
	Line int
	// Text is the part of the section that matches best.
	Text string
	// Score is higher for better matches; it compares within one query only.
	Score float64
}

// Search returns at most limit passages that contain words of the query, best
// first. Words such as "how" and "the" do not count beside others. A query
// without any word finds nothing.
func (ix *Index) Search(ctx context.Context, query string, limit int) (found []Passage, err error) {
	const op = "knowledge.Search"
	words := textindex.Words(query)
	if len(words) == 0 {
		return nil, nil
	}
	if err := ix.ready(ctx); err != nil {
		return nil, mesh.Wrap(op, err)
	}
	hits, err := ix.texts.Search(ctx, textindex.Query{Words: words, Limit: limit})
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	for _, h := range hits {
		file, line := place(h.ID)
		found = append(found, Passage{
			Document: h.Texts[0], Section: h.Texts[1], Path: file, Line: line,
			Text: textindex.Excerpt(h.Texts[2], words), Score: h.Score,
		})
	}
	return found, nil
}
