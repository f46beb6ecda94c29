package offline

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"
)

// usualHour is when something begins of which only the day is known.
const usualHour = 10 * time.Hour

// usualLength is how long something lasts that must have an end.
const usualLength = time.Hour

// covers reports whether byte i of the text is part of a time.
func (t *timing) covers(i int) bool {
	return slices.ContainsFunc(t.spans, func(s [2]int) bool { return s[0] <= i && i < s[1] })
}

// within forgets what is outside of the bytes [from, to) of the text.
func (t *timing) within(from, to int) {
	t.moments = slices.DeleteFunc(t.moments, func(m moment) bool { return m.start < from || m.start >= to })
	outside := func(s [2]int) bool { return s[0] < from || s[0] >= to }
	t.spans, t.odd = slices.DeleteFunc(t.spans, outside), slices.DeleteFunc(t.odd, outside)
}

// has reports whether the skill has a parameter with one of the names.
func (s *skill) has(names ...string) bool {
	return slices.ContainsFunc(s.Parameters, func(p param) bool { return slices.Contains(names, strings.ToLower(p.Name)) })
}

// time returns the value of a parameter for a date or time, or "".
func (f *filler) time(p *param) string {
	words := pieces(p.Name)
	is := func(names ...string) bool {
		return slices.ContainsFunc(words, func(w string) bool { return slices.Contains(names, w) })
	}
	switch {
	case is("end", "ends"):
		return f.end(p)
	case is("to", "until", "before") && !is("start"):
		return f.upTo(p)
	case is("from", "since", "after"):
		return f.onwards(p)
	}
	return f.first(p, is("start", "starts", "begin", "when", "at"))
}

// first is the first time that the clause says.
func (f *filler) first(p *param, begins bool) string {
	if len(f.times.moments) == 0 {
		if !p.Required {
			return ""
		}
		t := onDay(workday(f.now), usualHour)
		f.assume("no time was given, so I chose %s", t.Format("Monday, 2 January 2006 at 15:04"))
		return f.format(p, t, true)
	}
	m := &f.times.moments[0]
	sharp := m.hasClock || m.exact != nil
	t := m.at(f.now, usualHour)
	if !sharp && begins {
		f.assume("no time of day was given, so I chose %s", t.Format("15:04"))
		sharp = true
	}
	return f.format(p, t, sharp)
}

// start is when that begins which the clause is about.
func (f *filler) start() time.Time {
	if len(f.times.moments) == 0 {
		return onDay(workday(f.now), usualHour)
	}
	return f.times.moments[0].at(f.now, usualHour)
}

var foundDay = regexp.MustCompile(`\b\d{4}-\d{2}-\d{2}\b`)

// keepDay puts a time of day that something is moved to on the day on which it
// was found to begin: "move the review to 3pm" is not about today.
func (f *filler) keepDay() {
	id := f.skill.identifier()
	if id == nil || f.target != nil || !f.skill.has("start", "begin") || !slices.Contains(f.skill.acts(), doUpdate) || len(f.times.moments) == 0 {
		return
	}
	m := &f.times.moments[0]
	found, _ := f.id(id).(string)
	if found == "" || !m.hasClock || m.hasDate || m.exact != nil {
		return
	}
	for _, text := range f.inputs {
		for line := range strings.SplitSeq(text, "\n") {
			if idIn(line) != found {
				continue
			}
			if day, err := time.ParseInLocation(time.DateOnly, foundDay.FindString(line), f.now.Location()); err == nil {
				m.date, m.hasDate, m.days = day, true, 1
				return
			}
		}
	}
}

func (f *filler) end(p *param) string {
	switch {
	case len(f.times.moments) > 1:
		m := f.times.moments[1]
		if !m.hasDate && m.exact == nil {
			m.date, m.hasDate = f.start(), true
		}
		if t := m.at(f.now, usualHour); t.After(f.start()) {
			return f.format(p, t, true)
		}
	case f.times.duration > 0 && (p.Required || !f.skill.has("duration", "length", "minutes")):
		return f.format(p, f.start().Add(f.times.duration), true)
	}
	if !p.Required {
		return ""
	}
	return f.format(p, f.start().Add(usualLength), true)
}

// bound says what stands before the first moment: "before", "after" or "".
func (f *filler) bound() string {
	at := f.times.moments[0].start
	for i := len(f.cl.tokens) - 1; i >= 0; i-- {
		t := f.cl.at(i)
		if t.start >= at && !t.is("by") {
			continue
		}
		switch {
		case t.is("before", "until", "till", "by"):
			return "before"
		case t.is("after", "since", "from"):
			return "after"
		}
		return ""
	}
	return ""
}

// onwards is the beginning of the time that a search is about.
func (f *filler) onwards(p *param) string {
	if len(f.times.moments) == 0 || f.bound() == "before" || (f.bound() != "after" && slices.Contains(pieces(p.Name), "after")) {
		return ""
	}
	m := f.times.moments[0]
	t := m.at(f.now, 0)
	if named := f.cl.text[m.start:m.end]; f.bound() == "after" && slices.Contains(pieces(p.Name), "since") && t.After(f.now) && weekdayPattern.MatchString(strings.ToLower(named)) {
		t = t.AddDate(0, 0, -7) // "since Monday" is the last one
	}
	return f.format(p, t, m.hasClock || m.exact != nil)
}

// upTo is the end of the time that a search is about: of its last day, if
// the clause names days.
func (f *filler) upTo(p *param) string {
	if len(f.times.moments) == 0 || f.bound() == "after" && len(f.times.moments) == 1 {
		return ""
	}
	m := f.times.moments[0]
	if len(f.times.moments) > 1 && f.bound() != "before" {
		m = f.times.moments[1]
	}
	sharp := m.hasClock || m.exact != nil
	t := m.at(f.now, 0)
	if !sharp && f.bound() != "before" {
		t = t.AddDate(0, 0, m.days-1) // a last day counts to its end
		d := strings.ToLower(p.Description)
		exclusive := strings.Contains(d, "before") && !strings.Contains(d, "on or before")
		if exact := strings.Contains(d, "3339"); exact || exclusive {
			t, sharp = t.AddDate(0, 0, 1), exact
		}
	}
	return f.format(p, t, sharp)
}

var (
	dayExample    = regexp.MustCompile(`(?i)yyyy-mm-dd|\b\d{4}-\d{2}-\d{2}\b`)
	momentExample = regexp.MustCompile(`(?i)\dt\d|hh:|3339|date-time|date and time`)
)

// dateOnly reports whether the parameter wants a day without a time.
func dateOnly(p *param) bool {
	return dayExample.MatchString(p.Description) && !momentExample.MatchString(p.Description)
}

// format writes t as RFC 3339 if it is sharp to the minute, and else as a date.
func (f *filler) format(p *param, t time.Time, sharp bool) string {
	switch {
	case strings.EqualFold(p.Name, "time") && f.skill.has("date", "day"):
		return t.Format("15:04")
	case sharp && !dateOnly(p):
		return t.Format(time.RFC3339)
	}
	return t.Format(time.DateOnly)
}

func (f *filler) assume(format string, args ...any) {
	s := fmt.Sprintf(format, args...)
	if !slices.Contains(f.assumed, s) {
		f.assumed = append(f.assumed, s)
	}
}

// workday is the next day from Monday to Friday after now.
func workday(now time.Time) time.Time {
	y, m, d := now.Date()
	t := time.Date(y, m, d, 0, 0, 0, 0, now.Location())
	for {
		t = t.AddDate(0, 0, 1)
		if t.Weekday() != time.Saturday && t.Weekday() != time.Sunday {
			return t
		}
	}
}

func (f *filler) duration(p *param) any {
	d := f.times.duration
	if d == 0 || len(f.times.moments) > 1 && f.skill.has("end") {
		if !p.Required {
			return nil
		}
		d = usualLength
	}
	if p.Type == "integer" || p.Type == "number" || p.Type == "float" {
		return int64(d / time.Minute)
	}
	hint := p.Description + " " + string(p.Default)
	if strings.Contains(hint, "PT") || strings.Contains(hint, "P1") {
		return "PT" + strings.ToUpper(short(d))
	}
	return short(d)
}

// short writes whole minutes as "1h30m".
func short(d time.Duration) string {
	h, m := int(d/time.Hour), int(d/time.Minute)%60
	switch {
	case h == 0:
		return fmt.Sprintf("%dm", m)
	case m == 0:
		return fmt.Sprintf("%dh", h)
	}
	return fmt.Sprintf("%dh%dm", h, m)
}
