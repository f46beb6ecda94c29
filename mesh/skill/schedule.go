package skill

import (
	"slices"
	"strings"
	"time"

	"github.com/netresearch/go-cron"

	"agentmesh/mesh"
)

// scheduleYears is how far ahead a due time may be: the longest that February
// 29th lets itself be waited for is 8 years.
const scheduleYears = 9

// Next returns the first time after the given one at which the schedule is
// due, in UTC. A schedule has the five fields of cron, minute, hour, day of
// month, month and day of week, or is one of @hourly, @daily, @midnight,
// @weekly, @monthly, @yearly and @annually. As in POSIX, a day that is
// restricted in both day fields is due when either matches. The timezone is an
// IANA name, as "Europe/Berlin"; "" is UTC. A time of day that a clock change
// skips is due as much later as is skipped, which is an hour nearly everywhere;
// one that it repeats is due once. A schedule for every hour goes on through
// both: it has nothing to make up for, and is due in both hours of one name.
//
// The error is Invalid, with Field "schedule" or "timezone"; it does not depend
// on the time given.
func Next(schedule, timezone string, after time.Time) (time.Time, error) {
	const op = "skill.Next"
	zone, err := loadZone(timezone)
	if err != nil {
		return time.Time{}, mesh.Wrap(op, err)
	}
	plan, err := parseSchedule(schedule)
	if err != nil {
		return time.Time{}, mesh.Wrap(op, err)
	}
	return clock{zone, everyHour(plan)}.next(plan, after), nil
}

// everyHour reports whether the schedule is for every hour of the days that it
// is for.
func everyHour(plan cron.Schedule) bool {
	const all = 1<<24 - 1
	spec, ok := plan.(*cron.SpecSchedule)
	return ok && spec.Hour&all == all
}

func loadZone(name string) (*time.Location, error) {
	zone, err := time.LoadLocation(name)
	if err != nil || name == "Local" {
		return nil, invalid("timezone", "must be an IANA time zone such as Europe/Berlin, and is %q", clip(name))
	}
	return zone, nil
}

func parseSchedule(s string) (cron.Schedule, error) {
	// A duration is not among them: its due times depend on when one asks.
	named := []string{"@hourly", "@daily", "@midnight", "@weekly", "@monthly", "@yearly", "@annually"}
	switch {
	case strings.HasPrefix(s, "@") && !slices.Contains(named, s):
		return nil, invalid("schedule", "must be five cron fields or one of %s, and is %q", strings.Join(named, ", "), clip(s))
	case strings.HasPrefix(s, "TZ=") || strings.HasPrefix(s, "CRON_TZ="):
		return nil, invalid("schedule", "has a time zone in it; write it into the field timezone")
	}
	parser, err := cron.TryNewParser(cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor | cron.DowOrDom)
	if err != nil {
		return nil, mesh.Wrap("skill.parseSchedule", err)
	}
	plan, err := parser.WithMaxSearchYears(scheduleYears).Parse(s)
	if err != nil {
		return nil, invalid("schedule", "is not a cron expression of five fields, as \"0 9 * * 1-5\" for nine o'clock on weekdays, and is %q", clip(s))
	}
	if plan.Next(time.Unix(0, 0).UTC()).IsZero() {
		return nil, invalid("schedule", "is never due, because there is no such date; correct day and month of %q", clip(s))
	}
	return plan, nil
}

func checkSchedule(s *Skill) error {
	if _, err := loadZone(s.Timezone); err != nil {
		return err
	}
	if s.Schedule == "" {
		return nil
	}
	_, err := parseSchedule(s.Schedule)
	return err
}
