package threadlog

import (
	"context"
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
	return Info{}, false, nil
}

func note(text string) *mesh.Event { return &mesh.Event{Body: mesh.CancelRequested{By: text}} }

func (l *Log) topicOf(key mesh.ThreadKey) *topic {
	l.mu.RLock()
	defer l.mu.RUnlock()
	return l.topics[key]
}

func TestATopicHoldsLittleAndOnlyWhileSomebodyNeedsIt(t *testing.T) {
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
				for _, err := range l.Follow(ctx, key, 1) {
					if err != nil {
						return
					}
				}
			})
		}
		synctest.Wait()
		slow := l.Cursor(key, 1)
		for range 1000 {
			add("small")
		}
		synctest.Wait()
		topic := l.topicOf(key)
		if n := len(topic.recent); n != maxRecent {
			t.Errorf("%d events are shared for one who does not take them", n)
		}
		for range 5 {
			add(strings.Repeat("x", maxRecentBytes/2))
		}
		synctest.Wait()
		if len(topic.recent) != 1 || topic.bytes > maxRecentBytes {
			t.Errorf("%d events with %d bytes are shared", len(topic.recent), topic.bytes)
		}
		slow.Close()
		add("the last that all take")
		synctest.Wait()
		if len(topic.recent) != 0 || topic.bytes != 0 || cap(topic.recent) > 16 {
			t.Errorf("an idle topic holds %d events", len(topic.recent))
		}
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
