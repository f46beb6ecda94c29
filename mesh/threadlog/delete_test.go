package threadlog_test

import (
	"context"
	"errors"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"

	"agentmesh/mesh"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/logtest"
)

func TestDeleteEndsFollowersAndTheirThreadOnly(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := threadlog.New(mem.Open())
		add(t, l, said("old"))
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var wg sync.WaitGroup
		errs := make([]error, 3)
		for i := range 2 {
			wg.Go(func() { _, errs[i] = collect(ctx, l, key, mesh.Seq(i), 9) })
		}
		wg.Go(func() { _, errs[2] = collect(ctx, l, logtest.Key(2), 0, 9) })
		info, _, err := l.Info(t.Context(), key)
		if err != nil {
			t.Fatal(err)
		}
		behind := l.Cursor(key, info.FirstPos, 0) // has yet to read what was there
		defer behind.Close()
		synctest.Wait()
		if err := l.Delete(t.Context(), key, threadlog.AnyPos); err != nil {
			t.Fatal(err)
		}
		if err := l.Delete(t.Context(), key, threadlog.AnyPos); !mesh.IsCode(err, mesh.NotFound) {
			t.Errorf("deleting again: %v", err)
		}
		add(t, l, said("new"))
		_, behindErr := behind.Next(t.Context())
		synctest.Wait()
		for _, err := range []error{errs[0], errs[1], behindErr} {
			if !mesh.IsCode(err, mesh.NotFound) || mesh.DetailOf(err) == "" {
				t.Errorf("a follower of the deleted thread ends with %v", err)
			}
		}
		if events, err := collect(t.Context(), l, key, 0, 1); err != nil || text(events[0]) != "new" || events[0].Seq != 1 {
			t.Errorf("a follower of the new thread has %v, %v", events, err)
		}
		cancel()
		wg.Wait()
		if !mesh.IsCode(errs[2], mesh.Canceled) {
			t.Errorf("the follower of another thread ends with %v", errs[2])
		}
	})
}

// generations remembers which of the threads of one id an event belongs to.
type generations struct {
	threadlog.Backend
	mu      sync.Mutex
	current int
	of      map[mesh.Pos]int
}

func (g *generations) Append(ctx context.Context, k mesh.ThreadKey, b *threadlog.Batch) (threadlog.Appended, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	at, err := g.Backend.Append(ctx, k, b)
	for _, pos := range at.Pos {
		g.of[pos] = g.current
	}
	return at, err
}

func (g *generations) Delete(ctx context.Context, k mesh.ThreadKey, last mesh.Pos) error {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.current++
	return g.Backend.Delete(ctx, k, last)
}

// Threads that come and go under the same id never mix: what a follower sees
// are the events of one of them, from its first on.
func TestFollowersNeverSeeTwoThreadsOfOneID(t *testing.T) {
	store := &generations{Backend: mem.Open(), of: map[mesh.Pos]int{}}
	l := threadlog.New(store)
	ctx, cancel := context.WithCancel(t.Context())
	follow := func() {
		var events []*mesh.Event
		for e, err := range l.Follow(ctx, key, 0, 0) {
			if err != nil && !mesh.IsCode(err, mesh.NotFound) && ctx.Err() == nil {
				t.Error(err)
			}
			if err != nil || len(events) == 20 {
				break
			}
			events = append(events, e)
		}
		store.mu.Lock()
		defer store.mu.Unlock()
		for i, e := range events {
			if e.Seq != mesh.Seq(i+1) || store.of[e.Pos] != store.of[events[0].Pos] {
				t.Errorf("event %d is %d of thread %d, the first is of %d", i, e.Seq, store.of[e.Pos], store.of[events[0].Pos])
			}
		}
	}
	var wg sync.WaitGroup
	done := make(chan struct{})
	until := func(do func()) {
		wg.Go(func() {
			for {
				select {
				case <-done:
					return
				default:
					do()
				}
			}
		})
	}
	for range 3 {
		until(func() { add(t, l, said("x")) })
	}
	for range 4 {
		until(follow)
	}
	for range 300 {
		if err := l.Delete(t.Context(), key, threadlog.AnyPos); err != nil && !mesh.IsCode(err, mesh.NotFound) {
			t.Error(err)
		}
		for range 10 {
			runtime.Gosched()
		}
	}
	close(done)
	cancel()
	wg.Wait()
}

func TestAThreadThatIsReplacedWhileItIsReadIsNotFound(t *testing.T) {
	store := &watched{Backend: mem.Open()}
	add(t, threadlog.New(store), said("old"), said("old"))
	l := threadlog.New(store) // which has to read it
	store.onRead = func() {
		if err := l.Delete(t.Context(), key, threadlog.AnyPos); err != nil {
			t.Error(err)
		}
		add(t, l, said("new"), said("new"), said("new"))
	}
	c := l.Cursor(key, 0, 1)
	defer c.Close()
	if events, err := c.Next(t.Context()); !mesh.IsCode(err, mesh.NotFound) {
		t.Errorf("got %v, %v", events, err)
	}
}

// slowDelete is a store whose disk takes its time to delete.
type slowDelete struct {
	threadlog.Backend
	entered, gate chan struct{}
}

func (s *slowDelete) Delete(ctx context.Context, k mesh.ThreadKey, last mesh.Pos) error {
	close(s.entered)
	<-s.gate
	return s.Backend.Delete(ctx, k, last)
}

// While the disk deletes one thread, others are read, followed and written; its
// own id is free when it is gone: finding C13.
func TestADeletionHoldsUpNoOtherThread(t *testing.T) {
	store := &slowDelete{Backend: mem.Open(), entered: make(chan struct{}), gate: make(chan struct{})}
	l := threadlog.New(store)
	add(t, l, said("old"))
	other := logtest.Key(2)
	deleted, again := make(chan error, 1), make(chan error, 1)
	go func() { deleted <- l.Delete(t.Context(), key, threadlog.AnyPos) }() // received below
	<-store.entered
	go func() { // received below
		_, err := l.Append(t.Context(), key, []*mesh.Event{said("new")}, threadlog.AppendOptions{})
		again <- err
	}()
	if _, err := l.Append(t.Context(), other, []*mesh.Event{said("there")}, threadlog.AppendOptions{}); err != nil {
		t.Fatal(err)
	}
	if events, err := collect(t.Context(), l, other, 0, 1); err != nil || text(events[0]) != "there" {
		t.Errorf("a follower of another thread has %v, %v", events, err)
	}
	select {
	case err := <-deleted:
		t.Fatalf("deleted before the disk had: %v", err)
	case err := <-again:
		t.Fatalf("appended to the thread that is being deleted: %v", err)
	default:
	}
	close(store.gate)
	if err := errors.Join(<-deleted, <-again); err != nil {
		t.Fatal(err)
	}
	if events, err := l.Read(t.Context(), key, 0, 9); err != nil || len(events) != 1 || text(events[0]) != "new" {
		t.Errorf("the later thread has %v, %v", events, err)
	}
}
