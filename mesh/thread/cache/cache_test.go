package cache_test

import (
	"context"
	"fmt"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"agentmesh/mesh"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
	"agentmesh/mesh/threadlog"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func key(n int) mesh.ThreadKey {
	return mesh.ThreadKey{Tenant: "acme", ID: fmt.Sprintf("00000000-0000-4000-8000-%012d", n)}
}

// A tap is a log that can be interfered with.
type tap struct {
	*threadlog.Log
	before  func() // each Append
	fail    error  // of each Read
	scratch atomic.Int32
	read    atomic.Int64 // events
}

func newTap() *tap { return &tap{Log: threadlog.New(mem.Open())} }

func (l *tap) Append(ctx context.Context, k mesh.ThreadKey, events []*mesh.Event, opts threadlog.AppendOptions) ([]mesh.Seq, error) {
	if l.before != nil {
		l.before()
	}
	return l.Log.Append(ctx, k, events, opts)
}

func (l *tap) Read(ctx context.Context, k mesh.ThreadKey, after mesh.Seq, limit int) ([]*mesh.Event, error) {
	if after == 0 {
		l.scratch.Add(1)
	}
	if l.fail != nil {
		return nil, l.fail
	}
	events, err := l.Log.Read(ctx, k, after, limit)
	l.read.Add(int64(len(events)))
	return events, err
}

// open is a decision of the thread: a turn with the text.
func open(id, text string) *mesh.Event {
	x := mesh.ExecutionID(id)
	return &mesh.Event{Execution: x, Actor: "user:ann", Body: mesh.TaskOpened{Execution: mesh.Execution{ID: x, Kind: mesh.KindTurn, Text: text}}}
}

// fact concerns an execution and decides nothing.
func fact(id string) *mesh.Event {
	return &mesh.Event{Execution: mesh.ExecutionID(id), Actor: "agent:a", Body: mesh.CancelRequested{}}
}

func moved(id string) *mesh.Event {
	return &mesh.Event{Execution: mesh.ExecutionID(id), Actor: "node", Body: mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_WORKING}}
}

func claim(epoch mesh.Epoch, node string) *mesh.Event {
	return &mesh.Event{Actor: "node", Body: mesh.ThreadClaimed{Epoch: epoch, Node: node}}
}

// write appends as somebody else would.
func (l *tap) write(t testing.TB, k mesh.ThreadKey, epoch mesh.Epoch, events ...*mesh.Event) {
	t.Helper()
	if err := cache.New(l.Log, 0).Decide(t.Context(), k, func(*thread.State) (cache.Decision, error) {
		return cache.Decision{Events: events, Epoch: epoch}, nil
	}); err != nil {
		t.Fatal(err)
	}
}

func turns(t testing.TB, s *cache.States, k mesh.ThreadKey) (n int) {
	t.Helper()
	if err := s.With(t.Context(), k, func(st *thread.State) error { n = len(st.Turns()); return nil }); err != nil {
		t.Fatal(err)
	}
	return n
}

// Every decision is made on a state that has all decisions before it, however
// many decide at once and in however many nodes: each turn was opened by
// somebody who saw exactly the turns before.
func TestOfDecisionsAtOnceEachSeesTheOneBefore(t *testing.T) {
	log := newTap()
	nodes := []*cache.States{cache.New(log, 0), cache.New(log, 0)}
	const each = 20
	var all sync.WaitGroup
	for i := range each * len(nodes) {
		all.Go(func() {
			err := nodes[i%len(nodes)].Decide(t.Context(), key(1), func(s *thread.State) (cache.Decision, error) {
				n := strconv.Itoa(len(s.Turns()))
				return cache.Decision{Events: []*mesh.Event{open("t"+n+"-"+strconv.Itoa(i), n)}}, nil
			})
			if err != nil {
				t.Errorf("decision %d: %v", i, err)
			}
		})
	}
	all.Wait()
	for _, s := range nodes {
		err := s.With(t.Context(), key(1), func(st *thread.State) error {
			if len(st.Turns()) != each*len(nodes) {
				t.Errorf("%d turns", len(st.Turns()))
			}
			for i, x := range st.Turns() {
				if x.Text != strconv.Itoa(i) {
					t.Errorf("turn %d was decided on %s turns", i, x.Text)
				}
			}
			return nil
		})
		if err != nil {
			t.Error(err)
		}
	}
}

func TestADecisionIsMadeAgainWhenAnotherCameBetween(t *testing.T) {
	tests := map[string]struct {
		between *mesh.Event
		scopes  []mesh.Scope
		calls   int
	}{
		"in the thread":             {open("other", ""), nil, 2},
		"in its own scope":          {moved("t"), nil, 2},
		"in a scope that it names":  {moved("x"), []mesh.Scope{"x"}, 2},
		"in a scope of no interest": {moved("x"), nil, 1},
		"a fact":                    {fact("t"), []mesh.Scope{"x"}, 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			log := newTap()
			log.write(t, key(1), 0, open("t", ""), open("x", ""))
			s := cache.New(log, 0)
			calls := 0
			log.before = func() {
				log.before = nil
				log.write(t, key(1), 0, tt.between)
			}
			err := s.Decide(t.Context(), key(1), func(*thread.State) (cache.Decision, error) {
				calls++
				return cache.Decision{Events: []*mesh.Event{moved("t")}, Scopes: tt.scopes}, nil
			})
			if err != nil || calls != tt.calls {
				t.Errorf("decided %d times, want %d; %v", calls, tt.calls, err)
			}
		})
	}
}

func TestWhoAlwaysLosesGivesUpWithConflict(t *testing.T) {
	log := newTap()
	s := cache.New(log, 0)
	n, calls := 0, 0
	log.before = func() {
		n++
		log.write(t, key(1), 0, open("other"+strconv.Itoa(n), ""))
	}
	err := s.Decide(t.Context(), key(1), func(*thread.State) (cache.Decision, error) {
		calls++
		return cache.Decision{Events: []*mesh.Event{open("mine", "")}}, nil
	})
	if !mesh.IsCode(err, mesh.Conflict) || calls != 17 {
		t.Errorf("after %d tries: %v", calls, err)
	}
	if turns(t, s, key(1)) != n {
		t.Error("the loser's event is there")
	}
}

// A driver whose claim is over is refused, and does not try again.
func TestADecisionUnderAnOldClaimIsRefused(t *testing.T) {
	decide := func(t *testing.T, log *tap) (calls int, err error) {
		err = cache.New(log, 0).Decide(t.Context(), key(1), func(*thread.State) (cache.Decision, error) {
			calls++
			return cache.Decision{Events: []*mesh.Event{moved("t")}, Epoch: 1}, nil
		})
		return calls, err
	}
	t.Run("known", func(t *testing.T) {
		log := newTap()
		log.write(t, key(1), 1, claim(1, "a"), open("t", ""))
		log.write(t, key(1), 2, claim(2, "b"))
		if calls, err := decide(t, log); !mesh.IsCode(err, mesh.Conflict) || calls != 1 {
			t.Errorf("after %d tries: %v", calls, err)
		}
	})
	t.Run("meanwhile", func(t *testing.T) {
		log := newTap()
		log.write(t, key(1), 1, claim(1, "a"), open("t", ""))
		log.before = func() { log.before = nil; log.write(t, key(1), 2, claim(2, "b")) }
		if calls, err := decide(t, log); !mesh.IsCode(err, mesh.Conflict) || calls != 2 {
			t.Errorf("after %d tries: %v", calls, err)
		}
	})
}

func TestACallbackThatFailsOrDecidesNothingAppendsNothing(t *testing.T) {
	log := newTap()
	log.before = func() { t.Error("something was appended") }
	s := cache.New(log, 0)
	mine := mesh.Errorf(mesh.Precondition, "test", "not now")
	if err := s.Decide(t.Context(), key(1), func(*thread.State) (cache.Decision, error) {
		return cache.Decision{Events: []*mesh.Event{open("t", "")}}, mine
	}); err != mine {
		t.Errorf("got %v, want the callback's own error", err)
	}
	if err := s.Decide(t.Context(), key(1), func(*thread.State) (cache.Decision, error) { return cache.Decision{}, nil }); err != nil {
		t.Error(err)
	}
	if err := s.With(t.Context(), key(1), func(st *thread.State) error {
		if st.Seq != 0 {
			t.Errorf("an empty thread is at %d", st.Seq)
		}
		return mine
	}); err != mine {
		t.Errorf("got %v", err)
	}
}

// A log that cannot be read is told, and is no empty thread; it is read again.
func TestALogThatCannotBeReadIsToldAndTriedAgain(t *testing.T) {
	gone := mesh.Errorf(mesh.Unavailable, "test", "disk gone")
	for name, fails := range map[string]func(*deaf){
		"its events":        func(l *deaf) { l.fail = gone },
		"how far it is":     func(l *deaf) { l.deaf, l.asked = gone, 1 },
		"where it is again": func(l *deaf) { l.deaf, l.asked = gone, 0 },
	} {
		t.Run(name, func(t *testing.T) {
			log := &deaf{tap: newTap()}
			s := cache.New(log, 0)
			for n := 1; n <= 2; n++ {
				log.write(t, key(1), 0, open(fmt.Sprint("t", n), ""))
				fails(log)
				if err := s.With(t.Context(), key(1), func(*thread.State) error { t.Error("called"); return nil }); !mesh.IsCode(err, mesh.Unavailable) {
					t.Errorf("got %v", err)
				}
				log.fail, log.deaf = nil, nil
				if turns(t, s, key(1)) != n {
					t.Error("the thread was not read again")
				}
			}
		})
	}
}

// A deaf log does not say how far it is when it is asked for the second time.
type deaf struct {
	*tap
	deaf  error
	asked int
}

func (l *deaf) Info(ctx context.Context, k mesh.ThreadKey) (threadlog.Info, bool, error) {
	if l.asked++; l.deaf != nil && l.asked == 2 {
		return threadlog.Info{}, false, l.deaf
	}
	return l.tap.Info(ctx, k)
}

// Few threads are kept, and one that was dropped is read again; the answers
// are the same, also while many use many threads at once.
func TestDroppedThreadsAreReadAgain(t *testing.T) {
	log := newTap()
	s := cache.New(log, 2)
	const n = 12
	var all sync.WaitGroup
	for i := range n {
		for range 3 {
			all.Go(func() {
				if err := s.Decide(t.Context(), key(i), func(st *thread.State) (cache.Decision, error) {
					return cache.Decision{Events: []*mesh.Event{open(fmt.Sprintf("t%d", len(st.Turns())), "")}}, nil
				}); err != nil {
					t.Error(err)
				}
			})
		}
	}
	all.Wait()
	before := log.scratch.Load()
	for i := range n {
		if got := turns(t, s, key(i)); got != 3 {
			t.Errorf("thread %d has %d turns", i, got)
		}
	}
	if again := log.scratch.Load() - before; again < n-4 {
		t.Errorf("only %d of %d threads were read from their start: more than two are kept", again, n)
	}
}

// Unless it is said how many, a thousand threads are kept.
func TestThreadsAreKept(t *testing.T) {
	log := newTap()
	s := cache.New(log, 0)
	for i := range 100 {
		log.write(t, key(i), 0, open("t", ""))
	}
	for range 2 {
		for i := range 100 {
			turns(t, s, key(i))
		}
	}
	if n := log.scratch.Load(); n != 100 {
		t.Errorf("100 threads were read from their start %d times", n)
	}
}

// A thread in use is never dropped, however many others are used meanwhile: it
// is read from its start once.
func TestAThreadInUseIsNotDropped(t *testing.T) {
	log := newTap()
	for i := range 20 {
		log.write(t, key(i), 0, open("t", ""), open("u", ""))
	}
	s := cache.New(log, 1)
	log.scratch.Store(0)
	err := s.With(t.Context(), key(0), func(*thread.State) error {
		for i := 1; i < 20; i++ {
			turns(t, s, key(i))
		}
		return nil
	})
	if err != nil || turns(t, s, key(0)) != 2 {
		t.Fatalf("the thread is lost: %v", err)
	}
	if n := log.scratch.Load(); n != 20 {
		t.Errorf("20 threads were read from their start %d times", n)
	}
}

// Events that are fed in any order, twice, or with gaps never make the state
// wrong: those that continue it count, others are read.
func TestFeedTakesOnlyWhatContinues(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		log := newTap()
		n := rapid.IntRange(1, 12).Draw(rt, "turns")
		for i := range n {
			log.write(t, key(1), 0, open(fmt.Sprintf("t%d", i), ""))
		}
		events, err := log.Log.Read(t.Context(), key(1), 0, 100)
		if err != nil {
			rt.Fatal(err)
		}
		s := cache.New(log, 0)
		for range rapid.IntRange(0, 6).Draw(rt, "feeds") {
			from := rapid.IntRange(0, n-1).Draw(rt, "from")
			to := rapid.IntRange(from, n).Draw(rt, "to")
			s.Feed(key(1), events[from:to])
		}
		if err := s.With(t.Context(), key(1), func(st *thread.State) error {
			if st.Seq != mesh.Seq(n) || len(st.Turns()) != n {
				rt.Errorf("at %d with %d turns, want %d", st.Seq, len(st.Turns()), n)
			}
			return nil
		}); err != nil {
			rt.Fatal(err)
		}
	})
}

func TestAForgottenThreadBeginsAfresh(t *testing.T) {
	log := newTap()
	s := cache.New(log, 0)
	log.write(t, key(1), 0, open("old", ""), open("older", ""))
	if turns(t, s, key(1)) != 2 {
		t.Fatal("not read")
	}
	if err := log.Delete(t.Context(), key(1), threadlog.AnyPos); err != nil {
		t.Fatal(err)
	}
	s.Forget(key(1))
	if turns(t, s, key(1)) != 0 {
		t.Error("a deleted thread is remembered")
	}
	log.write(t, key(1), 0, open("new", ""))
	if turns(t, s, key(1)) != 1 {
		t.Error("the new thread is not the old one")
	}
}

func TestAContextThatIsOverReadsNothing(t *testing.T) {
	log := newTap()
	log.write(t, key(1), 0, open("t", ""))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	err := cache.New(log, 0).Decide(ctx, key(1), func(*thread.State) (cache.Decision, error) {
		return cache.Decision{Events: []*mesh.Event{open("x", "")}}, nil
	})
	if !mesh.IsCode(err, mesh.Canceled) {
		t.Errorf("got %v", err)
	}
}

// S4-013, S4-052, S4-068: the same id under two tenants is two threads.
func TestTenantsDoNotMeet(t *testing.T) {
	log := newTap()
	s := cache.New(log, 0)
	log.write(t, key(1), 0, open("t", ""))
	other := mesh.ThreadKey{Tenant: "globex", ID: key(1).ID}
	if turns(t, s, key(1)) != 1 || turns(t, s, other) != 0 {
		t.Error("one tenant sees the other's thread")
	}
}

// A thread that another node deleted, and perhaps began anew, is what the log has
// now, whether it is shorter, longer or gone.
func TestAThreadThatAnotherDeletedIsFoldedAfresh(t *testing.T) {
	for again := range 4 {
		log := newTap()
		s := cache.New(log, 0)
		log.write(t, key(1), 0, open("a", ""), open("b", ""))
		if got := turns(t, s, key(1)); got != 2 {
			t.Fatalf("%d turns", got)
		}
		if err := log.Delete(t.Context(), key(1), threadlog.AnyPos); err != nil {
			t.Fatal(err)
		}
		for i := range again {
			log.write(t, key(1), 0, open(fmt.Sprint("n", i), ""))
		}
		if got := turns(t, s, key(1)); got != again {
			t.Errorf("%d turns, want %d", got, again)
		}
	}
}
