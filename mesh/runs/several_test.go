package runs_test

import (
	"context"
	"iter"
	"sync"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/runs"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/state"
)

// flaky is a KV of which calls about a kind fail for a while.
type flaky struct {
	runs.KV
	mu   sync.Mutex
	kind string
	left int
	// slow is how long it takes for what was read to arrive.
	slow  time.Duration
	tried map[string]int
}

func (f *flaky) fail(kind string, times int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.kind, f.left = kind, times
}

func (f *flaky) delay(d time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.slow = d
}

// puts returns how often values of the kind were written, or tried to be.
func (f *flaky) puts(kind string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.tried[kind]
}

func (f *flaky) Get(ctx context.Context, k state.Key) (state.Value, error) {
	v, err := f.KV.Get(ctx, k)
	f.mu.Lock()
	slow := f.slow
	f.mu.Unlock()
	time.Sleep(slow)
	return v, err
}

func (f *flaky) Put(ctx context.Context, k state.Key, data []byte, version int64) (int64, error) {
	f.mu.Lock()
	if f.tried == nil {
		f.tried = map[string]int{}
	}
	f.tried[k.Kind]++
	broken := k.Kind == f.kind && f.left > 0
	if broken {
		f.left--
	}
	f.mu.Unlock()
	if broken {
		return 0, mesh.Errorf(mesh.Unavailable, "flaky", "the disk is full")
	}
	return f.KV.Put(ctx, k, data, version)
}

// flaky starts a scheduler whose store fails.
func (w *world) flaky(kv runs.KV, lib runs.Library, change ...func(*runs.SchedulerConfig)) (stop func()) {
	w.t.Helper()
	runner, err := runs.New(runs.Config{Edge: w.Edge, Threads: w.states, KV: kv})
	if err != nil {
		w.t.Fatal(err)
	}
	return w.schedule(lib, append(change, func(c *runs.SchedulerConfig) { c.Runner = runner })...)
}

// A claim is a compare-and-set: who decided on what has changed since decides
// again, and finds nothing left to do.
func TestWhoReadBeforeAnotherClaimedClaimsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		lib := library(t)
		lib.Put(parse(t, "a.a", "0 1 * * *", ""))
		late, first := &flaky{KV: w.kv}, &flaky{KV: w.kv}
		defer w.flaky(late, lib)()
		defer w.flaky(first, lib, func(c *runs.SchedulerConfig) { // looks when the other one has read, and acts before it does
			c.Now = func() time.Time { return time.Now().Add(-time.Second / 2) }
		})()
		w.at("01-01 00:59:30")
		late.delay(time.Second)
		w.at("01-01 01:00:30")
		w.wantRuns("default", "01-01 01:00 a.a completed: Done.")
		if first.puts("skill-run") == 0 || late.puts("skill-run") != 0 {
			t.Errorf("the first one wrote %d records and the late one %d", first.puts("skill-run"), late.puts("skill-run"))
		}
	})
}

// A node that is there all the time looks after what one left that is not.
func TestARunOfADeadNodeIsSettledByAnotherThatLives(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.agents.do = takes(25 * time.Minute)
		lib := library(t)
		lib.Put(parse(t, "a.long", "*/10 * * * *", ""))
		long := func(c *runs.SchedulerConfig) { c.Timeout = time.Hour }
		dies := w.schedule(lib, long)
		kv := &flaky{KV: w.kv}
		defer w.flaky(kv, lib, long)()
		w.at("01-01 00:09:59")
		kv.delay(time.Second)
		w.at("01-01 00:11:00")
		kv.delay(0)
		dies()
		w.at("01-01 00:41:00")
		const missed = " a.long missed: Not run: the run that was due at 2000-01-01T00:10:00Z still went on."
		w.wantRuns("default", "01-01 00:40 a.long running", "01-01 00:30"+missed, "01-01 00:20"+missed, "01-01 00:10 a.long completed: Done after 25m0s.")
		w.wantCalls("01-01 00:10 default/scheduler schedule a.long", "01-01 00:40 default/scheduler schedule a.long")
	})
}

// The schedule of a tenant that has no skills any more does not count on, also
// when it comes back.
func TestAScheduleThatCameBackHasMissedNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		lib := library(t)
		create := func() {
			t.Helper()
			if _, err := lib.Create("acme", page("flows.own", "0 * * * *", "")); err != nil {
				t.Fatal(err)
			}
		}
		create()
		w.schedule(lib)()
		if err := lib.Delete("acme", "flows.own"); err != nil {
			t.Fatal(err)
		}
		w.schedule(lib)() // sees that it is gone
		create()
		w.at("01-01 04:30:00")
		defer w.schedule(lib)()
		w.wantRuns("acme")
		w.at("01-01 05:00:30")
		w.wantRuns("acme", "01-01 05:00 flows.own completed: Done.")
	})
}

// moody is a library whose first watch ends early.
type moody struct {
	*skill.Library
	once sync.Once
}

func (m *moody) Watch(ctx context.Context, t mesh.TenantID) iter.Seq2[skill.Change, error] {
	return func(yield func(skill.Change, error) bool) {
		m.once.Do(func() {
			limited, cancel := context.WithTimeout(ctx, time.Hour)
			defer cancel()
			ctx = limited //nolint:fatcontext // once, so that the first watch ends
		})
		for c, err := range m.Library.Watch(ctx, t) {
			if !yield(c, err) {
				return
			}
		}
	}
}

func TestSkillsAreFollowedAgainWhenThatEnds(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		lib := &moody{Library: library(t)}
		defer w.schedule(lib)()
		w.at("01-01 02:00:00")
		lib.Put(parse(t, "a.a", "0 3 * * *", ""))
		w.at("01-01 03:00:30")
		w.wantRuns("default", "01-01 03:00 a.a completed: Done.")
	})
}
