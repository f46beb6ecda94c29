package threadlog

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"agentmesh/mesh"
)

// nowhere is a backend that numbers what it is given and keeps nothing.
type nowhere struct {
	Backend
	mu   sync.Mutex
	last mesh.Seq
}

func (n *nowhere) Append(_ context.Context, _ mesh.ThreadKey, b *Batch) (Appended, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	var at Appended
	for range b.Entries {
		n.last++
		at.Seqs = append(at.Seqs, n.last)
		at.Pos = append(at.Pos, mesh.Pos(n.last))
	}
	return at, nil
}

func (n *nowhere) Info(context.Context, mesh.ThreadKey) (Info, bool, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return Info{Last: n.last, FirstPos: 1}, n.last > 0, nil
}

func note(text string) *mesh.Event { return &mesh.Event{Body: mesh.CancelRequested{By: text}} }

func (l *Log) topicOf(key mesh.ThreadKey) *topic {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.topics[key]
}

func TestATopicIsThereWhileSomebodyFollows(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := New(&nowhere{})
		key := mesh.ThreadKey{Tenant: "acme", ID: "x"}
		add := func(text string) {
			if _, err := l.Append(t.Context(), key, []*mesh.Event{note(text)}, AppendOptions{}); err != nil {
				t.Error(err)
			}
			synctest.Wait()
		}
		add("nobody follows")
		if l.topicOf(key) != nil {
			t.Error("there is a topic without followers")
		}
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				for _, err := range l.Follow(ctx, key, 0, 1) {
					if err != nil {
						return
					}
				}
			})
		}
		slow := l.Cursor(key, 0, 1)
		for range 1000 {
			add("small")
		}
		slow.Close()
		topic := l.topicOf(key)
		if len(topic.waiting) != 3 {
			t.Errorf("%d of 3 wait", len(topic.waiting))
		}
		cancel()
		wg.Wait()
		if len(l.topics) != 0 || len(topic.waiting) != 0 {
			t.Errorf("%d topics are left, %d wait", len(l.topics), len(topic.waiting))
		}
	})
}

// What readers share is bounded, in number and in bytes, whatever is written.
func TestAWindowHoldsTheNewestEventsAndNoMore(t *testing.T) {
	l := New(&nowhere{})
	add := func(thread, text string) {
		if _, err := l.Append(t.Context(), mesh.ThreadKey{Tenant: "acme", ID: thread}, []*mesh.Event{note(text)}, AppendOptions{}); err != nil {
			t.Error(err)
		}
	}
	for i := range 3 * windowEvents {
		add(fmt.Sprint(i%7), "small")
	}
	if n := len(l.window.all.here()); n != windowEvents || len(l.window.threads) != 7 || cap(l.window.all.slots) > 4*windowEvents {
		t.Errorf("%d events of %d threads are held, and room for %d", n, len(l.window.threads), cap(l.window.all.slots))
	}
	for range 9 {
		add("x", strings.Repeat("x", windowBytes/4-100))
	}
	if w := &l.window; len(w.all.here()) != 4 || len(w.threads) != 1 || w.bytes > windowBytes || w.bytes < windowBytes/2 {
		t.Errorf("%d events of %d threads with %d bytes are held", len(w.all.here()), len(w.threads), w.bytes)
	}
}

// An event of a thread that another node deleted, and began anew, may be published
// late, or stand there still: neither is taken for one of the new thread.
func TestAWindowForgetsAThreadThatBeganAnew(t *testing.T) {
	key := mesh.ThreadKey{Tenant: "acme", ID: "x"}
	at := func(seq mesh.Seq, pos mesh.Pos) held {
		return held{Placed{key, &mesh.Event{Seq: seq, Pos: pos}}, 1}
	}
	for name, puts := range map[string][]held{
		"late":       {at(1, 20), at(2, 21), at(5, 9)},
		"there":      {at(4, 8), at(5, 9), at(1, 20), at(2, 21)},
		"overlapped": {at(1, 5), at(2, 6), at(1, 20), at(2, 21)},
	} {
		var w window
		for _, h := range puts {
			w.put(key, []held{h})
		}
		if got := w.read(key, 0, 9); len(got) != 2 || got[0].Pos != 20 || got[1].Pos != 21 || len(w.of(key)) != 2 || len(w.all.here()) != 2 || w.bytes != 2 {
			t.Errorf("%s: %d events can be read, %d and %d are held with %d bytes", name, len(got), len(w.of(key)), len(w.all.here()), w.bytes)
		}
	}
}
