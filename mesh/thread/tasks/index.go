package tasks

import (
	"context"
	"crypto/cipher"
	"log/slog"
	"sync"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/thread/rows"
	"agentmesh/mesh/threadlog"
)

// Index is the projection. Use New.
type Index struct {
	log    *threadlog.Log
	seal   cipher.AEAD
	logger *slog.Logger
	pages  Pages // nil if rows are in memory alone
	// changing has room for one: whoever reads a page of the log and applies it,
	// looks for what was deleted, or takes what is to be kept.
	changing chan struct{}
	keeping  chan struct{} // likewise: whoever keeps rows
	due      chan struct{} // capacity 1: rows are to be kept

	mu        sync.Mutex // guards the fields below
	applied   mesh.Pos
	table     *rows.Table
	held      map[mesh.ThreadKey]*conversation
	touched   map[*conversation]struct{}          // that are not in lists as they are
	summaries map[mesh.ThreadKey][]byte           // that are not in rows
	used      map[mesh.TenantID]map[string]*tally // by user; "" is the tenant's
	owed      map[mesh.Owner]struct{}             // tallies that are not in their rows as they are
	swept     int64                               // the hour in which used was
	deletions int64                               // up to which threads were dropped
	fresh     int                                 // events applied since rows were kept
	ready     bool                                // it has once had all that the log had
}

// An Option changes what New makes.
type Option func(*Index)

// WithPages has rows kept in the pages, and begun with.
func WithPages(p Pages) Option { return func(x *Index) { x.pages = p } }

// New returns an Index over the log, empty or as its rows were kept. The key, of [KeySize]
// random bytes, seals page tokens; as long as it stays the same, so do they. A logger of nil
// discards. It starts nothing; see [Index.Run].
func New(log *threadlog.Log, key []byte, logger *slog.Logger, opts ...Option) (*Index, error) {
	seal, err := newSeal(key)
	if err != nil {
		return nil, err
	}
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	x := &Index{log: log, seal: seal, logger: logger, changing: make(chan struct{}, 1), keeping: make(chan struct{}, 1), due: make(chan struct{}, 1)}
	for _, o := range opts {
		o(x)
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	if x.empty(); x.pages != nil {
		x.begin()
	}
	return x, nil
}

// empty forgets all. The caller holds mu, or is alone.
func (x *Index) empty() {
	x.applied, x.fresh, x.ready, x.table = 0, 0, false, rows.New(nil)
	if x.pages != nil {
		x.table = rows.New(x.pages)
	}
	x.held, x.touched, x.summaries = map[mesh.ThreadKey]*conversation{}, map[*conversation]struct{}{}, map[mesh.ThreadKey][]byte{}
	x.used, x.owed = map[mesh.TenantID]map[string]*tally{}, map[mesh.Owner]struct{}{}
}

const (
	// pageSize is how many events are read at a time.
	pageSize = 512
	// pace is how long news gather before they are read, at most, and gather about how many of
	// them: not so many that the log remembers them no more, and they are decoded again.
	pace   = 20 * time.Millisecond
	gather = 512
	// retry is how long Run waits after it could not read the log.
	retry = 5 * time.Second
)

// Run keeps the index near the end of the log until ctx is done, so that List
// has little to read, and its rows not far behind. When it returns, nothing of it runs. A log
// that cannot be read is logged and tried again: List returns the error to those who need to know.
func (x *Index) Run(ctx context.Context) error {
	var keeping sync.WaitGroup
	defer keeping.Wait()
	keeping.Go(func() { x.keepRows(ctx) })
	begun, at := time.Now(), x.position()
	for ctx.Err() == nil {
		err := x.readAll(ctx)
		if err == nil {
			err = x.news(ctx)
		}
		now, upTo := time.Now(), x.position()
		wait := min(pace, now.Sub(begun)*gather/time.Duration(max(upTo-at, 1)))
		begun, at = now, upTo
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
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.applied
}

// readAll applies the log up to its end.
func (x *Index) readAll(ctx context.Context) error {
	for more := true; more; {
		var err error
		if more, err = x.step(ctx); err != nil {
			return err
		}
		if x.isDue(!more) {
			select {
			case x.due <- struct{}{}:
			default:
			}
		}
	}
	return nil
}

// keepRows keeps rows when there are many that are not, until ctx is done. Whoever reads the log
// goes on meanwhile: what it falls behind it would have to decode again.
func (x *Index) keepRows(ctx context.Context) {
	for {
		select {
		case <-x.due:
		case <-ctx.Done():
			return
		}
		if err := x.Keep(ctx); err != nil && ctx.Err() == nil {
			x.logger.WarnContext(ctx, "rows of tasks not kept; the next start reads more of the log", "err", err)
		}
	}
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
	page, err := x.log.ScanDecisions(ctx, x.position(), pageSize, SumDays)
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
	x.settle()
	x.fresh += len(page)
	return len(page) > 0 || x.renewed(), nil
}

// catchUp applies what the tenant's threads have had so far.
func (x *Index) catchUp(ctx context.Context, tenant mesh.TenantID) error {
	last, err := x.log.Threads(ctx, tenant, 0, 1)
	if err != nil || len(last) == 0 {
		return mesh.Wrap("tasks.catchUp", err)
	}
	return x.read(ctx, last[0].LastPos)
}

// prune drops threads that were deleted, if any were since it last looked. No page is read
// meanwhile, which may have been of before a deletion.
func (x *Index) prune(ctx context.Context) error {
	const op = "tasks.prune"
	x.mu.Lock()
	since := x.deletions
	x.mu.Unlock()
	if _, now, _, err := x.log.Deleted(ctx, since); err != nil || now == since {
		return mesh.Wrap(op, err)
	}
	release, err := x.turn(ctx)
	if err != nil {
		return mesh.Wrap(op, err)
	}
	defer release()
	return mesh.Wrap(op, x.pruned(ctx))
}

// pruned is prune for who has the turn.
func (x *Index) pruned(ctx context.Context) error {
	x.mu.Lock()
	since := x.deletions
	x.mu.Unlock()
	keys, now, all, err := x.log.Deleted(ctx, since)
	if err != nil {
		return err
	}
	if !all {
		keys = x.threads()
	}
	if err := x.dropDead(ctx, keys); err != nil {
		return err
	}
	x.mu.Lock()
	defer x.mu.Unlock()
	x.deletions = now
	return nil
}

// threads are all about which there is something.
func (x *Index) threads() (keys []mesh.ThreadKey) {
	x.mu.Lock()
	defer x.mu.Unlock()
	for key := range x.held {
		keys = append(keys, key)
	}
	for row := range x.table.Range(string(rowThread), string(rowThread+1)) {
		if key := threadOf(row); len(keys) == 0 || keys[len(keys)-1] != key { // else of the same one
			keys = append(keys, key)
		}
	}
	return keys
}

// dropDead drops those of the threads that are not there. The caller has the turn.
func (x *Index) dropDead(ctx context.Context, keys []mesh.ThreadKey) error {
	for _, key := range keys {
		_, there, err := x.log.Info(ctx, key)
		if err != nil {
			return err
		}
		if !there {
			x.mu.Lock()
			x.drop(key)
			x.mu.Unlock()
		}
	}
	return nil
}

// turn waits until nobody else changes the index, and gives back how to let others.
func (x *Index) turn(ctx context.Context) (release func(), err error) {
	return take(ctx, x.changing)
}

func take(ctx context.Context, one chan struct{}) (release func(), err error) {
	select {
	case one <- struct{}{}:
		return func() { <-one }, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
