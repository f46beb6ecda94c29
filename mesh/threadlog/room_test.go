package threadlog_test

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/threadlog"
)

// What is held is appended again as often as there is no room, and not where the store fails
// for another reason, seems to have room each time, or nobody waits any more.
func TestWhatThereIsNoRoomForIsHeld(t *testing.T) {
	key := mesh.ThreadKey{Tenant: "acme", ID: mesh.NewThreadID()}
	full := mesh.Errorf(mesh.Unavailable, "test", "the disk is full")
	for name, tt := range map[string]struct {
		err   error
		fails int  // so often
		known bool // that the store takes nothing
		want  mesh.Code
		calls int
	}{
		"for long":              {full, 100, true, mesh.Unknown, 101},
		"that nobody knows of":  {full, 3, false, mesh.Unknown, 4},
		"that never is":         {full, 100, false, mesh.Unavailable, 10},
		"for another reason":    {mesh.Errorf(mesh.Conflict, "test", "another one won"), 100, true, mesh.Conflict, 1},
		"where there is always": {full, 0, false, mesh.Unknown, 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				log := threadlog.New(mem.Open(), threadlog.WithRoom(func(context.Context) bool { return tt.known }))
				calls := 0
				err := log.Hold(t.Context(), key, func() error {
					if calls++; calls <= tt.fails {
						return tt.err
					}
					return nil
				})
				if (err == nil) != (tt.want == mesh.Unknown) || err != nil && !mesh.IsCode(err, tt.want) || calls != tt.calls {
					t.Errorf("after %d calls: %v", calls, err)
				}
			})
		})
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	log := threadlog.New(mem.Open(), threadlog.WithRoom(func(context.Context) bool { return true }))
	if err := log.Hold(ctx, key, func() error { return full }); !mesh.IsCode(err, mesh.Unavailable) {
		t.Errorf("for somebody who left: %v", err)
	}
}

// What has its place comes before all else of its thread, and nothing of others waits for it.
func TestWhatHasItsPlaceIsHeldFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		key, other := mesh.ThreadKey{Tenant: "acme", ID: mesh.NewThreadID()}, mesh.ThreadKey{Tenant: "acme", ID: mesh.NewThreadID()}
		var room atomic.Bool
		log := threadlog.New(mem.Open(), threadlog.WithRoom(func(context.Context) bool { return !room.Load() }))
		var mu sync.Mutex
		var got []string
		add := func(what string) func() error {
			return func() error {
				if !room.Load() {
					return mesh.Errorf(mesh.Unavailable, "test", "the disk is full")
				}
				mu.Lock()
				defer mu.Unlock()
				got = append(got, what)
				return nil
			}
		}
		var held sync.WaitGroup
		held.Go(func() {
			first := add("first")
			err := log.HoldFirst(t.Context(), key, func() error {
				if room.Load() {
					time.Sleep(time.Minute)
				}
				return first()
			})
			if err != nil {
				t.Error(err)
			}
		})
		synctest.Wait()
		held.Go(func() {
			if err := log.Hold(t.Context(), key, add("second")); !mesh.IsCode(err, mesh.Unavailable) {
				t.Errorf("who waited for long where there is room: %v", err)
			}
			if err := log.Hold(t.Context(), other, add("another thread's")); err != nil {
				t.Error(err)
			}
		})
		time.Sleep(time.Hour)
		room.Store(true)
		held.Wait()
		if err := log.Hold(t.Context(), key, add("third")); err != nil {
			t.Error(err)
		}
		if want := []string{"another thread's", "first", "third"}; !slices.Equal(got, want) {
			t.Errorf("%q were added, want %q", got, want)
		}
	})
}
