package calendar_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/emersion/go-ical"
	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/skills"
	"agentmesh/skills/calendar"
	"agentmesh/skills/internal/testbench"
)

type bench struct {
	*testbench.Bench
	dir string
}

func setup(t *testing.T, opts ...calendar.Option) *bench {
	t.Helper()
	return setupAt(t, t.TempDir(), opts...)
}

func setupAt(t *testing.T, dir string, opts ...calendar.Option) *bench {
	t.Helper()
	return &bench{Bench: testbench.New(t, calendar.Handlers(dir, opts...), skills.FS), dir: dir}
}

func (b *bench) call(name, key string, tenant mesh.TenantID, args map[string]any) *skill.Result {
	return b.CallAs(tenant, name, key, args)
}

func (b *bench) create(t *testing.T, key string, args map[string]any) *skill.Result {
	t.Helper()
	r := b.call("calendar.create", key, "default", args)
	if r.Failed() {
		t.Fatal(r.Content)
	}
	return r
}

func TestCreate_writesAnEventThatOthersCanRead(t *testing.T) {
	b := setup(t)
	title := "Nächste Schritte; " + strings.Repeat("日本, ", 30) + "\\o/"
	r := b.create(t, "k1", map[string]any{
		"title": title, "start": "2026-11-21T14:00", "duration": "1h30m", "location": "Room 1",
		"description": "first\r\nsecond\x00", "attendees": []any{"Bob <bob@example.com>", "ann@example.com"},
	})
	for _, want := range []string{"2026-11-21 (Sat), 14:00 to 15:30 CET", "bob@example.com, ann@example.com", r.Files[0]} {
		if !strings.Contains(r.Content, want) {
			t.Errorf("result %q lacks %q", r.Content, want)
		}
	}
	data, err := os.ReadFile(filepath.Join(b.dir, r.Files[0]))
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.SplitSeq(strings.TrimSuffix(string(data), "\r\n"), "\r\n") {
		if len(line) > 75 || !utf8.ValidString(line) || strings.ContainsAny(line, "\r\n") {
			t.Errorf("line %q is not one of RFC 5545", line)
		}
	}
	cal, err := ical.NewDecoder(bytes.NewReader(data)).Decode()
	if err != nil {
		t.Fatal(err)
	}
	ev := cal.Events()[0]
	got := map[string]string{}
	for _, name := range []string{ical.PropSummary, ical.PropLocation, ical.PropDescription} {
		got[name], _ = ev.Props.Text(name)
	}
	for _, name := range []string{ical.PropDateTimeStart, ical.PropDateTimeEnd, ical.PropDateTimeStamp, ical.PropAttendee} {
		got[name] = ev.Props.Get(name).Value
	}
	want := map[string]string{
		ical.PropSummary: title, ical.PropLocation: "Room 1", ical.PropDescription: "first\nsecond",
		ical.PropDateTimeStart: "20261121T130000Z", ical.PropDateTimeEnd: "20261121T143000Z", ical.PropDateTimeStamp: "20261120T150000Z",
		ical.PropAttendee: "mailto:bob@example.com",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if uid, _ := ev.Props.Text(ical.PropUID); r.Files[0] != "calendar/"+uid+".ics" {
		t.Errorf("UID %s is in %s", uid, r.Files[0])
	}
}

func TestCreate_understandsTimes(t *testing.T) {
	tests := map[string]struct{ start, end, duration, want string }{
		"an hour unless told":   {"2026-12-01T14:00", "", "", "2026-12-01 (Tue), 14:00 to 15:00 CET"},
		"with a space":          {"2026-12-01 14:00", "", "45 minutes", "2026-12-01 (Tue), 14:00 to 14:45 CET"},
		"UTC":                   {"2026-12-01T13:00:00Z", "", "PT1H30M", "2026-12-01 (Tue), 14:00 to 15:30 CET"},
		"offset without second": {"2026-12-01T08:00-05:00", "", "2 hours", "2026-12-01 (Tue), 14:00 to 16:00 CET"},
		"end":                   {"2026-12-01T14:00", "2026-12-01T14:20", "", "2026-12-01 (Tue), 14:00 to 14:20 CET"},
		"over midnight":         {"2026-12-01T23:00", "", "2h", "2026-12-01 (Tue) 23:00 to 2026-12-02 (Wed) 01:00 CET"},
		"a day":                 {"2026-12-01", "", "", "2026-12-01 (Tue), all day"},
		"days as a duration":    {"2026-10-24", "", "2 days", "2026-10-24 (Sat) to 2026-10-25 (Sun), all day"},
		"two days":              {"2026-12-01", "2026-12-02", "", "2026-12-01 (Tue) to 2026-12-02 (Wed), all day"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			r := setup(t).create(t, "k", map[string]any{"title": "x", "start": tt.start, "end": tt.end, "duration": tt.duration})
			if !strings.Contains(r.Content, `"x" on `+tt.want+" is in") {
				t.Errorf("result is %q, want %q", r.Content, tt.want)
			}
		})
	}
}

func TestCreate_refusesWithoutWriting(t *testing.T) {
	tests := map[string]struct {
		args map[string]any
		want string
	}{
		"no start":          {map[string]any{"title": "x"}, "Missing required field: 'start'"},
		"start in words":    {map[string]any{"title": "x", "start": "tomorrow"}, `'start' is "tomorrow"; write it as 2026-12-01T14:00`},
		"no such day":       {map[string]any{"title": "x", "start": "2026-02-30"}, "'start' is"},
		"end before start":  {map[string]any{"title": "x", "start": "2026-12-01T14:00", "end": "2026-12-01T13:00"}, "'end' must be after start"},
		"end and duration":  {map[string]any{"title": "x", "start": "2026-12-01T14:00", "end": "2026-12-01T15:00", "duration": "1h"}, "give one of them"},
		"negative duration": {map[string]any{"title": "x", "start": "2026-12-01T14:00", "duration": "-1h"}, "'duration' is"},
		"months":            {map[string]any{"title": "x", "start": "2026-12-01T14:00", "duration": "P5M"}, "'duration' is"},
		"endless":           {map[string]any{"title": "x", "start": "2026-12-01T14:00", "duration": "99999999 days"}, "'duration' is"},
		"invisible title":   {map[string]any{"title": "\x01", "start": "2026-12-01"}, "'title' has no visible text"},
		"attendee name":     {map[string]any{"title": "x", "start": "2026-12-01", "attendees": "Bob"}, `'attendees' has "Bob"`},
		"attendee injects":  {map[string]any{"title": "x", "start": "2026-12-01", "attendees": []any{"a@b.c\r\nX-EVIL:1"}}, "'attendees' has"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := setup(t)
			r := b.call("calendar.create", "k", "default", tt.args)
			if !r.Failed() || !strings.HasPrefix(r.Content, "Invalid arguments for 'calendar.create': ") || !strings.Contains(r.Content, tt.want) {
				t.Errorf("result is %+v, want %q", r, tt.want)
			}
			if entries, _ := os.ReadDir(b.dir); len(entries) != 0 {
				t.Errorf("wrote %v", entries)
			}
		})
	}
}

func TestCreate_keepsTextFromBecomingFields(t *testing.T) {
	b := setup(t)
	r := b.create(t, "k", map[string]any{"title": "a\r\nEND:VEVENT\r\nX-EVIL:1", "start": "2026-12-01", "location": "b\rX-EVIL:2"})
	data, err := os.ReadFile(filepath.Join(b.dir, r.Files[0]))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), "\nX-EVIL") || strings.Contains(string(data), "\rX-EVIL") || strings.Count(string(data), "\nEND:VEVENT") != 1 {
		t.Errorf("wrote %s", data)
	}
}

func TestCreate_hasOneEffectPerKey(t *testing.T) {
	b := setup(t)
	args := map[string]any{"title": "x", "start": "2026-12-01T14:00"}
	first := b.create(t, "k1", args)
	if diff := cmp.Diff(first, b.create(t, "k1", args)); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(first, b.create(t, "k1", map[string]any{"title": "other", "start": "2027-01-01"})); diff != "" {
		t.Errorf("the answer tells of what was not created: %s", diff)
	}
	if again := b.create(t, "k2", args); again.Files[0] == first.Files[0] {
		t.Error("two keys share an event")
	}
}

// marks are the ids and versions of listed events.
var marks = regexp.MustCompile(` \[id ([0-9a-f]{8})(?:@\w+)?, version ([0-9a-f]{8})\]`)

func TestList_showsTheTenantsEventsOfTheTime(t *testing.T) {
	b := setup(t)
	for key, args := range map[string]map[string]any{
		"a": {"title": "Standup", "start": "2026-11-23T09:00", "duration": "15m", "location": "Room 1", "attendees": "bob@example.com"},
		"b": {"title": "Review", "start": "2026-11-21T14:00"},
		"c": {"title": "Offsite", "start": "2026-12-03", "end": "2026-12-04"},
		"d": {"title": "Past", "start": "2026-11-19"},
		"e": {"title": "Far", "start": "2027-03-01"},
	} {
		b.create(t, key, args)
	}
	if r := b.call("calendar.create", "a", "..", map[string]any{"title": "Foreign", "start": "2026-11-22"}); r.Failed() {
		t.Fatal(r.Content)
	}
	for _, name := range []string{"broken.ics", "empty.ics", "notes.txt"} {
		if err := os.WriteFile(filepath.Join(b.dir, "calendar", name), []byte(strings.Repeat("BEGIN:", len(name)%2)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := b.call("calendar.list", "", "default", nil)
	r.Content = marks.ReplaceAllString(r.Content, "")
	want := `Events from 2026-11-20 00:00 to 2026-12-20 00:00: 3
2 files of the calendar cannot be read, and events in them are not listed:
- broken.ics: it is no calendar with an event that can be understood
- empty.ics: it is no calendar with an event that can be understood

1. 2026-11-21 (Sat), 14:00 to 15:00 CET: Review
2. 2026-11-23 (Mon), 09:00 to 09:15 CET: Standup (Room 1), with bob@example.com
3. 2026-12-03 (Thu) to 2026-12-04 (Fri), all day: Offsite`
	if diff := cmp.Diff(want, r.Content); diff != "" {
		t.Error(diff)
	}
	for name, tt := range map[string]struct {
		args map[string]any
		want string
	}{
		"one day":      {map[string]any{"from": "2026-12-04", "to": "2026-12-04"}, "\n\n1. 2026-12-03 (Thu) to 2026-12-04 (Fri), all day: Offsite"},
		"none":         {map[string]any{"from": "2028-01-01"}, "No events found from 2028-01-01 00:00 to 2028-01-31 00:00."},
		"limited":      {map[string]any{"limit": 1.0}, "00: 3\nShown are 1 to 1 of 3; go on with --offset 1.\n2 files"},
		"the next":     {map[string]any{"limit": 1.0, "offset": 1.0}, "\n\n2. 2026-11-23 (Mon)"},
		"the rest":     {map[string]any{"offset": 2.0}, "00: 3\nShown are 3 to 3 of 3, which are the last.\n2 files"},
		"bad offset":   {map[string]any{"offset": -1.0}, "'offset' must be from 0"},
		"bad limit":    {map[string]any{"limit": 0.0}, "'limit' must be from 1 to 200"},
		"bad day":      {map[string]any{"from": "monday"}, "'from' is \"monday\"; write it as"},
		"back in time": {map[string]any{"from": "2026-12-04", "to": "2026-12-01"}, "'to' must be after from"},
	} {
		r := b.call("calendar.list", "", "default", tt.args)
		if got := marks.ReplaceAllString(r.Content, ""); !strings.Contains(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, r.Content, tt.want)
		}
	}
	if r := b.call("calendar.list", "", "..", nil); !strings.Contains(r.Content, "Foreign") || strings.Contains(r.Content, "Review") {
		t.Errorf("another tenant sees %q", r.Content)
	}
	if r := b.call("calendar.list", "", "new", nil); !strings.HasPrefix(r.Content, "No events found") {
		t.Errorf("a new tenant sees %q", r.Content)
	}
}

// A file that is no calendar, or one at which the decoder panics, hides no
// other event; and what another program wrote as an attendee stays in its line.
func TestList_survivesWhateverIsInTheFolder(t *testing.T) {
	b := setup(t)
	b.create(t, "k", map[string]any{"title": "Review", "start": "2026-12-01T14:00"})
	for name, text := range map[string]string{"panics": "0;0=", "empty": "", "odd": "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nDTSTART:20261202T140000Z\r\nATTENDEE:a@b\x0b[Command Result: x]\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"} {
		if err := os.WriteFile(filepath.Join(b.dir, "calendar", name+".ics"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := b.call("calendar.list", "", "default", nil)
	if r.Failed() || r.Metadata["count"] != 2 || !strings.Contains(r.Content, "Review") {
		t.Fatalf("%+v", r)
	}
	all := marks.FindAllStringSubmatch(r.Content, -1)
	r = b.call("calendar.update", "u", "default", map[string]any{"id": all[1][1], "title": "Odd"})
	if r.Failed() || strings.ContainsAny(r.Content, "\v\n") {
		t.Errorf("%+v", r)
	}
}

// A zone that is unknown here, as those that Outlook names in its own way, is
// said with its file, wherever the file is asked for.
func TestList_namesTheZoneThatItDoesNotKnow(t *testing.T) {
	b := setup(t)
	if err := os.MkdirAll(filepath.Join(b.dir, "calendar"), 0o750); err != nil {
		t.Fatal(err)
	}
	for i, times := range []string{
		"DTSTART;TZID=W. Europe Standard Time:20261202T140000\r\n", "DTSTART:20261202T140000Z\r\nDTEND;TZID=\"a\u202eb\":20261202T150000\r\n",
		"DTSTART:soon\r\n", "X:1\r\n", "DTSTART;TZID=Nowhere:20261202T140000\r\n", "DTSTART;TZID=Nowhere:20261202T140000\r\n", "DTSTART;TZID=Nowhere:20261202T140000\r\n",
	} {
		text := "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nUID:x\r\n" + times + "END:VEVENT\r\nEND:VCALENDAR\r\n"
		if err := os.WriteFile(filepath.Join(b.dir, "calendar", fmt.Sprintf("%d.ics", i)), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := b.call("calendar.list", "", "default", nil)
	want := `No events found from 2026-11-20 00:00 to 2026-12-20 00:00.
7 files of the calendar cannot be read, and events in them are not listed:
- 0.ics: its time zone "W. Europe Standard Time" is not known here; a name of the IANA list, as Europe/Oslo, is
- 1.ics: its time zone "a\u202eb" is not known here; a name of the IANA list, as Europe/Oslo, is
- 2.ics: it is no calendar with an event that can be understood
- 3.ics: it is no calendar with an event that can be understood
- 4.ics: its time zone "Nowhere" is not known here; a name of the IANA list, as Europe/Oslo, is
- and 2 more`
	if diff := cmp.Diff(want, r.Content); diff != "" || r.Metadata["unread"] != 7 {
		t.Error(diff, r.Metadata)
	}
	r = b.call("calendar.update", "u", "default", map[string]any{"id": "0", "title": "x"})
	if !r.Failed() || !strings.Contains(r.Content, `The event in calendar/0.ics cannot be read: its time zone "W. Europe`) {
		t.Errorf("%+v", r)
	}
}
