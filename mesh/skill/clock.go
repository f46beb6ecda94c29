package skill

import (
	"time"

	"github.com/netresearch/go-cron"
)

// A clock is that on the wall of a zone, for schedules. A reading of it is a time
// in UTC that has its digits: schedules are looked up among readings, which no
// clock change skips or repeats, and a reading is then turned into when it is due.
type clock struct {
	zone *time.Location
	// everyHour has skipped readings not made up for, and repeated ones due
	// each time.
	everyHour bool
}

// Bounds of offsets from UTC, which are from -12 to +14 hours.
const (
	maxOffset = 14 * time.Hour
	aDay      = 24 * time.Hour // farther than any reading is from its time
)

// next returns the first time after the given one at which the plan is due, in
// UTC, or the zero time. Around a clock change the order of the readings is not
// that of the times, so that some more of them are looked at.
func (c clock) next(plan cron.Schedule, after time.Time) (due time.Time) {
	after = after.UTC()
	least := min(c.offset(after.Add(-aDay)), c.offset(after), c.offset(after.Add(aDay)))
	for reading := plan.Next(after.Add(least)); !reading.IsZero(); reading = plan.Next(reading) {
		times, plain := c.times(reading)
		for _, t := range times {
			if t.After(after) && (due.IsZero() || t.Before(due)) {
				due = t
			}
		}
		if !due.IsZero() && (plain || reading.After(due.Add(maxOffset))) {
			break
		}
	}
	return due
}

// offset is how far the clock is ahead of UTC.
func (c clock) offset(at time.Time) time.Duration {
	_, seconds := at.In(c.zone).Zone()
	return time.Duration(seconds) * time.Second
}

// times returns when the reading is due, and whether the clock shows it exactly
// once.
func (c clock) times(reading time.Time) (times []time.Time, plain bool) {
	before, after := c.offset(reading.Add(-aDay)), c.offset(reading.Add(aDay))
	early, late := reading.Add(-before), reading.Add(-after)
	isEarly, isLate := c.offset(early) == before, c.offset(late) == after
	switch {
	case before == after, isEarly && !isLate:
		return []time.Time{early}, true
	case isLate && !isEarly:
		return []time.Time{late}, true
	case isEarly && c.everyHour: // repeated
		return []time.Time{early, late}, false
	case isEarly, !c.everyHour: // repeated, or skipped
		return []time.Time{early}, false
	}
	return nil, false // skipped
}
