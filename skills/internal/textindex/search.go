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
func (ix *Index) Search(ctx context.Context, q Query) (hits []Hit, err error) {
	const op = "textindex.Search"
	if q.Limit < 1 {
		return nil, nil
	}
	statement, values := ix.statement(q)
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
func (ix *Index) statement(q Query) (statement string, values []any) {
	score, where := "0", "1"
	if len(q.Words) > 0 {
		weights := ""
		for _, c := range ix.columns {
			weights += fmt.Sprintf(", %g", c.Weight)
		}
		score, where = "-bm25(texts"+weights+")", "texts MATCH ?"
		if !q.Plain {
			score += " * docs.factor"
		}
		values = append(values, match(q.Words))
	}
	where += " AND docs.factor >= ?"
	values = append(values, q.MinFactor)
	for _, group := range q.Labels {
		where += " AND EXISTS (SELECT 1 FROM labels WHERE doc = docs.rowid AND label IN (''" + strings.Repeat(", ?", len(group)) + "))"
		for _, label := range group {
			values = append(values, label)
		}
	}
	texts := "texts." + strings.ReplaceAll(ix.names(), ", ", ", texts.")
	return `SELECT docs.id, docs.factor, docs.stamp, docs.data, ` + score + ` AS score, ` + texts + ` FROM texts JOIN docs ON docs.rowid = texts.rowid WHERE ` +
		where + ` ORDER BY score DESC, docs.id LIMIT ?`, append(values, q.Limit)
}

// match returns the FTS5 expression for any of the words. A quoted word is
// text to FTS5, whatever it contains.
func match(words []string) string {
	quoted := make([]string, len(words))
	for i, w := range words {
		quoted[i] = `"` + strings.ReplaceAll(w, `"`, `""`) + `"`
	}
	return strings.Join(quoted, " OR ")
}
