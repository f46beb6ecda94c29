package offline

import "time"

// join makes one moment of a date and a time of day that stand beside each
// other, in either order; a time of day alone stays for itself.
func (t *timing) join() {
	var out []moment
	for _, m := range t.moments {
		if n := len(out); n > 0 && m.exact == nil && out[n-1].exact == nil {
			last := &out[n-1]
			switch {
			case last.hasDate && !last.hasClock && m.hasClock && !m.hasDate:
				last.clock, last.hasClock, last.end = m.clock, true, m.end
				continue
			case last.hasClock && !last.hasDate && m.hasDate && !m.hasClock:
				last.date, last.hasDate, last.days, last.end = m.date, true, m.days, m.end
				continue
			}
		}
		out = append(out, m)
	}
	t.moments = out
}

// at returns the instant: a time without a date is the next time it comes, and
// a date without a time is at fallback.
func (m *moment) at(now time.Time, fallback time.Duration) time.Time {
	if m.exact != nil {
		return *m.exact
	}
	day := m.date
	if !m.hasDate {
		y, mo, d := now.Date()
		day = time.Date(y, mo, d, 0, 0, 0, 0, now.Location())
	}
	clock := m.clock
	if !m.hasClock {
		clock = fallback
	}
	t := onDay(day, clock)
	if !m.hasDate && !t.After(now) {
		t = onDay(day.AddDate(0, 0, 1), clock)
	}
	return t
}

// onDay returns the time of day on the day as a clock on the wall shows it,
// also on days when clocks change.
func onDay(day time.Time, clock time.Duration) time.Time {
	y, mo, d := day.Date()
	return time.Date(y, mo, d, int(clock/time.Hour), int(clock/time.Minute)%60, int(clock/time.Second)%60, 0, day.Location())
}
