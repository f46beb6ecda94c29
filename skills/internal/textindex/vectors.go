package textindex

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
)

// A Vector stands for what a document means, as a model says it.
type Vector struct {
	// ID and Stamp are those of the document that it was made of.
	ID, Stamp string
	// Those of one space are equally long.
	Of []float32
}

// SetVectors keeps the vectors of documents. Space names what made them: a document has
// one, and those of different spaces do not compare. One of a document that has changed
// since, or is gone, is left out. One without a direction is near nothing.
func (ix *Index) SetVectors(ctx context.Context, space string, all []Vector) error {
	err := ix.within(ctx, func(tx *sql.Tx) error {
		for _, v := range all {
			if _, err := tx.ExecContext(ctx, `INSERT OR REPLACE INTO vectors SELECT rowid, ?, ? FROM docs WHERE id = ? AND stamp = ?`,
				space, packed(normal(v.Of)), v.ID, v.Stamp); err != nil {
				return err
			}
		}
		return nil
	})
	return failure(ctx, "textindex.SetVectors", err)
}

// WithoutVector returns at most limit documents that have none in the space, the latest
// first, with their ids, stamps and texts.
func (ix *Index) WithoutVector(ctx context.Context, space string, limit int) ([]Doc, error) {
	hits, err := ix.hits(ctx, "textindex.WithoutVector",
		`SELECT rowid AS doc, 0 AS score FROM docs WHERE NOT EXISTS (SELECT 1 FROM vectors WHERE doc = docs.rowid AND space = ?)
			ORDER BY rowid DESC LIMIT ?`, []any{space, limit})
	docs := make([]Doc, len(hits))
	for i, h := range hits {
		docs[i] = h.Doc
	}
	return docs, err
}

// Nearest returns the documents that are meant by the query, whose words are left out of
// account, best first: those whose vector of the space is at least so similar to the one
// given, as the cosine of the angle between them. Their score is that times the factor,
// unless the query is Plain.
func (ix *Index) Nearest(ctx context.Context, space string, to []float32, least float64, q Query) ([]Hit, error) {
	const op = "textindex.Nearest"
	unit := normal(to)
	if q.Limit < 1 || unit == nil {
		return nil, nil
	}
	near, err := ix.near(ctx, space, unit, least, q)
	if err != nil || len(near) == 0 {
		return nil, failure(ctx, op, err)
	}
	slices.SortFunc(near, func(a, b scored) int { return cmp.Or(cmp.Compare(b.score, a.score), cmp.Compare(a.doc, b.doc)) })
	near = near[:min(len(near), q.Limit)]
	var values []any
	for _, n := range near {
		values = append(values, n.doc, n.score)
	}
	best := `SELECT column1 AS doc, column2 AS score FROM (VALUES (?, ?)` + strings.Repeat(", (?, ?)", len(near)-1) + `)`
	return ix.hits(ctx, op, best, values)
}

type scored struct {
	doc   int64
	score float64
}

// near scores the documents that match but for their words.
func (ix *Index) near(ctx context.Context, space string, unit []float32, least float64, q Query) (all []scored, err error) {
	where, values := q.conditions()
	//nolint:gosec // the callers' texts are in the values
	statement := `SELECT docs.rowid, docs.factor, vectors.value FROM vectors JOIN docs ON docs.rowid = vectors.doc WHERE vectors.space = ? AND ` + where
	rows, err := ix.db.QueryContext(ctx, statement, append([]any{space}, values...)...)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		var s scored
		var factor float64
		var value sql.RawBytes
		if err := rows.Scan(&s.doc, &factor, &value); err != nil {
			return nil, err
		}
		if s.score = dot(unit, value); s.score < least {
			continue
		}
		if !q.Plain {
			s.score *= factor
		}
		all = append(all, s)
	}
	return all, rows.Err()
}

// normal is the vector with the length 1; nil if it has no direction.
func normal(v []float32) []float32 {
	sum := 0.0
	for _, x := range v {
		sum += float64(x) * float64(x)
	}
	if length := math.Sqrt(sum); length > 0 && !math.IsInf(length, 0) && !math.IsNaN(length) {
		out := make([]float32, len(v))
		for i, x := range v {
			out[i] = float32(float64(x) / length)
		}
		return out
	}
	return nil
}

func packed(v []float32) []byte {
	out := make([]byte, 0, 4*len(v))
	for _, x := range v {
		out = binary.LittleEndian.AppendUint32(out, math.Float32bits(x))
	}
	return out
}

// dot is the product with a packed vector; -1, as of opposites, if that is another length.
func dot(v []float32, with []byte) float64 {
	if len(with) != 4*len(v) {
		return -1
	}
	sum := 0.0
	for i, x := range v {
		sum += float64(x) * float64(math.Float32frombits(binary.LittleEndian.Uint32(with[4*i:])))
	}
	return sum
}
