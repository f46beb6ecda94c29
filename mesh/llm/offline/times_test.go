package offline

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Times are read relative to the clock, in its location. The clock stands at
// Friday, 2026-11-20 09:30.
func TestMoments_areResolvedAgainstNow(t *testing.T) {
	for text, want := range map[string]string{
		"tomorrow at 2pm": "2026-11-21T14:00:00+01:00", "at 2:30 p.m. tomorrow": "2026-11-21T14:30:00+01:00", "next Monday 10:00": "2026-11-23T10:00:00+01:00",
		"Monday at 9": "2026-11-23T09:00:00+01:00", "on Friday": "2026-11-27", "last Friday": "2026-11-13", "this Sunday at noon": "2026-11-22T12:00:00+01:00",
		"2026-12-01": "2026-12-01", "2026-12-01T08:15:00Z": "2026-12-01T08:15:00Z", "2026-12-01 at 17:45": "2026-12-01T17:45:00+01:00",
		"in 2 hours": "2026-11-20T11:30:00+01:00", "in half an hour": "2026-11-20T10:00:00+01:00", "in three days": "2026-11-23",
		"the day after tomorrow at 8": "2026-11-22T08:00:00+01:00", "3 Dec at 8am": "2026-12-03T08:00:00+01:00", "January 5": "2027-01-05", "January 5, 2028": "2028-01-05",
		"at 4pm": "2026-11-20T16:00:00+01:00", "NEXT MONDAY AT 10AM": "2026-11-23T10:00:00+01:00", `"tomorrow at 5pm" is a title; on Dec 24`: "2026-12-24",
		"from 14:00 to 15:30 on December 3rd": "2026-12-03T14:00:00+01:00 until 2026-12-03T15:30:00+01:00", "tomorrow from 2-3pm": "2026-11-21T14:00:00+01:00 until 2026-11-21T15:00:00+01:00",
		"between 11 and 1pm tomorrow": "2026-11-21T11:00:00+01:00 until 2026-11-21T13:00:00+01:00",
	} {
		all := moments(newClause(text), friday())
		if len(all) != 1 || all[0].unclear != "" {
			t.Errorf("%q: %+v", text, all)
			continue
		}
		got := all[0].written(friday())
		if all[0].until != nil {
			got += " until " + all[0].until.written(friday())
		}
		if got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
}

// What is no time is none, and what nobody can tell is said to be unclear.
func TestMoments_inventNothing(t *testing.T) {
	for _, text := range []string{"", "find my overdue tasks", "you may leave", "the sun is out", "version 1.2.3", "task 12", "march on", "mail bob2@monday.org", "in a jiffy", "the 4 seasons"} {
		if all := moments(newClause(text), friday()); len(all) != 0 {
			t.Errorf("%q: %+v", text, all)
		}
	}
	for _, text := range []string{"Feb 30", "2026-02-30", "2026-13-45", "01/02/2027", "at 25:00", "at 5", "tonight", "tomorrow morning", "in two months", "from 5pm to 4pm"} {
		all := moments(newClause(text), friday())
		if len(all) == 0 || all[len(all)-1].unclear == "" {
			t.Errorf("%q: %+v", text, all)
		}
	}
}

// A day keeps its time of day when the clocks change in between.
func TestMoments_keepTheTimeOfDayAcrossClockChanges(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip("no time zone database")
	}
	now := time.Date(2026, 10, 24, 12, 0, 0, 0, berlin) // clocks change in the night
	all := moments(newClause("tomorrow at 2pm"), now)
	if got := all[0].written(now); got != "2026-10-25T14:00:00+01:00" {
		t.Errorf("got %s", got)
	}
}

// A request is cut where something else to do begins, and what follows "then"
// waits (S0-007, S0-133).
func TestSplit_cutsAtWhatIsToBeDone(t *testing.T) {
	r := reader{skills: learnt(t), now: friday()}
	for text, want := range map[string][]string{
		"Find my overdue tasks, then email the report to bob@example.com and create a follow-up meeting tomorrow at 2pm": {"0 Find my overdue tasks", "1 email the report to bob@example.com", "1 create a follow-up meeting tomorrow at 2pm"},
		"create a task to buy eggs and milk":                             {"0 create a task to buy eggs and milk"},
		"add a todo for eggs, milk, bread and butter":                    {"0 add a todo for eggs, milk, bread and butter"},
		"email ann@x.org and ben@y.org about the roadmap":                {"0 email ann@x.org and ben@y.org about the roadmap"},
		`create a task called "mail the report, then archive task 7"`:    {`0 create a task called "mail the report, then archive task 7"`},
		"mail kim@x.org saying the build is done and deploy the release": {"0 mail kim@x.org saying the build is done and deploy the release"},
		"list my open tasks; mail them to kim@x.org":                     {"0 list my open tasks", "1 mail them to kim@x.org"},
		"List my open tasks. Create a meeting on Friday.":                {"0 List my open tasks", "0 Create a meeting on Friday"},
		"1. find open tasks\n2. email them to joe@x.org":                 {"0 find open tasks", "1 email them to joe@x.org"},
		"- find open tasks\n- book a meeting on Monday":                  {"0 find open tasks", "0 book a meeting on Monday"},
		"show my tasks and also, at the same time, show my calendar":     {"0 show my tasks", "0 show my calendar"},
		"Hi there! Please find my overdue tasks. Thanks!":                {"0 there", "0 find my overdue tasks"},
		"": nil, " , and then . ": nil,
	} {
		var got []string
		for _, p := range split(text, r.begins) {
			got = append(got, string(rune('0'+p.stage))+" "+p.all())
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", text, diff)
		}
	}
}
