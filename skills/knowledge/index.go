// Package knowledge finds passages in a folder of documents.
//
// [Open] reads the folder's markdown and text files, cuts them into sections
// at their headings, and indexes them in memory (SQLite FTS5, Porter stems,
// BM25). Any text is a legal query: it is words, never syntax. Searches may
// run concurrently, with each other and with nothing else: the index does not
// change, and a changed folder is opened again.
//
// It does not answer questions. It returns passages with their sources, and
// whoever asked composes the answer.
package knowledge

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"unicode/utf8"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
)

// Bounds of what is indexed.
const (
	maxFile  = 2 << 20 // bytes of one document
	maxFiles = 50_000
)

// An Index is a folder of documents, ready to be searched.
type Index struct {
	db *sql.DB
	// keep is never used: a database in memory lives as long as a connection
	// to it does, and the others come and go.
	keep      *sql.Conn
	documents int
	sections  int
	problems  []skill.Problem
}

// An Option changes a default of [Open].
type Option func(*options)

type options struct{ suffixes []string }

// WithSuffixes says by their suffixes which files are documents. The default
// is .md, .markdown and .txt.
func WithSuffixes(suffixes ...string) Option { return func(o *options) { o.suffixes = suffixes } }

// Open indexes the documents of the folder, without hidden files. Files that
// cannot be used are told by Problems and do not hinder the others. The error
// is Unavailable if the folder cannot be read at all. The caller closes the
// Index.
func Open(fsys fs.FS, opts ...Option) (*Index, error) {
	const op = "knowledge.Open"
	o := options{suffixes: []string{".md", ".markdown", ".txt"}}
	for _, opt := range opts {
		opt(&o)
	}
	if _, err := fs.ReadDir(fsys, "."); err != nil {
		return nil, mesh.Errorf(mesh.Unavailable, op, "The folder of documents cannot be read; check that it exists and its permissions: %w", err)
	}
	// The name keeps the indexes of one process apart; the shared cache lets
	// several connections read one database in memory.
	db, err := sql.Open("sqlite", "file:"+rand.Text()+"?mode=memory&cache=shared")
	if err != nil {
		return nil, mesh.Errorf(mesh.Unknown, op, "The search index cannot be made: %w", err)
	}
	db.SetMaxOpenConns(5)
	ix := &Index{db: db}
	if ix.keep, err = db.Conn(context.Background()); err == nil {
		err = ix.build(fsys, o)
	}
	if err != nil {
		return nil, mesh.Errorf(mesh.Unknown, op, "The search index cannot be made: %w", errors.Join(err, ix.Close()))
	}
	return ix, nil
}

// Close gives the memory back. No search may be running.
func (ix *Index) Close() error {
	var err error
	if ix.keep != nil {
		err = ix.keep.Close()
	}
	return mesh.Wrap("knowledge.Close", errors.Join(err, ix.db.Close()))
}

// Size returns how many documents and sections there are.
func (ix *Index) Size() (documents, sections int) { return ix.documents, ix.sections }

// Problems returns what was left out and why.
func (ix *Index) Problems() []skill.Problem { return slices.Clone(ix.problems) }

const schema = `CREATE VIRTUAL TABLE sections USING fts5(
	document, section, body, path UNINDEXED, line UNINDEXED,
	tokenize = 'porter unicode61 remove_diacritics 2')`

func (ix *Index) build(fsys fs.FS, o options) (err error) {
	tx, err := ix.db.Begin()
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, tx.Rollback())
		}
	}()
	if _, err = tx.Exec(schema); err != nil {
		return err
	}
	insert, err := tx.Prepare(`INSERT INTO sections (document, section, body, path, line) VALUES (?, ?, ?, ?, ?)`)
	if err != nil {
		return err
	}
	if err = fs.WalkDir(fsys, ".", func(file string, d fs.DirEntry, err error) error {
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
		case !d.IsDir() && slices.Contains(o.suffixes, strings.ToLower(path.Ext(file))):
			return ix.add(fsys, file, insert)
		}
		return nil
	}); err != nil {
		return err
	}
	if err = insert.Close(); err != nil {
		return err
	}
	return tx.Commit()
}

func (ix *Index) skip(file, why string) {
	ix.problems = append(ix.problems, skill.Problem{Path: file, Detail: why})
}

// add indexes one file, or notes why not. Its error is the database's.
func (ix *Index) add(fsys fs.FS, file string, insert *sql.Stmt) error {
	info, err := fs.Stat(fsys, file)
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
	data, err := fs.ReadFile(fsys, file)
	if err != nil || !utf8.Valid(data) {
		ix.skip(file, "is not UTF-8 text; convert it")
		return nil
	}
	title, sections := split(file, string(data))
	for _, s := range sections {
		if _, err := insert.Exec(title, s.heading, s.body, file, s.line); err != nil {
			return err
		}
		ix.sections++
	}
	ix.documents++
	return nil
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
	words := queryWords(query)
	if len(words) == 0 || limit < 1 {
		return nil, nil
	}
	rows, err := ix.db.QueryContext(ctx, `SELECT document, section, path, line, body, -bm25(sections, 4, 6, 1) AS score
		FROM sections WHERE sections MATCH ? ORDER BY score DESC, path, line LIMIT ?`, match(words), limit)
	if err != nil {
		return nil, searchError(ctx, op, err)
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var p Passage
		if err := rows.Scan(&p.Document, &p.Section, &p.Path, &p.Line, &p.Text, &p.Score); err != nil {
			return nil, searchError(ctx, op, err)
		}
		p.Text = excerpt(p.Text, words)
		found = append(found, p)
	}
	if err := rows.Err(); err != nil {
		return nil, searchError(ctx, op, err)
	}
	return found, nil
}

func searchError(ctx context.Context, op string, err error) error {
	if ctx.Err() != nil {
		return mesh.Wrap(op, ctx.Err())
	}
	return mesh.Errorf(mesh.Unknown, op, "The documents cannot be searched: %w", err)
}
