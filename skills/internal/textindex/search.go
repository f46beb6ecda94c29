package textindex

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

// A Query says which documents are wanted.
type Query struct {
	// Words are what [Words] made of a text; any of them may match. Without
	// words all documents match, with the score 0.
	Words []string
	// Labels are groups of which a document needs one label each.
	Labels [][]string
	// MinFactor is the least factor.
	MinFactor float64
	// Plain ranks by the words alone, without the factors.
	Plain bool
	// Limit is how many documents to return at most.
	Limit int
}

// A Hit is a document that matches. Its Labels are not filled in.
type Hit struct {
	Doc
	// Score is higher for better matches: the rank of the words times the
	// factor, unless the query is Plain. It compares within one query only.
	Score float64
}

// Search returns the documents that match, best first.
func (ix *Index) Search(ctx context.Context, q Query) ([]Hit, error) {
	if q.Limit < 1 {
		return nil, nil
	}
	best, values := ix.statement(q)
	return ix.hits(ctx, "textindex.Search", best, values)
}

// hits returns the documents that the statement selects with their scores.
func (ix *Index) hits(ctx context.Context, op, best string, values []any) (hits []Hit, err error) {
	// The texts and data are read of the best alone.
	texts := "texts." + strings.ReplaceAll(ix.names(), ", ", ", texts.")
	//nolint:gosec // the callers' texts are in the values
	statement := `SELECT docs.id, docs.factor, docs.stamp, docs.data, best.score, ` + texts + ` FROM (` + best + `) AS best
		JOIN docs ON docs.rowid = best.doc JOIN texts ON texts.rowid = best.doc ORDER BY best.score DESC, docs.id`
	rows, err := ix.db.QueryContext(ctx, statement, values...)
	if err != nil {
		return nil, failure(ctx, op, err)
	}
	defer func() { err = failure(ctx, op, errors.Join(err, rows.Close())) }()
	for rows.Next() {
		h := Hit{Doc: Doc{Texts: make([]string, len(ix.columns))}}
		to := []any{&h.ID, &h.Factor, &h.Stamp, &h.Data, &h.Score}
		for i := range h.Texts {
			to = append(to, &h.Texts[i])
		}
		if err := rows.Scan(to...); err != nil {
			return nil, err
		}
		hits = append(hits, h)
	}
	return hits, rows.Err()
}

// statement is the query in SQL. The caller's texts are in the values alone.
func (ix *Index) statement(q Query) (best string, values []any) {
	score, from, where := "0", "docs", "1"
	if len(q.Words) > 0 {
		weights := ""
		for _, c := range ix.columns {
			weights += fmt.Sprintf(", %g", c.Weight)
		}
		score, from, where = "-bm25(words"+weights+")", "words JOIN docs ON docs.rowid = words.rowid", "words MATCH ?"
		if !q.Plain {
			score += " * docs.factor"
		}
		values = append(values, match(q.Words))
	}
	more, of := q.conditions()
	return `SELECT docs.rowid AS doc, ` + score + ` AS score FROM ` + from + ` WHERE ` + where + ` AND ` + more + ` ORDER BY score DESC, docs.id LIMIT ?`,
		append(append(values, of...), q.Limit)
}

// conditions are those of the query that are not about words.
func (q Query) conditions() (where string, values []any) {
	where, values = "docs.factor >= ?", []any{q.MinFactor}
	for _, group := range q.Labels {
		where += " AND EXISTS (SELECT 1 FROM labels WHERE doc = docs.rowid AND label IN (''" + strings.Repeat(", ?", len(group)) + "))"
		for _, label := range group {
			values = append(values, label)
		}
	}
	return where, values
}

// match returns the FTS5 expression for any of the words. A quoted word is
// text to FTS5, whatever it contains; with a star it is the beginning of one.
func match(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = `"` + strings.ReplaceAll(w, `"`, `""`) + `"`
		if single(w) {
			quoted[i] += "*"
		}
	}
	return strings.Join(quoted, " OR ")
}
