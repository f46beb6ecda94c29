package runs_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/runs"
	"agentmesh/mesh/skill"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
)

// library returns one that has no skills yet.
func library(t *testing.T) *skill.Library {
	t.Helper()
	lib, err := skill.OpenLibrary(skill.LibraryOptions{TenantDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	return lib
}

// schedule runs a scheduler until the function that it returns is called.
func (w *world) schedule(lib runs.Library, change ...func(*runs.SchedulerConfig)) (stop func()) {
	w.t.Helper()
	c := runs.SchedulerConfig{Runner: w.runner, Library: lib, Poll: time.Minute}
	for _, f := range change {
		f(&c)
	}
	s, err := runs.NewScheduler(c)
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- s.Run(ctx) }()
	synctest.Wait()
	return func() {
		w.t.Helper()
		cancel()
		if err := <-done; err != nil {
			w.t.Errorf("Run: %v", err)
		}
	}
}

// at sleeps until that time of the bubble, as "01-02 15:04:05" of the year 2000.
func (w *world) at(clock string) {
	w.t.Helper()
	when, err := time.Parse("2006-01-02 15:04:05", "2000-"+clock)
	if err != nil {
		w.t.Fatal(err)
	}
	time.Sleep(time.Until(when))
	synctest.Wait()
}

// list returns the runs of a tenant, newest first, in words.
func (w *world) list(tenant mesh.TenantID, req *meshv1.ListSkillRunsRequest) (lines []string, next string) {
	w.t.Helper()
	res, err := w.runner.ListSkillRuns(w.as(tenant, "ann"), req)
	if err != nil {
		w.t.Fatal(err)
	}
	for _, r := range res.GetRuns() {
		line := fmt.Sprintf("%s %s %s: %s", r.GetDue().AsTime().Format("01-02 15:04"), r.GetSkill(), r.GetStatus(), r.GetDetail())
		lines = append(lines, strings.TrimSuffix(line, ": "))
	}
	return lines, res.GetNextPageToken()
}

func (w *world) wantRuns(tenant mesh.TenantID, want ...string) {
	w.t.Helper()
	got, _ := w.list(tenant, &meshv1.ListSkillRunsRequest{PageSize: 100})
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("runs of %s (-want +got):\n%s", tenant, diff)
	}
}

func (w *world) wantCalls(want ...string) {
	w.t.Helper()
	var got []string
	for _, c := range w.agents.seen() {
		got = append(got, c.String())
	}
	if diff := cmp.Diff(want, got); diff != "" {
		w.t.Errorf("calls (-want +got):\n%s", diff)
	}
}

// S3-129, S3-163: a skill with a schedule runs when that is due, as a turn of a
// thread of its own, through the pipeline of all skills.
func TestAScheduleFires(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.agents.do = takes(time.Minute)
		lib := library(t)
		lib.Put(parse(t, "reports.daily", "0 9 * * *", ""), parse(t, "reports.never", "", ""))
		defer w.schedule(lib)()
		w.at("01-02 09:00:30")
		w.wantCalls("01-01 09:00 default/scheduler schedule reports.daily", "01-02 09:00 default/scheduler schedule reports.daily")
		w.wantRuns("default", "01-02 09:00 reports.daily running", "01-01 09:00 reports.daily completed: Done after 1m0s.")

		res, err := w.runner.ListSkillRuns(w.as("default", "ann"), &meshv1.ListSkillRunsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		now, before := res.GetRuns()[0], res.GetRuns()[1]
		if now.GetThreadId() == before.GetThreadId() || now.GetTaskId() == "" || now.GetEnded() != nil || before.GetEnded().AsTime().Sub(before.GetStarted().AsTime()) != time.Minute {
			t.Errorf("runs are %v and %v", now, before)
		}
		task, _, err := w.Task(w.as("default", "ann"), before.GetTaskId())
		if err != nil || task.GetContextId() != before.GetThreadId() || a2a.TaskText(task) != "Done after 1m0s." {
			t.Errorf("the run's task is %v, %v", task, err)
		}
		calls := w.agents.seen()
		if calls[0].approved || calls[0].thread != before.GetThreadId() || len(calls[0].args) != 0 {
			t.Errorf("the agent was asked %+v", calls[0])
		}
	})
}

// finding T9: a list with runs of others, which a role lets somebody see, is told once, and
// one without is not.
func TestAListWithRunsOfOthersIsRecorded(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.agents.do = takes(time.Minute)
		lib := library(t)
		lib.Put(parse(t, "reports.daily", "0 9 * * *", ""))
		defer w.schedule(lib)()
		var told []string
		runner, err := runs.New(runs.Config{Edge: w.Edge, Threads: w.states, KV: w.kv, ReadByRole: func(ctx context.Context, what string) {
			call, _ := mesh.CallFrom(ctx)
			told = append(told, call.Principal.User+" "+what)
		}})
		if err != nil {
			t.Fatal(err)
		}
		list := func(user string, want int) {
			t.Helper()
			res, err := runner.ListSkillRuns(w.as("default", user), &meshv1.ListSkillRunsRequest{})
			if err != nil || len(res.GetRuns()) != want {
				t.Errorf("%s is told %v, %v", user, res, err)
			}
		}
		list("ann", 0)
		w.at("01-02 09:02:00")
		list("scheduler", 2)
		list("ann", 2)
		if want := []string{"ann skill runs"}; !slices.Equal(told, want) {
			t.Errorf("told is %q, want %q", told, want)
		}
	})
}

// Of several nodes one runs it, for a hundred due times.
func TestTwoSchedulersRunEachDueTimeOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		lib := library(t)
		lib.Put(parse(t, "reports.often", "*/15 * * * *", ""))
		defer w.schedule(lib)()
		second, err := runs.New(runs.Config{Edge: w.Edge, Threads: w.states, KV: w.kv})
		if err != nil {
			t.Fatal(err)
		}
		defer w.schedule(lib, func(c *runs.SchedulerConfig) { c.Runner = second })()
		w.at("01-02 01:00:01")
		var want []string
		for i := range 100 {
			due := time.Date(2000, 1, 1, 0, 15*(i+1), 0, 0, time.UTC)
			want = append(want, due.Format("01-02 15:04")+" default/scheduler schedule reports.often")
		}
		w.wantCalls(want...)
		list, _ := w.list("default", &meshv1.ListSkillRunsRequest{PageSize: 100})
		if len(list) != 100 || slices.ContainsFunc(list, func(s string) bool { return !strings.HasSuffix(s, "completed: Done.") }) {
			t.Errorf("the runs are %q", list)
		}
	})
}

// Time zones and the change of clocks: 02:30 is skipped in spring and comes
// twice in autumn, and the skill runs once on each day.
func TestSchedulesKeepToTheirTimeZone(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		lib := library(t)
		hourly := func(c *runs.SchedulerConfig) { c.Poll = time.Hour }
		lib.Put(parse(t, "reports.berlin", "30 2 * * *", "Europe/Berlin"), parse(t, "reports.tokyo", "0 9 * * *", "Asia/Tokyo"))
		w.at("03-24 12:00:00")
		stop := w.schedule(lib, hourly)
		w.at("03-27 12:00:00")
		stop()
		const berlin, tokyo = " default/scheduler schedule reports.berlin", " default/scheduler schedule reports.tokyo"
		spring := []string{
			"03-25 00:00" + tokyo, "03-25 01:30" + berlin,
			"03-26 00:00" + tokyo, "03-26 01:30" + berlin, // 03:30 on the clock
			"03-27 00:00" + tokyo, "03-27 00:30" + berlin,
		}
		w.wantCalls(spring...)

		lib.Remove("reports.tokyo")
		w.at("10-28 12:00:00")
		defer w.schedule(lib, hourly)()
		autumn := len(w.agents.seen())
		w.at("10-31 12:00:00")
		var got []string
		for _, c := range w.agents.seen()[autumn:] {
			got = append(got, c.String())
		}
		if diff := cmp.Diff([]string{"10-29 00:30" + berlin, "10-30 01:30" + berlin, "10-31 01:30" + berlin}, got); diff != "" {
			t.Errorf("calls in autumn (-want +got):\n%s", diff)
		}
	})
}

func TestAScheduleThatChangesOrGoesTakesEffectAtOnce(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		lib := library(t)
		put := func(schedule string) { lib.Put(parse(t, "reports.x", schedule, "")) }
		put("0 9 * * *")
		defer w.schedule(lib)()
		w.at("01-01 09:30:00")
		put("0 10 * * *")
		w.at("01-01 10:30:00")
		put("") // no schedule any more
		w.at("01-02 11:00:00")
		put("0 10 * * *") // again, and what was due meanwhile does not count
		w.at("01-02 12:00:00")
		lib.Remove("reports.x")
		w.at("01-03 11:00:00")
		const call = " default/scheduler schedule reports.x"
		w.wantCalls("01-01 09:00"+call, "01-01 10:00"+call)
		// A new text with the same schedule changes nothing.
		put("0 10 * * *")
		w.at("01-04 09:59:00")
		again := *parse(t, "reports.x", "0 10 * * *", "")
		again.Description, again.Version = "Does it better.", "2"
		lib.Put(&again)
		w.at("01-04 10:00:30")
		w.wantCalls("01-01 09:00"+call, "01-01 10:00"+call, "01-04 10:00"+call)
		w.wantRuns("default", "01-04 10:00 reports.x completed: Done.", "01-01 10:00 reports.x completed: Done.", "01-01 09:00 reports.x completed: Done.")
	})
}

// A tenant's skills run in the tenant, and nobody else hears of that.
func TestSchedulesOfTenantsRunInTheTenant(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		lib := library(t)
		lib.Put(parse(t, "reports.shared", "0 9 * * *", ""))
		create := func(tenant mesh.TenantID, name, schedule string) {
			t.Helper()
			if _, err := lib.Create(tenant, page(name, schedule, "")); err != nil {
				t.Fatal(err)
			}
		}
		create("acme", "flows.own", "0 10 * * *")
		defer w.schedule(lib)()
		create("globex", "flows.late", "0 11 * * *") // a tenant that had no skills when it began
		create("default", "flows.mine", "0 12 * * *")
		w.at("01-01 13:00:00")
		w.wantCalls("01-01 09:00 default/scheduler schedule reports.shared", "01-01 10:00 acme/scheduler schedule flows.own",
			"01-01 11:00 globex/scheduler schedule flows.late", "01-01 12:00 default/scheduler schedule flows.mine")
		w.wantRuns("acme", "01-01 10:00 flows.own completed: Done.")
		w.wantRuns("globex", "01-01 11:00 flows.late completed: Done.")
		w.wantRuns("default", "01-01 12:00 flows.mine completed: Done.", "01-01 09:00 reports.shared completed: Done.")
		w.wantRuns("initech")
		if got, _ := w.list("globex", &meshv1.ListSkillRunsRequest{Name: "flows.own"}); len(got) != 0 {
			t.Errorf("globex is told of %q", got)
		}
		if err := lib.Delete("acme", "flows.own"); err != nil {
			t.Fatal(err)
		}
		w.at("01-02 10:30:00")
		w.wantRuns("acme", "01-01 10:00 flows.own completed: Done.")
	})
}

// A run that asks holds nobody up, and is not begun a second time while its
// question waits, or while what was answered still goes on; also not by another
// scheduler.
func TestARunThatAsksIsAskedOnceUntilItIsAnswered(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		w.agents.do = func(ctx context.Context, c skillCall) result {
			if c.text == "yes" {
				_ = takes(time.Hour)(ctx, c)
				return result{text: "Sent."}
			}
			return result{state: asks, said: "Send it?"}
		}
		lib := library(t)
		lib.Put(parse(t, "mail.digest", "0 * * * *", ""), parse(t, "b.other", "30 2 * * *", ""))
		stop := w.schedule(lib)
		w.at("01-01 02:15:00")
		const missed = " mail.digest missed: Not run: the run that was due at 2000-01-01T01:00:00Z still "
		w.wantRuns("default", "01-01 02:00"+missed+"waited for an answer.", "01-01 01:00 mail.digest awaiting: Send it?")
		stop()
		defer w.schedule(lib)()
		w.at("01-01 03:30:00")
		w.wantCalls("01-01 01:00 default/scheduler schedule mail.digest", "01-01 02:30 default/scheduler schedule b.other")
		res, err := w.runner.ListSkillRuns(w.as("default", "ann"), &meshv1.ListSkillRunsRequest{})
		if err != nil {
			t.Fatal(err)
		}
		yes := a2a.NewMessage(a2apb.Role_ROLE_USER, "yes")
		yes.TaskId = res.GetRuns()[3].GetTaskId()
		if _, err := w.Send(w.as("default", "ann"), &a2apb.SendMessageRequest{Message: yes}); err != nil {
			t.Fatal(err)
		}
		w.at("01-01 05:30:00")
		w.wantRuns("default",
			"01-01 05:00 mail.digest awaiting: Send it?",
			"01-01 04:00"+missed+"went on.",
			"01-01 03:00"+missed+"waited for an answer.",
			"01-01 02:30 b.other awaiting: Send it?",
			"01-01 02:00"+missed+"waited for an answer.",
			"01-01 01:00 mail.digest completed: Sent.")
	})
}

func TestRunsAreListedInPagesAndBounded(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		lib := library(t)
		lib.Put(parse(t, "a.often", "* * * * *", ""), parse(t, "b.often", "*/2 * * * *", ""))
		stop := w.schedule(lib)
		w.at("01-01 01:59:30")
		stop()
		var want []string
		for minute := 119; minute >= 1; minute-- {
			due := time.Date(2000, 1, 1, 0, minute, 0, 0, time.UTC).Format("01-02 15:04")
			if minute > 19 { // the last hundred
				want = append(want, due+" a.often completed: Done.")
			}
			if minute%2 == 0 {
				want = append(want, due+" b.often completed: Done.")
			}
		}
		for _, name := range []string{"", "a.often", "b.often", "absent.skill", strings.Repeat("x", 300)} {
			var of, got []string
			for _, line := range want {
				if strings.Contains(line, name) {
					of = append(of, line)
				}
			}
			sizes := []int{}
			for req := (&meshv1.ListSkillRunsRequest{Name: name, PageSize: 30}); ; {
				page, next := w.list("default", req)
				got, sizes = append(got, page...), append(sizes, len(page))
				if req.PageToken = next; next == "" {
					break
				}
			}
			if diff := cmp.Diff(of, got); diff != "" || len(sizes) != max(1, (len(of)+29)/30) {
				t.Errorf("runs of %q on pages of %v (-want +got):\n%s", name, sizes, diff)
			}
		}
		if page, _ := w.list("default", &meshv1.ListSkillRunsRequest{}); len(page) != 20 {
			t.Errorf("by default a page has %d runs", len(page))
		}
		// A page of one tenant leads nowhere in another.
		_, next := w.list("default", &meshv1.ListSkillRunsRequest{PageSize: 1})
		if page, _ := w.list("acme", &meshv1.ListSkillRunsRequest{PageToken: next}); len(page) != 0 {
			t.Errorf("another tenant is shown %q", page)
		}
		for field, req := range map[string]*meshv1.ListSkillRunsRequest{"page_size": {PageSize: 101}, "page_token": {PageToken: "AAAA"}} {
			_, err := w.runner.ListSkillRuns(w.as("default", "ann"), req)
			wantCode(t, err, mesh.Invalid, field)
		}
		_, err := w.runner.ListSkillRuns(t.Context(), &meshv1.ListSkillRunsRequest{})
		wantCode(t, err, mesh.Unknown, "")
	})
}

// What ran of a skill is kept for a while when its schedule is gone, and no
// longer, so that what comes and goes leaves nothing behind.
func TestRecordsOfSchedulesThatAreGoneAreDeletedInTheEnd(t *testing.T) {
	inBubble(t, func(t *testing.T, w *world) {
		lib := library(t)
		lib.Put(parse(t, "reports.x", "0 9 * * *", ""))
		stop := w.schedule(lib)
		w.at("01-01 10:00:00")
		stop()
		lib.Remove("reports.x") // while no scheduler runs
		defer w.schedule(lib, func(c *runs.SchedulerConfig) { c.Poll = time.Hour })()
		w.at("01-30 10:00:00")
		w.wantRuns("default", "01-01 09:00 reports.x completed: Done.")
		w.at("02-02 10:00:00")
		w.wantRuns("default")
	})
}
