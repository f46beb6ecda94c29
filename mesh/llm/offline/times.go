package offline

import (
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/olebedev/when"
	"github.com/olebedev/when/rules"
	"github.com/olebedev/when/rules/en"
)

// The library knows the words for days. It is only given words that stand together as one, and what it
// finds must be all of them: it is not left to look for dates in a text, where it
// would find some. Words whose hour it would make up, as "tonight", it is not
// asked about.
var dayParser = func() *when.Parser {
	p := when.New(&rules.Options{Distance: 1})
	p.Add(en.CasualDate(rules.Override), en.Weekday(rules.Override), en.ExactMonthDate(rules.Override), en.Deadline(rules.Override))
	return p
}()

// parsed returns what the library makes of the words, if it is of all of them.
func parsed(words string, base time.Time) (time.Time, bool) {
	r, err := dayParser.Parse(words, base)
	if err != nil || r == nil || strings.TrimSpace(r.Text) != words {
		return time.Time{}, false
	}
	return r.Time, true
}

// A moment is a day, a time of day, or both, with the tokens that say so.
type moment struct {
	from, to int // tokens
	day      time.Time
	clock    time.Duration
	hasDay   bool
	hasClock bool
	exact    bool // day is an instant
	week     bool // which day of it is not said
	until    *moment
	// unclear is why this is no time although it looks like one, or "".
	unclear string
	lead    string // the word before it: on, by, until, since, before, …
}

var (
	isoTime   = regexp.MustCompile(`^\d{4}-\d{2}-\d{2}[Tt]\d{2}:\d{2}(:\d{2})?([Zz]|[+-]\d{2}:\d{2})?$`)
	numericAt = regexp.MustCompile(`^\d{1,2}[./]\d{1,2}([./]\d{2,4})?$|^\d{1,2}-\d{1,2}-\d{2,4}$|^\d{4}-\d{1,2}-\d{1,2}$`)
	clockForm = regexp.MustCompile(`^(\d{1,2})(?::(\d{2}))?(am|pm)?$`)
	rangeForm = regexp.MustCompile(`^(\d{1,2}(?::\d{2})?(?:am|pm)?)-(\d{1,2}(?::\d{2})?(?:am|pm)?)$`)
	lengthOf  = regexp.MustCompile(`^(\d+|an?|half|[a-z]+)[- ]?(minute|min|hour|h|m)s?$`)
	monthDay  = regexp.MustCompile(`(?i)\b(jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec)[a-z]*\b`)
	digits    = regexp.MustCompile(`\d+`)
	dayWords  = set("today tomorrow yesterday monday tuesday wednesday thursday friday saturday sunday mon tue tues wed thu thur thurs fri sat sun in next this last the " +
		"january february march april may june july august september october november december jan feb mar apr jun jul aug sep sept oct nov dec")
	leads  = set("on by at for from until till since before after due to between in")
	vague  = set("tonight morning afternoon evening night midnight later soon eventually sometime asap noonish fortnight quarter weekend")
	oclock = set("am pm a.m p.m o'clock oclock")
)

// moments finds the times in the clause, outside of quotes.
func moments(c clause, now time.Time) []moment {
	var out []moment
	for i := 0; i < len(c.toks); {
		m, ok := momentAt(c, i, now)
		if !ok {
			i++
			continue
		}
		if i > 0 && c.at(i-1).in(leads) {
			m.from, m.lead = i-1, c.at(i-1).low
		}
		i = m.to
		if n := len(out); n > 0 && out[n-1].joins(c, &m) {
			continue
		}
		out = append(out, m)
	}
	return out
}

// momentAt reads a time that begins at token i.
func momentAt(c clause, i int, now time.Time) (moment, bool) {
	t := c.at(i)
	if t.kind != word {
		return moment{}, false
	}
	m := moment{from: i, to: i + 1}
	switch {
	case isoTime.MatchString(t.text):
		for _, layout := range []string{time.RFC3339, "2006-01-02T15:04Z07:00", "2006-01-02T15:04:05", "2006-01-02T15:04"} {
			if at, err := time.ParseInLocation(layout, strings.ToUpper(t.text), now.Location()); err == nil {
				m.day, m.exact, m.hasDay, m.hasClock = at, true, true, true
				return m, true
			}
		}
		m.unclear = t.text
		return m, true
	case numericAt.MatchString(t.low):
		at, err := time.ParseInLocation(time.DateOnly, t.text, now.Location())
		if m.day, m.hasDay = at, true; err != nil {
			m.unclear = t.text
		}
		return m, true
	case t.in(vague):
		m.unclear = t.text
		return m, true
	}
	if week, ok := week(c, i, now); ok {
		return week, true
	}
	if span, ok := clockRange(c, i, now); ok {
		return span, true
	}
	if at, n, unclear := dayAt(c, i, now); n > 0 {
		m.day, m.hasDay, m.to, m.unclear = at, true, i+n, unclear
		m.exact = c.at(i+n-1).is("hour", "hours", "minute", "minutes", "min", "mins")
		m.hasClock = m.exact
		return m, true
	}
	clock, n, unclear := clockAt(c, i, now)
	m.clock, m.hasClock, m.to, m.unclear = clock, true, i+n, unclear
	return m, n > 0
}

// dayAt reads a day in words, the longest first.
func dayAt(c clause, i int, now time.Time) (day time.Time, n int, unclear string) {
	first := c.at(i)
	if !first.in(dayWords) && !(first.low != "" && first.low[0] >= '0' && first.low[0] <= '9') {
		return time.Time{}, 0, ""
	}
	if first.is("may", "march", "sat", "sun") && !(len(digits.FindString(c.at(i+1).low)) > 0 || i > 0 && c.at(i-1).is("on", "by", "until", "in", "this", "next")) {
		return time.Time{}, 0, ""
	}
	if c.from(i).starts("the day after tomorrow") {
		return onDay(now, 0).AddDate(0, 0, 2), 4, ""
	}
	y, mo, d := now.Date()
	base := time.Date(y, mo, d, now.Hour(), now.Minute(), now.Second(), 0, time.UTC) // a clock on the wall
	for n := min(4, len(c.toks)-i); n > 0; n-- {
		if c.at(i+n-1).kind != word {
			continue
		}
		words := squeeze(strings.ToLower(c.text[first.start:c.at(i+n-1).end]))
		at, ok := parsed(words, base)
		if !ok || words == "in" || words == "the" {
			continue
		}
		switch month := monthDay.FindString(words); {
		case strings.Contains(words, "month") || strings.Contains(words, "year") || month != "" && !strings.ContainsAny(words, "0123456789"):
			return time.Time{}, n, words // a month is no day
		case month != "":
			day, _ := strconv.Atoi(digits.FindString(words))
			of, _ := time.Parse("Jan", capitalize(month[:3])) // the library turns February 30 into March
			at = time.Date(y, of.Month(), day, 0, 0, 0, 0, time.UTC)
			end := n
			if c.at(i + n).is(",") {
				end++
			}
			if year := c.at(i + end).low; len(year) == 4 && digitsOnly(year) {
				given, _ := strconv.Atoi(year)
				at, n = time.Date(given, of.Month(), day, 0, 0, 0, 0, time.UTC), end+1
			} else if at.Before(time.Date(y, mo, d, 0, 0, 0, 0, time.UTC)) {
				at = at.AddDate(1, 0, 0)
			}
			if at.Day() != day {
				return time.Time{}, n, words
			}
		case strings.Contains(words, "hour") || strings.Contains(words, "min"):
			return now.Add(at.Sub(base)).Truncate(time.Minute), n, ""
		}
		if first.is("this") && at.Before(base) {
			at = at.AddDate(0, 0, 7) // a Sunday of this week is to come
		}
		y, mo, d := at.Date()
		return time.Date(y, mo, d, 0, 0, 0, 0, now.Location()), n, ""
	}
	return time.Time{}, 0, ""
}

// clockAt reads a time of day: one with minutes or am and pm, or a number after
// "at" or a day. From 1 to 7 such a number may be in the morning or the evening.
func clockAt(c clause, i int, now time.Time) (clock time.Duration, n int, unclear string) {
	t, before, next := c.at(i), c.at(i-1), c.at(i+1)
	m := clockForm.FindStringSubmatch(t.low)
	if t.is("noon") {
		return 12 * time.Hour, 1, ""
	} else if m == nil {
		return 0, 0, ""
	}
	half, n := m[3], 1
	if next.in(oclock) {
		n++
		if half = strings.ReplaceAll(next.low, ".", ""); len(half) > 2 {
			half = ""
		}
		if dot := c.at(i + 2); dot.is(".") && strings.Contains(next.low, ".") && dot.start == next.end {
			n++
		}
	}
	hour, _ := strconv.Atoi(m[1])
	minute, _ := strconv.Atoi(m[2])
	stands := m[2] != "" || half != "" || n > 1 || before.is("at", "until", "till") || before.is("from", "between") && next.is("to", "and", "until") || followsDay(c, i, now)
	switch {
	case !stands:
		return 0, 0, ""
	case half != "" && (hour < 1 || hour > 12), half == "" && hour >= 1 && hour <= 7 && m[1][0] != '0', hour > 23, minute > 59:
		return 0, n, t.text
	case half != "":
		hour %= 12
		if half == "pm" {
			hour += 12
		}
	}
	return time.Duration(hour)*time.Hour + time.Duration(minute)*time.Minute, n, ""
}

// followsDay reports whether a day stands right before token i.
func followsDay(c clause, i int, now time.Time) bool {
	if i == 0 || !c.at(i-1).in(dayWords) {
		return false
	}
	_, n, unclear := dayAt(c, i-1, now)
	return n == 1 && unclear == ""
}

// clockRange reads "2-3pm" and "from 2 to 3pm": the second clock says for the
// first which half of the day is meant.
func clockRange(c clause, i int, now time.Time) (moment, bool) {
	first, last, n := c.at(i).low, "", 1
	if m := rangeForm.FindStringSubmatch(first); m != nil {
		first, last = m[1], m[2]
	} else if i > 0 && c.at(i-1).is("from", "between") && c.at(i+1).is("to", "and", "until", "till") && clockForm.MatchString(first) {
		last, n = c.at(i+2).low, 3
	}
	m := clockForm.FindStringSubmatch(last)
	if m == nil {
		return moment{}, false
	}
	half := m[3]
	if next := c.at(i + n); half == "" && next.is("am", "pm") {
		last, half, n = last+next.low, next.low, n+1
	}
	of := func(words string) (time.Duration, string) {
		sub := newClause("at " + words)
		clock, _, unclear := clockAt(sub, 1, now)
		return clock, unclear
	}
	if own := clockForm.FindStringSubmatch(first); own[3] == "" && half != "" {
		a, _ := of(first + half)
		if b, _ := of(last); a < b {
			first += half
		} else if half == "pm" {
			first += "am"
		}
	}
	out := moment{from: i, to: i + n, hasClock: true}
	end := out
	out.clock, out.unclear = of(first)
	var unclear string
	if end.clock, unclear = of(last); unclear != "" || out.unclear == "" && end.clock <= out.clock {
		out.unclear = c.words(i, i+n)
	}
	out.until = &end
	return out, true
}

// at returns the instant, and whether it is one: a day with a time of day, or a
// time of day that is still to come today.
func (m *moment) at(now time.Time) (time.Time, bool) {
	switch {
	case m.exact:
		return m.day, true
	case !m.hasClock:
		return m.day, false
	case m.hasDay:
		return onDay(m.day, m.clock), true
	}
	t := onDay(onDay(now, 0), m.clock)
	return t, t.After(now)
}

// onDay returns the time of day on the day as a clock on the wall shows it,
// also on days when clocks change.
func onDay(day time.Time, clock time.Duration) time.Time {
	y, mo, d := day.Date()
	return time.Date(y, mo, d, int(clock/time.Hour), int(clock/time.Minute)%60, 0, 0, day.Location())
}

// written returns the moment as arguments have it: a day alone stays one.
func (m *moment) written(now time.Time) string {
	if at, ok := m.at(now); ok {
		return at.Format(time.RFC3339)
	}
	return m.day.Format(time.DateOnly)
}

// week reads "this week" and "next week" at token i: from a day on until a Sunday.
func week(c clause, i int, now time.Time) (moment, bool) {
	m := moment{from: i, to: i + 2, hasDay: true, week: true, day: onDay(now, 0)}
	days := (7 - int(now.Weekday())) % 7
	if c.at(i).is("next") {
		m.day, days = m.day.AddDate(0, 0, days+1), 6
	}
	m.until = &moment{hasDay: true, day: m.day.AddDate(0, 0, days)}
	return m, c.at(i).is("this", "next") && c.at(i+1).is("week")
}

// length reads how long something takes, at token i.
func length(c clause, i int) (d time.Duration, n int) {
	t := c.at(i)
	if t.kind != word {
		return 0, 0
	}
	words, n := t.low, 1
	if !lengthOf.MatchString(words) || numbers[words] > 0 {
		if next := c.at(i + 1); next.kind == word {
			words, n = words+" "+next.low, 2
			if t.is("half") && next.is("an", "a") {
				words, n = "half "+c.at(i+2).low, 3
			}
		}
	}
	m := lengthOf.FindStringSubmatch(words)
	if m == nil {
		return 0, 0
	}
	unit := time.Minute
	if m[2][0] == 'h' {
		unit = time.Hour
	}
	count, err := strconv.Atoi(m[1])
	switch {
	case m[1] == "half":
		return unit / 2, n
	case m[1] == "a" || m[1] == "an":
		count = 1
	case err != nil:
		count = numbers[m[1]]
	}
	if count == 0 {
		return 0, 0
	}
	d = time.Duration(count) * unit
	if c.from(i + n).starts("and a half") {
		return d + unit/2, n + 3
	}
	return d, n
}

// joins adds next to the moment before it: as its other half, or as its end.
func (m *moment) joins(c clause, next *moment) bool {
	gap := next.from - m.to
	if m.unclear != "" || next.unclear != "" || m.week || next.week || gap > 1 || gap == 1 && !c.at(m.to).is(",", "and", "to", "-", "–") {
		return false
	}
	between := gap == 1 && c.at(m.to).is("and") && m.lead == "between"
	spans := next.lead == "to" && (m.lead == "from" || m.lead == "between") || next.lead == "until" || next.lead == "till" || between ||
		gap == 1 && c.at(m.to).is("to", "–", "-")
	if spans && m.until == nil {
		end := *next
		if !m.hasDay && end.hasDay && end.hasClock {
			m.day, m.hasDay = end.day, true
		} else if !end.hasDay {
			end.day, end.hasDay = m.day, m.hasDay
		}
		m.until, m.to = &end, next.to
		return true
	}
	if gap == 1 && !c.at(m.to).is(",") {
		return false
	}
	switch {
	case m.exact || next.exact || m.until != nil && !(m.hasClock && !m.hasDay):
		return false
	case m.hasDay && !m.hasClock && next.hasClock && !next.hasDay && next.lead != "by":
		m.clock, m.hasClock, m.until, m.to = next.clock, true, next.until, next.to
	case m.hasClock && !m.hasDay && next.hasDay && !next.hasClock:
		m.day, m.hasDay, m.to = next.day, true, next.to
	default:
		return false
	}
	if m.until != nil && !m.until.hasDay {
		m.until.day, m.until.hasDay = m.day, m.hasDay
	}
	return true
}
