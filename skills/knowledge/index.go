// Package knowledge finds passages in a folder of documents.
//
// An [Index] is made of the folder's documents (markdown, text, HTML, PDF, DOCX), cut
// into sections at their headings or pages, and kept in memory. Any text is a legal
// query: it is words, never syntax. Searches may run concurrently, but not with Close.
// An index of a folder on disk follows its files: searches go on over what it had until
// what has changed was read.
//
// A document is not believed. What it says comes out as the text and the title of a
// [Passage], and where it is from in fields that no text can fill; and what a file takes
// to read, in memory and time, is bounded.
//
// It does not answer questions. It returns passages with their sources, and
// whoever asked composes the answer.
package knowledge

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"io/fs"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/skills/internal/textindex"
)

// Options are what an Index can choose.
type Options struct {
	// Dir is the folder on disk, if its changes are to be followed.
	Dir string
	// Ignore are patterns of files and folders that are not searched, beside those in
	// the folder's file [IgnoreFile].
	Ignore []string
	// PDF is the command that does [ReadPDF] from its input to its output, in a process
	// that may die of a file. Without it, PDF files are told as problems.
	PDF []string
	// Logger is told of each file that cannot be searched. The default discards.
	Logger *slog.Logger
}

// An Index is a folder of documents. It is made when it is first asked for, and all
// searches wait until it is.
type Index struct {
	fsys     fs.FS
	opts     Options
	begin    sync.Once
	building sync.WaitGroup
	cancel   context.CancelFunc // of building
	ctx      context.Context    //nolint:containedctx // of building, for which nobody in particular waits
	built    chan struct{}      // closed when the index is made, or cannot be
	err      error              // why it cannot be

	// mu is held by changes of what follows, and by searches for reading.
	mu        sync.RWMutex
	texts     *textindex.Index
	documents int
	sections  int
	problems  []skill.Problem
	tell      func([]skill.Problem)

	// Of refresh alone:
	ignore patterns
	files  map[string]*record
	last   uint64 // number of a section
}

// Open returns the index of the folder's documents, without hidden files. Files that
// cannot be used are told by Problems and do not hinder the others. The error
// is Unavailable if the folder cannot be read at all, and Invalid for a pattern of
// Ignore that is none. The caller closes the Index.
func Open(fsys fs.FS, opts Options) (*Index, error) {
	const op = "knowledge.Open"
	if _, err := fs.ReadDir(fsys, "."); err != nil {
		return nil, mesh.Errorf(mesh.Unavailable, op, "The folder of documents cannot be read; check that it exists and its permissions: %w", err)
	}
	if _, err := parsePatterns(opts.Ignore); err != nil {
		return nil, mesh.InvalidField(op, "docs_ignore", "%s", err)
	}
	if opts.Logger == nil {
		opts.Logger = slog.New(slog.DiscardHandler)
	}
	ix := &Index{fsys: fsys, opts: opts, built: make(chan struct{}), files: map[string]*record{}}
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

// poll is how often all files are looked at where the system tells of no changes.
const poll = 10 * time.Second

// Prepare begins to make the index, so that the first search waits for less. It does not
// wait.
func (ix *Index) Prepare() {
	ix.begin.Do(func() { ix.building.Go(ix.run) })
}

// run makes the index, and follows its folder.
func (ix *Index) run() {
	made := sync.OnceFunc(func() { close(ix.built) })
	defer made()
	ix.texts, ix.err = textindex.New(ix.ctx, textindex.Column{Name: "document", Weight: 4},
		textindex.Column{Name: "section", Weight: 6}, textindex.Column{Name: "body", Weight: 1})
	switch {
	case ix.err != nil:
		return
	case ix.opts.Dir == "":
		ix.err = ix.refresh(ix.ctx, nil)
		return
	}
	first := true
	skill.Follow(ix.ctx, skill.Followed{What: "documents", Poll: poll, Logger: ix.opts.Logger, Read: func(ctx context.Context, _ []string, _ bool, entered func(string)) (away []string) {
		err := ix.refresh(ctx, entered)
		if err != nil && ctx.Err() == nil {
			ix.lost(ctx, err)
			away = []string{ix.opts.Dir}
		}
		ix.mu.Lock()
		if ix.err = nil; err != nil && first {
			ix.err = mesh.Errorf(mesh.Unavailable, "knowledge.run", "The documents cannot be read yet; try again: %w", err)
		}
		first = first && err != nil
		ix.mu.Unlock()
		made()
		return away
	}})
}

// ready waits until the index is made.
func (ix *Index) ready(ctx context.Context) error {
	ix.Prepare()
	select {
	case <-ix.built:
		ix.mu.RLock()
		defer ix.mu.RUnlock()
		return ix.err
	case <-ctx.Done():
		return mesh.Wrap("knowledge.ready", ctx.Err())
	}
}

// Size returns how many documents and sections there are.
func (ix *Index) Size(ctx context.Context) (documents, sections int, err error) {
	if err := ix.ready(ctx); err != nil {
		return 0, 0, err
	}
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	return ix.documents, ix.sections, nil
}

// Problems returns what was left out and why.
func (ix *Index) Problems(ctx context.Context) ([]skill.Problem, error) {
	if err := ix.ready(ctx); err != nil {
		return nil, err
	}
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	return slices.Clone(ix.problems), nil
}

// Tell has the function called with the problems there are, sorted by path, now and whenever they
// were looked for again, one call after the other. It replaces the function of before.
func (ix *Index) Tell(tell func([]skill.Problem)) {
	ix.mu.Lock()
	defer ix.mu.Unlock()
	ix.tell = tell
	tell(ix.problems)
}

// id is where a section is. It orders by path, then place: the line or, where there are
// pages, the page.
func id(file string, place, part int) string {
	return fmt.Sprintf("%s\x00%09d\x00%d", file, place, part)
}

// place is what an id is made of.
func place(id string) (file string, at int) {
	file, rest, _ := strings.Cut(id, "\x00")
	number, _, _ := strings.Cut(rest, "\x00")
	at, _ = strconv.Atoi(number) // id made it
	return file, at
}

// tag is the data of a section: its number, and whether its place is a page.
func tag(number uint64, paged bool) []byte {
	data := binary.AppendUvarint(nil, number)
	if paged {
		data = append(data, 1)
	}
	return data
}

// A Passage is a section that matches a query.
type Passage struct {
	// Number is what an answer cites the passage by. It means no other passage while the
	// Index is open.
	Number uint64 `json:"number"`
	// Document is the document's title, and Section the headings that lead to
	// the section, as "Limits > Per caller", or "" above the first one.
	Document string `json:"document"`
	Section  string `json:"section,omitempty"`
	// Path is the document's path in the folder, and where the section begins is Line or, in a
	// document with pages, Page; the other one is 0.
	Path string `json:"path"`
	Line int    `json:"line,omitempty"`
	Page int    `json:"page,omitempty"`
	// Text is the part of the section that matches best, as markdown. The lines of its paragraphs
	// are joined.
	Text string `json:"text"`
	// Score is higher for better matches; it compares within one query only.
	Score float64 `json:"score"`
	// Share is which part of the query's words the passage has, from 0 to 1, rare words
	// counting more.
	Share float64 `json:"share"`
}

// A passage is an answer if it has the least share of the query, or the least of one with a heading
// that asks for nothing else; beside the best one, others are
// if they have so much of its share and rank. TestSearch_knowsWhatItDoesNotKnow holds them to
// questions.
const (
	least     = 0.67
	leastHead = 0.45
	likeShare = 0.7
	likeRank  = 0.4
)

// candidates are how many passages of the best rank are looked at.
const candidates = 40

// Search returns at most limit passages that answer the query, best
// first: those that have most of what its words say. Words such as "how" and "the" do not count
// beside others. A query without any word finds nothing.
func (ix *Index) Search(ctx context.Context, query string, limit int) (found []Passage, err error) {
	const op = "knowledge.Search"
	words := textindex.Words(query)
	if len(words) == 0 {
		return nil, nil
	}
	if err := ix.ready(ctx); err != nil {
		return nil, mesh.Wrap(op, err)
	}
	ix.mu.RLock()
	defer ix.mu.RUnlock()
	hits, err := ix.texts.Search(ctx, textindex.Query{Words: words, Limit: candidates, Least: leastHead})
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	rank := make(map[string]float64, len(hits))
	hits = slices.DeleteFunc(hits, func(h textindex.Hit) bool {
		said, asked := heads(h.Texts[1], words)
		_, whole := heads(h.Texts[0], words)
		rank[h.ID] = h.Score * h.Share * (1 + said)
		return h.Share < least && max(asked, whole) < 1
	})
	slices.SortStableFunc(hits, func(a, b textindex.Hit) int { return cmp.Compare(rank[b.ID], rank[a.ID]) })
	for _, h := range hits {
		if len(found) == limit || h.Share < likeShare*hits[0].Share || rank[h.ID] < likeRank*rank[hits[0].ID] {
			continue
		}
		p := Passage{Document: h.Texts[0], Section: h.Texts[1], Text: flow(textindex.Excerpt(h.Texts[2], words)), Score: rank[h.ID], Share: h.Share}
		p.Path, p.Line = place(h.ID)
		number, n := binary.Uvarint(h.Data)
		if p.Number = number; len(h.Data) > n { // see tag
			p.Line, p.Page = 0, p.Line
		}
		found = append(found, p)
	}
	return found, nil
}

// heads tells which part of the words the last heading has, and which part of its own words they
// are: what is about something says so there.
func heads(section string, words []string) (said, asked float64) {
	own := textindex.Words(section[strings.LastIndex(section, " > ")+1:])
	n := 0
	for _, w := range words {
		if slices.ContainsFunc(own, func(o string) bool { return textindex.Stem(o) == textindex.Stem(w) }) {
			n++
		}
	}
	return float64(n) / float64(len(words)), float64(n) / float64(max(len(own), 1))
}
