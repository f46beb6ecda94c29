package threadlog_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/store/shared"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/logtest"
)

// two returns the logs of two nodes on one store, and the handle of the second.
// They run until the test ends.
func two(t *testing.T) (a, b *threadlog.Log, handle *shared.Handle) {
	store := shared.New(mem.Open())
	handle = store.Handle()
	a, b = threadlog.New(store.Handle()), threadlog.New(handle)
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	for _, l := range []*threadlog.Log{a, b} {
		running.Go(func() {
			if err := l.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}
	t.Cleanup(func() { stop(); running.Wait() })
	return a, b, handle
}

func say(text string) []*mesh.Event {
	return []*mesh.Event{{Actor: "user:ann", Body: mesh.StateNoted{Agent: "a", Data: []byte(text)}}}
}

// finding C2: a follower hears at once of what another node appends, and within a
// second when the word of it is lost.
func TestFollowersHearOfWhatOthersAppend(t *testing.T) {
	for name, deaf := range map[string]bool{"told": false, "not told": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b, handle := two(t)
				handle.Deafen(deaf)
				heard := make(chan []*mesh.Event)
				go func() {
					defer close(heard)
					got, err := collect(t.Context(), b, logtest.Key(1), 0, 3)
					if err != nil {
						t.Error(err)
					}
					heard <- got
				}()
				all := make(chan int)
				go func() {
					defer close(all)
					n := 0
					for _, err := range b.FollowAll(t.Context(), 0) {
						if n++; err != nil || n == 3 {
							break
						}
					}
					all <- n
				}()
				begun := time.Now()
				for range 3 {
					synctest.Wait() // they look for more
					if _, err := a.Append(t.Context(), logtest.Key(1), say("x"), threadlog.AppendOptions{}); err != nil {
						t.Fatal(err)
					}
				}
				if got := <-heard; len(got) != 3 || got[2].Seq != 3 {
					t.Errorf("the follower has %v", got)
				}
				if n := <-all; n != 3 {
					t.Errorf("who follows all has %d", n)
				}
				most := time.Duration(0)
				if deaf {
					most = threadlog.SweepEvery
				}
				if took := time.Since(begun); took > most {
					t.Errorf("that took %v", took)
				}
			})
		})
	}
}

// A thread that another node deletes ends its followers here too, also when it was
// begun anew meanwhile.
func TestFollowersHearThatAnotherNodeDeletedTheThread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a, b, handle := two(t)
		for range 2 {
			if _, err := a.Append(t.Context(), logtest.Key(1), say("x"), threadlog.AppendOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		ended := make(chan error)
		go func() {
			_, err := collect(t.Context(), b, logtest.Key(1), 0, 3)
			ended <- err
		}()
		synctest.Wait()
		handle.Deafen(true)
		if err := a.Delete(t.Context(), logtest.Key(1), threadlog.AnyPos); err != nil {
			t.Fatal(err)
		}
		if _, err := a.Append(t.Context(), logtest.Key(1), say("anew"), threadlog.AppendOptions{}); err != nil {
			t.Fatal(err)
		}
		if err := <-ended; !mesh.IsCode(err, mesh.NotFound) {
			t.Errorf("the follower ended with %v", err)
		}
	})
}

// Who begins to follow a thread follows the one that is there, also beside those who
// still follow one that another node has deleted, of which nobody was told yet.
func TestAFollowerFollowsTheThreadThatIsThere(t *testing.T) {
	for name, events := range map[string]int{"shorter": 1, "as long": 2, "longer": 3} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b, handle := two(t)
				handle.Deafen(true)
				add(t, a, said("old"), said("old"))
				ctx, stop := context.WithCancel(t.Context())
				ended := make(chan struct{})
				go func() { defer close(ended); _, _ = collect(ctx, b, key, 0, 9) }()
				synctest.Wait()
				if err := a.Delete(t.Context(), key, threadlog.AnyPos); err != nil {
					t.Fatal(err)
				}
				for range events {
					add(t, a, said("new"))
				}
				go func() { time.Sleep(time.Minute); add(t, a, said("newest")) }()
				got, err := collect(t.Context(), b, key, mesh.Seq(events), 1)
				if err != nil || len(got) != 1 || text(got[0]) != "newest" {
					t.Errorf("it has %v, %v", got, err)
				}
				stop()
				<-ended
			})
		})
	}
}

// What is followed is one of the threads that have had the id: which, says the position
// of its first event. So it is whatever the node hears meanwhile of what another one did,
// between opening a cursor and its first Next and between two of these, and when it adds to
// the later thread itself before it has heard.
func TestACursorFollowsTheThreadThatItWasOpenedFor(t *testing.T) {
	for name, tt := range map[string]struct {
		heard bool // of the later thread, before the cursors read on
		adds  bool // to it, this node
	}{"unheard": {}, "heard": {heard: true}, "added to": {adds: true}, "both": {true, true}} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				a, b, handle := two(t)
				handle.Deafen(true)
				add(t, a, said("old"), said("old"))
				open := func() *threadlog.Cursor {
					info, _, err := b.Info(t.Context(), key)
					if err != nil {
						t.Fatal(err)
					}
					return b.Cursor(key, info.FirstPos, 0)
				}
				read, unread := open(), open()
				if events, err := read.Next(t.Context()); err != nil || len(events) != 2 {
					t.Fatalf("the old thread has %v, %v", events, err)
				}
				if err := a.Delete(t.Context(), key, threadlog.AnyPos); err != nil {
					t.Fatal(err)
				}
				later := open() // of none: of the next one
				add(t, a, said("new"), said("new"), said("new"))
				latest := open()
				if tt.heard {
					time.Sleep(2 * threadlog.SweepEvery)
				}
				want := 3
				if tt.adds {
					add(t, b, said("new"))
					want++
				}
				for name, c := range map[string]*threadlog.Cursor{"later": later, "latest": latest} {
					events, err := c.Next(t.Context())
					if err != nil || len(events) != want || text(events[0]) != "new" {
						t.Errorf("the cursor of the %s thread has %v, %v", name, events, err)
					}
				}
				for name, c := range map[string]*threadlog.Cursor{"that read": read, "that did not": unread} {
					if events, err := c.Next(t.Context()); !mesh.IsCode(err, mesh.NotFound) {
						t.Errorf("the cursor of the old thread %s has %v, %v", name, events, err)
					}
				}
				for _, c := range []*threadlog.Cursor{read, unread, later, latest} {
					c.Close()
				}
			})
		})
	}
}

// overtaken is a store whose answer another node overtakes, once.
type overtaken struct {
	threadlog.Backend
	deleting, asking func() // what happens before the answer is there
}

func (o *overtaken) Delete(ctx context.Context, k mesh.ThreadKey, last mesh.Pos) error {
	err := o.Backend.Delete(ctx, k, last)
	if f := o.deleting; f != nil {
		o.deleting = nil
		f()
	}
	return err
}

func (o *overtaken) Info(ctx context.Context, k mesh.ThreadKey) (threadlog.Info, bool, error) {
	info, ok, err := o.Backend.Info(ctx, k)
	if f := o.asking; f != nil {
		o.asking = nil
		f()
	}
	return info, ok, err
}

// Whoever follows the thread that another node has begun is not ended by what this one
// still does about the one before: deleting it, or looking at it.
func TestFollowersOfALaterThreadOutliveTheOneBefore(t *testing.T) {
	for name, tt := range map[string]struct {
		here  bool // it is deleted
		early bool // or elsewhere, before this node looks
	}{"deleting": {here: true}, "looking": {}, "looking at none": {early: true}} {
		t.Run(name, func(t *testing.T) {
			store := mem.Open()
			other := threadlog.New(store)
			o := &overtaken{Backend: store}
			l := threadlog.New(o)
			add(t, other, said("old"))
			gone := func() {
				if err := other.Delete(t.Context(), key, threadlog.AnyPos); err != nil {
					t.Error(err)
				}
			}
			before := l.Cursor(key, 0, 0)
			defer before.Close()
			add(t, l, said("old")) // which it hears of
			later := l.Cursor(key, 0, 0)
			defer later.Close()
			anew := func() {
				if !tt.here && !tt.early {
					gone()
				}
				add(t, other, said("new"), said("new"))
				if events, err := later.Next(t.Context()); err != nil || len(events) != 2 || text(events[0]) != "new" {
					t.Errorf("the later thread has %v, %v", events, err)
				}
			}
			if tt.early {
				gone()
			}
			if tt.here {
				o.deleting = anew
				if err := l.Delete(t.Context(), key, threadlog.AnyPos); err != nil {
					t.Error(err)
				}
			} else {
				o.asking = anew
				_, _ = before.Next(t.Context()) // of whichever it is
			}
			add(t, l, said("newer"))
			if events, err := later.Next(t.Context()); err != nil || len(events) != 1 || text(events[0]) != "newer" {
				t.Errorf("then the later thread has %v, %v", events, err)
			}
		})
	}
}
