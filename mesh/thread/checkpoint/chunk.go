package checkpoint

import (
	"context"
	"fmt"
	"strings"

	"agentmesh/mesh"
	"agentmesh/mesh/state"
)

// chunk returns the keys of the parts of a chunk. Names are in the order of where chunks begin.
func chunk(key mesh.ThreadKey, turn string, from, to int64) func(n int) state.Key {
	return func(n int) state.Key {
		return state.Key{Kind: kindChunk, Name: fmt.Sprintf("%s%019d/%d/%d", turnName(key, turn), from, to, n)}
	}
}

func turnName(key mesh.ThreadKey, turn string) string { return name(key) + "/" + turn + "/" }

// SaveChunk keeps what is made of the events of the turn from one Seq to another. Errors:
// Exhausted for one that is too large; Unavailable.
func (s *Store) SaveChunk(ctx context.Context, key mesh.ThreadKey, turn string, from, to int64, data []byte) error {
	return s.save(ctx, "checkpoint.SaveChunk", key, chunk(key, turn, from, to), data)
}

// LoadChunk returns what SaveChunk kept. Errors: Invalid for what is not whole; Unavailable.
func (s *Store) LoadChunk(ctx context.Context, key mesh.ThreadKey, turn string, from, to int64) ([]byte, error) {
	return s.load(ctx, "checkpoint.LoadChunk", chunk(key, turn, from, to))
}

// Chunks calls f with where the chunks of the turn begin and end, by where they begin. It does
// not look whether they are whole.
func (s *Store) Chunks(ctx context.Context, key mesh.ThreadKey, turn string, f func(from, to int64)) error {
	page := state.Page{Kind: kindChunk, Prefix: turnName(key, turn), Limit: state.MaxPage}
	for more := true; more; {
		items, left, err := s.kv.List(ctx, page)
		if err != nil {
			return mesh.Wrap("checkpoint.Chunks", err)
		}
		for _, it := range items {
			var from, to int64
			var n int
			if _, err := fmt.Sscanf(strings.TrimPrefix(it.Name, page.Prefix), "%d/%d/%d", &from, &to, &n); err == nil && n == 0 {
				f(from, to)
			}
			page.After = it.Name
		}
		more = left
	}
	return nil
}
