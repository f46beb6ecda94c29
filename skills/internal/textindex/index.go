// Package textindex finds texts by their words, and by vectors of what they mean, which
// their owner makes.
//
// An [Index] holds documents of a few text columns, each with a weight, and
// ranks them by BM25 over Porter stems (SQLite FTS5). Any text is a legal
// query: it is words, never syntax. An index is a projection of something else
// that is the truth, and says by its mark how much of that it has seen; a
// [Pool] keeps many of them as files and replaces one that is damaged or gone
// by an empty one, which its owner then fills again.
//
// An index in memory may be searched concurrently while nothing changes it.
// One in a file is used by one goroutine of a process at a time, which the Pool
// sees to; several processes may share the file.
//
// It does not know what documents are: reading, splitting and showing them is
// up to whoever owns the truth. Words are what Unicode says they are, and
// pictographs. Where no space ends a word, as in Chinese, Japanese and Thai, it
// goes by pairs of characters and not by a dictionary: it finds every word, and
// at times two characters that are none.
package textindex

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"agentmesh/mesh"
)

// A Column is one text of a document. A match in a column counts by its weight.
type Column struct {
	Name   string // a lower-case word
	Weight float64
}

// A Doc is what is found.
type Doc struct {
	// ID is unique in the index. Documents that match equally well are in the
	// order of their ids.
	ID string
	// Texts are the columns' texts.
	Texts []string
	// Labels are exact words to choose documents by, as "tag:home".
	Labels []string
	// Factor multiplies the score of each match. It is from 0 to 1.
	Factor float64
	// Stamp is by what the owner recognises the state that was indexed.
	Stamp string
	// Data is the owner's and comes back as it is.
	Data []byte
}

// An Index is a set of documents ready to be searched.
type Index struct {
	db *sql.DB
	// keep is never used: a database in memory lives as long as a connection
	// to it does, and the others come and go. It is nil for files.
	keep    *sql.Conn
	columns []Column
}

// version is that of the tables. A file of another one is made anew.
const version = 3

// New returns an empty index in memory. The caller closes it.
func New(ctx context.Context, columns ...Column) (*Index, error) {
	const op = "textindex.New"
	// The name keeps the indexes of one process apart; the shared cache lets
	// several connections read one database in memory.
	db, err := sql.Open("sqlite", "file:"+rand.Text()+"?mode=memory&cache=shared")
	if err != nil {
		return nil, failure(ctx, op, err)
	}
	db.SetMaxOpenConns(5)
	ix := &Index{db: db, columns: columns}
	if ix.keep, err = db.Conn(ctx); err == nil {
		err = ix.create(ctx)
	}
	if err != nil {
		return nil, failure(ctx, op, errors.Join(err, ix.Close()))
	}
	return ix, nil
}

// Open returns the index in the file, which it makes if there is none. A file
// that is no index of these columns, or is damaged, is replaced by an empty
// one. The caller closes the index and is the only one in this process that has
// the file open. The error is Unavailable if the file cannot be made.
func Open(ctx context.Context, file string, columns ...Column) (*Index, error) {
	const op = "textindex.Open"
	ix, err := openFile(ctx, file, columns)
	if err == nil || !damaged(ctx, err) {
		return ix, failure(ctx, op, err)
	}
	if err := remove(file); err != nil {
		return nil, failure(ctx, op, err)
	}
	ix, err = openFile(ctx, file, columns)
	return ix, failure(ctx, op, err)
}

func openFile(ctx context.Context, file string, columns []Column) (*Index, error) {
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return nil, err
	}
	u := url.URL{Scheme: "file", Path: filepath.ToSlash(file), RawQuery: url.Values{"_pragma": {
		"busy_timeout(5000)", "journal_mode(WAL)", "synchronous(NORMAL)",
	}, "_txlock": {"immediate"}}.Encode()}
	if !filepath.IsAbs(file) {
		u.Opaque, u.Path = (&url.URL{Path: u.Path}).EscapedPath(), ""
	}
	db, err := sql.Open("sqlite", u.String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	ix := &Index{db: db, columns: columns}
	if err := ix.check(ctx); err != nil {
		return nil, errors.Join(err, ix.Close())
	}
	return ix, nil
}

// errOther is the damage of a file that is a sound database of something else.
var errOther = errors.New("not an index of this version and these columns")

// check makes the tables of a new file and looks at those of an old one.
func (ix *Index) check(ctx context.Context) error {
	var tables, have int
	var health, columns string
	if err := ix.db.QueryRowContext(ctx, `PRAGMA quick_check(1)`).Scan(&health); err != nil {
		return err
	}
	if health != "ok" {
		return fmt.Errorf("%w: %s", errOther, health)
	}
	if err := ix.db.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema`).Scan(&tables); err != nil {
		return err
	}
	if tables == 0 {
		return ix.create(ctx)
	}
	if err := ix.db.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&have); err != nil {
		return err
	}
	err := ix.db.QueryRowContext(ctx, `SELECT value FROM meta WHERE name = 'columns'`).Scan(&columns)
	if err != nil || have != version || columns != ix.names() {
		return errors.Join(errOther, err)
	}
	return nil
}

func (ix *Index) names() string {
	names := make([]string, len(ix.columns))
	for i, c := range ix.columns {
		names[i] = c.Name
	}
	return strings.Join(names, ", ")
}

func (ix *Index) create(ctx context.Context) (err error) {
	return ix.within(ctx, func(tx *sql.Tx) error {
		for _, statement := range []string{
			// Another process may have been quicker.
			`CREATE TABLE IF NOT EXISTS meta (name TEXT PRIMARY KEY, value TEXT NOT NULL)`,
			`CREATE TABLE IF NOT EXISTS docs (rowid INTEGER PRIMARY KEY, id TEXT NOT NULL UNIQUE, factor REAL NOT NULL, stamp TEXT NOT NULL, data BLOB)`,
			`CREATE TABLE IF NOT EXISTS labels (label TEXT, doc INTEGER, PRIMARY KEY (label, doc)) WITHOUT ROWID`,
			`CREATE INDEX IF NOT EXISTS labels_of ON labels (doc)`,
			`CREATE TABLE IF NOT EXISTS vectors (doc INTEGER PRIMARY KEY, space TEXT NOT NULL, value BLOB NOT NULL)`,
			`CREATE TABLE IF NOT EXISTS texts (rowid INTEGER PRIMARY KEY, ` + ix.names() + `)`,
			// It gets tokens with spaces between them. To "ascii", letters beyond
			// ASCII are just letters, of whichever script and year.
			`CREATE VIRTUAL TABLE IF NOT EXISTS words USING fts5(` + ix.names() + `, content = '', contentless_delete = 1, tokenize = 'porter ascii')`,
			fmt.Sprintf(`PRAGMA user_version = %d`, version),
		} {
			if _, err := tx.ExecContext(ctx, statement); err != nil {
				return err
			}
		}
		_, err := tx.ExecContext(ctx, `INSERT OR REPLACE INTO meta VALUES ('columns', ?)`, ix.names())
		return err
	})
}

// within runs do in a transaction.
func (ix *Index) within(ctx context.Context, do func(*sql.Tx) error) error {
	tx, err := ix.db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	if err := do(tx); err != nil {
		return errors.Join(err, tx.Rollback())
	}
	return tx.Commit()
}

// Close releases the index. No other call may be running.
func (ix *Index) Close() error {
	var err error
	if ix.keep != nil {
		err = ix.keep.Close()
	}
	return mesh.Wrap("textindex.Close", errors.Join(err, ix.db.Close()))
}

// Changes are made to an index together or not at all.
type Changes struct {
	// Put are new documents, or such that replace those of the same ids.
	Put []Doc
	// Delete are ids, which need not exist.
	Delete []string
	// Mark, if it is not "", is the index's new mark.
	Mark string
}

// Apply makes the changes.
func (ix *Index) Apply(ctx context.Context, c Changes) error {
	err := ix.within(ctx, func(tx *sql.Tx) error {
		for _, id := range c.Delete {
			if err := drop(ctx, tx, id); err != nil {
				return err
			}
		}
		if err := ix.put(ctx, tx, c.Put); err != nil {
			return err
		}
		if c.Mark == "" {
			return nil
		}
		_, err := tx.ExecContext(ctx, `INSERT OR REPLACE INTO meta VALUES ('mark', ?)`, c.Mark)
		return err
	})
	return failure(ctx, "textindex.Apply", err)
}

func drop(ctx context.Context, tx *sql.Tx, id string) error {
	for _, statement := range []string{
		`DELETE FROM words WHERE rowid = (SELECT rowid FROM docs WHERE id = ?)`,
		`DELETE FROM texts WHERE rowid = (SELECT rowid FROM docs WHERE id = ?)`,
		`DELETE FROM labels WHERE doc = (SELECT rowid FROM docs WHERE id = ?)`,
		`DELETE FROM vectors WHERE doc = (SELECT rowid FROM docs WHERE id = ?)`,
		`DELETE FROM docs WHERE id = ?`,
	} {
		if _, err := tx.ExecContext(ctx, statement, id); err != nil {
			return err
		}
	}
	return nil
}

func (ix *Index) put(ctx context.Context, tx *sql.Tx, docs []Doc) (err error) {
	if len(docs) == 0 {
		return nil
	}
	into := ` (rowid, ` + ix.names() + `) VALUES (?` + strings.Repeat(", ?", len(ix.columns)) + `)`
	texts, err := tx.PrepareContext(ctx, `INSERT INTO texts`+into) //nolint:gosec // names of columns are the program's
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, texts.Close()) }()
	words, err := tx.PrepareContext(ctx, `INSERT INTO words`+into) //nolint:gosec // names of columns are the program's
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, words.Close()) }()
	known, err := tx.PrepareContext(ctx, `SELECT rowid FROM docs WHERE id = ?`)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, known.Close()) }()
	for _, d := range docs {
		switch err := known.QueryRowContext(ctx, d.ID).Scan(new(int)); {
		case err == nil:
			if err := drop(ctx, tx, d.ID); err != nil {
				return err
			}
		case !errors.Is(err, sql.ErrNoRows):
			return err
		}
		row, err := tx.ExecContext(ctx, `INSERT INTO docs (id, factor, stamp, data) VALUES (?, ?, ?, ?)`, d.ID, d.Factor, d.Stamp, d.Data)
		if err != nil {
			return err
		}
		n, err := row.LastInsertId()
		if err != nil {
			return err
		}
		shown, found := []any{n}, []any{n}
		for i := range ix.columns {
			shown, found = append(shown, d.Texts[i]), append(found, strings.Join(tokens(d.Texts[i], false), " "))
		}
		if _, err := texts.ExecContext(ctx, shown...); err != nil {
			return err
		}
		if _, err := words.ExecContext(ctx, found...); err != nil {
			return err
		}
		for _, label := range slices.Compact(slices.Sorted(slices.Values(d.Labels))) {
			if _, err := tx.ExecContext(ctx, `INSERT INTO labels VALUES (?, ?)`, label, n); err != nil {
				return err
			}
		}
	}
	return nil
}

// Mark returns the mark of the last Changes that had one, or "".
func (ix *Index) Mark(ctx context.Context) (string, error) {
	var mark string
	err := ix.db.QueryRowContext(ctx, `SELECT value FROM meta WHERE name = 'mark'`).Scan(&mark)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return mark, failure(ctx, "textindex.Mark", err)
}

// Size returns how many documents there are.
func (ix *Index) Size(ctx context.Context) (int, error) {
	n := 0
	err := ix.db.QueryRowContext(ctx, `SELECT count(*) FROM docs`).Scan(&n)
	return n, failure(ctx, "textindex.Size", err)
}

// Stamps returns the stamps of all documents by their ids.
func (ix *Index) Stamps(ctx context.Context) (stamps map[string]string, err error) {
	const op = "textindex.Stamps"
	rows, err := ix.db.QueryContext(ctx, `SELECT id, stamp FROM docs`)
	if err != nil {
		return nil, failure(ctx, op, err)
	}
	defer func() { err = failure(ctx, op, errors.Join(err, rows.Close())) }()
	stamps = make(map[string]string)
	for rows.Next() {
		var id, stamp string
		if err := rows.Scan(&id, &stamp); err != nil {
			return nil, err
		}
		stamps[id] = stamp
	}
	return stamps, rows.Err()
}
