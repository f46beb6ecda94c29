package calendar

import (
	"strings"
	"testing"
	"time"

	"agentmesh/skills/calendar/davcal"
)

// FuzzOpen reads and changes whatever another program may have put into the
// folder: it is an event or an error, never the end of the process.
func FuzzOpen(f *testing.F) {
	event := func(lines string) string {
		return "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\n" + lines + "END:VEVENT\r\nEND:VCALENDAR\r\n"
	}
	for _, seed := range []string{
		"", "0;0=", "BEGIN:", "BEGIN:VCALENDAR\r\n",
		event("DTSTART:20261201T140000Z\r\nDURATION:PT1H\r\nSUMMARY:x\r\nRRULE:FREQ=DAILY\r\nEXDATE:20261203T140000Z,20261204T140000Z\r\nATTENDEE;CN=x:mailto:a@b\r\n"),
		event("DTSTART;VALUE=DATE:20261201\r\nDTEND;TZID=Europe/Berlin:20261202T100000\r\n"),
		event("DTSTART;VALUE=DATE:20261201\r\nDURATION:P\r\n"), event("DTSTART:x\r\nDURATION:\r\n"),
		event("DTSTART:20261201T140000Z\r\nRRULE:FREQ=DAILY\r\nEND:VEVENT\r\nBEGIN:VEVENT\r\nRECURRENCE-ID:20261202T140000Z\r\n"), event("RECURRENCE-ID:20261202T140000Z\r\n"),
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		s, err := seriesOf(davcal.Object{Name: "a.ics", Data: []byte(text)}, time.UTC)
		if err != nil {
			return
		}
		from := time.Date(2026, 12, 1, 0, 0, 0, 0, time.UTC)
		found, _ := s.between(from, from.AddDate(0, 1, 0))
		for _, one := range found {
			if _, date, _ := strings.Cut(one.id, mark); date != "" {
				if _, _, err := s.at(date); err != nil {
					t.Errorf("%s is listed: %v", one.id, err)
				}
			}
		}
		cal, ev, e := s.cal, s.master, s.event
		if r := e.result("calendar/a.ics", "is there"); r.Content == "" || e.id == "" || e.version == "" {
			t.Fatalf("%+v", e)
		}
		if s.move() == nil {
			_, _ = s.between(from, from.AddDate(0, 1, 0))
		}
		e.putTimes(ev)
		e.putTexts(ev)
		e.putAttendees(ev)
		stamp(cal, ev, "a.ics", "key", time.Unix(0, 0))
		if data, err := format(cal); err == nil && len(data) == 0 {
			t.Fatal("it became nothing")
		}
	})
}
