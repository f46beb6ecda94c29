package threadlog

import (
	"context"
	"fmt"
	"math"
	"sync"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/threadlog/eventpb"
)

// Log is the threads of a backend. Use [New]; one Log per backend in a process.
// Followers hear of what is appended through their own Log, and of what others
// append while [Log.Run] runs.
type Log struct {
	backend Backend
	now     func() time.Time
	lives   lives
	window  window
	buffers sync.Pool // of *[]byte: where batches are encoded
	added   func(mesh.ThreadKey, []*mesh.Event, time.Duration)
	full    func(context.Context) bool
	beside  Beside
	owed    debt

	mu       sync.RWMutex // guards the fields below
	topics   map[mesh.ThreadKey]*topic
	scanners map[chan struct{}]struct{} // one wake channel per FollowAll
}

// An Option changes a default of [New].
type Option func(*Log)

// WithClock gives events that come without a time the one that now returns.
// The default is time.Now.
func WithClock(now func() time.Time) Option { return func(l *Log) { l.now = now } }

// WithAdded tells f of the events that this Log has added, which it shares with readers,
// and how long that took until they were durable. It is called by who appends, before that
// one goes on, and must not block.
func WithAdded(f func(key mesh.ThreadKey, events []*mesh.Event, took time.Duration)) Option {
	return func(l *Log) { l.added = f }
}

// New returns a Log over the backend. It starts nothing and need not be closed.
func New(backend Backend, opts ...Option) *Log {
	l := &Log{
		backend: backend, now: time.Now,
		topics:   map[mesh.ThreadKey]*topic{},
		scanners: map[chan struct{}]struct{}{},
	}
	for _, opt := range opts {
		opt(l)
	}
	return l
}

// Now is the time by the log's clock.
func (l *Log) Now() time.Time { return l.now() }

// AppendOptions say what an append is based on.
type AppendOptions struct {
	// Expect has, by scope, the Seq of the last decision that the writer knew,
	// 0 for none. Every decision among the events needs its scope here, unless
	// Epoch is set.
	Expect map[mesh.Scope]mesh.Seq
	// First is that of [Batch].
	First mesh.Pos
	// Epoch is the claim under which a driver writes. It fences all events of
	// the append and stands in for Expect; what Expect says is checked as well.
	Epoch mesh.Epoch
	// Settled says that nothing is left to do of what the thread's events up to
	// that Seq asked of its driver; see [Log.Unfinished].
	Settled mesh.Seq
	// Deferred and Placed are those of [Batch].
	Deferred bool
	Placed   func()
	// Begins says that the events are a thread from its first one on, as another log had
	// it: they keep their epochs, need no Expect, and are added only if there is no decision
	// in the thread. Nobody is told of them as of what happens now.
	Begins bool
}

// Append adds the events to the thread, all or none, and returns the Seq of
// each. An event whose ID the thread has already is not added again; its Seq is
// the one it has, and events that are all there already succeed whatever else
// happened to the thread.
//
// Append sets Epoch, Size, and Time where it is missing, on the events before it
// writes, and Seq and Pos afterwards (Pos stays 0 for those that were there
// already). Once it has succeeded, the events and what they point to belong to
// the log and its readers, and are not changed any more; after an error they
// may be given again.
//
// Errors: Invalid for events that cannot be stored, one above [mesh.MaxEvent],
// and a decision without an Expect; Conflict for a decision or an epoch that is
// behind; Unavailable if the store cannot write. The Seqs are decided when
// Append returns, also if ctx ended meanwhile.
func (l *Log) Append(ctx context.Context, key mesh.ThreadKey, events []*mesh.Event, opts AppendOptions) (seqs []mesh.Seq, err error) {
	const op = "threadlog.Append"
	if err := ctx.Err(); err != nil {
		return nil, mesh.Wrap(op, err)
	}
	kept, err := l.keep(ctx, key, events)
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	defer func() { kept(err == nil) }()
	buffer, _ := l.buffers.Get().(*[]byte)
	if buffer == nil {
		buffer = new([]byte)
	}
	defer l.reuse(buffer)
	b, err := l.batch(op, buffer, events, opts)
	if err != nil {
		return nil, err
	}
	life := l.lives.get(key)
	defer l.lives.put(key, life)
	life.RLock()
	defer life.RUnlock()
	var begun time.Time
	if l.added != nil {
		begun = time.Now()
	}
	at, err := l.backend.Append(ctx, key, b)
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	added := make([]held, 0, len(events))
	for i, e := range events {
		e.Seq, e.Pos = at.Seqs[i], at.Pos[i]
		if e.Pos != 0 {
			added = append(added, held{Placed{key, e}, len(b.Entries[i].Data)})
		}
	}
	if len(added) > 0 {
		l.publish(key, added)
	}
	if l.added != nil && len(added) > 0 && !opts.Begins {
		fresh := make([]*mesh.Event, 0, len(added))
		for _, a := range added {
			fresh = append(fresh, a.Event)
		}
		l.added(key, fresh, time.Since(begun))
	}
	return at.Seqs, nil
}

// reuse keeps the buffer for another batch, unless it is large: stores keep nothing of
// a batch.
func (l *Log) reuse(buffer *[]byte) {
	if cap(*buffer) <= 64<<10 {
		l.buffers.Put(buffer)
	}
}

// batch validates the events and encodes them in the buffer.
func (l *Log) batch(op string, buffer *[]byte, events []*mesh.Event, opts AppendOptions) (*Batch, error) {
	if len(events) == 0 {
		return nil, mesh.InvalidField(op, "events", "is empty; append at least one event")
	}
	b := &Batch{Entries: make([]Entry, len(events)), First: opts.First, Epoch: opts.Epoch, Settled: opts.Settled, Deferred: opts.Deferred, Placed: opts.Placed}
	all := (*buffer)[:0] // entries, one after the other
	if opts.Begins {
		b.Expect = append(b.Expect, Expect{mesh.ThreadScope, 0})
	}
	for i, e := range events {
		if !opts.Begins {
			e.Epoch = opts.Epoch
		}
		if e.Time.IsZero() {
			e.Time = l.now()
		}
		asStored(e)
		entry := &b.Entries[i]
		entry.ID = e.ID
		entry.Scope, entry.Decision = mesh.ScopeOf(e)
		_, entry.Opens = e.Body.(mesh.MessagePosted)
		if _, known := opts.Expect[entry.Scope]; entry.Decision && !known && opts.Epoch == 0 && !opts.Begins {
			return nil, mesh.InvalidField(op, field(i, "expect"),
				"The decision %s must name the last decision in scope %q that it is based on", kind(e), entry.Scope)
		}
		if claim, ok := e.Body.(mesh.ThreadClaimed); ok {
			if claim.Epoch < 1 {
				return nil, mesh.InvalidField(op, field(i, "epoch"), "A claim must have an epoch above 0, and has %d", claim.Epoch)
			}
			entry.Claim = claim.Epoch
		}
		start := len(all)
		var err error
		if all, err = eventpb.Append(all, e); err != nil {
			return nil, mesh.Wrap(op, err)
		}
		if entry.Data = all[start:len(all):len(all)]; len(entry.Data) > mesh.MaxEvent {
			return nil, mesh.InvalidField(op, field(i, ""),
				"The event %s has %d bytes and may have %d; send less at once", kind(e), len(entry.Data), mesh.MaxEvent)
		}
		e.Size = len(entry.Data)
	}
	*buffer = all
	for scope, seq := range opts.Expect {
		b.Expect = append(b.Expect, Expect{scope, seq})
	}
	return b, nil
}

// asStored gives the event the times that readers of the store will see, so that
// live ones see the same.
func asStored(e *mesh.Event) {
	e.Time = e.Time.UTC().Truncate(time.Millisecond)
	switch b := e.Body.(type) {
	case mesh.TaskOpened:
		b.Execution.Deadline = b.Execution.Deadline.UTC().Truncate(time.Millisecond)
		e.Body = b
	case mesh.DispatchAccepted:
		b.Child.Deadline = b.Child.Deadline.UTC().Truncate(time.Millisecond)
		e.Body = b
	case mesh.DispatchIssued:
		b.Child.Deadline = b.Child.Deadline.UTC().Truncate(time.Millisecond)
		e.Body = b
	}
}

// Read returns the thread's events with a Seq above after, in order, at most
// limit: fewer only if there are no more. It returns none for a thread that
// does not exist. An event may have 1 MiB; choose limit accordingly.
//
// Readers share events: they, and what they point to, are not to be changed.
func (l *Log) Read(ctx context.Context, key mesh.ThreadKey, after mesh.Seq, limit int) ([]*mesh.Event, error) {
	const op = "threadlog.Read"
	after = max(after, 0)
	out, all, err := l.recent(ctx, key, after, limit)
	if err != nil || all {
		return out, mesh.Wrap(op, err)
	}
	for len(out) < limit {
		recs, err := l.backend.Read(ctx, key, after+mesh.Seq(len(out)), limit-len(out))
		if err != nil {
			return nil, mesh.Wrap(op, err)
		}
		if len(recs) == 0 {
			break
		}
		if out, err = decode(op, recs, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// recent is what the window has of what Read returns, and whether that is all.
func (l *Log) recent(ctx context.Context, key mesh.ThreadKey, after mesh.Seq, limit int) (events []*mesh.Event, all bool, err error) {
	if l.window.first(key) == 0 {
		return nil, false, ctx.Err()
	}
	info, _, err := l.Info(ctx, key)
	if err != nil {
		return nil, false, err
	}
	events = l.window.read(key, after, limit)
	if len(events) > 0 && events[0].Pos < info.FirstPos {
		events = nil // published late: of the thread that had the name before
	}
	return events, len(events) == limit || after+mesh.Seq(len(events)) >= info.Last, nil
}

// Tail returns the Seq of the thread's last event, 0 if there is no thread.
func (l *Log) Tail(ctx context.Context, key mesh.ThreadKey) (mesh.Seq, error) {
	info, _, err := l.Info(ctx, key)
	return info.Last, err
}

// Info returns what is known of the thread without reading it; false if it does
// not exist.
func (l *Log) Info(ctx context.Context, key mesh.ThreadKey) (Info, bool, error) {
	info, ok, err := l.backend.Info(ctx, key)
	if err != nil {
		return info, ok, mesh.Wrap("threadlog.Info", err)
	}
	begins := info.FirstPos
	if !ok {
		begins = math.MaxInt64 // it has no event any more
	}
	if first := l.window.first(key); first != 0 && first < begins {
		l.window.drop(key, begins) // of a thread that another node deleted
	}
	return info, ok, nil
}

// LastHash returns the hash of the thread's last event; nil where the backend has none.
func (l *Log) LastHash(key mesh.ThreadKey) []byte {
	c, ok := l.backend.(Chained)
	if !ok {
		return nil
	}
	hash := c.LastHash(key)
	if hash == [32]byte{} {
		return nil
	}
	return hash[:]
}

// Settle says that nothing is left to do of what the events up to that Seq asked of
// the driver of the thread which begins at first, where nothing is appended that could
// say so.
func (l *Log) Settle(ctx context.Context, key mesh.ThreadKey, first mesh.Pos, upTo mesh.Seq) error {
	return mesh.Wrap("threadlog.Settle", l.backend.Settle(ctx, key, first, upTo))
}

// Delete removes the thread for good and ends its followers with NotFound. It
// returns NotFound if there is no such thread, and Conflict if its last event is not
// at position last; see [Catalog].
func (l *Log) Delete(ctx context.Context, key mesh.ThreadKey, last mesh.Pos) error {
	life := l.lives.get(key)
	defer l.lives.put(key, life)
	life.Lock()
	defer life.Unlock()
	if err := l.backend.Delete(ctx, key, last); err != nil {
		return mesh.Wrap("threadlog.Delete", err)
	}
	l.window.drop(key, math.MaxInt64)
	l.mu.RLock()
	t := l.topics[key]
	l.mu.RUnlock()
	if t == nil {
		return nil
	}
	// Another node may have begun the next thread already, which the topic may be of.
	if _, err := l.refresh(context.WithoutCancel(ctx), key, t); err != nil {
		_, first := t.known()
		l.end(key, t, first) // the followers find out
	}
	return nil
}

// decode appends the events of the records to out.
func decode(op string, recs []Record, out []*mesh.Event) ([]*mesh.Event, error) {
	for _, r := range recs {
		e, err := decodeRecord(op, r)
		if err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

func decodeRecord(op string, r Record) (*mesh.Event, error) {
	e, err := eventpb.Decode(r.Data)
	if err != nil {
		return nil, mesh.Errorf(mesh.Unknown, op, "Event %d of thread %s cannot be read: %w", r.Seq, r.Thread.ID, err)
	}
	e.Seq, e.Pos, e.Size = r.Seq, r.Pos, len(r.Data)
	return e, nil
}

// kind names the event's kind for an error.
func kind(e *mesh.Event) string { return eventpb.KindOf(eventpb.EventToProto(e)) }

func field(i int, name string) string {
	if name == "" {
		return fmt.Sprintf("events[%d]", i)
	}
	return fmt.Sprintf("events[%d].%s", i, name)
}
