package memory

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync/atomic"
	"time"

	"agentmesh/mesh"
	"agentmesh/skills/internal/textindex"
)

// An Embedder turns texts into vectors such that texts which mean alike have similar ones.
type Embedder interface {
	// Embed returns a vector for each of the texts, all equally long.
	Embed(ctx context.Context, texts []string) ([][]float32, error)
	// Space names what makes the vectors: those of two spaces do not compare.
	Space() string
}

// Meaning is the [Ranker] that finds memories by their words and by what they mean, and
// ranks first what is found in both ways. The Embedder is asked once for a search: for the
// query, and for the latest memories if they have no vector yet; others get theirs beside
// searches. Where it fails, words are what there is,
// and it is left alone for a while. Use a pointer.
type Meaning struct {
	Embedder Embedder
	// Least is how similar a memory must be to what is looked for, from 0 to 1, as the cosine
	// of the angle between their vectors.
	Least  float64
	Logger *slog.Logger

	rests atomic.Int64 // until then, in ns since 1970, the Embedder that failed is left alone
}

// Bounds of a search by meaning, and of giving vectors to what has none.
const (
	embedTime  = 1500 * time.Millisecond // of a search; lookups before a turn have 2 s
	embedFresh = 8                       // memories, the latest, that a search gives one
	embedRest  = 30 * time.Second        // after a failure
	fillMost   = 64                      // memories at once besides
	fillTime   = time.Minute             // for these
	depth      = 3 * maxLimit
	// fusion damps how much the first ranks count (Cormack, Clarke and Büttcher:
	// Reciprocal Rank Fusion, SIGIR 2009).
	fusion = 60
)

// Rank implements [Ranker].
func (m *Meaning) Rank(ctx context.Context, ix *textindex.Index, query Query) ([]textindex.Hit, error) {
	wide := query
	wide.Limit = max(depth, query.Limit)
	if len(textindex.Words(query.Text)) == 0 {
		return nil, nil
	}
	byWords, err := Words{}.Rank(ctx, ix, wide)
	if err != nil {
		return nil, err
	}
	if time.Now().UnixNano() < m.rests.Load() {
		return byWords[:min(len(byWords), query.Limit)], nil
	}
	byMeaning, err := m.near(ctx, ix, wide)
	if err != nil {
		if errors.Is(ctx.Err(), context.Canceled) {
			return nil, mesh.Wrap("memory.Rank", ctx.Err())
		}
		m.rest(ctx, err)
	}
	return fused(query.Limit, byWords, byMeaning), nil
}

// rest leaves the Embedder alone after it failed.
func (m *Meaning) rest(ctx context.Context, err error) {
	m.rests.Store(time.Now().Add(embedRest).UnixNano())
	m.Logger.WarnContext(ctx, "memories are searched by their words alone for a while", "for", embedRest, "err", err)
}

// near finds memories by what they mean alone.
func (m *Meaning) near(ctx context.Context, ix *textindex.Index, query Query) ([]textindex.Hit, error) {
	timed, cancel := context.WithTimeout(ctx, embedTime)
	defer cancel()
	fresh, err := ix.WithoutVector(timed, m.Embedder.Space(), embedFresh)
	if err != nil {
		return nil, err
	}
	made, rest, err := m.embed(timed, fresh, query.Text)
	if err != nil {
		return nil, err
	}
	if err := ix.SetVectors(ctx, m.Embedder.Space(), made); err != nil {
		return nil, err
	}
	return ix.Nearest(ctx, m.Embedder.Space(), rest[0], m.Least, query.filters())
}

// embed returns the vectors of memories, and those of further texts.
func (m *Meaning) embed(ctx context.Context, docs []textindex.Doc, more ...string) (made []textindex.Vector, rest [][]float32, err error) {
	var texts []string
	for _, d := range docs {
		texts = append(texts, d.Texts[0])
	}
	vectors, err := m.Embedder.Embed(ctx, append(texts, more...))
	if err != nil {
		return nil, nil, err
	}
	for i, d := range docs {
		made = append(made, textindex.Vector{ID: d.ID, Stamp: d.Stamp, Of: vectors[i]})
	}
	return made, vectors[len(docs):], nil
}

// fill gives a vector to all memories of an index that have none. Nobody waits for the
// index meanwhile, which with lends for a moment at a time.
func (m *Meaning) fill(ctx context.Context, with func(func(*textindex.Index) error) error) {
	for time.Now().UnixNano() >= m.rests.Load() {
		var docs []textindex.Doc
		err := with(func(ix *textindex.Index) (err error) {
			docs, err = ix.WithoutVector(ctx, m.Embedder.Space(), fillMost)
			return err
		})
		if err == nil && len(docs) == 0 {
			return
		}
		if err == nil {
			err = m.fillWith(ctx, with, docs)
		}
		if err != nil {
			if ctx.Err() == nil {
				m.rest(ctx, err)
			}
			return
		}
	}
}

func (m *Meaning) fillWith(ctx context.Context, with func(func(*textindex.Index) error) error, docs []textindex.Doc) error {
	timed, cancel := context.WithTimeout(ctx, fillTime)
	defer cancel()
	made, _, err := m.embed(timed, docs)
	if err != nil {
		return err
	}
	return with(func(ix *textindex.Index) error { return ix.SetVectors(ctx, m.Embedder.Space(), made) })
}

// fused merges rankings into one of at most limit, in which each counts by its ranks: their
// scores do not compare.
func fused(limit int, rankings ...[]textindex.Hit) []textindex.Hit {
	at := map[string]int{}
	var out []textindex.Hit
	for _, hits := range rankings {
		for rank, h := range hits {
			i, there := at[h.ID]
			if !there {
				i = len(out)
				at[h.ID], h.Score = i, 0
				out = append(out, h)
			}
			out[i].Score += 1 / float64(fusion+rank+1)
		}
	}
	slices.SortStableFunc(out, func(a, b textindex.Hit) int { return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.ID, b.ID)) })
	return out[:min(len(out), limit)]
}
