package skill_test

import (
	"strings"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
)

// due returns the first times of a schedule, as its zone's clock shows them.
func due(t *testing.T, schedule, zone, after string, n int) string {
	t.Helper()
	at, err := time.Parse(time.RFC3339, after)
	if err != nil {
		t.Fatal(err)
	}
	place, err := time.LoadLocation(zone)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for range n {
		if at, err = skill.Next(schedule, zone, at); err != nil {
			t.Fatal(err)
		}
		list = append(list, at.In(place).Format("02T15:04-07:00"))
	}
	return strings.Join(list, " ")
}

// What a clock change skips is due as much later, on the same day, also at
// midnight and where half an hour or a whole day is skipped; what it repeats is due
// once, but for schedules of every hour.
func TestNext_aroundClockChanges(t *testing.T) {
	for _, tt := range []struct{ schedule, zone, after, want string }{
		{"30 2,3 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "29T03:30+02:00 30T02:30+02:00 30T03:30+02:00"},
		{"0,30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "29T03:00+02:00 29T03:30+02:00 30T02:00+02:00 30T02:30+02:00"},
		{"30 2 * * *", "Europe/Berlin", "2026-03-29T01:00:00Z", "29T03:30+02:00 30T02:30+02:00"},
		{"30 * * * *", "Europe/Berlin", "2026-03-29T00:00:00Z", "29T01:30+01:00 29T03:30+02:00 29T04:30+02:00"},
		{"0,30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "25T02:00+02:00 25T02:30+02:00 26T02:00+01:00"},
		{"0 */2 * * *", "Europe/Berlin", "2026-10-24T21:00:00Z", "25T00:00+02:00 25T02:00+02:00 25T04:00+01:00"},
		{"0 0-23 * * *", "Europe/Berlin", "2026-10-24T23:30:00Z", "25T02:00+02:00 25T02:00+01:00 25T03:00+01:00"},
		{"*/20 * * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", "25T02:40+02:00 25T02:00+01:00 25T02:20+01:00 25T02:40+01:00 25T03:00+01:00"},
		{"@daily", "America/Santiago", "2026-09-05T12:00:00Z", "06T01:00-03:00 07T00:00-03:00"},
		{"30 0 * * *", "America/Havana", "2026-03-07T12:00:00Z", "08T01:30-04:00 09T00:30-04:00"},
		{"0 0 6 9 *", "America/Santiago", "2026-09-01T12:00:00Z", "06T01:00-03:00 06T00:00-03:00"},
		{"0 * * * *", "America/Santiago", "2026-09-06T02:30:00Z", "05T23:00-04:00 06T01:00-03:00 06T02:00-03:00"},
		{"@daily", "America/Santiago", "2026-04-04T01:00:00Z", "04T00:00-03:00 05T00:00-04:00 06T00:00-04:00"},
		{"45 1 * * *", "Australia/Lord_Howe", "2026-04-04T12:00:00Z", "05T01:45+11:00 06T01:45+10:30"},
		{"*/20 1 * * *", "Australia/Lord_Howe", "2026-04-04T12:00:00Z", "05T01:00+11:00 05T01:20+11:00 05T01:40+11:00 06T01:00+10:30"},
		{"*/20 * * * *", "Australia/Lord_Howe", "2026-04-04T14:30:00Z", "05T01:40+11:00 05T01:40+10:30 05T02:00+10:30"},
		{"15 2 * * *", "Australia/Lord_Howe", "2026-10-03T12:00:00Z", "04T02:45+11:00 05T02:15+11:00"},
		{"*/20 * * * *", "Australia/Lord_Howe", "2026-10-03T15:09:00Z", "04T01:40+10:30 04T02:40+11:00 04T03:00+11:00"},
		{"0 12 * * *", "Pacific/Apia", "2011-12-29T12:00:00Z", "29T12:00-10:00 31T12:00+14:00 01T12:00+14:00"},
		{"0 12 30 12 *", "Pacific/Apia", "2011-12-28T12:00:00Z", "31T12:00+14:00 30T12:00+14:00"},
	} {
		if got := due(t, tt.schedule, tt.zone, tt.after, len(strings.Fields(tt.want))); got != tt.want {
			t.Errorf("%s in %s after %s is due\n%s, want\n%s", tt.schedule, tt.zone, tt.after, got, tt.want)
		}
	}
}

// S3-163: a schedule says when it is due, in its own zone.
func TestNext(t *testing.T) {
	for _, tt := range []struct{ schedule, zone, after, want string }{
		{"0 9 * * *", "", "2026-11-20T08:59:59Z", "2026-11-20T09:00:00Z"},
		{"0 9 * * *", "", "2026-11-20T09:00:00Z", "2026-11-21T09:00:00Z"},
		{"0 9 * * *", "Europe/Berlin", "2026-11-20T00:00:00Z", "2026-11-20T08:00:00Z"},
		{"0 9 * * *", "Europe/Berlin", "2026-07-20T00:00:00Z", "2026-07-20T07:00:00Z"},
		{"*/15 * * * *", "", "2026-11-20T08:16:00Z", "2026-11-20T08:30:00Z"},
		{"30 8 * * mon-fri", "", "2026-11-20T09:00:00Z", "2026-11-23T08:30:00Z"},
		{"@daily", "America/New_York", "2026-11-20T08:00:00Z", "2026-11-21T05:00:00Z"},
		{"@weekly", "", "2026-11-20T08:00:00Z", "2026-11-22T00:00:00Z"},
		{"@hourly", "", "2026-11-20T08:00:00Z", "2026-11-20T09:00:00Z"},
		// Either day field is enough.
		{"0 0 13 * 5", "", "2026-11-20T08:00:00Z", "2026-11-27T00:00:00Z"},
		{"0 0 31 2 1", "", "2026-11-20T08:00:00Z", "2027-02-01T00:00:00Z"},
		// A day that comes every eight years around 2100.
		{"0 0 29 2 *", "", "2096-03-01T00:00:00Z", "2104-02-29T00:00:00Z"},
		// The clock goes from 02:00 to 03:00 on 2026-03-29, and back on 2026-10-25.
		{"30 2 * * *", "Europe/Berlin", "2026-03-28T12:00:00Z", "2026-03-29T01:30:00Z"},
		{"30 2 * * *", "Europe/Berlin", "2026-10-24T12:00:00Z", "2026-10-25T00:30:00Z"},
		{"30 2 * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-26T01:30:00Z"},
		{"30 * * * *", "Europe/Berlin", "2026-10-25T00:30:00Z", "2026-10-25T01:30:00Z"},
		{"@daily", "America/Havana", "2026-11-01T04:00:00Z", "2026-11-02T05:00:00Z"},
	} {
		after, err := time.Parse(time.RFC3339, tt.after)
		if err != nil {
			t.Fatal(err)
		}
		got, err := skill.Next(tt.schedule, tt.zone, after)
		if err != nil || got.Format(time.RFC3339) != tt.want {
			t.Errorf("%s in %q after %s is %s, %v; want %s", tt.schedule, tt.zone, tt.after, got.Format(time.RFC3339), err, tt.want)
		}
	}
}

func TestNext_refusesWithFieldAndRemedy(t *testing.T) {
	for name, tt := range map[string]struct{ schedule, zone, field, remedy string }{
		"nothing":             {"", "", "schedule", "five fields"},
		"words":               {"every day", "", "schedule", "five fields"},
		"seconds":             {"0 0 9 * * *", "", "schedule", "five fields"},
		"minute 60":           {"60 * * * *", "", "schedule", "five fields"},
		"impossible date":     {"0 0 31 2 *", "", "schedule", "correct day and month"},
		"impossible in April": {"0 0 31 4,6,9,11 *", "", "schedule", "correct day and month"},
		"zone prefix":         {"TZ=Europe/Berlin 0 9 * * *", "", "schedule", "timezone"},
		"cron zone prefix":    {"CRON_TZ=UTC", "", "schedule", "timezone"},
		"duration":            {"@every 1h", "", "schedule", "@daily"},
		"by hand":             {"@manual", "", "schedule", "@daily"},
		"at start":            {"@reboot", "", "schedule", "@daily"},
		"hash":                {"0 H * * *", "", "schedule", "five fields"},
		"unknown zone":        {"@daily", "Berlin", "timezone", "Europe/Berlin"},
		"zone of the machine": {"@daily", "Local", "timezone", "Europe/Berlin"},
		"zone is a file":      {"@daily", "../../etc/passwd", "timezone", "Europe/Berlin"},
	} {
		t.Run(name, func(t *testing.T) {
			due, err := skill.Next(tt.schedule, tt.zone, time.Unix(1, 0))
			if !mesh.IsCode(err, mesh.Invalid) || mesh.FieldOf(err) != tt.field || !strings.Contains(mesh.DetailOf(err), tt.remedy) {
				t.Errorf("got %v, %v; want %s refused with %q", due, err, tt.field, tt.remedy)
			}
		})
	}
}

func FuzzNext(f *testing.F) {
	for _, s := range []string{"@daily", "0 0 29 2 *", "*/7 1-5,9 ? jan-mar sun", "TZ=UTC @daily", "59 23 31 12 7"} {
		f.Add(s, "Europe/Berlin", int64(1_800_000_000))
	}
	f.Fuzz(func(t *testing.T, schedule, zone string, at int64) {
		after := time.Unix(at%(1<<33), 0)
		due, err := skill.Next(schedule, zone, after)
		if err != nil {
			if !mesh.IsCode(err, mesh.Invalid) || mesh.DetailOf(err) == "" {
				t.Errorf("error without code or detail: %v", err)
			}
			return
		}
		if !due.After(after) {
			t.Errorf("%q in %q after %s is %s", schedule, zone, after, due)
		}
	})
}
