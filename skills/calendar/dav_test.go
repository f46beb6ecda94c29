package calendar_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh/rpc/rpctest"
	"agentmesh/skills/calendar"
	"agentmesh/skills/calendar/davcal"
)

const standup = `BEGIN:VEVENT
UID:standup@example.com
DTSTAMP:20261001T000000Z
DTSTART;TZID=Europe/Berlin:20261019T090000
DTEND;TZID=Europe/Berlin:20261019T091500
SUMMARY:Stand-up
RRULE:FREQ=WEEKLY;BYDAY=MO,WE
EXDATE;TZID=Europe/Berlin:20261123T090000,20261125T090000
END:VEVENT
BEGIN:VEVENT
UID:standup@example.com
DTSTAMP:20261001T000000Z
RECURRENCE-ID;TZID=Europe/Berlin:20261202T090000
DTSTART;TZID=Europe/Berlin:20261203T100000
DTEND;TZID=Europe/Berlin:20261203T101500
SUMMARY:Stand-up on Thursday
END:VEVENT
`

// one is an event of those lines.
func one(uid, lines string) string {
	return "BEGIN:VEVENT\nUID:" + uid + "@example.com\nDTSTAMP:20261001T000000Z\n" + lines + "END:VEVENT\n"
}

// put has another program write a file of those lines into the folder.
func (b *bench) put(t *testing.T, name, lines string) {
	t.Helper()
	dir := filepath.Join(b.dir, calendar.Folder)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	text := strings.ReplaceAll("BEGIN:VCALENDAR\n"+lines+"END:VCALENDAR\n", "\n", "\r\n")
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// listed are the lines of a list, without numbers, ids and versions; and the ids by the days.
func (b *bench) listed(t *testing.T, from, to string) (lines []string, ids map[string]string) {
	t.Helper()
	r := b.call("calendar.list", "", "default", args{"from": from, "to": to})
	if r.Failed() {
		t.Fatal(r.Content)
	}
	ids = map[string]string{}
	for line := range strings.SplitSeq(r.Content, "\n") {
		if _, text, ok := strings.Cut(line, ". "); ok && strings.Contains(line, " [id ") {
			text, id, _ := strings.Cut(text, " [id ")
			lines = append(lines, text)
			ids[text[:10]], _, _ = strings.Cut(id, ",")
		}
	}
	return lines, ids
}

// Events of the server are listed with those of the folder, a series by its dates, in the user's
// zone and at the clock of its own, without what was cancelled and with what was moved.
func TestList_showsEventsOfTheAccount(t *testing.T) {
	srv := newDAV(t, "Work")
	srv.put("s.ics", standup)
	srv.put("d.ics", one("d", "DTSTART;VALUE=DATE:20261128\nDTEND;VALUE=DATE:20261130\nSUMMARY:Offsite\n"))
	srv.put("e.ics", one("e", "DTSTART;TZID=Nowhere:20261128T100000\nSUMMARY:Where?\n"))
	dir := t.TempDir()
	setupAt(t, dir).create(t, "here", args{"title": "Here", "start": "2026-11-24T14:00"})
	b := setupAt(t, dir, srv.account(t))
	for from, tt := range map[string]struct {
		to   string
		want []string
	}{
		"2026-11-22": {"2026-12-08", []string{
			"2026-11-24 (Tue), 14:00 to 15:00 CET: Here",
			"2026-11-28 (Sat) to 2026-11-29 (Sun), all day: Offsite",
			"2026-11-30 (Mon), 09:00 to 09:15 CET: Stand-up, repeated",
			"2026-12-03 (Thu), 10:00 to 10:15 CET: Stand-up on Thursday, repeated",
			"2026-12-07 (Mon), 09:00 to 09:15 CET: Stand-up, repeated",
		}},
		// Here it is winter always; there, the clocks changed on the 25th.
		"2026-10-18": {"2026-10-27", []string{
			"2026-10-19 (Mon), 08:00 to 08:15 CET: Stand-up, repeated",
			"2026-10-21 (Wed), 08:00 to 08:15 CET: Stand-up, repeated",
			"2026-10-26 (Mon), 09:00 to 09:15 CET: Stand-up, repeated",
		}},
	} {
		lines, _ := b.listed(t, from, tt.to)
		if diff := cmp.Diff(tt.want, lines); diff != "" {
			t.Error(diff)
		}
	}
	if r := b.call("calendar.list", "", "default", nil); !strings.Contains(r.Content, `e.ics: its time zone "Nowhere" is not known here`) {
		t.Errorf("not told what cannot be read: %s", r.Content)
	}
	if r := b.call("calendar.list", "", "acme", nil); r.Failed() || strings.Contains(r.Content, "Offsite") {
		t.Errorf("another tenant is shown %s", r.Content)
	}
}

// A rule that cannot be followed, or an exception that is none, keeps nobody from the other events.
func TestList_survivesHostileRules(t *testing.T) {
	b := setup(t)
	for i, rule := range []string{"FREQ=SECONDLY", "FREQ=YEARLY;BYEASTER=1000", "FREQ=DAILY;BYHOUR=1,2,3", "FREQ=MINUTELY;BYMONTH=2;BYMONTHDAY=30"} {
		b.put(t, fmt.Sprintf("%d.ics", i), one(fmt.Sprint(i), "DTSTART:20261201T130000Z\nDTEND:20261201T140000Z\nSUMMARY:x\nRRULE:"+rule+"\n"))
	}
	daily := one("d", "DTSTART:20261201T130000Z\nDTEND:20261201T140000Z\nSUMMARY:x\nRRULE:FREQ=DAILY;COUNT=1\n")
	b.put(t, "exception.ics", daily+one("d", "RECURRENCE-ID:20261201T130000Z\nSUMMARY:without a start\n"))
	const once = "2026-12-01 (Tue), 14:00 to 15:00 CET: x, repeated"
	if lines, _ := b.listed(t, "2026-12-01", "2026-12-31"); !slices.Equal(lines, []string{once, once, once, once, once}) {
		t.Errorf("listed are %q", lines)
	}
}

// Of a series with more dates than are listed it is said, and of no other.
func TestList_saysThatASeriesIsCut(t *testing.T) {
	b := setup(t)
	b.put(t, "d.ics", one("d", "DTSTART:20261201T130000Z\nDTEND:20261201T140000Z\nSUMMARY:Stand-up\nRRULE:FREQ=DAILY\n"))
	for _, tt := range []struct {
		to    string
		dates int
		cut   bool
	}{{"2028-01-04", 400, false}, {"2028-01-05", 400, true}} {
		r := b.call("calendar.list", "", "default", args{"from": "2026-12-01", "to": tt.to})
		said := strings.Contains(r.Content, "1 events are repeated more often than is listed; name a shorter time to see all dates of them:\n- Stand-up\n")
		if r.Metadata["count"] != tt.dates || said != tt.cut || r.Metadata["cut"].(int) > 0 != tt.cut {
			t.Errorf("to %s, %v: %s", tt.to, r.Metadata["cut"], r.Content[:300])
		}
	}
}

// New events go to the server, once, also when the connection breaks when it has them.
func TestCreate_isOnceOnTheServer(t *testing.T) {
	for name, cut := range map[string]bool{"created": false, "cut off": true} {
		t.Run(name, func(t *testing.T) {
			srv := newDAV(t, "Work")
			b := setup(t, srv.account(t))
			given := args{"title": "Review", "start": "2026-12-01T14:00", "attendees": []any{"bob@example.com"}}
			srv.set(func() { srv.after = func(r *http.Request) bool { return cut && r.Method == http.MethodPut } })
			if first := b.call("calendar.create", "k", "default", given); first.Failed() != cut || cut && !strings.Contains(first.Content, "look with calendar.list before another try") {
				t.Fatalf("%+v", first)
			}
			srv.set(func() { srv.after = nil })
			again := b.call("calendar.create", "k", "default", args{"title": "Other", "start": "2026-12-02T14:00"})
			if again.Failed() || !strings.Contains(again.Content, `The event "Review" on 2026-12-01 (Tue), 14:00 to 15:00 CET is in the calendar. Its id is`) || len(again.Files) > 0 {
				t.Errorf("%+v", again)
			}
			if all := srv.all(); len(all) != 1 || !strings.Contains(all[0], "DTSTART:20261201T130000Z") {
				t.Errorf("the server has %v", all)
			}
			if entries, _ := os.ReadDir(filepath.Join(b.dir, "calendar")); len(entries) > 0 {
				t.Errorf("the folder has %v", entries)
			}
			srv.set(func() { clear(srv.objects) })
			if r := b.call("calendar.create", "k", "default", given); !r.Failed() || !strings.Contains(r.Content, "was taken away since") || len(srv.all()) != 0 {
				t.Errorf("after it was deleted elsewhere, %+v", r)
			}
		})
	}
}

// A new event is repeated at the clock of the user, whose zone is described for others.
func TestCreate_repeatsAnEvent(t *testing.T) {
	oslo, err := time.LoadLocation("Europe/Oslo")
	if err != nil {
		t.Fatal(err)
	}
	srv := newDAV(t, "Work")
	b := setup(t, srv.account(t))
	b.In(oslo)
	b.create(t, "k1", args{"title": "Stand-up", "start": "2026-12-01T09:00", "duration": "15m", "repeat": "weekdays", "until": "2027-07-01"})
	b.create(t, "k2", args{"title": "Rent", "start": "2026-12-01", "repeat": "FREQ=MONTHLY;BYMONTHDAY=1;COUNT=2"})
	for from, want := range map[string][]string{
		"2026-12-31": {"2026-12-31 (Thu), 09:00 to 09:15 CET: Stand-up, repeated", "2027-01-01 (Fri), all day: Rent, repeated", "2027-01-01 (Fri), 09:00 to 09:15 CET: Stand-up, repeated"},
		"2027-06-30": {"2027-06-30 (Wed), 09:00 to 09:15 CEST: Stand-up, repeated", "2027-07-01 (Thu), 09:00 to 09:15 CEST: Stand-up, repeated"},
	} {
		lines, _ := b.listed(t, from, map[string]string{"2026-12-31": "2027-01-01", "2027-06-30": "2027-07-30"}[from])
		if diff := cmp.Diff(want, lines); diff != "" {
			t.Error(diff)
		}
	}
	all := strings.Join(srv.all(), "")
	for _, want := range []string{"DTSTART;TZID=Europe/Oslo:20261201T090000", "UNTIL=20270701T215959Z", "TZID:Europe/Oslo", "BEGIN:DAYLIGHT\r\nDTSTART:20270328T020000\r\nTZNAME:CEST\r\nTZOFFSETFROM:+0100\r\nTZOFFSETTO:+0200", "DTSTART;VALUE=DATE:20261201"} {
		if !strings.Contains(all, want) {
			t.Errorf("%q is not in\n%s", want, all)
		}
	}
	for words, given := range map[string]args{
		`'repeat' is "hourly"; write daily`: {"title": "x", "start": "2026-12-01T09:00", "repeat": "hourly"},
		`'repeat' is "FREQ=HOURLY"`:         {"title": "x", "start": "2026-12-01T09:00", "repeat": "FREQ=HOURLY"},
		"'start' is no date of the rule":    {"title": "x", "start": "2026-12-01T09:00", "repeat": "FREQ=WEEKLY;BYDAY=MO"},
		"'until' is given without repeat":   {"title": "x", "start": "2026-12-01T09:00", "until": "2027-01-01"},
		"'until' is given beside COUNT":     {"title": "x", "start": "2026-12-01T09:00", "until": "2027-01-01", "repeat": "FREQ=DAILY;COUNT=3"},
		"'until' is before the first date":  {"title": "x", "start": "2026-12-01T09:00", "until": "2026-11-01", "repeat": "daily"},
	} {
		if r := b.call("calendar.create", "k3", "default", given); !r.Failed() || !strings.Contains(r.Content, words) {
			t.Errorf("%+v, want %q", r, words)
		}
	}
}

// One date of a series is moved or cancelled, or all of them, once; the rest stays.
func TestUpdate_changesADateOrTheSeries(t *testing.T) {
	srv := newDAV(t, "Work")
	srv.put("s.ics", standup)
	b := setup(t, srv.account(t))
	update := func(key string, given args) string {
		t.Helper()
		first := b.call("calendar.update", key, "default", given)
		if again := b.call("calendar.update", key, "default", given); first.Failed() || again.Failed() {
			t.Fatalf("%+v, and repeated %+v", first, again)
		}
		return first.Content
	}
	expect := func(want ...string) {
		t.Helper()
		lines, _ := b.listed(t, "2026-11-29", "2026-12-15")
		if diff := cmp.Diff(want, lines); diff != "" {
			t.Error(diff)
		}
	}
	_, ids := b.listed(t, "2026-11-22", "2026-12-20")
	series, _, _ := strings.Cut(ids["2026-11-30"], "@")
	if got := update("u1", args{"id": ids["2026-11-30"], "start": "2026-12-01T11:00", "title": "Later"}); !strings.Contains(got, `"Later" on 2026-12-01 (Tue), 11:00 to 11:15 CET was changed`) {
		t.Error(got)
	}
	update("u2", args{"id": ids["2026-12-07"], "delete": true})
	update("u3", args{"id": ids["2026-12-03"], "delete": true}) // an exception
	expect("2026-12-01 (Tue), 11:00 to 11:15 CET: Later, repeated",
		"2026-12-09 (Wed), 09:00 to 09:15 CET: Stand-up, repeated",
		"2026-12-14 (Mon), 09:00 to 09:15 CET: Stand-up, repeated")
	update("u4", args{"id": series, "start": "2026-10-19T09:30", "duration": "30m"}) // half past ten there
	expect("2026-12-01 (Tue), 11:00 to 11:15 CET: Later, repeated",
		"2026-12-09 (Wed), 10:30 to 11:00 CET: Stand-up, repeated",
		"2026-12-14 (Mon), 10:30 to 11:00 CET: Stand-up, repeated")
	for _, want := range []string{"DTSTART;TZID=Europe/Berlin:20261019T103000", "RECURRENCE-ID;TZID=Europe/Berlin:20261130T103000"} {
		if text := srv.all()[0]; !strings.Contains(text, want) {
			t.Errorf("%s is not in\n%s", want, text)
		}
	}
	for words, given := range map[string]args{
		"has no date 20261130T999999Z":       {"id": series + "@20261130T999999Z", "delete": true},
		"has no date 20261201T080000Z":       {"id": series + "@20261201T080000Z", "title": "x"},
		"only the time of day of all":        {"id": series, "start": "2026-10-20T09:30"},
		`There is no event "99999999"; find`: {"id": "99999999", "title": "x"},
	} {
		if r := b.call("calendar.update", "u5", "default", given); !r.Failed() || !strings.Contains(r.Content, words) {
			t.Errorf("%+v, want %q", r, words)
		}
	}
	if got := update("u6", args{"id": series, "delete": true}); !strings.Contains(got, "was deleted") || len(srv.all()) != 0 {
		t.Errorf("%s; the server has %v", got, srv.all())
	}
}

// A series that is moved to another clock has the dates that it had, to the last and no more.
func TestUpdate_keepsTheLastDateOfASeries(t *testing.T) {
	for until, want := range map[string]int{"20261203T080000Z": 3, "20261203T225959Z": 3, "20261203T075959Z": 2, "20261202T230000Z": 2, "20261203T090000": 3} {
		for _, start := range []string{"2026-12-01T17:00", "2026-12-01T05:00", "2026-12-01T00:00"} {
			b := setup(t)
			b.put(t, "s.ics", one("s", "DTSTART;TZID=Europe/Oslo:20261201T090000\nDTEND;TZID=Europe/Oslo:20261201T093000\nSUMMARY:x\nRRULE:FREQ=DAILY;UNTIL="+until+";INTERVAL=1\n"))
			lines, ids := b.listed(t, "2026-12-01", "2026-12-09")
			if len(lines) != want {
				t.Fatalf("until %s there are %q", until, lines)
			}
			id, _, _ := strings.Cut(ids["2026-12-01"], "@")
			if r := b.call("calendar.update", "u", "default", args{"id": id, "start": start}); r.Failed() {
				t.Fatal(r.Content)
			}
			if lines, _ := b.listed(t, "2026-12-01", "2026-12-09"); len(lines) != want || !strings.Contains(lines[want-1], start[11:]) {
				t.Errorf("until %s and moved to %s there are %q", until, start, lines)
			}
		}
	}
}

// A change that somebody else's overtakes is made on theirs, and one that names a version is not.
func TestUpdate_ofAnEventThatChangesMeanwhile(t *testing.T) {
	srv := newDAV(t, "Work")
	srv.put("r.ics", one("r", "DTSTART:20261201T130000Z\nSUMMARY:Review\n"))
	b := setup(t, srv.account(t))
	meanwhile := func(times int) {
		srv.set(func() {
			srv.after = func(r *http.Request) bool {
				if r.Method == http.MethodGet && times > 0 {
					times--
					srv.put("r.ics", one("r", "DTSTART:20261201T130000Z\nSUMMARY:Review\nLOCATION:Room"+strings.Repeat("x", times)+"\n"))
				}
				return false
			}
		})
	}
	_, ids := b.listed(t, "2026-12-01", "2026-12-01")
	version := marks.FindStringSubmatch(b.call("calendar.list", "", "default", nil).Content)[2]
	id := ids["2026-12-01"]
	if r := b.call("calendar.update", "u0", "default", args{"id": id, "version": version, "description": "x"}); r.Failed() {
		t.Errorf("of the version that is listed, %+v", r)
	}
	meanwhile(1)
	if r := b.call("calendar.update", "u1", "default", args{"id": id, "version": version, "title": "x"}); !r.Failed() || !strings.Contains(r.Content, "was changed meanwhile") {
		t.Errorf("%+v", r)
	}
	srv.put("r.ics", one("r", "DTSTART:20261201T130000Z\nSUMMARY:Review\n"))
	meanwhile(1)
	if r := b.call("calendar.update", "u2", "default", args{"id": id, "title": "Mine"}); r.Failed() {
		t.Errorf("%+v", r)
	}
	if text := srv.all()[0]; !strings.Contains(text, "SUMMARY:Mine") || !strings.Contains(text, "LOCATION:Room") {
		t.Errorf("the event is\n%s", text)
	}
	meanwhile(9)
	if r := b.call("calendar.update", "u3", "default", args{"id": id, "title": "Again"}); !r.Failed() || !strings.Contains(r.Content, "The event was changed meanwhile; look at it again") {
		t.Errorf("%+v", r)
	}
}

// What is wrong with the server or the account is said in words, and no password with it.
func TestAccount_saysWhatIsWrong(t *testing.T) {
	for name, tt := range map[string]struct {
		calendars []string
		change    func(*davcal.Settings)
		want      string
	}{
		"a wrong password":       {[]string{"Work"}, func(c *davcal.Settings) { c.Password = "guessed-pw" }, "does not accept the user and password of the account"},
		"an unknown certificate": {[]string{"Work"}, func(c *davcal.Settings) { c.Roots = nil }, "The certificate of the calendar server 127.0.0.1 is not valid"},
		"several calendars":      {[]string{"Home", "Work"}, func(*davcal.Settings) {}, `has several calendars: "Home", "Work"`},
		"another calendar":       {[]string{"Home", "Work"}, func(c *davcal.Settings) { c.Calendar = "Play" }, `has no calendar "Play", but "Home", "Work"`},
		"no calendar":            {nil, func(*davcal.Settings) {}, "There is no calendar at the address"},
		"nobody there":           {nil, func(c *davcal.Settings) { c.URL = "http://" + rpctest.Free(t) }, "cannot be reached; try again later"},
	} {
		srv := newDAV(t, tt.calendars...)
		b := setup(t, srv.account(t, tt.change))
		r := b.call("calendar.list", "", "default", nil)
		if !r.Failed() || !strings.Contains(r.Content, tt.want) || strings.Contains(r.Content+fmt.Sprint(r.Err), "-pw") {
			t.Errorf("%s: %+v, want %q", name, r, tt.want)
		}
	}
}

// The calendar is found from the server, the user, the user's calendars or itself.
func TestAccount_findsItsCalendar(t *testing.T) {
	srv := newDAV(t, "Home", "Work")
	srv.put("h.ics", one("h", "DTSTART:20261201T130000Z\nDTEND:20261201T140000Z\nSUMMARY:At home\n"))
	for at, name := range map[string]string{"": "home", "/ann/": "Home", home: "home", home + "home/": ""} {
		b := setup(t, srv.account(t, func(c *davcal.Settings) { c.URL, c.Calendar = srv.url+at, name }))
		lines, _ := b.listed(t, "2026-12-01", "2026-12-02")
		if diff := cmp.Diff([]string{"2026-12-01 (Tue), 14:00 to 15:00 CET: At home"}, lines); diff != "" {
			t.Errorf("from %q: %s", at, diff)
		}
	}
}

// The password goes to the server of the account, and to none that it leads to elsewhere.
func TestAccount_sendsItsPasswordToItsServerAlone(t *testing.T) {
	var told bool
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, _, told = r.BasicAuth() }))
	t.Cleanup(other.Close)
	leads := httptest.NewServer(http.RedirectHandler(other.URL, http.StatusPermanentRedirect))
	t.Cleanup(leads.Close)
	srv := newDAV(t, "Work")
	b := setup(t, srv.account(t, func(c *davcal.Settings) { c.URL = leads.URL }))
	r := b.call("calendar.list", "", "default", nil)
	if !r.Failed() || told || !strings.Contains(r.Content, "leads to 127.0.0.1, which is not told the password") {
		t.Errorf("told %v: %+v", told, r)
	}
}
