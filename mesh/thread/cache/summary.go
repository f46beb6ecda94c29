package cache

import (
	"context"
	"encoding/binary"
	"maps"

	lru "github.com/hashicorp/golang-lru/v2"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/threadlog"
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
	if had, ok := s.summaries.Get(key); ok && had.isOf(info) {
		return *had.state, nil
	}
	if had, ok := s.keptSummary(key); ok && had.isOf(info) {
		s.summaries.Add(key, had)
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
	s.keepSummary(key, now)
	return *now.state, nil
}

// isOf reports whether it is of the thread that there is, and has all of it.
func (m *summary) isOf(info threadlog.Info) bool {
	return m.state.First == info.FirstPos && m.pos >= info.LastPos
}

// Summaries keep what lists tell of threads beyond the process, until these are deleted. It may
// be called concurrently, and does not block.
type Summaries interface {
	// KeepSummary keeps it in place of the one before.
	KeepSummary(key mesh.ThreadKey, data []byte)
	// Summary returns what was kept last; nil if nothing was, or cannot be read.
	Summary(key mesh.ThreadKey) []byte
}

// WithSummaries has summaries kept of threads that leave memory, and begun with.
func WithSummaries(k Summaries) Option { return func(s *States) { s.kept = k } }

// keptSummary is that which was kept of the thread; false if it cannot be used, and the thread
// is to be folded.
func (s *States) keptSummary(key mesh.ThreadKey) (summary, bool) {
	if s.kept == nil {
		return summary{}, false
	}
	b := s.kept.Summary(key)
	pos, n := binary.Varint(b)
	if n <= 0 {
		return summary{}, false
	}
	st, err := thread.DecodeSummary(b[n:])
	return summary{mesh.Pos(pos), st}, err == nil
}

func (s *States) keepSummary(key mesh.ThreadKey, m summary) {
	if s.kept == nil || m.state.Seq == 0 {
		return
	}
	if b, err := m.state.EncodeSummary(); err == nil { // else it is folded when it is listed
		s.kept.KeepSummary(key, append(binary.AppendVarint(nil, int64(m.pos)), b...))
	}
}

// KeepSummaries keeps those of the threads in memory, at the end.
func (s *States) KeepSummaries() {
	if s.kept == nil {
		return
	}
	s.mu.Lock()
	all := maps.Clone(s.held)
	s.mu.Unlock()
	s.keepAll(all)
}

// keepAll keeps summaries of threads that are not listed in vain.
func (s *States) keepAll(all map[mesh.ThreadKey]*entry) {
	for key, e := range all {
		e.mu.Lock()
		now := summary{e.pos, e.state.Summary()}
		e.mu.Unlock()
		s.keepSummary(key, now)
	}
}
