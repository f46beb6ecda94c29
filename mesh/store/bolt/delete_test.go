package bolt

import (
	"errors"
	"sync"
	"testing"

	bolt "go.etcd.io/bbolt"

	"agentmesh/mesh"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/logtest"
)

// While a deletion is on its way to the disk, nobody who reads waits for it, and
// what they see of its thread is all or nothing, and no failure: finding C13.
func TestReadersDoNotWaitForADeletion(t *testing.T) {
	for name, visible := range map[string]bool{"before it is in the file": false, "before it is synced": true} {
		t.Run(name, func(t *testing.T) {
			s := openNew(t)
			for _, k := range []int{1, 2, 1} {
				if _, err := s.Append(t.Context(), logtest.Key(k), fact("x")); err != nil {
					t.Fatal(err)
				}
			}
			entered, gate := make(chan struct{}), make(chan struct{})
			update := s.update
			s.update = func(fn func(*bolt.Tx) error) (err error) {
				if visible {
					err = update(fn)
				}
				close(entered)
				<-gate
				if !visible {
					err = update(fn)
				}
				return err
			}
			var wg sync.WaitGroup
			var failed error
			wg.Go(func() { failed = s.Delete(t.Context(), logtest.Key(1), threadlog.AnyPos) })
			<-entered
			s.update = update
			for k, want := range map[int]int{1: 2, 2: 1} {
				if visible && k == 1 {
					want = 0
				}
				recs, err := s.Read(t.Context(), logtest.Key(k), 0, 9)
				if err != nil || len(recs) != want {
					t.Errorf("thread %d has %d events, %v; want %d", k, len(recs), err, want)
				}
			}
			_, there, infoErr := s.Info(t.Context(), logtest.Key(1))
			infos, listErr := s.Threads(t.Context(), logtest.Key(1).Tenant, 0, 9)
			if err := errors.Join(infoErr, listErr); err != nil || !there || len(infos) != 2 {
				t.Errorf("the thread is there: %v, of %d threads, %v; want it until its end is on disk", there, len(infos), err)
			}
			close(gate)
			wg.Wait()
			recs, err := s.Read(t.Context(), logtest.Key(1), 0, 9)
			if err := errors.Join(failed, err); err != nil || len(recs) != 0 || s.removing != (mesh.ThreadKey{}) {
				t.Errorf("after it: %d events, %v", len(recs), err)
			}
		})
	}
}

// A deletion that failed was none.
func TestADeletionThatFailsLeavesTheThread(t *testing.T) {
	s := openNew(t)
	if _, err := s.Append(t.Context(), logtest.Key(1), fact("x")); err != nil {
		t.Fatal(err)
	}
	failNext(s, func(update func(func(*bolt.Tx) error) error, fn func(*bolt.Tx) error) error {
		return update(func(tx *bolt.Tx) error { return errors.Join(fn(tx), errDisk) })
	})
	if err := s.Delete(t.Context(), logtest.Key(1), threadlog.AnyPos); !errors.Is(err, errDisk) {
		t.Fatal(err)
	}
	if recs, err := s.Read(t.Context(), logtest.Key(1), 0, 9); err != nil || len(recs) != 1 {
		t.Errorf("%d events, %v", len(recs), err)
	}
	if err := s.Delete(t.Context(), logtest.Key(1), threadlog.AnyPos); err != nil {
		t.Error(err)
	}
}
