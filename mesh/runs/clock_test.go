package runs_test

import (
	"sync/atomic"
	"testing"
	"time"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh/runs"
)

// A setClock is one that can be set.
type setClock struct{ ahead atomic.Int64 }

func (c *setClock) set(ahead time.Duration) { c.ahead.Store(int64(ahead)) }

func (c *setClock) now(s *runs.SchedulerConfig) {
	s.Now = func() time.Time { return time.Now().Add(time.Duration(c.ahead.Load())) }
}

// A clock that is set back has nothing run a second time.
func TestAClockThatIsSetBackRepeatsNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var c setClock
		lib := library(t)
		lib.Put(parse(t, "a.a", "*/30 * * * *", ""))
		defer w.schedule(lib, c.now)()
		w.at("01-01 01:10:00")
		c.set(-time.Hour) // 00:10
		w.at("01-01 01:40:00")
		const call = " default/scheduler schedule a.a"
		w.wantCalls("01-01 00:30"+call, "01-01 01:00"+call)
		w.at("01-01 02:30:30") // 01:30
		w.wantCalls("01-01 00:30"+call, "01-01 01:00"+call, "01-01 02:30"+call)
	})
}

// A clock that goes ahead runs the last due time that it comes past, once.
func TestAClockThatIsSetAheadRunsTheLastDueTime(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var c setClock
		lib := library(t)
		lib.Put(parse(t, "a.a", "0 * * * *", ""))
		defer w.schedule(lib, c.now)()
		w.at("01-01 00:10:00")
		c.set(3 * time.Hour) // 03:10
		w.at("01-01 00:20:00")
		w.wantRuns("default", "01-01 03:00 a.a completed: Done.", "01-01 02:00 a.a missed: "+unmanned+again, "01-01 01:00 a.a missed: "+unmanned+again)
	})
}

// A clock that was years ahead for a moment does not silence a schedule for these
// years, neither in the process that saw it nor in the next one.
func TestAClockThatWasYearsAheadSilencesNothing(t *testing.T) {
	for _, restart := range []bool{false, true} {
		inBubble(t, func(t *testing.T, w *world) {
			var c setClock
			lib := library(t)
			lib.Put(parse(t, "a.a", "0 * * * *", ""))
			stop := w.schedule(lib, c.now)
			defer func() { stop() }()
			w.at("01-01 01:10:00")
			c.set(3 * 365 * 24 * time.Hour)
			w.at("01-01 01:20:00")
			if n := len(w.agents.seen()); n != 2 {
				t.Fatalf("there were %d calls, with the one of the future", n)
			}
			c.set(0)
			if restart {
				stop()
				stop = w.schedule(lib, c.now)
			}
			w.at("01-01 02:00:30")
			w.wantRuns("default", "01-01 02:00 a.a completed: Done.", "01-01 01:00 a.a completed: Done.")
		})
	}
}

// What a node claimed that died at once is begun by a neighbour that lives when the
// skill is due again, if that is in time; and it is never forgotten.
func TestAClaimOfADeadNodeIsTakenOverByOneThatLives(t *testing.T) {
	const call = " default/scheduler schedule a.a"
	for name, tt := range map[string]struct {
		catchUp     time.Duration
		runs, calls []string
	}{
		"in time": {time.Hour, []string{
			"01-01 00:30 a.a completed: Done.",
			"01-01 00:20 a.a missed: Not run: the run that was due at 2000-01-01T00:10:00Z still went on.",
			"01-01 00:10 a.a completed: Done.",
		}, []string{"01-01 00:20" + call, "01-01 00:30" + call}},
		"too late": {time.Minute, []string{
			"01-01 00:30 a.a completed: Done.",
			"01-01 00:20 a.a completed: Done.",
			"01-01 00:10 a.a missed: Not run: whoever was to run it did not begin.",
		}, []string{"01-01 00:20" + call, "01-01 00:30" + call}},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				lib := library(t)
				lib.Put(parse(t, "a.a", "*/10 * * * *", ""))
				soon := func(c *runs.SchedulerConfig) { c.CatchUp = tt.catchUp }
				kv := &flaky{KV: w.kv}
				dies := w.flaky(kv, lib, soon)
				defer w.schedule(lib, soon, func(c *runs.SchedulerConfig) {
					c.Now = func() time.Time { return time.Now().Add(-time.Second) } // the other one is first
				})()
				w.at("01-01 00:09:30")
				kv.fail("skill-run", 1000)
				w.at("01-01 00:10:03")
				dies()
				w.wantCalls()
				w.at("01-01 00:30:30")
				w.wantRuns("default", tt.runs...)
				w.wantCalls(tt.calls...)
			})
		})
	}
}

// A schedule that goes or changes while its skill runs leaves that run alone, and
// what follows from it counts at once.
func TestAScheduleThatGoesInMidRun(t *testing.T) {
	for name, tt := range map[string]struct {
		to    string
		calls int
	}{"goes": {"", 1}, "changes": {"15 * * * *", 2}} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				w.agents.do = takes(5 * time.Minute)
				lib := library(t)
				lib.Put(parse(t, "a.a", "0 * * * *", ""))
				defer w.schedule(lib)()
				w.at("01-01 01:00:00") // is due in this moment
				w.at("01-01 01:01:00")
				lib.Put(parse(t, "a.a", tt.to, ""))
				w.at("01-01 02:05:30")
				list, _ := w.list("default", &meshv1.ListSkillRunsRequest{})
				if n := len(list); n != tt.calls || list[n-1] != "01-01 01:00 a.a completed: Done after 5m0s." {
					t.Errorf("the runs are %q", list)
				}
				if n := len(w.agents.seen()); n != tt.calls {
					t.Errorf("there were %d calls", n)
				}
			})
		})
	}
}
