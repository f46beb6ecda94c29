package api

import (
	"context"
	"strconv"
	"strings"
	"time"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/audit"
	"agentmesh/mesh/threadlog"
)

// trailSlack is by how much events and records may be out of the order of their times: agents
// may say that something was up to an hour ago.
const trailSlack = time.Hour + time.Minute

// happened is an event, with its thread, or a record, with the thread that it is about or
// none.
type happened struct {
	key    mesh.ThreadKey
	event  *mesh.Event
	at     int64 // of an event, its Seq in the thread or its Pos among all
	record *meshv1.AuditRecord
}

func (h *happened) time() time.Time {
	if h.record != nil {
		return h.record.GetTime().AsTime()
	}
	return h.event.Time
}

// An eventSource has the events of a thread, or of all threads, after a place.
type eventSource struct {
	of    *threadlog.Log
	key   mesh.ThreadKey // without ID for all
	first mesh.Pos       // of the thread
	after int64
	until time.Time
	ahead []*happened
	over  bool
}

// before returns a place before which there is nothing of that time, by looking at a few
// events.
func (s *eventSource) before(ctx context.Context, t time.Time) (int64, error) {
	var low, high int64
	var err error
	if s.key.ID != "" {
		tail, failed := s.of.Tail(ctx, s.key)
		high, err = int64(tail), failed
	} else if newest, failed := s.of.Threads(ctx, s.key.Tenant, 0, 1); len(newest) > 0 {
		high, err = int64(newest[0].LastPos), failed
	} else {
		err = failed
	}
	for err == nil && low < high {
		mid := (low + high) / 2
		at, when, failed := s.next(ctx, mid)
		if err = failed; at == 0 || !when.Before(t.Add(-trailSlack)) {
			high = mid
		} else {
			low = at
		}
	}
	return low, err
}

// next is the place and time of the first event behind a place; 0 if there is none.
func (s *eventSource) next(ctx context.Context, after int64) (int64, time.Time, error) {
	if s.key.ID != "" {
		events, err := s.of.Read(ctx, s.key, mesh.Seq(after), 1)
		if err != nil || len(events) == 0 {
			return 0, time.Time{}, err
		}
		return int64(events[0].Seq), events[0].Time, nil
	}
	events, err := s.of.Scan(ctx, mesh.Pos(after), 1)
	if err != nil || len(events) == 0 {
		return 0, time.Time{}, err
	}
	return int64(events[0].Pos), events[0].Time, nil
}

func (s *eventSource) peek(ctx context.Context) (*happened, error) {
	if len(s.ahead) == 0 && !s.over {
		if err := s.read(ctx); err != nil {
			return nil, err
		}
		s.over = len(s.ahead) == 0
	}
	if len(s.ahead) == 0 || late(s.ahead[0], s.until) {
		return nil, nil
	}
	return s.ahead[0], nil
}

func (s *eventSource) read(ctx context.Context) error {
	if s.key.ID == "" {
		events, err := s.of.ScanTenant(ctx, s.key.Tenant, mesh.Pos(s.after), auditChunk)
		for _, e := range events {
			s.ahead = append(s.ahead, &happened{key: e.Thread, event: e.Event, at: int64(e.Pos)})
		}
		return err
	}
	events, err := s.of.Read(ctx, s.key, mesh.Seq(s.after), readAhead)
	for _, e := range events {
		s.ahead = append(s.ahead, &happened{key: s.key, event: e, at: int64(e.Seq)})
	}
	return err
}

// A recordSource has the records about a thread, or all, after a seq.
type recordSource struct {
	of    *audit.Store
	key   mesh.ThreadKey
	after int64
	until time.Time
	ahead []*happened
	over  bool
}

func (s *recordSource) peek(ctx context.Context) (*happened, error) {
	if len(s.ahead) == 0 && !s.over {
		recs, err := s.read(ctx)
		if err != nil {
			return nil, err
		}
		for _, rec := range recs {
			s.ahead = append(s.ahead, &happened{key: s.about(rec), record: rec})
		}
		s.over = len(s.ahead) == 0
	}
	if len(s.ahead) == 0 || late(s.ahead[0], s.until) {
		return nil, nil
	}
	return s.ahead[0], nil
}

func (s *recordSource) read(ctx context.Context) ([]*meshv1.AuditRecord, error) {
	if s.key.ID == "" {
		return s.of.Read(ctx, s.after, auditChunk)
	}
	return s.of.About(ctx, s.key, s.after, auditChunk)
}

// about is the thread that the record is about, of several the first.
func (s *recordSource) about(rec *meshv1.AuditRecord) mesh.ThreadKey {
	if s.key.ID != "" {
		return s.key
	}
	key := mesh.ThreadKey{Tenant: s.key.Tenant}
	if ids := audit.Threads(rec); len(ids) > 0 {
		key.ID = ids[0]
	}
	return key
}

// late reports whether all that follows is not before until either.
func late(h *happened, until time.Time) bool {
	return !until.IsZero() && (h.record != nil || h.event.Body != nil) && !h.time().Before(until.Add(trailSlack))
}

// merge has both in the order of their times.
type merge struct {
	events  *eventSource
	records *recordSource
}

// peek returns what is next; nil if there is nothing more.
func (m *merge) peek(ctx context.Context) (*happened, error) {
	e, err := m.events.peek(ctx)
	if err != nil {
		return nil, err
	}
	r, err := m.records.peek(ctx)
	switch {
	case err != nil:
		return nil, err
	case e == nil:
		return r, nil
	case r == nil || e.event.Body == nil || !r.time().Before(e.time()):
		return e, nil
	}
	return r, nil
}

// take goes on behind what peek returned.
func (m *merge) take(h *happened) {
	if h.record != nil {
		m.records.after, m.records.ahead = h.record.GetSeq(), m.records.ahead[1:]
	} else {
		m.events.after, m.events.ahead = h.at, m.events.ahead[1:]
	}
}

// A trailToken is where a page ended.
type trailToken struct {
	event  int64    // Seq in the thread or, of all threads, Pos
	first  mesh.Pos // of the thread, by which another one with its id is known
	record int64    // seq
}

// token is for the next page.
func (m *merge) token(thread bool) string {
	kind := "a"
	if thread {
		kind = "t"
	}
	return strings.Join([]string{kind, base36(m.events.after), base36(int64(m.events.first)), base36(m.records.after)}, "-")
}

func base36(n int64) string { return strconv.FormatInt(n, 36) }

// readTrailToken reads one; "" is for the first page.
func readTrailToken(op, token string, thread bool) (at trailToken, err error) {
	if token == "" {
		return at, nil
	}
	wrong := func() error {
		return mesh.InvalidField(op, "page_token", "is not one of this list; use the next_page_token of the page before, with the same thread_id")
	}
	parts := strings.Split(token, "-")
	if len(parts) != 4 || (parts[0] == "t") != thread || (parts[0] == "a") == thread {
		return at, wrong()
	}
	for i, to := range []*int64{&at.event, (*int64)(&at.first), &at.record} {
		n, err := strconv.ParseInt(parts[i+1], 36, 64)
		if err != nil || n < 0 {
			return at, wrong()
		}
		*to = n
	}
	return at, nil
}
