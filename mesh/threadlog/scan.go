package threadlog

import (
	"context"
	"iter"
	"math"

	"agentmesh/mesh"
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
	const op = "threadlog.Scan"
	if recent, err := l.latest(ctx, after, limit); err != nil || len(recent) > 0 {
		return recent, mesh.Wrap(op, err)
	}
	recs, err := l.backend.Scan(ctx, after, limit)
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	events, err := decode(op, recs, make([]*mesh.Event, 0, len(recs)))
	if err != nil {
		return nil, err
	}
	out := make([]Placed, len(recs))
	for i, e := range events {
		out[i] = Placed{recs[i].Thread, e}
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
			page, err := l.Scan(ctx, after, maxDrain)
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
