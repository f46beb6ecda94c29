package flags_test

import (
	"testing"
	"time"

	"agentmesh/skills/internal/flags"
)

// Clock changes skip times, in some zones midnight, and no day loses its name
// by that.
func TestWhen_knowsTimesThatAreSkipped(t *testing.T) {
	for _, tt := range []struct{ zone, text, want string }{
		{"Europe/Oslo", "2026-03-29T02:30", "2026-03-29T03:30:00+02:00"},
		{"America/New_York", "2026-03-08T02:30", "2026-03-08T03:30:00-04:00"},
		{"America/Havana", "2027-03-14T00:00", "2027-03-14T01:00:00-04:00"},
		{"Africa/Cairo", "2026-04-24T00:00", "2026-04-24T01:00:00+03:00"},
		{"America/Havana", "2027-03-13T00:00", "2027-03-13T00:00:00-05:00"},
		{"Europe/Oslo", "2026-12-01T14:00", "2026-12-01T14:00:00+01:00"},
	} {
		loc, err := time.LoadLocation(tt.zone)
		if err != nil {
			t.Fatal(err)
		}
		if got, day, ok := flags.When(tt.text, loc); !ok || day || got.Format(time.RFC3339) != tt.want {
			t.Errorf("%s in %s is %s, %v, want %s", tt.text, tt.zone, got.Format(time.RFC3339), ok, tt.want)
		}
	}
	for _, zone := range []string{"America/Havana", "Africa/Cairo", "Europe/Oslo", "UTC"} {
		loc, err := time.LoadLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		day := flags.Days(time.Date(2026, 1, 1, 15, 0, 0, 0, loc), 0)
		for n := range 730 {
			want := time.Date(2026, 1, 1+n, 0, 0, 0, 0, time.UTC).Format(time.DateOnly)
			if got := flags.Days(day, n).Format(time.DateOnly); got != want {
				t.Errorf("%s: %d days on it is %s, want %s", zone, n, got, want)
			}
		}
	}
}

// S3-158: all skills read days and moments alike.
func TestWhen_readsDaysAndMoments(t *testing.T) {
	loc := time.FixedZone("CET", 3600)
	for text, want := range map[string]string{
		" 2026-12-01 ": "day 2026-12-01T00:00:00+01:00", "2026-12-01T14:00": "2026-12-01T14:00:00+01:00", "2026-12-01t14:00:30": "2026-12-01T14:00:30+01:00",
		"2026-12-01 14:00": "2026-12-01T14:00:00+01:00", "2026-12-01 14:00:30": "2026-12-01T14:00:30+01:00",
		"2026-12-01T14:00Z": "2026-12-01T15:00:00+01:00", "2026-12-01t14:00:00z": "2026-12-01T15:00:00+01:00", "2026-12-01T14:00:00-05:00": "2026-12-01T20:00:00+01:00",
		"": "none", "soon": "none", "2026-02-30": "none", "2026-12-01T25:00": "none", "20261201": "none", "1.12.2026": "none", "2026-12-01 noon": "none",
	} {
		got := "none"
		if when, day, ok := flags.When(text, loc); ok {
			got = when.Format(time.RFC3339)
			if day {
				got = "day " + got
			}
		}
		if got != want {
			t.Errorf("%q is %s, want %s", text, got, want)
		}
	}
}
