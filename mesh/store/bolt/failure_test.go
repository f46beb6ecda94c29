package bolt

import (
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"testing"

	bolt "go.etcd.io/bbolt"

	"agentmesh/mesh"
	"agentmesh/mesh/state"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/logtest"
)

// failNext makes the next transaction do its work and fail as by does.
func failNext(s *Store, by func(update func(func(*bolt.Tx) error) error, fn func(*bolt.Tx) error) error) {
	update := s.update
	s.update = func(fn func(*bolt.Tx) error) error {
		s.update = update
		return by(update, fn)
	}
}

var errDisk = errors.New("no space left on device")

func TestAFailedCommitFailsAllInItAndLeavesNothing(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mesh.db")
	s := openAt(t, path)
	if _, err := s.Append(t.Context(), logtest.Key(0), fact("before")); err != nil {
		t.Fatal(err)
	}
	entered, release := holdCommit(s)
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = s.Append(t.Context(), logtest.Key(0), fact("holds the committer")) })
	<-entered
	errs := make([]error, 12)
	for i := range errs {
		wg.Go(func() {
			if i == 0 {
				_, errs[i] = s.PutState(t.Context(), state.Key{Kind: "k", Name: "x"}, []byte("x"), 0)
				return
			}
			b := &threadlog.Batch{Entries: []threadlog.Entry{{ID: fmt.Sprint(i), Decision: true}}}
			_, errs[i] = s.Append(t.Context(), logtest.Key(i), b)
		})
	}
	waitForQueue(s, len(errs))
	failNext(s, func(update func(func(*bolt.Tx) error) error, fn func(*bolt.Tx) error) error {
		return update(func(tx *bolt.Tx) error { return errors.Join(fn(tx), errDisk) })
	})
	release()
	wg.Wait()
	for i, err := range errs {
		if !mesh.IsCode(err, mesh.Unavailable) || !errors.Is(err, errDisk) || mesh.DetailOf(err) == "" {
			t.Errorf("request %d: %v", i, err)
		}
	}
	check := func(s *Store) {
		t.Helper()
		if recs, err := s.Scan(t.Context(), 0, 100); err != nil || len(recs) != 2 {
			t.Errorf("%d records, %v", len(recs), err)
		}
		if _, err := s.GetState(t.Context(), state.Key{Kind: "k", Name: "x"}); !mesh.IsCode(err, mesh.NotFound) {
			t.Errorf("the value is there: %v", err)
		}
	}
	check(s)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	s = openAt(t, path)
	check(s)
	// The disk has space again: nothing of the failure stands in the way.
	for i := 1; i < len(errs); i++ {
		b := &threadlog.Batch{Entries: []threadlog.Entry{{ID: fmt.Sprint(i), Decision: true}}, Expect: []threadlog.Expect{{}}}
		if at, err := s.Append(t.Context(), logtest.Key(i), b); err != nil || at.Seqs[0] != 1 {
			t.Errorf("again: %v, %v", at, err)
		}
	}
}

func TestWritingGoesOnAfterAFailureThatLeftNothing(t *testing.T) {
	s := openNew(t)
	failNext(s, func(update func(func(*bolt.Tx) error) error, fn func(*bolt.Tx) error) error {
		return update(func(tx *bolt.Tx) error { return errors.Join(fn(tx), errDisk) })
	})
	if _, err := s.Append(t.Context(), logtest.Key(1), fact("x")); !mesh.IsCode(err, mesh.Unavailable) {
		t.Errorf("got %v", err)
	}
	if at, err := s.Append(t.Context(), logtest.Key(1), fact("y")); err != nil || at.Seqs[0] != 1 {
		t.Errorf("got %v, %v", at, err)
	}
}

// A sync may fail after the write that makes the transaction count. Nobody can
// tell then what the disk holds, so nothing more is written on top of it, and
// whoever opens the file next finds it whole.
func TestNothingIsWrittenAfterAFailureThatMayHaveLeftSomething(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mesh.db")
	s := openAt(t, path)
	failNext(s, func(update func(func(*bolt.Tx) error) error, fn func(*bolt.Tx) error) error {
		return errors.Join(update(fn), errDisk)
	})
	for _, data := range []string{"may be there", "must not be there"} {
		_, err := s.Append(t.Context(), logtest.Key(1), fact(data))
		if !mesh.IsCode(err, mesh.Unavailable) || mesh.DetailOf(err) == "" {
			t.Errorf("%s: %v", data, err)
		}
	}
	if recs, err := s.Scan(t.Context(), 0, 10); err != nil || len(recs) != 0 {
		t.Errorf("readers see %v, %v", recs, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	recs, err := openAt(t, path).Scan(t.Context(), 0, 10)
	if err != nil || len(recs) > 1 || len(recs) == 1 && string(recs[0].Data) != "may be there" {
		t.Errorf("the file has %v, %v", recs, err)
	}
}

func TestAPanicOfTheFileStopsWritingAndNotTheProcess(t *testing.T) {
	s := openNew(t)
	if _, err := s.Append(t.Context(), logtest.Key(1), fact("x")); err != nil {
		t.Fatal(err)
	}
	failNext(s, func(update func(func(*bolt.Tx) error) error, fn func(*bolt.Tx) error) error {
		return update(func(*bolt.Tx) error { panic("page 7: unexpected flags") })
	})
	for range 2 {
		if _, err := s.Append(t.Context(), logtest.Key(1), fact("y")); !mesh.IsCode(err, mesh.Unavailable) || mesh.DetailOf(err) == "" {
			t.Errorf("got %v", err)
		}
	}
	if err := s.Delete(t.Context(), logtest.Key(1), threadlog.AnyPos); !mesh.IsCode(err, mesh.Unavailable) {
		t.Errorf("delete: %v", err)
	}
	if recs, err := s.Read(t.Context(), logtest.Key(1), 0, 10); err != nil || len(recs) != 1 {
		t.Errorf("what was there reads %v, %v", recs, err)
	}
}

// A panic that leaves a lock of the file held does not hold up the end of the process.
func TestAStoreThatAPanicLeftLockedIsClosed(t *testing.T) {
	s := openNew(t)
	failNext(s, func(func(func(*bolt.Tx) error) error, func(*bolt.Tx) error) error {
		if _, err := s.db.Begin(true); err != nil {
			return err
		}
		panic("freepages: failed to get all reachable pages")
	})
	if _, err := s.Append(t.Context(), logtest.Key(1), fact("x")); !mesh.IsCode(err, mesh.Unavailable) {
		t.Errorf("got %v", err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

func TestDamageThatIsFoundWhileReadingIsAnError(t *testing.T) {
	s := openNew(t)
	at, err := s.Append(t.Context(), logtest.Key(1), fact("x"))
	if err != nil {
		t.Fatal(err)
	}
	if err := s.db.Update(func(tx *bolt.Tx) error { return tx.Bucket(bucketLog).Put(posKey(at.Pos[0]), []byte("garbage")) }); err != nil {
		t.Fatal(err)
	}
	_, readErr := s.Read(t.Context(), logtest.Key(1), 0, 1)
	_, scanErr := s.Scan(t.Context(), 0, 1)
	for _, err := range []error{readErr, scanErr} {
		if !mesh.IsCode(err, mesh.Unavailable) || mesh.DetailOf(err) == "" {
			t.Errorf("got %v", err)
		}
	}
}

func TestAClosedStoreRefusesAndWhatWaitedIsWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mesh.db")
	s := openAt(t, path)
	entered, release := holdCommit(s)
	var wg sync.WaitGroup
	errs := make([]error, 10)
	wg.Go(func() { _, errs[0] = s.Append(t.Context(), logtest.Key(0), fact("first")) })
	<-entered
	for i := 1; i < len(errs); i++ {
		wg.Go(func() { _, errs[i] = s.Append(t.Context(), logtest.Key(i), fact("waits")) })
	}
	waitForQueue(s, len(errs)-1)
	wg.Go(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	release()
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Error(err)
	}
	_, appendErr := s.Append(t.Context(), logtest.Key(0), fact("late"))
	_, readErr := s.Read(t.Context(), logtest.Key(0), 0, 1)
	for _, err := range []error{appendErr, readErr} {
		if !mesh.IsCode(err, mesh.Unavailable) || mesh.DetailOf(err) == "" {
			t.Errorf("got %v", err)
		}
	}
	if recs, err := openAt(t, path).Scan(t.Context(), 0, 100); err != nil || len(recs) != len(errs) {
		t.Errorf("%d records, %v", len(recs), err)
	}
}
