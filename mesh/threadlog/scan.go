package threadlog

import (
	"context"
	"iter"
	"math"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/threadlog/eventpb"
)

// Placed is an event together with its thread.
type Placed struct {
	Thread mesh.ThreadKey
	*mesh.Event
}

// Scan returns the events of all threads with a Pos above after, in commit
// order, at most limit. A page may be shorter, but is empty only when there is
// nothing more. Events of deleted threads are not there; an event that this
// version cannot read is an error.
func (l *Log) Scan(ctx context.Context, after mesh.Pos, limit int) ([]Placed, error) {
	return l.scan(ctx, after, limit, func(Record) bool { return true })
}

// ScanDecisions is Scan for readers who want decisions, and what models replied within
// the last days. Of other events they learn the place, but may find them without a
// body: nobody decodes them for it.
func (l *Log) ScanDecisions(ctx context.Context, after mesh.Pos, limit, days int) ([]Placed, error) {
	since := l.now().Add(-time.Duration(days) * Day)
	return l.scan(ctx, after, limit, func(r Record) bool { return r.Decision || eventpb.RepliedSince(r.Data, since) })
}

// ScanTenant is Scan for readers who want the events of one tenant. Of the others they learn
// the place, and find most without a body: nobody decodes them for it.
func (l *Log) ScanTenant(ctx context.Context, tenant mesh.TenantID, after mesh.Pos, limit int) ([]Placed, error) {
	return l.scan(ctx, after, limit, func(r Record) bool { return r.Thread.Tenant == tenant })
}

// Day is for how long it is counted for quotas what was used.
const Day = 24 * time.Hour

func (l *Log) scan(ctx context.Context, after mesh.Pos, limit int, wanted func(Record) bool) ([]Placed, error) {
	const op = "threadlog.Scan"
	if recent, err := l.latest(ctx, after, limit); err != nil || len(recent) > 0 {
		return recent, mesh.Wrap(op, err)
	}
	recs, err := l.backend.Scan(ctx, after, min(limit, l.window.missing(after)))
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	out := make([]Placed, len(recs))
	unwanted := 0
	for i, r := range recs {
		out[i].Thread = r.Thread
		if !wanted(r) {
			unwanted++
			continue
		}
		if out[i].Event, err = decodeRecord(op, r); err != nil {
			return nil, err
		}
	}
	blank := make([]mesh.Event, unwanted)
	for i, r := range recs {
		if out[i].Event == nil {
			out[i].Event, blank = &blank[0], blank[1:]
			out[i].Seq, out[i].Pos = r.Seq, r.Pos
		}
	}
	return out, nil
}

// latest is what the window has of what Scan returns; none if there is something of
// a thread that another node deleted, which then is in the window no more.
func (l *Log) latest(ctx context.Context, after mesh.Pos, limit int) ([]Placed, error) {
	page := l.window.scan(after, limit)
	begins := map[mesh.ThreadKey]mesh.Pos{}
	for _, p := range page {
		first, asked := begins[p.Thread]
		if !asked {
			info, ok, err := l.Info(ctx, p.Thread)
			if err != nil {
				return nil, err
			}
			if first = info.FirstPos; !ok {
				first = math.MaxInt64
			}
			begins[p.Thread] = first
		}
		if p.Pos < first {
			return nil, nil
		}
	}
	return page, nil
}

// FollowAll yields the events of all threads with a Pos above after, and then
// each new one as it is committed. It reads the store for all of them: it is
// for the few readers that span threads, and keeps up with any number of
// writers by reading in bulk. It ends as Follow does.
func (l *Log) FollowAll(ctx context.Context, after mesh.Pos) iter.Seq2[Placed, error] {
	return l.follow(ctx, after, l.Scan)
}

// FollowDecisions is to FollowAll as ScanDecisions is to Scan, with replies of the last [Day].
func (l *Log) FollowDecisions(ctx context.Context, after mesh.Pos) iter.Seq2[Placed, error] {
	return l.follow(ctx, after, func(ctx context.Context, after mesh.Pos, limit int) ([]Placed, error) {
		return l.ScanDecisions(ctx, after, limit, 1)
	})
}

func (l *Log) follow(ctx context.Context, after mesh.Pos, scan func(context.Context, mesh.Pos, int) ([]Placed, error)) iter.Seq2[Placed, error] {
	return func(yield func(Placed, error) bool) {
		wake := make(chan struct{}, 1)
		l.mu.Lock()
		l.scanners[wake] = struct{}{}
		l.mu.Unlock()
		defer func() {
			l.mu.Lock()
			delete(l.scanners, wake)
			l.mu.Unlock()
		}()
		for {
			page, err := scan(ctx, after, maxDrain)
			if err != nil {
				yield(Placed{}, err)
				return
			}
			for _, e := range page {
				if !yield(e, nil) {
					return
				}
				after = e.Pos
			}
			if len(page) > 0 {
				continue
			}
			select {
			case <-wake:
			case <-ctx.Done():
				yield(Placed{}, mesh.Wrap("threadlog.FollowAll", ctx.Err()))
				return
			}
		}
	}
}
