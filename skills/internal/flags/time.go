package flags

import (
	"strings"
	"time"
)

// When reads a day, as 2026-12-01, or a moment, as 2026-12-01T14:00, with or
// without seconds and with a space for the T. Without an offset from UTC it is
// what clocks in loc show; see [At]. It returns the moment in loc, of a day the
// first one, and whether the text names a day; ok is false for any other text.
func When(text string, loc *time.Location) (t time.Time, day, ok bool) {
	text = strings.ToUpper(strings.TrimSpace(text))
	if wall, err := time.Parse(time.DateOnly, text); err == nil {
		return At(wall, loc), true, true
	}
	for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z07:00"} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.In(loc), false, true
		}
	}
	for _, layout := range []string{"2006-01-02T15:04:05", "2006-01-02T15:04", time.DateTime, "2006-01-02 15:04"} {
		if wall, err := time.Parse(layout, text); err == nil {
			return At(wall, loc), false, true
		}
	}
	return time.Time{}, false, false
}

// At returns the moment at which clocks in loc show what wall shows, in
// whatever zone that is. A time that a clock change skips is as much later as is
// skipped: half past two becomes half past three, and a midnight that is not
// there the first moment of its day. Of a time that is repeated, it is one.
func At(wall time.Time, loc *time.Location) time.Time {
	y, m, d := wall.Date()
	t := time.Date(y, m, d, wall.Hour(), wall.Minute(), wall.Second(), wall.Nanosecond(), loc)
	_, there := t.Zone()
	_, here := wall.Zone()
	// In a gap, package time takes one side or the other of it.
	if short := wall.Unix() + int64(here) - t.Unix() - int64(there); short > 0 {
		return t.Add(time.Duration(short) * time.Second)
	}
	return t
}

// Days returns the first moment of the day that is n days after that of t.
func Days(t time.Time, n int) time.Time {
	y, m, d := t.Date()
	return At(time.Date(y, m, d+n, 0, 0, 0, 0, time.UTC), t.Location())
}
