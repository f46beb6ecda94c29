package cache_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"pgregory.net/rapid"

	"agentmesh/mesh"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
	"agentmesh/mesh/threadlog"
)

// A gate is a log whose appends wait, before or after they are committed, until
// the test lets them go on, and that counts what is read.
type gate struct {
	*threadlog.Log
	reads atomic.Int32

	mu     sync.Mutex
	before func(events []*mesh.Event) error
	after  func(events []*mesh.Event)
}

func newGate() *gate { return &gate{Log: threadlog.New(mem.Open())} }

func (g *gate) hooks(before func([]*mesh.Event) error, after func([]*mesh.Event)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.before, g.after = before, after
}

func (g *gate) Append(ctx context.Context, k mesh.ThreadKey, events []*mesh.Event, opts threadlog.AppendOptions) ([]mesh.Seq, error) {
	g.mu.Lock()
	before, after := g.before, g.after
	g.mu.Unlock()
	if before != nil {
		if err := before(events); err != nil {
			return nil, err
		}
	}
	seqs, err := g.Log.Append(ctx, k, events, opts)
	if after != nil {
		after(events)
	}
	return seqs, err
}

func (g *gate) Read(ctx context.Context, k mesh.ThreadKey, after mesh.Seq, limit int) ([]*mesh.Event, error) {
	g.reads.Add(1)
	return g.Log.Read(ctx, k, after, limit)
}

func add(ctx context.Context, s *cache.States, k mesh.ThreadKey, events ...*mesh.Event) error {
	return s.Decide(ctx, k, func(*thread.State) (cache.Decision, error) { return cache.Decision{Events: events}, nil })
}

func must(t rapid.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// note is a fact of the execution with an id of its own.
func note(id, execution string) *mesh.Event {
	return &mesh.Event{ID: id, Execution: mesh.ExecutionID(execution), Actor: "agent:a", Body: mesh.StateNoted{Agent: "a", Data: []byte(id)}}
}

// reply is a fact that the state counts.
func reply(id, execution string) *mesh.Event {
	return &mesh.Event{ID: id, Execution: mesh.ExecutionID(execution), Actor: "agent:a", Body: mesh.ModelReplied{Usage: mesh.Usage{Prompt: 1}}}
}

// finding C3: who reads the state, and who adds facts, does not wait for the disk
// of somebody else.
func TestAReaderAndAnotherWriterProceedWhileACommitHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		s := cache.New(g, 0)
		must(t, add(t.Context(), s, key(1), open("t", "")))
		disk := make(chan struct{})
		g.hooks(func(events []*mesh.Event) error {
			if events[0].ID == "slow" {
				<-disk
			}
			return nil
		}, nil)
		var all sync.WaitGroup
		all.Go(func() {
			if err := add(t.Context(), s, key(1), note("slow", "t")); err != nil {
				t.Error(err)
			}
		})
		synctest.Wait() // it hangs
		if turns(t, s, key(1)) != 1 {
			t.Error("the reader does not see the turn")
		}
		must(t, add(t.Context(), s, key(1), note("quick", "t")))
		must(t, add(t.Context(), s, key(1), moved("x"))) // a decision in another scope
		seen := false
		must(t, s.Reserve(t.Context(), key(1), func(st *thread.State, on cache.Reserved) (cache.Decision, error) {
			seen = on["slow"] != nil && on["quick"] == nil && st.Seq == 3
			return cache.Decision{}, nil
		}))
		if !seen {
			t.Error("what is on its way is not what is reserved")
		}
		close(disk)
		all.Wait()
	})
}

// finding C3: a decision waits for the facts that are on their way in its scope,
// and is made on the state that has them; later facts wait for it.
func TestADecisionSeesAllFactsOfItsScope(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		s := cache.New(g, 0)
		must(t, add(t.Context(), s, key(1), open("t", "")))
		disk := make(chan struct{})
		g.hooks(func([]*mesh.Event) error { <-disk; return nil }, nil)
		var all sync.WaitGroup
		all.Go(func() { must(t, add(t.Context(), s, key(1), note("first", "t"))) })
		synctest.Wait()
		all.Go(func() {
			must(t, s.Decide(t.Context(), key(1), func(st *thread.State) (cache.Decision, error) {
				return cache.Decision{Events: []*mesh.Event{{Execution: "t", Body: mesh.TaskMoved{Reason: fmt.Sprint(st.Seq)}}}}, nil
			}))
		})
		synctest.Wait()
		all.Go(func() { must(t, add(t.Context(), s, key(1), note("last", "t"))) })
		synctest.Wait()
		close(disk)
		all.Wait()
		events, err := g.Log.Read(t.Context(), key(1), 0, 10)
		must(t, err)
		if len(events) != 4 || events[1].ID != "first" || events[3].ID != "last" {
			t.Fatalf("the log has %v", events)
		}
		if b := events[2].Body.(mesh.TaskMoved); b.Reason != "2" { // that of the fact
			t.Errorf("it was decided on the thread up to %s", b.Reason)
		}
	})
}

// finding C3: what was reserved is free again when its append fails, and an
// event that is on its way is not appended beside itself.
func TestAFailedAppendGivesItsReservationBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		s := cache.New(g, 0)
		must(t, add(t.Context(), s, key(1), open("t", "")))
		full, fail := make(chan struct{}), errors.New("disk full")
		g.hooks(func([]*mesh.Event) error { <-full; return fail }, nil)
		one := func() error {
			return s.Reserve(t.Context(), key(1), func(st *thread.State, on cache.Reserved) (cache.Decision, error) {
				switch {
				case on["only"] != nil: // sent again
				case st.Usage.Prompt > 0 || len(on) > 0:
					return cache.Decision{}, mesh.Errorf(mesh.Exhausted, "test", "one is there")
				}
				return cache.Decision{Events: []*mesh.Event{reply("only", "t")}}, nil
			})
		}
		var all sync.WaitGroup
		var first, again error
		all.Go(func() { first = one() })
		synctest.Wait()
		err := s.Reserve(t.Context(), key(1), func(_ *thread.State, on cache.Reserved) (cache.Decision, error) {
			return cache.Decision{}, fmt.Errorf("%d reserved", len(on))
		})
		if err.Error() != "1 reserved" {
			t.Error(err)
		}
		all.Go(func() { again = one() })
		synctest.Wait() // it waits for the first
		g.hooks(nil, nil)
		close(full)
		all.Wait()
		if !errors.Is(first, fail) || again != nil {
			t.Errorf("the first ended with %v, the second with %v", first, again)
		}
		if tail, err := g.Tail(t.Context(), key(1)); tail != 2 || err != nil {
			t.Errorf("the log ends at %d, %v", tail, err)
		}
	})
}

// Findings C3 and C15: what was appended here is not read again, also when the
// appends of a thread return in another order than they were committed in.
func TestOwnAppendsAreTrustedInAnyOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		s := cache.New(g, 0)
		must(t, add(t.Context(), s, key(1), open("t", "")))
		late := map[string]chan struct{}{"1": make(chan struct{}), "2": make(chan struct{}), "3": make(chan struct{})}
		g.hooks(nil, func(events []*mesh.Event) { <-late[events[0].ID] })
		var all sync.WaitGroup
		for _, id := range []string{"1", "2", "3"} {
			all.Go(func() { must(t, add(t.Context(), s, key(1), reply(id, "t"))) })
			synctest.Wait() // it is committed, and has not returned
		}
		before := g.reads.Load()
		for _, id := range []string{"3", "2", "1"} {
			close(late[id])
			synctest.Wait()
		}
		all.Wait()
		g.hooks(nil, nil)
		must(t, add(t.Context(), s, key(1), reply("4", "t")))
		must(t, s.With(t.Context(), key(1), func(st *thread.State) error {
			if st.Seq != 5 || st.Usage.Prompt != 4 {
				t.Errorf("the state is at %d with %d replies", st.Seq, st.Usage.Prompt)
			}
			return nil
		}))
		if n := g.reads.Load() - before; n != 0 {
			t.Errorf("the log was read %d times for what was appended here", n)
		}
	})
}

// What others append is seen by the next reader, while the own append that came
// before it has yet to return.
func TestWhatOthersAppendIsReadPastOwnAppendsOnTheirWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newGate()
		s := cache.New(g, 0)
		must(t, add(t.Context(), s, key(1), open("t", "")))
		late := make(chan struct{})
		g.hooks(nil, func([]*mesh.Event) { <-late })
		var all sync.WaitGroup
		all.Go(func() { must(t, add(t.Context(), s, key(1), reply("mine", "t"))) })
		synctest.Wait()
		must(t, add(t.Context(), cache.New(g.Log, 0), key(1), open("theirs", "")))
		if turns(t, s, key(1)) != 2 {
			t.Error("the other node's turn is not there")
		}
		must(t, s.Reserve(t.Context(), key(1), func(st *thread.State, on cache.Reserved) (cache.Decision, error) {
			if len(on) != 0 || st.Usage.Prompt != 1 {
				t.Errorf("%d are reserved that the state has", len(on))
			}
			return cache.Decision{}, nil
		}))
		close(late)
		all.Wait()
	})
}

// finding C3: the log judges whether an execution goes on, whoever ended it.
func TestAFactLosesAgainstTheEndOfItsExecution(t *testing.T) {
	for name, end := range map[string]*mesh.Event{
		"moved":   {Execution: "x", Body: mesh.TaskMoved{State: a2apb.TaskState_TASK_STATE_COMPLETED}},
		"settled": {Execution: "t", Body: mesh.DispatchSettled{Child: "x", State: a2apb.TaskState_TASK_STATE_COMPLETED}},
	} {
		t.Run(name, func(t *testing.T) {
			log := newTap()
			log.write(t, key(1), 0, open("t", ""), &mesh.Event{Execution: "t", Body: mesh.DispatchIssued{Child: mesh.Execution{ID: "x", Parent: "t", Kind: mesh.KindAgent}}})
			log.before = func() { log.before = nil; log.write(t, key(1), 0, end) }
			over := errors.New("over")
			err := cache.New(log, 0).Decide(t.Context(), key(1), func(s *thread.State) (cache.Decision, error) {
				if mesh.Terminal(s.Execution("x").State) {
					return cache.Decision{}, over
				}
				return cache.Decision{Events: []*mesh.Event{note("late", "x")}}, nil
			})
			if !errors.Is(err, over) {
				t.Errorf("got %v", err)
			}
		})
	}
}

// Findings C3 and C15: whatever is written at once, by whom and however, in two
// nodes, with appends that fail and threads that are deleted: each state is in the
// end what the log adds up to, and nothing stays reserved.
func TestStatesAreTheFoldOfTheLogWhateverIsWrittenAtOnce(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			g := newGate()
			g.hooks(func([]*mesh.Event) error {
				if rand.IntN(10) == 0 {
					return errors.New("disk full")
				}
				return nil
			}, nil)
			nodes := []*cache.States{cache.New(g, 0), cache.New(g, 0)}
			var all sync.WaitGroup
			for w := range 16 {
				r := rand.New(rand.NewPCG(seed, uint64(w)))
				all.Go(func() {
					for i := range 40 {
						write(t.Context(), r, nodes[r.IntN(2)], g, fmt.Sprintf("%d-%d", w, i))
					}
				})
			}
			all.Wait()
			events, err := g.Log.Read(t.Context(), key(1), 0, 10_000)
			must(t, err)
			for i, s := range nodes {
				must(t, s.Reserve(t.Context(), key(1), func(st *thread.State, on cache.Reserved) (cache.Decision, error) {
					if !reflect.DeepEqual(st, thread.Fold(events)) {
						t.Errorf("node %d is at %d, and the log has %d events", i, st.Seq, len(events))
					}
					if len(on) != 0 {
						t.Errorf("%d events are reserved for ever", len(on))
					}
					return cache.Decision{}, nil
				}))
			}
		})
	}
}

// write does one thing to the thread that somebody may do at any time.
func write(ctx context.Context, r *rand.Rand, s *cache.States, g *gate, id string) {
	execution := strconv.Itoa(r.IntN(4))
	var err error
	switch r.IntN(12) {
	case 0:
		err = add(ctx, s, key(1), open(id, ""))
	case 1:
		err = add(ctx, s, key(1), moved(execution))
	case 2: // past the states
		_, err = g.Log.Append(ctx, key(1), []*mesh.Event{note(id, execution)}, threadlog.AppendOptions{})
	case 3:
		if r.IntN(20) == 0 {
			err = s.Delete(ctx, key(1), func(*thread.State) error { return nil })
		}
	case 4:
		var page []*mesh.Event
		if page, err = g.Read(ctx, key(1), mesh.Seq(r.IntN(50)), 5); err == nil {
			s.Feed(key(1), page)
		}
	case 5:
		err = s.With(ctx, key(1), func(*thread.State) error { return nil })
	case 6: // both, and again
		for range 2 {
			err = add(ctx, s, key(1), note("again"+id, execution), moved(execution))
		}
	default:
		err = add(ctx, s, key(1), note(id, execution))
	}
	_ = err // of a disk that is full, or a thread that is not there
}
