package threadlog

import (
	"context"
	"iter"
	"slices"
	"sync"

	"agentmesh/mesh"
)

// maxDrain bounds the events of one Next.
const maxDrain = 256

// A topic is what the followers of one thread share: who is to be woken. It exists
// only while there are any.
type topic struct {
	mu sync.Mutex // taken after Log.mu where both are
	// top is the highest Seq known to be committed: all below it are, too.
	top       mesh.Seq
	first     mesh.Pos // of the thread, once that is known; then it stays
	followers int
	waiting   []*Cursor
	gone      bool // the thread was deleted
}

// publish lets readers have the events, and wakes those who wait for them.
func (l *Log) publish(key mesh.ThreadKey, added []held) {
	top, first := mesh.Seq(0), mesh.Pos(0)
	for _, h := range added {
		if top = max(top, h.Seq); h.Seq == 1 {
			first = h.Pos
		}
	}
	l.window.put(key, added)
	l.mu.RLock()
	t := l.topics[key]
	for wake := range l.scanners {
		ring(wake)
	}
	l.mu.RUnlock()
	if t != nil && !t.raise(top, first) {
		_, of := t.known()
		l.end(key, t, of)
	}
}

// raise tells the topic of a Seq that is known to be committed in the thread that
// begins at first, if that is known, and returns false if it is of an earlier one. Of a
// thread before its own, which who asked was told of long ago, it learns nothing.
func (t *topic) raise(top mesh.Seq, first mesh.Pos) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case first == 0:
	case t.first == 0:
		t.first = first
	case first != t.first:
		return first < t.first
	}
	if top > t.top {
		t.top = top
		t.wakeAll()
	}
	return true
}

// end ends the topic of the thread that begins at first, or of one that nobody knew when
// that was 0. A topic of which more is known by then may be of a later thread.
func (l *Log) end(key mesh.ThreadKey, t *topic, first mesh.Pos) {
	l.mu.Lock()
	defer l.mu.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.first != first {
		return
	}
	if t.gone = true; l.topics[key] == t {
		delete(l.topics, key)
	}
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
	first mesh.Pos      // of the thread, once that is known
	after mesh.Seq
	// asked says that the store's tail was asked for after joining the topic:
	// what is not in the answer will be published.
	asked bool
	waits bool // in topic.waiting; guarded by topic.mu
}

// Cursor returns a cursor before the first event with a Seq above after, in the thread
// whose first event is at first: of the threads that have the id one after the other,
// that one alone. 0 is the one that there is at the first Next or, if there is none, the
// next one. A cursor beyond the tail waits until the thread has grown that far.
func (l *Log) Cursor(key mesh.ThreadKey, first mesh.Pos, after mesh.Seq) *Cursor {
	return &Cursor{log: l, key: key, topic: l.join(key), wake: make(chan struct{}, 1), first: first, after: max(after, 0)}
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
		if err := c.ask(ctx, op); err != nil {
			return nil, err
		}
		if c.behind() {
			return c.take(ctx, op)
		}
		if c.topic.isGone() {
			return nil, mesh.ThreadNotFound(op)
		}
		select {
		case <-c.wake:
		case <-ctx.Done():
		}
	}
}

// ask has the topic know, once, how far the thread has come.
func (c *Cursor) ask(ctx context.Context, op string) error {
	for !c.asked {
		info, err := c.log.refresh(ctx, c.key, c.topic)
		switch {
		case err != nil:
			return mesh.Wrap(op, err)
		case c.first != 0 && c.first != info.FirstPos:
			return mesh.ThreadNotFound(op)
		case c.topic.isGone(): // it is of a thread that was deleted, and this cursor of the one that has its id now
			c.log.leave(c)
			c.topic = c.log.join(c.key)
		default:
			c.first, c.asked = info.FirstPos, true
		}
	}
	return nil
}

// behind reports whether there are events for the cursor. If not, it is in the
// waiting list.
func (c *Cursor) behind() bool {
	t := c.topic
	t.mu.Lock()
	defer t.mu.Unlock()
	if c.after < t.top && !t.gone {
		return true
	}
	if !c.waits {
		c.waits = true
		t.waiting = append(t.waiting, c)
	}
	return false
}

// take returns the events that follow the cursor, which must be behind.
func (c *Cursor) take(ctx context.Context, op string) ([]*mesh.Event, error) {
	events := c.log.window.read(c.key, c.after, maxDrain)
	if len(events) == 0 || events[0].Pos < c.first { // or published late, of a thread before
		recs, err := c.log.backend.Read(ctx, c.key, c.after, maxDrain)
		if err != nil {
			return nil, mesh.Wrap(op, err)
		}
		if events, err = decode(op, recs, make([]*mesh.Event, 0, len(recs))); err != nil {
			return nil, err
		}
	}
	// The thread may have been deleted meanwhile, and another one begun that has its id.
	info, _, err := c.log.Info(ctx, c.key)
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	if c.first == 0 { // there was none yet
		c.first = info.FirstPos
	}
	if len(events) == 0 || events[0].Pos < c.first || info.FirstPos != c.first {
		return nil, mesh.ThreadNotFound(op)
	}
	c.after = events[len(events)-1].Seq
	return events, nil
}

// Follow yields the thread's events with a Seq above after, and then each new
// one as it is committed: once, in order, without a gap. It ends when the loop
// breaks or with an error, which is the last thing that it yields; see
// [Cursor.Next] for the codes, and [Log.Cursor] for what first is.
func (l *Log) Follow(ctx context.Context, key mesh.ThreadKey, first mesh.Pos, after mesh.Seq) iter.Seq2[*mesh.Event, error] {
	return func(yield func(*mesh.Event, error) bool) {
		c := l.Cursor(key, first, after)
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
