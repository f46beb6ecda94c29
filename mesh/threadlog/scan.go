package threadlog

import (
	"context"
	"iter"

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
	return l.scan(ctx, after, limit, func(Record) bool { return true })
}

// ScanDecisions is Scan for readers who want decisions. Of other events they learn
// the place, but may find them without a body: nobody decodes them for it.
func (l *Log) ScanDecisions(ctx context.Context, after mesh.Pos, limit int) ([]Placed, error) {
	return l.scan(ctx, after, limit, func(r Record) bool { return r.Decision })
}

func (l *Log) scan(ctx context.Context, after mesh.Pos, limit int, wanted func(Record) bool) ([]Placed, error) {
	const op = "threadlog.Scan"
	if recent := l.window.scan(after, limit); len(recent) > 0 {
		return recent, mesh.Wrap(op, ctx.Err())
	}
	recs, err := l.backend.Scan(ctx, after, min(limit, l.window.missing(after)))
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	out := make([]Placed, len(recs))
	for i, r := range recs {
		e := &mesh.Event{Seq: r.Seq, Pos: r.Pos}
		if wanted(r) {
			if e, err = decodeRecord(op, r); err != nil {
				return nil, err
			}
		}
		out[i] = Placed{r.Thread, e}
	}
	return out, nil
}

// FollowAll yields the events of all threads with a Pos above after, and then
// each new one as it is committed. It reads the store for all of them: it is
// for the few readers that span threads, and keeps up with any number of
// writers by reading in bulk. It ends as Follow does.
func (l *Log) FollowAll(ctx context.Context, after mesh.Pos) iter.Seq2[Placed, error] {
	return l.follow(ctx, after, l.Scan)
}

// FollowDecisions is to FollowAll as ScanDecisions is to Scan.
func (l *Log) FollowDecisions(ctx context.Context, after mesh.Pos) iter.Seq2[Placed, error] {
	return l.follow(ctx, after, l.ScanDecisions)
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
