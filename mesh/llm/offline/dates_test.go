package offline

import (
	"testing"
	"time"
)

// Times are read relative to the clock, in its location, as RFC 3339 says
// them. The clock stands at Friday, 2026-11-20 09:30.
func TestReadTimes_resolvesAgainstNow(t *testing.T) {
	const day = time.DateOnly
	tests := map[string]struct {
		layout string
		want   string
		length time.Duration
	}{
		"tomorrow at 2pm":                         {time.RFC3339, "2026-11-21T14:00:00+01:00", 0},
		"at 2:30 p.m. tomorrow":                   {time.RFC3339, "2026-11-21T14:30:00+01:00", 0},
		"next Monday 10:00":                       {time.RFC3339, "2026-11-23T10:00:00+01:00", 0},
		"Monday at 9":                             {time.RFC3339, "2026-11-23T09:00:00+01:00", 0},
		"on Friday":                               {day, "2026-11-27", 0},
		"next friday":                             {day, "2026-11-27", 0},
		"last Friday":                             {day, "2026-11-13", 0},
		"this Sunday at noon":                     {time.RFC3339, "2026-11-22T12:00:00+01:00", 0},
		"2026-12-01":                              {day, "2026-12-01", 0},
		"2026-12-01T08:15:00Z":                    {time.RFC3339, "2026-12-01T08:15:00Z", 0},
		"2026-12-01T08:15:00-05:00":               {time.RFC3339, "2026-12-01T08:15:00-05:00", 0},
		"2026-12-01 at 17:45":                     {time.RFC3339, "2026-12-01T17:45:00+01:00", 0},
		"in 2 hours":                              {time.RFC3339, "2026-11-20T11:30:00+01:00", 0},
		"in half an hour":                         {time.RFC3339, "2026-11-20T10:00:00+01:00", 0},
		"in three days":                           {day, "2026-11-23", 0},
		"two weeks from now":                      {day, "2026-12-04", 0},
		"the day after tomorrow at 7":             {time.RFC3339, "2026-11-22T19:00:00+01:00", 0},
		"tomorrow for 30 minutes":                 {day, "2026-11-21", 30 * time.Minute},
		"a 90-minute call tomorrow":               {day, "2026-11-21", 90 * time.Minute},
		"tomorrow for an hour and a half":         {day, "2026-11-21", 90 * time.Minute},
		"tomorrow at 10am for 2 hours":            {time.RFC3339, "2026-11-21T10:00:00+01:00", 2 * time.Hour},
		"tomorrow from 2-3pm":                     {time.RFC3339, "2026-11-21T14:00:00+01:00", time.Hour},
		"from 14:00 to 15:30 on December 3rd":     {time.RFC3339, "2026-12-03T14:00:00+01:00", 90 * time.Minute},
		"between 11 and 1pm tomorrow":             {time.RFC3339, "2026-11-21T11:00:00+01:00", 2 * time.Hour},
		"3 Dec at 8am":                            {time.RFC3339, "2026-12-03T08:00:00+01:00", 0},
		"January 5":                               {day, "2027-01-05", 0},
		"January 5, 2028":                         {day, "2028-01-05", 0},
		"at 8am":                                  {time.RFC3339, "2026-11-21T08:00:00+01:00", 0}, // today's is over
		"at 4pm":                                  {time.RFC3339, "2026-11-20T16:00:00+01:00", 0},
		"tomorrow morning":                        {time.RFC3339, "2026-11-21T09:00:00+01:00", 0},
		"the end of the week":                     {day, "2026-11-20", 0},
		"end of month":                            {day, "2026-11-30", 0},
		"next week":                               {day, "2026-11-23", 0},
		"NEXT MONDAY AT 10AM":                     {time.RFC3339, "2026-11-23T10:00:00+01:00", 0},
		`"tomorrow at 5pm" is a title; on Dec 24`: {day, "2026-12-24", 0},
	}
	for text, tt := range tests {
		t.Run(text, func(t *testing.T) {
			got := readTimes(text, friday())
			if len(got.moments) != 1 {
				t.Fatalf("found %d moments: %+v", len(got.moments), got.moments)
			}
			if s := got.moments[0].at(friday(), 0).Format(tt.layout); s != tt.want {
				t.Errorf("moment is %s, want %s", s, tt.want)
			}
			if got.duration != tt.length {
				t.Errorf("duration is %v, want %v", got.duration, tt.length)
			}
		})
	}
}

func TestReadTimes_findsNoneWhereNoneIs(t *testing.T) {
	for _, text := range []string{
		"", "find my overdue tasks", "you may leave", "the sun is out", "version 1.2.3", "2026-13-45", "at 99", "25:61", "task 12", "march on", "mail bob2@monday.org",
	} {
		if got := readTimes(text, friday()); len(got.moments) != 0 {
			t.Errorf("%q: found %+v", text, got.moments)
		}
	}
}

// A day keeps its time of day when the clocks change in between.
func TestMoment_keepsTheTimeOfDayAcrossClockChanges(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Skip("no time zone database")
	}
	now := time.Date(2026, 10, 24, 12, 0, 0, 0, berlin) // clocks change in the night
	got := readTimes("tomorrow at 2pm", now).moments[0].at(now, 0).Format(time.RFC3339)
	if want := "2026-10-25T14:00:00+01:00"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
