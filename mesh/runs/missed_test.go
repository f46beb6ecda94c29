package runs_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh/runs"
	"agentmesh/mesh/store/mem"
)

const unmanned, again = "Not run: there was no node to run it", ", and then it was due again."

// What is not later than CatchUp when a node starts runs once; the rest is
// recorded as missed.
func TestOnlyTheLastMissedRunIsMadeUpForAndOnlyInTime(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		lib := library(t)
		lib.Put(parse(t, "a.hourly", "0 * * * *", ""), parse(t, "b.daily", "0 2 * * *", ""), parse(t, "c.later", "0 23 * * *", ""))
		w.schedule(lib)()
		w.at("01-01 04:30:00")
		defer w.schedule(lib)()
		w.wantCalls("01-01 04:30 default/scheduler schedule a.hourly")
		w.wantRuns("default",
			"01-01 04:00 a.hourly completed: Done.",
			"01-01 03:00 a.hourly missed: "+unmanned+again,
			"01-01 02:00 a.hourly missed: "+unmanned+again,
			"01-01 02:00 b.daily missed: "+unmanned+", and now it is 2h30m0s late.",
			"01-01 01:00 a.hourly missed: "+unmanned+again)
		w.at("01-01 05:00:30")
		if n := len(w.agents.seen()); n != 2 {
			t.Errorf("after the next due time there were %d calls", n)
		}
	})
}

func TestAYearOfMissedMinutesIsToldInTen(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		lib := library(t)
		lib.Put(parse(t, "a.often", "* * * * *", ""))
		w.schedule(lib)()
		w.at("12-31 23:59:30")
		defer w.schedule(lib)()
		list, _ := w.list("default", &meshv1.ListSkillRunsRequest{PageSize: 100})
		if len(list) != 11 || list[0] != "12-31 23:59 a.often completed: Done." || list[1] != "12-31 23:58 a.often missed: "+unmanned+again ||
			list[10] != "12-31 23:49 a.often missed: "+unmanned+again+" Nor were earlier ones run." {
			t.Errorf("the runs are %q", list)
		}
	})
}

// A schedule that was changed or made while no scheduler ran has missed nothing.
func TestANewScheduleHasMissedNothing(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		lib := library(t)
		lib.Put(parse(t, "a.changed", "0 * * * *", ""))
		w.schedule(lib)()
		w.at("01-01 04:30:00")
		lib.Put(parse(t, "a.changed", "15 * * * *", ""), parse(t, "b.made", "0 * * * *", ""))
		defer w.schedule(lib)()
		w.wantCalls()
		w.at("01-01 05:15:30")
		w.wantRuns("default", "01-01 05:15 a.changed completed: Done.", "01-01 05:00 b.made completed: Done.")
	})
}

func TestARunThatStillGoesOnIsNotBegunASecondTime(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.agents.do = takes(25 * time.Minute)
		lib := library(t)
		lib.Put(parse(t, "a.long", "*/10 * * * *", ""))
		long := func(c *runs.SchedulerConfig) { c.Timeout = time.Hour }
		defer w.schedule(lib, long)()
		w.at("01-01 00:36:00")
		const missed = " a.long missed: Not run: the run that was due at 2000-01-01T00:10:00Z still went on."
		w.wantRuns("default", "01-01 00:30"+missed, "01-01 00:20"+missed, "01-01 00:10 a.long completed: Done after 25m0s.")
		w.at("01-01 00:41:00")
		w.wantCalls("01-01 00:10 default/scheduler schedule a.long", "01-01 00:40 default/scheduler schedule a.long")
	})
}

func TestARunThatTakesTooLongIsStopped(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.agents.do = takes(time.Hour)
		lib := library(t)
		lib.Put(parse(t, "a.long", "0 * * * *", ""))
		defer w.schedule(lib)()
		w.at("01-01 01:11:00")
		w.wantRuns("default", "01-01 01:00 a.long failed: Stopped: it took longer than 10m0s.")
		res, err := w.runner.ListSkillRuns(w.as("default", "ann"), &meshv1.ListSkillRunsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		if task, _, err := w.Task(w.as("default", "ann"), res.GetRuns()[0].GetTaskId()); err != nil || task.GetStatus().GetState() != canceled {
			t.Errorf("its task is %v, %v", task, err)
		}
	})
}

func TestRunsBeyondTheirNumberWaitForTheirTurn(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		var now, most atomic.Int32
		w.agents.do = func(ctx context.Context, c skillCall) result {
			if n := now.Add(1); n > most.Load() {
				most.Store(n)
			}
			defer now.Add(-1)
			return takes(time.Minute)(ctx, c)
		}
		lib := library(t)
		for _, name := range []string{"a.a", "a.b", "a.c", "a.d", "a.e"} {
			lib.Put(parse(t, name, "0 9 * * *", ""))
		}
		defer w.schedule(lib, func(c *runs.SchedulerConfig) { c.Parallel = 2 })()
		w.at("01-01 09:03:30")
		list, _ := w.list("default", &meshv1.ListSkillRunsRequest{})
		if most.Load() != 2 || len(list) != 5 || strings.Contains(strings.Join(list, ""), "running") {
			t.Errorf("%d ran at a time, and came to %q", most.Load(), list)
		}
	})
}

// A run that went on when its scheduler ended is settled by the next one.
func TestARunThatOutlivesItsSchedulerIsSettledByTheNext(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.agents.do = takes(5 * time.Minute)
		lib := library(t)
		lib.Put(parse(t, "a.a", "0 * * * *", ""))
		stop := w.schedule(lib)
		w.at("01-01 01:01:00")
		stop()
		w.wantRuns("default", "01-01 01:00 a.a running")
		stop = w.schedule(lib) // while it goes on
		w.wantRuns("default", "01-01 01:00 a.a running")
		stop()
		w.at("01-01 01:30:00")
		defer w.schedule(lib)() // when it has ended
		w.wantRuns("default", "01-01 01:00 a.a completed: Done after 5m0s.")
		w.wantCalls("01-01 01:00 default/scheduler schedule a.a")
	})
}

// A run that a node's death cut off is settled from its thread.
func TestARunThatTheNodeDiedInIsSettledFromItsThread(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, a := mem.Open(), &agents{do: takes(5 * time.Minute)}
		w := open(t, store, a)
		lib := library(t)
		lib.Put(parse(t, "a.a", "0 * * * *", ""))
		stop := w.schedule(lib)
		w.at("01-01 01:01:00")
		stop()
		w.close()

		w = open(t, store, a)
		defer w.close()
		defer w.schedule(lib)()
		w.wantRuns("default", "01-01 01:00 a.a failed: The mesh was stopped while this was running; send the message again.")
		w.wantCalls("01-01 01:00 default/scheduler schedule a.a")
	})
}

// What was claimed by a node that died before it could begin is begun by the
// next one, if that is in time.
func TestAClaimOfTheDeadIsBegunInTimeOrMissed(t *testing.T) {
	for name, tt := range map[string]struct {
		start string
		want  string
	}{
		"in time":  {"01-01 01:30:00", "01-01 01:00 a.a completed: Done."},
		"too late": {"01-01 02:30:00", "01-01 01:00 a.a missed: Not run: whoever was to run it did not begin."},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				lib := library(t)
				lib.Put(parse(t, "a.a", "0 1 * * *", ""))
				w.agents.leave(true) // so that it cannot begin
				stop := w.schedule(lib)
				w.at("01-01 01:00:30")
				stop()
				w.wantRuns("default", "01-01 01:00 a.a running")
				w.agents.leave(false)
				w.at(tt.start)
				defer w.schedule(lib)()
				w.wantRuns("default", tt.want)
			})
		})
	}
}

// The same, when it died between the claim and the record of it.
func TestAClaimWithoutARecordIsNotLost(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		lib := library(t)
		lib.Put(parse(t, "a.a", "0 1 * * *", ""))
		kv := &flaky{KV: w.kv}
		stop := w.flaky(kv, lib)
		w.at("01-01 00:59:30")
		kv.fail("skill-run", 1000)
		w.at("01-01 01:00:30")
		stop()
		w.wantCalls()
		w.wantRuns("default")
		defer w.schedule(lib)()
		w.wantRuns("default", "01-01 01:00 a.a completed: Done.")
	})
}

func TestAStoreThatFailsForAWhileLosesNothing(t *testing.T) {
	for _, kind := range []string{"skill-schedule", "skill-run"} {
		t.Run(kind, func(t *testing.T) {
			inBubble(t, func(t *testing.T, w *world) {
				lib := library(t)
				lib.Put(parse(t, "a.a", "0 1 * * *", ""))
				kv := &flaky{KV: w.kv}
				defer w.flaky(kv, lib)()
				w.at("01-01 00:59:30")
				kv.fail(kind, 3)
				w.at("01-01 01:01:00")
				w.wantRuns("default", "01-01 01:00 a.a completed: Done.")
				if n := len(w.agents.seen()); n != 1 {
					t.Errorf("it ran %d times", n)
				}
			})
		})
	}
}

// The agent that runs skills may come up after the scheduler.
func TestARunWaitsForTheAgentThatIsToRunIt(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		lib := library(t)
		lib.Put(parse(t, "a.a", "0 1 * * *", ""), parse(t, "b.b", "0 2 * * *", ""))
		w.agents.leave(true)
		defer w.schedule(lib)()
		w.at("01-01 01:05:00")
		w.agents.leave(false)
		w.at("01-01 01:06:00")
		w.wantRuns("default", "01-01 01:00 a.a completed: Done.")
		w.agents.leave(true)
		w.at("01-01 02:30:00")
		w.wantRuns("default", `01-01 02:00 b.b failed: There is no agent "worker" here, which would run the skill; ask the operator`, "01-01 01:00 a.a completed: Done.")
	})
}

// A run that is to begin goes on as well.
func TestARunThatHasNotBegunIsNotBegunASecondTime(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		lib := library(t)
		lib.Put(parse(t, "a.a", "*/10 * * * *", ""))
		w.agents.leave(true)
		defer w.schedule(lib, func(c *runs.SchedulerConfig) { c.Timeout = time.Hour })()
		w.at("01-01 00:21:00")
		w.agents.leave(false)
		w.at("01-01 00:22:00")
		w.wantRuns("default", "01-01 00:20 a.a missed: Not run: the run that was due at 2000-01-01T00:10:00Z still went on.", "01-01 00:10 a.a completed: Done.")
	})
}

func TestAScheduleThatIsNoneIsLeftOut(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		lib := library(t)
		bad := *parse(t, "a.bad", "0 1 * * *", "")
		bad.Schedule = "whenever"
		lib.Put(&bad, parse(t, "b.good", "0 1 * * *", ""))
		defer w.schedule(lib)()
		w.at("01-01 01:30:00")
		w.wantRuns("default", "01-01 01:00 b.good completed: Done.")
		lib.Put(parse(t, "a.bad", "45 1 * * *", "")) // corrected
		w.at("01-01 01:46:00")
		w.wantCalls("01-01 01:00 default/scheduler schedule b.good", "01-01 01:45 default/scheduler schedule a.bad")
	})
}
