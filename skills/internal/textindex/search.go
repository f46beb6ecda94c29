package textindex

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"unicode/utf8"
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
	// Least is the least Share, of the best Limit documents. With 0, shares are not worked
	// out.
	Least float64
	// Limit is how many documents to return at most.
	Limit int
}

// A Hit is a document that matches. Its Labels are not filled in.
type Hit struct {
	Doc
	// Score is higher for better matches: the rank of the words times the
	// factor, unless the query is Plain. It compares within one query only.
	Score float64
	// Share is which part of the query's words the document has, from 0 to 1, where a
	// word counts the more the fewer documents have it: it compares between queries.
	Share float64
}

// Search returns the documents that match, best first.
func (ix *Index) Search(ctx context.Context, q Query) ([]Hit, error) {
	if q.Limit < 1 {
		return nil, nil
	}
	best, values := ix.statement(q)
	hits, err := ix.hits(ctx, "textindex.Search", best, values)
	if err != nil || q.Least <= 0 || len(hits) == 0 {
		return hits, err
	}
	if err := ix.share(ctx, q.Words, hits); err != nil {
		return nil, failure(ctx, "textindex.Search", err)
	}
	return slices.DeleteFunc(hits, func(h Hit) bool { return h.Share < q.Least }), nil
}

// fewest is how many documents an index is taken to have at least: of fewer, nobody can tell which
// words are rare.
const fewest = 1000

// share fills in the shares. Pairs of characters that no document has are words as a rule
// only where one ends and the next begins, and count for nothing.
func (ix *Index) share(ctx context.Context, words []string, hits []Hit) error {
	total, err := ix.Size(ctx)
	if err != nil {
		return err
	}
	among := `SELECT docs.id FROM words JOIN docs ON docs.rowid = words.rowid
		WHERE words MATCH ? AND words.rowid IN (SELECT rowid FROM docs WHERE id IN (?` + strings.Repeat(", ?", len(hits)-1) + `))`
	places, values := map[string]int{}, []any{nil}
	for i, h := range hits {
		places[h.ID], values = i, append(values, h.ID)
	}
	all := 0.0
	for _, w := range words {
		values[0] = match([]string{w})
		have := 0
		if err := ix.db.QueryRowContext(ctx, `SELECT count(*) FROM words WHERE words MATCH ?`, values[0]).Scan(&have); err != nil {
			return err
		}
		if first, _ := utf8.DecodeRuneInString(w); have == 0 && spaceless(first) {
			continue
		}
		weight := math.Log(1 + (float64(max(total, fewest)-have)+0.5)/(float64(have)+0.5))
		all += weight
		if err := ix.each(ctx, among, values, func(id string) { hits[places[id]].Share += weight }); err != nil {
			return err
		}
	}
	for i := range hits {
		hits[i].Share /= max(all, math.SmallestNonzeroFloat64)
	}
	return nil
}

// each calls do with the id that each row of the answer is.
func (ix *Index) each(ctx context.Context, statement string, values []any, do func(id string)) (err error) {
	rows, err := ix.db.QueryContext(ctx, statement, values...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var id string
		if err := rows.Scan(&id); err != nil {
			return err
		}
		do(id)
	}
	return rows.Err()
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
