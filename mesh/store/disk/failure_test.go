package disk

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/state"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/logtest"
)

// failWrite makes the next write fail, and failSync the next sync, after its write.
func failWrite(s *Store) { failNext(s, false) }
func failSync(s *Store)  { failNext(s, true) }

func failNext(s *Store, sync bool) {
	failed := false
	s.disk().on(func(c call) error {
		if c.sync != sync || failed {
			return nil
		}
		failed = true
		return errDisk
	})
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
	writes := 0
	s.disk().on(func(c call) error { // not that of the commit that is held, which was before
		if !c.sync {
			writes++
		}
		if !c.sync && writes == 1 {
			return errDisk
		}
		return nil
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
	failWrite(s)
	if _, err := s.Append(t.Context(), logtest.Key(1), fact("x")); !mesh.IsCode(err, mesh.Unavailable) {
		t.Errorf("got %v", err)
	}
	if h := s.Health(); h.Fault == nil || h.Final {
		t.Errorf("after it the health is %+v", h)
	}
	if at, err := s.Append(t.Context(), logtest.Key(1), fact("y")); err != nil || at.Seqs[0] != 1 {
		t.Errorf("got %v, %v", at, err)
	}
	if h := s.Health(); h.Fault != nil {
		t.Errorf("in the end the health is %+v", h)
	}
}

// finding R3: after a sync that failed nobody can tell what the disk holds, and the next sync
// may say that all is well. So nothing more is written on top of it, which whoever looks at
// the store's health is told, and whoever opens the folder next finds it whole.
func TestNothingIsWrittenAfterASyncThatFailed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mesh.db")
	s := openAt(t, path)
	healthy := s.Health()
	failSync(s)
	for _, data := range []string{"may be there", "must not be there"} {
		_, err := s.Append(t.Context(), logtest.Key(1), fact(data))
		if !mesh.IsCode(err, mesh.Unavailable) || mesh.DetailOf(err) == "" {
			t.Errorf("%s: %v", data, err)
		}
	}
	<-healthy.Changed
	if h := s.Health(); !h.Final || !errors.Is(h.Fault, errDisk) {
		t.Errorf("its health is %+v", h)
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

// finding R3: whoever is told that a store cannot write sends it nothing; so it looks by
// itself whether it can again, in the last file and where it needs another one.
func TestAFullDiskHealsWithoutAnAppend(t *testing.T) {
	for name, size := range map[string]int{"in a segment": 10, "behind one": 3 << 20} {
		t.Run(name, func(t *testing.T) {
			s := openNew(t)
			s.disk().on(func(c call) error {
				if !c.sync {
					return errDisk
				}
				return nil
			})
			if _, err := s.Append(t.Context(), logtest.Key(1), fact(strings.Repeat("x", size))); !errors.Is(err, errDisk) {
				t.Fatal(err)
			}
			ill := s.Health()
			time.Sleep(2 * probeTime)
			if h := s.Health(); h.Fault == nil || h.Final {
				t.Errorf("while it is full the health is %+v", h)
			}
			s.disk().on(nil)
			<-ill.Changed
			if h := s.Health(); h.Fault != nil {
				t.Errorf("its health is %+v", h)
			}
		})
	}
}

// Whichever call fails, and however often: what was acknowledged is there, live
// and after a restart, and what was refused is not, but for that with which the
// store stopped.
func TestWhicheverCallFailsWhatWasAcknowledgedIsThere(t *testing.T) {
	for call := range 20 {
		for times := range 2 {
			t.Run(fmt.Sprint(call, " ", times+1), func(t *testing.T) { failCalls(t, call, times+1) })
		}
	}
}

func failCalls(t *testing.T, from, times int) {
	path := filepath.Join(t.TempDir(), "mesh.db")
	d := &testDisk{unsynced: true}
	s, err := Open(path, Options{disk: d, size: 4000})
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex // another segment is made meanwhile
	n := 0
	d.on(func(call) error {
		mu.Lock()
		defer mu.Unlock()
		if n++; n > from && n <= from+times {
			return errDisk
		}
		return nil
	})
	taken, values, refused := map[string]bool{}, map[string]bool{}, map[string]bool{}
	for i := range 30 {
		data := fmt.Sprintf("%0200d", i)
		_, err := s.Append(t.Context(), logtest.Key(i%3), fact(data))
		if taken[data] = err == nil; err != nil {
			refused[data] = true
		}
		_, err = s.PutState(t.Context(), state.Key{Kind: "k", Name: data}, []byte(data), 0)
		if values[data] = err == nil; err != nil {
			refused[data] = true
		}
		if i == 20 {
			s.checkpoint()
		}
	}
	check := func(s *Store, spare int) {
		t.Helper()
		recs, err := s.Scan(t.Context(), 0, 100)
		if err != nil {
			t.Fatal(err)
		}
		got := map[string]bool{}
		for _, r := range recs {
			if got[string(r.Data)] = true; !taken[string(r.Data)] {
				spare--
			}
		}
		for i := range 30 {
			data := fmt.Sprintf("%0200d", i)
			v, err := s.GetState(t.Context(), state.Key{Kind: "k", Name: data})
			if mesh.IsCode(err, mesh.NotFound) == values[data] || err == nil && string(v.Data) != data {
				if spare--; values[data] {
					t.Fatalf("the value %s reads %q, %v", data, v.Data, err)
				}
			}
			if taken[data] && !got[data] {
				t.Fatalf("the event %s is lost", data)
			}
		}
		if spare < 0 {
			t.Error("there is what was refused")
		}
	}
	check(s, 0)
	stopped := 0
	if s.Health().Final {
		stopped = 1
	} else if len(refused) > times {
		t.Errorf("%d calls failed, and %d requests", times, len(refused))
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	check(openAt(t, path), stopped)
}

// bbolt panics where its file is damaged. The log has all that was in it since it
// was verified, and goes on.
func TestAPanicOfTheFileStopsNeitherTheLogNorTheProcess(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mesh.db")
	s := openAt(t, path)
	put := func(name string, was int64) {
		t.Helper()
		if _, err := s.PutState(t.Context(), state.Key{Kind: "k", Name: name}, make([]byte, 100), was); err != nil {
			t.Fatal(err)
		}
	}
	put("old", 0)
	s.checkpoint()
	put("new", 0)
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	good := slices.Clone(raw)
	flip(raw[32768:], 1)
	if err := os.WriteFile(path, raw, 0o600); err != nil {
		t.Fatal(err)
	}
	s.checkpoint()
	if !s.hurt {
		t.Fatal("bbolt did not panic")
	}
	put("new", 1)
	if v, err := s.GetState(t.Context(), state.Key{Kind: "k", Name: "new"}); err != nil || v.Version != 2 {
		t.Errorf("what the log has reads version %d, %v", v.Version, err)
	}
	if _, err := s.GetState(t.Context(), state.Key{Kind: "k", Name: "old"}); !mesh.IsCode(err, mesh.Unavailable) {
		t.Errorf("what the file has: %v", err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	// What is left of bbolt has the file in this process; it sees copies.
	wantRefused(t, copyOf(t, path), "mesh.db", "damaged")
	if err := os.WriteFile(path, good, 0o600); err != nil {
		t.Fatal(err)
	}
	if v, err := openAt(t, copyOf(t, path)).GetState(t.Context(), state.Key{Kind: "k", Name: "new"}); err != nil || v.Version != 2 {
		t.Errorf("with a copy of the file, version %d, %v", v.Version, err)
	}
}

// Damage that comes while the folder is open closes the thread, with words that name the
// place; others go on, and who looks at the store's health is told.
func TestDamageThatIsFoundWhileReadingIsAnError(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mesh.db")
	s := openAt(t, path)
	well := s.Health()
	if _, err := s.Append(t.Context(), logtest.Key(1), fact("as it was")); err != nil {
		t.Fatal(err)
	}
	name := logFiles(t, path)[0]
	raw, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(name, flipOne(raw, []byte("as it was"), 3), 0o600); err != nil {
		t.Fatal(err)
	}
	_, readErr := s.Read(t.Context(), logtest.Key(1), 0, 1)
	_, appendErr := s.Append(t.Context(), logtest.Key(1), fact("more"))
	for _, err := range []error{readErr, appendErr, s.Delete(t.Context(), logtest.Key(1), threadlog.AnyPos)} {
		if !mesh.IsCode(err, mesh.DataLoss) || !strings.Contains(mesh.DetailOf(err), filepath.Base(name)+", byte ") || !strings.Contains(mesh.DetailOf(err), "record 1") {
			t.Errorf("got %v", err)
		}
	}
	<-well.Changed
	if h := s.Health(); h.Fault != nil || !mesh.IsCode(h.Damage, mesh.DataLoss) {
		t.Errorf("its health is %+v", h)
	}
	if _, err := s.Append(t.Context(), logtest.Key(2), fact("of another")); err != nil {
		t.Error(err)
	}
	if recs, err := s.Scan(t.Context(), 0, 9); err != nil || len(recs) != 1 || recs[0].Thread != logtest.Key(2) {
		t.Errorf("a scan has %v, %v", recs, err)
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
