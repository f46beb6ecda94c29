package threadlog

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"agentmesh/mesh"
)

// SweepEvery is how often a Log that is not alone on its backend looks for what it
// was not told of: the most that a lost wake-up can cost.
const SweepEvery = time.Second

// Run wakes followers when others append to the backend, until ctx is done. Where
// nobody else can, it has nothing to do but wait. A Log on which it does not run
// serves its own followers alone.
func (l *Log) Run(ctx context.Context) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var sweeping sync.WaitGroup
	defer sweeping.Wait()
	defer stop()
	told := make(chan error, 1)
	sweeping.Go(func() { told <- l.backend.Notify(ctx, func(key mesh.ThreadKey) { l.look(ctx, key) }) })
	tick := time.NewTicker(SweepEvery)
	defer tick.Stop()
	for {
		select {
		case err := <-told:
			<-ctx.Done() // there is nobody else, or it is over
			return mesh.Wrap("threadlog.Run", err)
		case <-tick.C:
			l.sweep(ctx)
		case <-ctx.Done():
			return nil
		}
	}
}

// sweep looks at every thread that is followed.
func (l *Log) sweep(ctx context.Context) {
	l.mu.RLock()
	followed := slices.Collect(maps.Keys(l.topics))
	l.mu.RUnlock()
	for _, key := range followed {
		l.look(ctx, key)
	}
	l.wakeScanners()
}

// look finds out how far the thread has come and wakes those who follow it. A
// store that cannot be read is looked at again with the next sweep, and tells
// readers itself.
func (l *Log) look(ctx context.Context, key mesh.ThreadKey) {
	l.wakeScanners()
	l.mu.RLock()
	t := l.topics[key]
	l.mu.RUnlock()
	if t == nil {
		return
	}
	_, _ = l.refresh(ctx, key, t)
}

// refresh finds out how far the topic's thread has come, and ends it if the thread was
// deleted. It returns what there is, which may be another thread by then.
func (l *Log) refresh(ctx context.Context, key mesh.ThreadKey, t *topic) (Info, error) {
	known, first := t.known() // before the store is asked, which may know more by then
	info, _, err := l.Info(ctx, key)
	switch {
	case err != nil:
	case info.Last < known:
		l.end(key, t, first)
	case !t.raise(info.Last, info.FirstPos):
		_, of := t.known()
		l.end(key, t, of)
	}
	return info, err
}

func (l *Log) wakeScanners() {
	l.mu.RLock()
	defer l.mu.RUnlock()
	for wake := range l.scanners {
		ring(wake)
	}
}

// known is the highest Seq that is known to be committed, and the first position of the
// thread.
func (t *topic) known() (top mesh.Seq, first mesh.Pos) {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.top, t.first
}
