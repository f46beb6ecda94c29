package admission

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/store/disk"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
	"agentmesh/mesh/thread/cache/cachetest"
	"agentmesh/mesh/threadlog"
)

// stores are what these rules hold over.
func stores(t *testing.T, f func(*testing.T, threadlog.Backend)) {
	t.Run("mem", func(t *testing.T) { f(t, mem.Open()) })
	t.Run("disk", func(t *testing.T) {
		s, err := disk.Open(filepath.Join(t.TempDir(), "mesh.db"), disk.Options{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := s.Close(); err != nil {
				t.Error(err)
			}
		})
		f(t, s)
	})
}

// finding C3: of 64 calls at once, with one left in the limit, exactly one is
// made, and the limit is noted once.
func TestOneOfManyCallsAtOnceGetsTheLastOne(t *testing.T) {
	stores(t, func(t *testing.T, s threadlog.Backend) {
		for name, b := range map[string]limit.Budgets{
			limit.TurnSkillCalls: {TurnCalls: 3}, limit.ThreadSkillCalls: {ThreadCalls: 3, TurnCalls: limit.Unlimited}, limit.UserSkillCalls: {UserCalls: 3},
		} {
			l := over(&cachetest.Store{Backend: s}, WithBudgets(b))
			mine := l.run(t, l.post(t), "main", "*")
			mine.User = name // whom the threads before do not count for
			l.calls(t, mine, 0, 2)
			var all sync.WaitGroup
			var made atomic.Int32
			for i := range 64 {
				all.Go(func() {
					switch _, err := l.add(t.Context(), mine, calling(mine, fmt.Sprint("last", i))); {
					case err == nil:
						made.Add(1)
					case !mesh.IsCode(err, mesh.Exhausted) || limit.TripOf(err).Limit != name:
						t.Errorf("refused with %v", err)
					}
				})
			}
			all.Wait()
			if logged := len(bodies[mesh.SkillCalled](t, l)); made.Load() != 1 || logged != 3 {
				t.Errorf("%s: %d calls were made, and %d are logged", name, made.Load(), logged)
			}
			if got := l.tripped(t); got != name+" 3/3" {
				t.Errorf("logged: %s", got)
			}
		}
	})
}

// A failing is a store that fails appends while it is told to.
type failing struct {
	threadlog.Backend
	fail atomic.Bool
}

func (f *failing) Append(ctx context.Context, k mesh.ThreadKey, b *threadlog.Batch) (threadlog.Appended, error) {
	if f.fail.Load() {
		return threadlog.Appended{}, mesh.Errorf(mesh.Unavailable, "test", "the disk is full")
	}
	return f.Backend.Append(ctx, k, b)
}

// finding C3: what an append that fails had reserved is free again: calls of each
// limit, and volume.
func TestAnAppendThatFailsGivesBackWhatItReserved(t *testing.T) {
	stores(t, func(t *testing.T, s threadlog.Backend) {
		for i, b := range []limit.Budgets{{TurnCalls: 3}, {ThreadCalls: 3, TurnCalls: limit.Unlimited}, {UserCalls: 3}} {
			disk := &failing{Backend: s}
			l := over(&cachetest.Store{Backend: disk}, WithBudgets(b))
			mine := l.run(t, l.post(t), "main", "*")
			mine.User = fmt.Sprint("user", i) // whom the threads before do not count for
			l.calls(t, mine, 0, 2)
			before := l.logged(t, mine)
			disk.fail.Store(true)
			for range 5 {
				_, err := l.add(t.Context(), mine, calling(mine, "last"))
				wantCode(t, err, mesh.Unavailable)
			}
			if got := l.logged(t, mine); got != before {
				t.Errorf("the volume is %v, and was %v", got, before)
			}
			disk.fail.Store(false)
			l.calls(t, mine, 2, 1)
			if _, err := l.add(t.Context(), mine, calling(mine, "too many")); !mesh.IsCode(err, mesh.Exhausted) {
				t.Errorf("one too many: %v", err)
			}
		}
	})
}

// finding C3: of two words on one call, at once, one counts; and so of returns.
func TestACallIsSettledOnce(t *testing.T) {
	stores(t, func(t *testing.T, s threadlog.Backend) {
		l := over(&cachetest.Store{Backend: s})
		turn := l.post(t)
		mine := l.run(t, turn, "main", "mail.*")
		ask := &mesh.Event{Execution: mine.Execution, Body: mesh.ApprovalAsked{Call: "a", Skill: "mail.send", Text: "Send?"}}
		if _, err := l.add(t.Context(), mine, ask, calling(mine, "b")); err != nil {
			t.Fatal(err)
		}
		var all sync.WaitGroup
		var settled, returned atomic.Int32
		for range 32 {
			all.Go(func() {
				_, err := l.add(t.Context(), mine, &mesh.Event{Execution: mine.Execution, Body: mesh.ApprovalSettled{Call: "a"}})
				count(t, &settled, err, mesh.Precondition)
			})
			all.Go(func() {
				_, err := l.add(t.Context(), mine, &mesh.Event{Execution: mine.Execution, Body: mesh.SkillReturned{Call: "b"}})
				count(t, &returned, err, mesh.Denied)
			})
		}
		all.Wait()
		if settled.Load() != 1 || returned.Load() != 1 {
			t.Errorf("settled %d times, returned %d times", settled.Load(), returned.Load())
		}
	})
}

func count(t *testing.T, n *atomic.Int32, err error, refused mesh.Code) {
	switch {
	case err == nil:
		n.Add(1)
	case !mesh.IsCode(err, refused):
		t.Errorf("refused with %v", err)
	}
}

// finding C3: whoever ends an execution, here or in another node, and whatever it
// says meanwhile, nothing of it is in the log after its end.
func TestNothingIsSaidAfterTheEnd(t *testing.T) {
	stores(t, func(t *testing.T, s threadlog.Backend) {
		for round := range 40 {
			l := over(&cachetest.Store{Backend: s})
			other := New(l.log, cache.New(l.log, 0), nil) // another node
			turn := l.post(t)
			mine := l.run(t, turn, "main", "*")
			end := &mesh.Event{Execution: turn, Body: mesh.DispatchSettled{Child: mine.Execution, State: completed}}
			if round%2 == 0 {
				end = &mesh.Event{Execution: mine.Execution, Body: mesh.TaskMoved{State: completed}}
			}
			var all sync.WaitGroup
			for w := range 8 {
				by := []*Controller{l.Controller, other}[w%2]
				all.Go(func() {
					for i := range 10 {
						_, err := by.Append(t.Context(), mine, []*mesh.Event{{ID: fmt.Sprint(w, "-", i), Execution: mine.Execution, Body: mesh.ModelReplied{Text: "more"}}})
						if err != nil && !mesh.IsCode(err, mesh.Precondition) {
							t.Errorf("refused with %v", err)
						}
					}
				})
			}
			all.Go(func() {
				time.Sleep(time.Duration(round%8) * 100 * time.Microsecond)
				err := other.states.Decide(t.Context(), l.key, func(*thread.State) (cache.Decision, error) {
					return cache.Decision{Events: []*mesh.Event{end}}, nil
				})
				if err != nil {
					t.Error(err)
				}
			})
			all.Wait()
			events, err := l.log.Read(t.Context(), l.key, 0, 1000)
			if err != nil {
				t.Fatal(err)
			}
			over := false
			for _, e := range events {
				if over && e.Execution == mine.Execution {
					t.Errorf("round %d: event %d of %d comes after the end", round, e.Seq, len(events))
				}
				over = over || e == end || e.Seq == end.Seq
			}
		}
	})
}

// An event that is sent again while it hangs is added once, and both hear of it.
func TestWhatIsSentAgainWhileItHangsIsAddedOnce(t *testing.T) {
	stores(t, func(t *testing.T, s threadlog.Backend) {
		l := over(&cachetest.Store{Backend: s}, WithBudgets(limit.Budgets{TurnCalls: 1, UserCalls: 1}))
		mine := l.run(t, l.post(t), "main", "*")
		var all sync.WaitGroup
		errs := make([]error, 16)
		for i := range errs {
			all.Go(func() { _, errs[i] = l.add(t.Context(), mine, calling(mine, "once")) })
		}
		all.Wait()
		if err := errors.Join(errs...); err != nil || len(bodies[mesh.SkillCalled](t, l)) != 1 || l.tripped(t) != "" {
			t.Errorf("%v; logged %d, %s", err, len(bodies[mesh.SkillCalled](t, l)), l.tripped(t))
		}
	})
}
