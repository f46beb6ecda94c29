package disk

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"agentmesh/mesh"
	"agentmesh/mesh/state"
	"agentmesh/mesh/state/statetest"
	"agentmesh/mesh/threadlog"
	"agentmesh/mesh/threadlog/logtest"
)

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		os.Exit(child(path))
	}
	if path := os.Getenv(migrateEnv); path != "" {
		os.Exit(migrateChild(path))
	}
	if path := os.Getenv(indexEnv); path != "" {
		os.Exit(indexChild(path))
	}
	if path := os.Getenv(rowsEnv); path != "" {
		os.Exit(rowsChild(path))
	}
	if path := os.Getenv(fullEnv); path != "" {
		if err := full(path); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func openAt(t testing.TB, path string) *Store {
	t.Helper()
	s, err := Open(path, Options{disk: &testDisk{}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// A testDisk is the real one until on says otherwise.
type testDisk struct {
	unsynced bool // for tests in which no power goes
	mu       sync.Mutex
	do       func(call) error
}

// A call is one of a testDisk.
type call struct {
	sync bool
	file *os.File
}

// on has f called before each call, which fails as f does.
func (d *testDisk) on(f func(call) error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.do = f
}

func (d *testDisk) before(c call) error {
	d.mu.Lock()
	do := d.do
	d.mu.Unlock()
	if do == nil {
		return nil
	}
	return do(c)
}

func (d *testDisk) WriteAt(f *os.File, b []byte, off int64) (int, error) {
	if err := d.before(call{false, f}); err != nil {
		return 0, err
	}
	return f.WriteAt(b, off)
}

func (d *testDisk) Sync(f *os.File) error {
	if err := d.before(call{true, f}); err != nil {
		return err
	}
	if d.unsynced {
		return nil
	}
	return f.Sync()
}

func (s *Store) disk() *testDisk { return s.opts.disk.(*testDisk) }

func openNew(t testing.TB) *Store { return openAt(t, filepath.Join(t.TempDir(), "mesh.db")) }

func TestThreadsConform(t *testing.T) {
	logtest.Run(t, func(t *testing.T) threadlog.Backend { return openNew(t) })
}

func TestStateConforms(t *testing.T) {
	statetest.Run(t, func(t *testing.T) state.Store { return openNew(t) })
}

func TestWhatDecidesSurvivesARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mesh.db")
	logtest.Reopen(t, func(t *testing.T, s threadlog.Backend) threadlog.Backend {
		if s != nil {
			if err := s.(*Store).Close(); err != nil {
				t.Fatal(err)
			}
		}
		return openAt(t, path)
	})
}

func TestStateSurvivesARestart(t *testing.T) {
	path := filepath.Join(t.TempDir(), "mesh.db")
	s := openAt(t, path)
	k := state.Key{Tenant: "acme", Kind: "tasks", Name: "x"}
	for i := range 3 {
		if _, err := s.PutState(t.Context(), k, fmt.Append(nil, i), int64(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	v, err := openAt(t, path).GetState(t.Context(), k)
	if err != nil || string(v.Data) != "2" || v.Version != 3 {
		t.Errorf("got %q at %d, %v", v.Data, v.Version, err)
	}
}

func fact(data string) *threadlog.Batch {
	return &threadlog.Batch{Entries: []threadlog.Entry{{Data: []byte(data)}}}
}

func TestAppendsThatWaitShareACommitAndALoneOneDoesNotWait(t *testing.T) {
	s := openNew(t)
	before := s.commits
	for range 5 {
		if _, err := s.Append(t.Context(), logtest.Key(1), fact("x")); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.commits - before; got != 5 {
		t.Errorf("five appends one after the other took %d commits", got)
	}

	entered, release := holdCommit(s)
	before = s.commits
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := s.Append(t.Context(), logtest.Key(1), fact("first")); err != nil {
			t.Error(err)
		}
	})
	<-entered
	const waiting = 64
	for i := range waiting {
		wg.Go(func() {
			if _, err := s.Append(t.Context(), logtest.Key(i%8), fact("x")); err != nil {
				t.Error(err)
			}
		})
	}
	waitForQueue(s, waiting)
	release()
	wg.Wait()
	if got := s.commits - before; got != 2 {
		t.Errorf("one append and %d behind it took %d commits", waiting, got)
	}
}

// waitForQueue returns when n requests wait for the committer.
func waitForQueue(s *Store, n int) {
	for {
		s.mu.Lock()
		got := len(s.queue)
		s.mu.Unlock()
		if got >= n {
			return
		}
		runtime.Gosched()
	}
}

// holdCommit makes the next commit wait until the returned function is called.
func holdCommit(s *Store) (<-chan struct{}, func()) {
	entered, gate := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s.disk().on(func(call) error {
		once.Do(func() {
			close(entered)
			<-gate
		})
		return nil
	})
	return entered, func() { close(gate) }
}

func TestAConflictDoesNotTouchOthersInTheSameCommit(t *testing.T) {
	s := openNew(t)
	entered, release := holdCommit(s)
	var wg sync.WaitGroup
	wg.Go(func() { _, _ = s.Append(t.Context(), logtest.Key(9), fact("holds the committer")) })
	<-entered
	errs := make([]error, 20)
	for i := range errs {
		wg.Go(func() {
			b := fact(fmt.Sprint(i))
			if i%2 == 1 {
				b.Expect = []threadlog.Expect{{Seq: 5}}
			}
			_, errs[i] = s.Append(t.Context(), logtest.Key(i%3), b)
		})
	}
	waitForQueue(s, len(errs))
	release()
	wg.Wait()
	for i, err := range errs {
		if want := i%2 == 1; mesh.IsCode(err, mesh.Conflict) != want || !want && err != nil {
			t.Errorf("append %d: %v", i, err)
		}
	}
	if recs, err := s.Scan(t.Context(), 0, 100); err != nil || len(recs) != 11 {
		t.Errorf("%d records, %v", len(recs), err)
	}
}

// What is deferred is committed with what comes after it, before it, and soon if
// nothing comes.
func TestADeferredBatchGoesWithTheNextOneOrSoon(t *testing.T) {
	s := openNew(t)
	for name, next := range map[string]bool{"with the next": true, "alone": false} {
		t.Run(name, func(t *testing.T) {
			before := s.commits
			placed := make(chan struct{})
			b := fact("deferred")
			b.Deferred, b.Placed = true, func() { close(placed) }
			var first threadlog.Appended
			var wg sync.WaitGroup
			wg.Go(func() {
				var err error
				if first, err = s.Append(t.Context(), logtest.Key(1), b); err != nil {
					t.Error(err)
				}
			})
			<-placed
			if next {
				at, err := s.Append(t.Context(), logtest.Key(1), fact("next"))
				wg.Wait()
				if err != nil || at.Seqs[0] != first.Seqs[0]+1 {
					t.Errorf("it is at %v, and the one deferred at %v: %v", at, first, err)
				}
			}
			wg.Wait() // without end if it is forgotten
			if got := s.commits - before; got != 1 {
				t.Errorf("it took %d commits", got)
			}
		})
	}
	b := fact("left")
	b.Deferred = true
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := s.Append(t.Context(), logtest.Key(1), b); err != nil {
			t.Error(err)
		}
	})
	waitForQueue(s, 1)
	if err := s.Close(); err != nil { // takes it along
		t.Error(err)
	}
	wg.Wait()
}
