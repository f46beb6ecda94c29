package tasks

import (
	"container/list"
	"context"
	"crypto/cipher"
	"log/slog"
	"math"
	"sync"
	"sync/atomic"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/threadlog"
)

// Index is the projection. Use New.
type Index struct {
	log    *threadlog.Log
	seal   cipher.AEAD
	logger *slog.Logger
	// changing has room for one: whoever reads a page of the log and applies it, or
	// looks for what was deleted.
	changing chan struct{}

	mu      sync.RWMutex // guards the fields below
	applied mesh.Pos
	tenants map[mesh.TenantID]*tenant
	used    map[mesh.TenantID]map[string]*tally // by user; "" is the tenant's
	swept   int64                               // the hour in which used was

	ready atomic.Bool // it has once had all that the log had
}

type tenant struct {
	threads map[string]*conversation
	order   *list.List // of *task, as List gives them
	// deletions is the log's number of them when all threads here were there.
	deletions int64
}

// New returns an empty Index over the log. The key, of [KeySize] random bytes,
// seals page tokens; as long as it stays the same, so do they. A logger of nil
// discards. It starts nothing; see [Index.Run].
func New(log *threadlog.Log, key []byte, logger *slog.Logger) (*Index, error) {
	seal, err := newSeal(key)
	if err != nil {
		return nil, err
	}
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	return &Index{log: log, seal: seal, logger: logger, changing: make(chan struct{}, 1), tenants: map[mesh.TenantID]*tenant{}, used: map[mesh.TenantID]map[string]*tally{}}, nil
}

const (
	// pageSize is how many events are read at a time.
	pageSize = 512
	// pace is how long news gather before they are read: not so long that the log
	// has written more meanwhile than it remembers, and they are decoded again.
	pace = 20 * time.Millisecond
	// retry is how long Run waits after it could not read the log.
	retry = 5 * time.Second
)

// Run keeps the index near the end of the log until ctx is done, so that List
// has little to read. It starts no goroutine. A log that cannot be read is
// logged and tried again: List returns the error to those who need to know.
func (x *Index) Run(ctx context.Context) error {
	for ctx.Err() == nil {
		err := x.read(ctx, math.MaxInt64)
		if err == nil {
			err = x.news(ctx)
		}
		wait := pace
		if err != nil && ctx.Err() == nil {
			x.logger.WarnContext(ctx, "tasks not indexed", "err", err)
			wait = retry
		}
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
	return nil
}

// news waits until there is something that was not applied.
func (x *Index) news(ctx context.Context) error {
	for _, err := range x.log.FollowDecisions(ctx, x.position()) {
		return err
	}
	return nil
}

func (x *Index) position() mesh.Pos {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return x.applied
}

// read applies the log up to the position, or to its end if that comes first.
func (x *Index) read(ctx context.Context, to mesh.Pos) error {
	for x.position() < to {
		if more, err := x.step(ctx); err != nil || !more {
			return err
		}
	}
	return nil
}

// step applies the next page of the log; false if there is none.
func (x *Index) step(ctx context.Context) (bool, error) {
	const op = "tasks.read"
	release, err := x.turn(ctx)
	if err != nil {
		return false, mesh.Wrap(op, err)
	}
	defer release()
	page, err := x.log.ScanDecisions(ctx, x.position(), pageSize)
	if err != nil {
		return false, mesh.Wrap(op, err)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.sweep(x.log.Now())
	for _, p := range page {
		x.apply(p)
		x.applied = p.Pos
	}
	return len(page) > 0, nil
}

// catchUp applies what the tenant's threads have had so far.
func (x *Index) catchUp(ctx context.Context, tenant mesh.TenantID) error {
	last, err := x.log.Threads(ctx, tenant, 0, 1)
	if err != nil || len(last) == 0 {
		return mesh.Wrap("tasks.catchUp", err)
	}
	return x.read(ctx, last[0].LastPos)
}

// prune drops the tenant's threads that were deleted, if any were since it last
// looked. No page is read meanwhile, which may have been of before a deletion.
func (x *Index) prune(ctx context.Context, id mesh.TenantID) error {
	const op = "tasks.prune"
	release, err := x.turn(ctx)
	if err != nil {
		return mesh.Wrap(op, err)
	}
	defer release()
	deletions, err := x.log.Deletions(ctx, id)
	if err != nil {
		return mesh.Wrap(op, err)
	}
	x.mu.RLock()
	t := x.tenants[id]
	x.mu.RUnlock()
	if t == nil || t.deletions == deletions {
		return nil
	}
	var dead []mesh.ThreadKey
	for thread := range t.threads { // they change under the caller's turn alone
		key := mesh.ThreadKey{Tenant: id, ID: thread}
		_, ok, err := x.log.Info(ctx, key)
		if err != nil {
			return mesh.Wrap(op, err)
		}
		if !ok {
			dead = append(dead, key)
		}
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, key := range dead {
		x.drop(key)
	}
	t.deletions = deletions
	return nil
}

// turn waits until nobody else changes the index, and gives back how to let others.
func (x *Index) turn(ctx context.Context) (release func(), err error) {
	select {
	case x.changing <- struct{}{}:
		return func() { <-x.changing }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
