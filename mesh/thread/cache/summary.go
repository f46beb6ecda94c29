package cache

import (
	"context"

	lru "github.com/hashicorp/golang-lru/v2"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
)

// maxSummaries is how many summaries are kept, of some hundred bytes each.
const maxSummaries = 16 << 10

// A summary is that of a thread up to a position.
type summary struct {
	pos   mesh.Pos
	state *thread.State
}

// summaries are those of the threads that were listed last.
type summaries = lru.Cache[mesh.ThreadKey, summary]

func newSummaries() *summaries {
	c, _ := lru.New[mesh.ThreadKey, summary](maxSummaries) // it fails for sizes below 1
	return c
}

// Summary returns what lists tell of the thread (see [thread.State.Summary]), caught up with the
// log; it is the caller's, and that of a thread without events is zero. A thread that is not in
// memory is folded when it was not listed since its last event, and not kept there: lists do
// not take the room of threads in use.
func (s *States) Summary(ctx context.Context, key mesh.ThreadKey) (thread.State, error) {
	info, there, err := s.log.Info(ctx, key)
	if err != nil || !there {
		return thread.State{}, mesh.Wrap("cache.Summary", err)
	}
	if had, ok := s.summaries.Get(key); ok && had.state.First == info.FirstPos && had.pos >= info.LastPos {
		return *had.state, nil
	}
	s.mu.Lock()
	e := s.held[key]
	if e != nil {
		e.users++
	}
	s.mu.Unlock()
	if e != nil {
		defer s.release(key, e)
	} else {
		e = newEntry()
		defer s.later(key, e, s.last)
	}
	if err := s.catchUp(ctx, key, e); err != nil {
		return thread.State{}, err
	}
	e.mu.Lock()
	now := summary{e.pos, e.state.Summary()}
	e.mu.Unlock()
	s.summaries.Add(key, now)
	return *now.state, nil
}
