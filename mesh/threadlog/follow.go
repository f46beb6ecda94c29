package threadlog

import (
	"context"
	"iter"
	"slices"
	"sync"

	"agentmesh/mesh"
)

// Bounds of what a topic shares with followers that keep up.
const (
	maxRecent      = 512
	maxRecentBytes = 1 << 20
	maxDrain       = 256 // events of one Next
)

// published is an event on its way to followers, with its size in the store.
type published struct {
	*mesh.Event
	size int
}

// A topic is what the followers of one thread share. It exists only while
// there are any, and holds events only while one of them has yet to take them.
type topic struct {
	mu sync.Mutex // taken after Log.mu where both are
	// top is the highest Seq known to be committed: all below it are, too.
	top mesh.Seq
	// recent has the newest events in order. One may be missing while its
	// writer, whose commit came first, has yet to publish it; whoever needs it
	// reads the store.
	recent    []published
	bytes     int
	followers int
	waiting   []*Cursor
	gone      bool // the thread was deleted
}

func (l *Log) publish(key mesh.ThreadKey, added []published) {
	l.mu.RLock()
	t := l.topics[key]
	for wake := range l.scanners {
		ring(wake)
	}
	l.mu.RUnlock()
	if t != nil {
		t.publish(added)
	}
}

func (t *topic) publish(added []published) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, e := range added {
		i := len(t.recent)
		for i > 0 && t.recent[i-1].Seq > e.Seq {
			i--
		}
		t.recent = slices.Insert(t.recent, i, e)
		t.bytes += e.size
		t.top = max(t.top, e.Seq)
	}
	drop := 0
	for len(t.recent)-drop > maxRecent || t.bytes > maxRecentBytes && len(t.recent)-drop > 1 {
		t.bytes -= t.recent[drop].size
		drop++
	}
	t.recent = slices.Delete(t.recent, 0, drop)
	t.wakeAll()
}

// raise tells the topic of a Seq that is known to be committed.
func (t *topic) raise(top mesh.Seq) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if top > t.top {
		t.top = top
		t.wakeAll()
	}
}

func (t *topic) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.gone = true
	t.forget()
	t.wakeAll()
}

func (t *topic) isGone() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.gone
}

func (t *topic) wakeAll() {
	for i, c := range t.waiting {
		c.waits = false
		ring(c.wake)
		t.waiting[i] = nil
	}
	t.waiting = t.waiting[:0]
}

// forget lets go of the events but not of a small slice, which the next chunk
// of a stream will need.
func (t *topic) forget() {
	clear(t.recent)
	t.recent = t.recent[:0]
	if cap(t.recent) > 16 {
		t.recent = nil
	}
	t.bytes = 0
}

func (l *Log) join(key mesh.ThreadKey) *topic {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := l.topics[key]
	if t == nil {
		t = new(topic)
		l.topics[key] = t
	}
	t.mu.Lock()
	t.followers++
	t.mu.Unlock()
	return t
}

func (l *Log) leave(c *Cursor) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t := c.topic
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.waits {
		c.waits = false
		t.waiting = slices.DeleteFunc(t.waiting, func(w *Cursor) bool { return w == c })
	}
	t.followers--
	if t.followers == 0 && l.topics[c.key] == t {
		delete(l.topics, c.key)
	}
}

// ring wakes whoever waits on the channel of capacity 1, now or next.
func ring(wake chan struct{}) {
	select {
	case wake <- struct{}{}:
	default:
	}
}

// A Cursor reads a thread in bulk: first what there is, then what comes. It
// belongs to one goroutine, costs none and has no timer; close it after use.
type Cursor struct {
	log   *Log
	key   mesh.ThreadKey
	topic *topic
	wake  chan struct{} // capacity 1
	after mesh.Seq
	// asked says that the store's tail was asked for after joining the topic:
	// what is not in the answer will be published.
	asked bool
	waits bool // in topic.waiting; guarded by topic.mu
}

// Cursor returns a cursor before the first event with a Seq above after. The
// thread need not exist yet. A cursor beyond the tail waits until the thread
// has grown that far.
func (l *Log) Cursor(key mesh.ThreadKey, after mesh.Seq) *Cursor {
	return &Cursor{log: l, key: key, topic: l.join(key), wake: make(chan struct{}, 1), after: max(after, 0)}
}

// Close releases the cursor. It may be called again.
func (c *Cursor) Close() {
	if c.log != nil {
		c.log.leave(c)
		c.log = nil
	}
}

// Behind reports whether there are events that Next would return at once. A
// reader that packs events together, or flushes late, does so until it is not.
// Before the first Next it knows only of events that came after the cursor did.
func (c *Cursor) Behind() bool {
	c.topic.mu.Lock()
	defer c.topic.mu.Unlock()
	return c.after < c.topic.top
}

// Next blocks until there are events and returns all that are at hand, 1 to
// 256, in order. The slice is the caller's. Errors: NotFound once the thread
// was deleted, Canceled or Timeout when ctx ends, and the store's.
func (c *Cursor) Next(ctx context.Context) ([]*mesh.Event, error) {
	const op = "threadlog.Follow"
	if c.log == nil {
		return nil, mesh.Errorf(mesh.Precondition, op, "The cursor is closed")
	}
	for {
		if err := ctx.Err(); err != nil {
			return nil, mesh.Wrap(op, err)
		}
		if !c.asked {
			info, _, err := c.log.Info(ctx, c.key)
			if err != nil {
				return nil, mesh.Wrap(op, err)
			}
			c.topic.raise(info.Last)
			c.asked = true
		}
		events, behind, gone := c.take()
		switch {
		case gone:
			return nil, mesh.ThreadNotFound(op)
		case behind:
			return c.read(ctx, op)
		case len(events) > 0:
			return events, nil
		}
		select {
		case <-c.wake:
		case <-ctx.Done():
		}
	}
}

// take returns the shared events that follow the cursor, or whether it must
// read the store because they are not shared any more. With neither, the cursor
// is in the waiting list.
func (c *Cursor) take() (events []*mesh.Event, behind, gone bool) {
	t := c.topic
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.gone {
		return nil, false, true
	}
	if c.after >= t.top {
		c.wait()
		return nil, false, false
	}
	from, ok := slices.BinarySearchFunc(t.recent, c.after+1, func(e published, seq mesh.Seq) int { return int(e.Seq - seq) })
	if !ok {
		return nil, true, false
	}
	for _, e := range t.recent[from:] {
		if e.Seq != c.after+1 || len(events) == maxDrain {
			break
		}
		events = append(events, e.Event)
		c.after++
	}
	return events, false, false
}

// wait puts the cursor into the waiting list. When all followers are there,
// nobody needs the shared events any more.
func (c *Cursor) wait() {
	t := c.topic
	if !c.waits {
		c.waits = true
		t.waiting = append(t.waiting, c)
	}
	if len(t.waiting) == t.followers {
		t.forget()
	}
}

// read returns a page of the store.
func (c *Cursor) read(ctx context.Context, op string) ([]*mesh.Event, error) {
	recs, err := c.log.backend.Read(ctx, c.key, c.after, maxDrain)
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	// An empty page was there before, so it was deleted just now. Another may
	// be of a later thread with the same id, which begins when this one has ended.
	if len(recs) == 0 || c.topic.isGone() {
		return nil, mesh.ThreadNotFound(op)
	}
	events, err := decode(op, recs, make([]*mesh.Event, 0, len(recs)))
	if err != nil {
		return nil, err
	}
	c.after = recs[len(recs)-1].Seq
	return events, nil
}

// Follow yields the thread's events with a Seq above after, and then each new
// one as it is committed: once, in order, without a gap. It ends when the loop
// breaks or with an error, which is the last thing that it yields; see
// [Cursor.Next] for the codes. The thread need not exist yet.
func (l *Log) Follow(ctx context.Context, key mesh.ThreadKey, after mesh.Seq) iter.Seq2[*mesh.Event, error] {
	return func(yield func(*mesh.Event, error) bool) {
		c := l.Cursor(key, after)
		defer c.Close()
		for {
			events, err := c.Next(ctx)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, e := range events {
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}
