package threadlog_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"math/rand/v2"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/logtest"
)

// watched counts reads, and can hold or lose the answers of appends.
type watched struct {
	threadlog.Backend
	reads  atomic.Int64
	onRead func() // before the first read
	before func() // before the commit
	after  func() error
}

func (w *watched) Append(ctx context.Context, k mesh.ThreadKey, b *threadlog.Batch) (threadlog.Appended, error) {
	if w.before != nil {
		w.before()
	}
	at, err := w.Backend.Append(ctx, k, b)
	if err == nil && w.after != nil {
		err = w.after()
	}
	return at, err
}

func (w *watched) Read(ctx context.Context, k mesh.ThreadKey, after mesh.Seq, limit int) ([]threadlog.Record, error) {
	if w.reads.Add(1) == 1 && w.onRead != nil {
		w.onRead()
	}
	return w.Backend.Read(ctx, k, after, limit)
}

// collect follows the thread until it has n events, and returns them.
func collect(ctx context.Context, l *threadlog.Log, k mesh.ThreadKey, after mesh.Seq, n int) ([]*mesh.Event, error) {
	var out []*mesh.Event
	for e, err := range l.Follow(ctx, k, 0, after) {
		if err != nil {
			return out, err
		}
		if out = append(out, e); len(out) == n {
			break
		}
	}
	return out, nil
}

// Streams complete without dropped messages (S4-053, with none dropped instead
// of 99.5%): under many concurrent writers, every follower sees every event
// once, in order, and the same sequence as all others, whether it joined before,
// during or after, and wherever its cursor was.
func TestFollowersMissNothingWhenEverTheyJoin(t *testing.T) {
	for name, open := range map[string]func(r *rand.Rand) threadlog.Backend{
		"plain": func(*rand.Rand) threadlog.Backend { return mem.Open() },
		// Writers that are slow to tell of their commit publish out of order.
		"out of order": func(*rand.Rand) threadlog.Backend {
			return &watched{Backend: mem.Open(), after: func() error {
				for range rand.IntN(5) {
					runtime.Gosched()
				}
				return nil
			}}
		},
	} {
		t.Run(name, func(t *testing.T) {
			for range 5 {
				seed := rand.Uint64()
				r := rand.New(rand.NewPCG(seed, 0))
				followersMissNothing(t, threadlog.New(open(r)), seed, r)
			}
		})
	}
}

func followersMissNothing(t *testing.T, l *threadlog.Log, seed uint64, r *rand.Rand) {
	const writers, followers, threads = 8, 12, 2
	each := 50 + r.IntN(100)
	total := writers * each / threads
	type seen struct {
		after  mesh.Seq
		events []*mesh.Event
	}
	got := make([][]seen, threads)
	var mu sync.Mutex
	var wg sync.WaitGroup
	follow := func(thread int, after mesh.Seq) {
		events, err := collect(t.Context(), l, logtest.Key(thread), after, total-int(after))
		if err != nil {
			t.Errorf("seed %d: %v", seed, err)
		}
		mu.Lock()
		defer mu.Unlock()
		got[thread] = append(got[thread], seen{after, events})
	}
	for f := range followers { // before
		wg.Go(func() { follow(f%threads, 0) })
	}
	var written sync.WaitGroup
	for w := range writers {
		joins, after := r.IntN(each), mesh.Seq(r.IntN(total))
		written.Go(func() {
			for i := range each {
				_, err := l.Append(t.Context(), logtest.Key(w%threads), []*mesh.Event{said(fmt.Sprintf("%d/%d", w, i))}, threadlog.AppendOptions{})
				if err != nil {
					t.Errorf("seed %d: %v", seed, err)
				}
				if i == joins { // during
					wg.Go(func() { follow(w%threads, 0) })
					wg.Go(func() { follow(w%threads, after) })
				}
			}
		})
	}
	written.Wait()
	for thread := range threads { // after
		follow(thread, 0)
	}
	wg.Wait()
	for thread, all := range got {
		want := all[slices.IndexFunc(all, func(s seen) bool { return s.after == 0 })].events
		if slices.ContainsFunc(all, func(s seen) bool { return s.after == 0 && len(s.events) != total }) {
			t.Fatalf("seed %d: a follower has too few", seed)
		}
		once := map[string]bool{}
		for _, s := range all {
			for i, e := range s.events {
				if e.Seq != s.after+mesh.Seq(i)+1 || text(e) != text(want[e.Seq-1]) {
					t.Fatalf("seed %d thread %d: event %d after %d is %d %q", seed, thread, i, s.after, e.Seq, text(e))
				}
				once[text(e)] = true
			}
		}
		if len(once) != total {
			t.Errorf("seed %d thread %d: %d different events of %d", seed, thread, len(once), total)
		}
	}
}

func TestFollowersThatKeepUpDoNotReadTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := &watched{Backend: mem.Open()}
		l := threadlog.New(store)
		add(t, l, said("before"))
		const followers, events = 10, 100
		var wg sync.WaitGroup
		var got [followers][]*mesh.Event
		for f := range followers {
			wg.Go(func() { got[f], _ = collect(t.Context(), l, key, 0, 1+events) })
		}
		synctest.Wait()
		reads := store.reads.Load()
		for i := range events {
			add(t, l, said(fmt.Sprint(i)))
			synctest.Wait()
		}
		wg.Wait()
		if n := store.reads.Load() - reads; n != 0 {
			t.Errorf("%d reads of the store for events that were live", n)
		}
		for f := range followers {
			if !slices.Equal(got[f][1:], got[0][1:]) {
				t.Errorf("follower %d has events of its own", f)
			}
		}
	})
}

func TestAFollowerThatFallsBehindReadsTheStoreAndCatchesUp(t *testing.T) {
	store := &watched{Backend: mem.Open()}
	l := threadlog.New(store)
	c := l.Cursor(key, 0, 0)
	defer c.Close()
	var want []string
	for i := range 5000 {
		want = append(want, fmt.Sprint(i))
		add(t, l, said(want[i]))
	}
	if diff := cmp.Diff(want, drain(t, c)); diff != "" {
		t.Error(diff)
	}
	if n := store.reads.Load(); n < 2 || n > 3000/256+1 {
		t.Errorf("%d reads", n)
	}
	// And it is live again.
	reads := store.reads.Load()
	add(t, l, said("live"))
	if diff := cmp.Diff([]string{"live"}, drain(t, c)); diff != "" || store.reads.Load() != reads {
		t.Errorf("%d reads, %s", store.reads.Load()-reads, diff)
	}
}

func TestAWriterDoesNotWaitForFollowers(t *testing.T) {
	l := threadlog.New(mem.Open())
	var cursors []*threadlog.Cursor
	for range 100 { // none of them reads
		cursors = append(cursors, l.Cursor(key, 0, 0))
	}
	next, stop := iter.Pull2(l.FollowAll(t.Context(), 0)) // nor does who spans threads
	defer stop()
	for i := range 1000 {
		add(t, l, said(fmt.Sprint(i)))
		if i == 0 {
			if _, err, ok := next(); err != nil || !ok {
				t.Fatal(err)
			}
		}
	}
	for _, c := range cursors {
		c.Close()
		c.Close()
	}
	if _, err := cursors[0].Next(t.Context()); !mesh.IsCode(err, mesh.Precondition) {
		t.Errorf("a closed cursor answers %v", err)
	}
}

func TestFollowersSeeNothingBeforeItsCommit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		gate := make(chan struct{})
		l := threadlog.New(&watched{Backend: mem.Open(), before: func() { <-gate }})
		var seen atomic.Int64
		var wg sync.WaitGroup
		wg.Go(func() {
			events, err := collect(t.Context(), l, key, 0, 1)
			if err != nil || events[0].Seq != 1 {
				t.Errorf("%v, %v", events, err)
			}
			seen.Add(1)
		})
		wg.Go(func() { add(t, l, said("x")) })
		synctest.Wait()
		if seen.Load() != 0 {
			t.Error("it was seen before its commit")
		}
		close(gate)
		wg.Wait()
	})
}

// A store may commit and then fail to say so. The event is there, and followers
// get it with the next one.
func TestACommitWhoseAnswerIsLostDoesNotHoldFollowersUp(t *testing.T) {
	store := &watched{Backend: mem.Open()}
	l := threadlog.New(store)
	c := l.Cursor(key, 0, 0)
	defer c.Close()
	add(t, l, said("a"))
	if diff := cmp.Diff([]string{"a"}, drain(t, c)); diff != "" {
		t.Error(diff)
	}
	store.after = func() error { return errDown }
	if _, err := l.Append(t.Context(), key, []*mesh.Event{said("b")}, threadlog.AppendOptions{}); !errors.Is(err, errDown) {
		t.Fatal(err)
	}
	store.after = nil
	add(t, l, said("c"))
	if diff := cmp.Diff([]string{"b", "c"}, drain(t, c)); diff != "" {
		t.Error(diff)
	}
}

func TestNextGivesAllAtHandAndBehindSaysWhetherThereIsMore(t *testing.T) {
	l := threadlog.New(mem.Open())
	c := l.Cursor(key, 0, 0)
	defer c.Close()
	if c.Behind() {
		t.Error("it is behind on nothing")
	}
	for i := range 300 {
		add(t, l, said(fmt.Sprint(i)))
	}
	var sizes []int
	for range 2 {
		if !c.Behind() {
			t.Error("it is not behind")
		}
		events, err := c.Next(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		sizes = append(sizes, len(events))
	}
	if diff := cmp.Diff([]int{256, 44}, sizes); diff != "" || c.Behind() {
		t.Errorf("behind %v, sizes %s", c.Behind(), diff)
	}
}

func TestACursorBeyondTheTailWaitsForItsEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := threadlog.New(mem.Open())
		add(t, l, said("1"))
		var wg sync.WaitGroup
		wg.Go(func() {
			events, err := collect(t.Context(), l, key, 3, 1)
			if err != nil || events[0].Seq != 4 {
				t.Errorf("got %v, %v", events, err)
			}
		})
		for i := range 3 {
			synctest.Wait()
			add(t, l, said(fmt.Sprint(i+2)))
		}
		wg.Wait()
	})
}

func TestAFollowerEndsWithItsContextAndWithItsLoop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := threadlog.New(mem.Open())
		ctx, cancel := context.WithCancel(t.Context())
		var wg sync.WaitGroup
		wg.Go(func() {
			if _, err := collect(ctx, l, key, 0, 1); !mesh.IsCode(err, mesh.Canceled) {
				t.Errorf("it ends with %v", err)
			}
		})
		wg.Go(func() {
			for _, err := range l.FollowAll(ctx, 0) {
				if !mesh.IsCode(err, mesh.Canceled) {
					t.Errorf("it ends with %v", err)
				}
			}
		})
		synctest.Wait()
		cancel()
		wg.Wait()
		add(t, l, said("x"))
		for _, err := range l.Follow(t.Context(), key, 0, 0) {
			if err != nil {
				t.Error(err)
			}
			break
		}
		for _, err := range l.FollowAll(t.Context(), 0) {
			if err != nil {
				t.Error(err)
			}
			break
		}
	})
}
