package retention_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"go.uber.org/goleak"

	"agentmesh/mesh"
	"agentmesh/mesh/lease"
	"agentmesh/mesh/retention"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
	"agentmesh/mesh/threadlog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const (
	completed = a2apb.TaskState_TASK_STATE_COMPLETED
	asks      = a2apb.TaskState_TASK_STATE_INPUT_REQUIRED
	working   = a2apb.TaskState_TASK_STATE_WORKING
)

// A world is a log whose clock is now, and a Deleter with a store of notes about threads.
type world struct {
	t      *testing.T
	log    *threadlog.Log
	states *cache.States
	notes  *notes
	record *record
	lost   lossy
	*retention.Deleter
}

func newWorld(t *testing.T) *world {
	w := &world{t: t, lost: lossy{mem.Open(), map[mesh.ThreadKey]string{}}, notes: &notes{of: map[mesh.ThreadKey]bool{}}, record: &record{}}
	w.open()
	return w
}

// open makes all but the store, as the next process does.
func (w *world) open() {
	w.log = threadlog.New(w.lost)
	w.states = cache.New(w.log, 0)
	w.Deleter = retention.NewDeleter(w.log, w.states, w.record, slog.New(slog.DiscardHandler), w.notes)
}

// thread makes a thread of acme's, with notes, whose turn came to the state, and ended that
// long ago.
func (w *world) thread(state mesh.TaskState, ago time.Duration) mesh.ThreadKey {
	w.t.Helper()
	return w.threadOf("acme", state, ago)
}

func (w *world) threadOf(tenant mesh.TenantID, state mesh.TaskState, ago time.Duration) mesh.ThreadKey {
	w.t.Helper()
	key := mesh.ThreadKey{Tenant: tenant, ID: mesh.NewThreadID()}
	turn := mesh.NewExecutionID(key.ID)
	w.add(key, ago, turn, mesh.TaskOpened{Execution: mesh.Execution{ID: turn, Kind: mesh.KindTurn, Agent: "main", User: "alice"}})
	w.add(key, ago, turn, mesh.TaskMoved{State: state})
	w.notes.add(key)
	return key
}

func (w *world) add(key mesh.ThreadKey, ago time.Duration, of mesh.ExecutionID, body mesh.Body) {
	w.t.Helper()
	e := &mesh.Event{ID: mesh.NewEventID(), Time: time.Now().Add(-ago), Execution: of, Actor: "node", Body: body}
	if err := w.states.Decide(context.Background(), key, func(*thread.State) (cache.Decision, error) {
		return cache.Decision{Events: []*mesh.Event{e}}, nil
	}); err != nil {
		w.t.Fatal(err)
	}
}

// want fails unless these threads are there, with their notes, and no others.
func (w *world) want(what string, keys ...mesh.ThreadKey) {
	w.t.Helper()
	tenants, err := w.log.Tenants(context.Background())
	if err != nil {
		w.t.Fatal(err)
	}
	n := 0
	for _, of := range tenants {
		n += of
	}
	for i, key := range keys {
		if _, there, err := w.log.Info(context.Background(), key); err != nil || !there {
			w.t.Errorf("%s: thread %d is gone", what, i)
		}
		if !w.notes.has(key) {
			w.t.Errorf("%s: the notes of thread %d are gone", what, i)
		}
	}
	if n != len(keys) || w.notes.len() != n {
		w.t.Errorf("%s: there are %d threads and %d notes, want %d", what, n, w.notes.len(), len(keys))
	}
}

// notes are a dependent.
type notes struct {
	mu     sync.Mutex
	of     map[mesh.ThreadKey]bool
	broken error
}

func (n *notes) add(key mesh.ThreadKey) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.of[key] = true
}

func (n *notes) has(key mesh.ThreadKey) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.of[key]
}

func (n *notes) len() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.of)
}

func (n *notes) Forget(_ context.Context, keys []mesh.ThreadKey) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, key := range keys {
		if n.broken == nil {
			delete(n.of, key)
		}
	}
	return n.broken
}

func (n *notes) Kept(context.Context) iter.Seq2[mesh.ThreadKey, error] {
	n.mu.Lock()
	defer n.mu.Unlock()
	var all []mesh.ThreadKey
	for key := range n.of {
		all = append(all, key)
	}
	return func(yield func(mesh.ThreadKey, error) bool) {
		for _, key := range all {
			if !yield(key, nil) {
				return
			}
		}
	}
}

func anybody(mesh.ThreadKey, *thread.State) bool { return true }

const day = 24 * time.Hour

// finding R9: a thread goes with all that is kept about it, unless an agent is at work on it.
func TestAThreadGoesWithWhatIsKeptAboutIt(t *testing.T) {
	w := newWorld(t)
	over, busy, mine := w.thread(completed, 0), w.thread(working, 0), w.thread(asks, 0)
	may := func(*thread.State) error { return nil }
	if _, err := w.Delete(t.Context(), over, may); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Delete(t.Context(), over, may); !mesh.IsCode(err, mesh.NotFound) {
		t.Errorf("again: %v", err)
	}
	if _, err := w.Delete(t.Context(), busy, may); !mesh.IsCode(err, mesh.Precondition) {
		t.Errorf("one at work: %v", err)
	}
	no := errors.New("no")
	if _, err := w.Delete(t.Context(), mine, func(*thread.State) error { return no }); !errors.Is(err, no) {
		t.Errorf("one that may not: %v", err)
	}
	w.want("at the end", busy, mine)
}

// finding R9: old threads go page by page, the longest untouched first; who counts deletes
// nothing.
func TestOldThreadsGoPageByPage(t *testing.T) {
	w := newWorld(t)
	others := w.thread(completed, 100*day)
	var old []mesh.ThreadKey
	for i := range 5 {
		old = append(old, w.thread(completed, time.Duration(90-i)*day))
	}
	busy, waits := w.thread(working, 50*day), w.thread(asks, 50*day)
	young := w.thread(completed, day)
	q := retention.Query{Tenant: "acme", Before: time.Now().Add(-30 * day), Limit: 2, May: func(key mesh.ThreadKey, _ *thread.State) bool { return key != others }}
	pages := func() (deleted, atWork, pages int) {
		q.After = 0
		for {
			page, err := w.DeleteIdle(t.Context(), q)
			if err != nil {
				t.Fatal(err)
			}
			deleted, atWork, pages = deleted+page.Deleted, atWork+page.AtWork, pages+1
			if q.After = page.Next; q.After == 0 {
				return deleted, atWork, pages
			}
		}
	}
	q.CountOnly = true
	if n, atWork, _ := pages(); n != 6 || atWork != 1 {
		t.Errorf("%d would go, and %d are at work; want 6 and 1", n, atWork)
	}
	w.want("counted", slices.Concat(old, []mesh.ThreadKey{others, busy, waits, young})...)
	q.CountOnly = false
	if n, atWork, of := pages(); n != 6 || atWork != 1 || of != 4 {
		t.Errorf("%d went on %d pages, and %d are at work; want 6 on 4, and 1", n, of, atWork)
	}
	w.want("deleted", others, busy, young)
	if want := strings.TrimSuffix(strings.Repeat(`2 begin by ""; 2 are done; `, 3), "; "); w.record.is() != want {
		t.Errorf("the record is %s, want %s", w.record.is(), want)
	}
}

// What cannot be recorded is not done.
func TestNothingGoesThatIsNotRecorded(t *testing.T) {
	w := newWorld(t)
	old := w.thread(completed, 100*day)
	w.record.broken = mesh.Errorf(mesh.Unavailable, "test", "the disk is full")
	q := retention.Query{Tenant: "acme", Before: time.Now(), Limit: 10, May: anybody}
	if page, err := w.DeleteIdle(t.Context(), q); !mesh.IsCode(err, mesh.Unavailable) || page.Deleted != 0 {
		t.Errorf("%+v, %v", page, err)
	}
	w.want("unrecorded", old)
}

// A search does not end at a thread whose last event says another time than those around it.
func TestThreadsAreFoundBehindOneOfAnotherTime(t *testing.T) {
	w := newWorld(t)
	odd := w.thread(completed, -1000*day)
	w.thread(completed, 100*day)
	q := retention.Query{Tenant: "acme", Before: time.Now().Add(-day), Limit: 10, May: anybody}
	if page, err := w.DeleteIdle(t.Context(), q); err != nil || page.Deleted != 1 {
		t.Errorf("%+v, %v", page, err)
	}
	w.want("behind", odd)
}

// What a process left that was killed after it had deleted threads goes at the next start.
func TestWhatAKillLeavesOfADeletionGoesAtTheNextStart(t *testing.T) {
	w := newWorld(t)
	keeps, goes := w.thread(completed, 0), w.thread(completed, 0)
	w.notes.broken = errors.New("killed")
	if _, err := w.Delete(t.Context(), goes, func(*thread.State) error { return nil }); err != nil {
		t.Fatal(err)
	}
	w.notes.broken = nil
	if !w.notes.has(goes) {
		t.Fatal("nothing was left")
	}
	if err := w.Reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.want("reconciled", keeps)
}

// keeper runs a Keeper until the test ends.
func (w *world) keeper(c retention.Config) (deleted func() string) {
	var mu sync.Mutex
	counts := map[string]int{}
	c.Deleter, c.Node = w.Deleter, mesh.NewEventID()
	if c.Leases == nil {
		c.Leases = lease.NewLocal(nil)
	}
	c.Deleted = func(rule string, n int) {
		mu.Lock()
		defer mu.Unlock()
		counts[rule] += n
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() {
		if err := retention.NewKeeper(c).Run(ctx); err != nil {
			w.t.Error(err)
		}
	})
	w.t.Cleanup(func() {
		cancel()
		running.Wait()
	})
	return func() string {
		mu.Lock()
		defer mu.Unlock()
		return fmt.Sprint(counts)
	}
}

// finding R9: threads go when they come to the age of the rule, by the clock, but for those
// that wait for their user and those at work; each tenant has its own rule.
func TestThreadsGoByTheAgeOfTheirTenantsRule(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		busy, waits := w.thread(working, 100*day), w.thread(asks, 100*day)
		for range 120 { // several steps
			w.thread(completed, 100*day)
		}
		soon := w.thread(completed, 0)
		kept, theirs := w.threadOf("kept", completed, 1000*day), w.threadOf("waiting", asks, 100*day)
		w.threadOf("waiting", asks, 5000*day)
		deleted := w.keeper(retention.Config{Default: retention.Rule{Age: 30 * day}, Rules: map[mesh.TenantID]retention.Rule{
			"kept": {}, "waiting": {Age: 1000 * day, Waiting: true}}})
		time.Sleep(time.Hour)
		w.want("at first", busy, waits, soon, kept, theirs)
		time.Sleep(30 * day)
		w.want("after 30 days", busy, waits, kept, theirs)
		if got := deleted(); got != "map[retention.age:122]" {
			t.Errorf("deleted are %s", got)
		}
		if got := w.record.is(); !strings.HasPrefix(got, `50 begin by "retention.age"; 50 are done; 50 begin`) {
			t.Errorf("the record is %s", got)
		}
	})
}

// finding R9: of more threads than the rule has room for, the longest untouched go.
func TestThreadsGoByTheirNumber(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		waits := w.thread(asks, 0)
		for range 75 {
			w.thread(completed, 0)
		}
		var last []mesh.ThreadKey
		for range 9 {
			last = append(last, w.thread(completed, 0))
		}
		deleted := w.keeper(retention.Config{Default: retention.Rule{Count: 10}})
		time.Sleep(time.Hour)
		w.want("at first", append(last, waits)...)
		if got := deleted(); got != "map[retention.count:75]" {
			t.Errorf("deleted are %s", got)
		}
		last = append(last[1:], w.thread(completed, 0))
		time.Sleep(time.Hour)
		w.want("one more", append(last, waits)...)
	})
}

// Of two nodes on one backend one deletes at a time; and by no rule none does.
func TestOneNodeDeletesAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t)
		old := w.thread(completed, 100*day)
		leases := lease.NewLocal(nil)
		l, err := leases.Acquire(t.Context(), mesh.ThreadKey{ID: "retention"}, "another", time.Hour)
		if err != nil {
			t.Fatal(err)
		}
		w.keeper(retention.Config{Leases: leases})
		w.keeper(retention.Config{Leases: leases, Default: retention.Rule{Age: day}})
		w.keeper(retention.Config{Leases: leases, Default: retention.Rule{Age: day}})
		time.Sleep(50 * time.Minute)
		w.want("while another works", old)
		if err := leases.Release(t.Context(), l); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Hour)
		w.want("after that")
		if got := w.record.is(); got != `1 begin by "retention.age"; 1 are done` {
			t.Errorf("the record is %s", got)
		}
	})
}
