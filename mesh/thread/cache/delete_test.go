package cache_test

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"sync"
	"testing"
	"testing/synctest"

	"agentmesh/mesh"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/store/shared"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
	"agentmesh/mesh/threadlog"
)

// finding C13: a thread that was deleted, and may have begun again, is folded
// afresh wherever the one before is remembered.
func TestAThreadThatWasReplacedIsFoldedAfresh(t *testing.T) {
	for name, again := range map[string]int{"gone": 0, "shorter": 1, "as long": 2, "longer": 1100} {
		t.Run(name, func(t *testing.T) {
			log := newTap()
			s := cache.New(log, 0)
			log.write(t, key(1), 0, open("old", ""), open("older", ""))
			if turns(t, s, key(1)) != 2 {
				t.Fatal("not read")
			}
			replace := func() {
				log.before = nil
				must(t, log.Delete(t.Context(), key(1), threadlog.AnyPos))
				var events []*mesh.Event
				for i := range again {
					events = append(events, open(fmt.Sprint("new", i), ""))
				}
				if len(events) > 0 {
					log.write(t, key(1), 0, events...)
				}
			}
			log.before = replace // once the decision is made
			var found []int
			must(t, s.Decide(t.Context(), key(1), func(st *thread.State) (cache.Decision, error) {
				found = append(found, len(st.Turns()))
				return cache.Decision{Events: []*mesh.Event{open("mine", "")}}, nil
			}))
			if !reflect.DeepEqual(found, []int{2, again}) {
				t.Errorf("it was decided on %v turns", found)
			}
			if n := turns(t, s, key(1)); n != again+1 {
				t.Errorf("%d turns, want %d", n, again+1)
			}
		})
	}
}

// finding C13: a thread is deleted when nothing is on its way into it, and what
// comes meanwhile begins a new one.
func TestNothingIsOnItsWayIntoAThreadThatIsDeleted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		s := cache.New(g, 0)
		must(t, add(t.Context(), s, key(1), open("old", "")))
		disk := make(chan struct{})
		g.hooks(func([]*mesh.Event) error { <-disk; return nil }, nil)
		var all sync.WaitGroup
		all.Go(func() { must(t, add(t.Context(), s, key(1), note("on its way", "old"))) })
		synctest.Wait()
		deleted := false
		all.Go(func() {
			must(t, s.Delete(t.Context(), key(1), func(*thread.State) error { return nil }))
			deleted = true
		})
		synctest.Wait()
		ctx, cancel := context.WithCancel(t.Context())
		all.Go(func() { must(t, add(t.Context(), s, key(1), open("new", ""))) })
		all.Go(func() {
			if err := add(ctx, s, key(1), open("left", "")); !mesh.IsCode(err, mesh.Canceled) {
				t.Errorf("who does not wait gets %v", err)
			}
		})
		synctest.Wait()
		if cancel(); deleted {
			t.Error("it was deleted under an append")
		}
		synctest.Wait()
		close(disk)
		all.Wait()
		must(t, s.With(t.Context(), key(1), func(st *thread.State) error {
			if st.Turn("new") == nil || st.Turn("old") != nil || st.Seq != 1 {
				t.Errorf("the thread is at %d", st.Seq)
			}
			return nil
		}))
		kept := errors.New("kept")
		if err := s.Delete(t.Context(), key(1), func(*thread.State) error { return kept }); !errors.Is(err, kept) || turns(t, s, key(1)) != 1 {
			t.Errorf("a thread that is to stay: %v", err)
		}
	})
}

// A stuck log deletes nothing.
type stuck struct{ *tap }

func (stuck) Delete(context.Context, mesh.ThreadKey, mesh.Pos) error {
	return mesh.Errorf(mesh.Unavailable, "test", "disk gone")
}

func TestAThreadThatCannotBeDeletedIsThere(t *testing.T) {
	s := cache.New(stuck{newTap()}, 0)
	must(t, add(t.Context(), s, key(1), open("t", "")))
	if err := s.Delete(t.Context(), key(1), func(*thread.State) error { return nil }); !mesh.IsCode(err, mesh.Unavailable) || turns(t, s, key(1)) != 1 {
		t.Errorf("it is gone: %v", err)
	}
}

// A message that another node takes while this one deletes its thread is not lost with
// it: who deletes looks again.
func TestNothingThatAnotherNodeTookIsDeletedUnseen(t *testing.T) {
	store := shared.New(mem.Open())
	here, there := cache.New(threadlog.New(store.Handle()), 0), cache.New(threadlog.New(store.Handle()), 0)
	must(t, add(t.Context(), here, key(1), open("old", "")))
	stays := errors.New("a turn is open")
	var seen []int
	err := here.Delete(t.Context(), key(1), func(st *thread.State) error {
		if seen = append(seen, len(st.Turns())); len(seen) == 2 {
			return stays
		}
		must(t, add(t.Context(), there, key(1), open("new", "")))
		return nil
	})
	if !errors.Is(err, stays) || !reflect.DeepEqual(seen, []int{1, 2}) || turns(t, there, key(1)) != 2 {
		t.Errorf("deleted: %v, after %v turns; there are %d", err, seen, turns(t, there, key(1)))
	}
	must(t, here.Delete(t.Context(), key(1), func(*thread.State) error { return nil }))
	must(t, add(t.Context(), there, key(1), open("first", "")))
	if turns(t, here, key(1)) != 1 {
		t.Error("the thread did not begin anew")
	}
}
