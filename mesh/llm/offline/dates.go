package offline

import (
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A moment is a date, a time of day, or both, as somebody wrote it.
type moment struct {
	start, end int // bytes of the text
	date       time.Time
	hasDate    bool
	clock      time.Duration // since midnight
	hasClock   bool
	exact      *time.Time // an instant with its own zone, or one counted from now
	days       int        // how many days the date spans, at least 1 if hasDate
	odd        bool       // it cannot be a time, but nothing else either
}

// A timing is all that a text says about time.
type timing struct {
	moments  []moment
	duration time.Duration // 0 if none is said
	spans    [][2]int      // bytes of the text that say it, sorted
	odd      [][2]int      // bytes that look like a time and are none, as "Feb 30"
}

const (
	monthNames = `jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?`
	dayNames   = `mon(?:day)?|tue(?:s(?:day)?)?|wed(?:nesday)?|thu(?:rs?(?:day)?)?|fri(?:day)?|sat(?:urday)?|sun(?:day)?`
	numbers    = `\d{1,4}|an?|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|fifteen|twenty|thirty|forty|sixty|ninety`
	units      = `minutes?|mins?|hours?|hrs?|days?|weeks?|months?`
	clockTime  = `(\d{1,2})(?::(\d{2}))?\s*(a\.?m\b\.?|p\.?m\b\.?)|(\d{1,2}):(\d{2})(?::\d{2})?|(noon|midday|midnight)`
)

var (
	isoPattern      = regexp.MustCompile(`\b(\d{4})-(\d{2})-(\d{2})(?:[t ](\d{2}):(\d{2})(?::(\d{2})(?:\.\d+)?)?(z|[+-]\d{2}:?\d{2})?)?(?:\b|$)`)
	relativePattern = regexp.MustCompile(`\bin\s+(half an hour|(?:(?:` + numbers + `)\s+(?:` + units + `)))\b|\b((?:` + numbers + `)\s+(?:` + units + `))\s+from\s+now\b`)
	dayPattern      = regexp.MustCompile(`\b(the day after tomorrow|day after tomorrow|today|tonight|tomorrow|yesterday|(?:this|next|last)\s+(?:week|month|weekend)|the end of (?:the|this) (?:week|month)|end of (?:the |this )?(?:week|month))\b`)
	weekdayPattern  = regexp.MustCompile(`\b(?:(this|next|last|coming)\s+)?(` + dayNames + `)\b`)
	monthPattern    = regexp.MustCompile(`\b(` + monthNames + `)\.?\s+(\d{1,2})(?:st|nd|rd|th)?\b(?:,?\s+(\d{4})\b)?|\b(\d{1,2})(?:st|nd|rd|th)?\s+(?:of\s+)?(` + monthNames + `)\b(?:,?\s+(\d{4})\b)?`)
	durationPattern = regexp.MustCompile(`\b(?:for\s+)?(?:(half an hour|an hour and a half)|(` + numbers + `)[\s-]*(minutes?|mins?|hours?|hrs?|h|m)(?:\s*(?:and\s+)?(\d{1,2})\s*(?:minutes?|mins?|m))?)\b`)
	rangePattern    = regexp.MustCompile(`\b(?:from\s+|between\s+)?(\d{1,2})(?::(\d{2}))?\s*(am|pm)?\s*(?:-|–|—|to|until|till|and)\s*(\d{1,2})(?::(\d{2}))?\s*(am|pm)\b|\b(?:from\s+|between\s+)?(\d{1,2}):(\d{2})\s*(?:-|–|—|to|until|till|and)\s*(\d{1,2}):(\d{2})\b`)
	clockPattern    = regexp.MustCompile(`\b(?:at\s+|by\s+)?(?:` + clockTime + `)`)
	slashPattern    = regexp.MustCompile(`\b\d{1,2}[/.]\d{1,2}[/.]\d{4}\b`)
	barePattern     = regexp.MustCompile(`\bat\s+(\d{1,2})(?:\s*(?:o'clock|o’clock|h))?\b`)
	daytimePattern  = regexp.MustCompile(`\b(?:in the\s+|this\s+)?(morning|afternoon|evening)\b`)
	dateWordPattern = regexp.MustCompile(`^(?:` + dayNames + `|` + monthNames + `|today|tonight|tomorrow|yesterday|noon|midnight|week|month|weekend)$`)
	plainUnits      = map[byte]time.Duration{'m': time.Minute, 'h': time.Hour}
)

// isDateWord reports whether the word, in lower case, names a day or a month.
func isDateWord(w string) bool { return dateWordPattern.MatchString(w) }

// reader finds times in a text. Each finding blanks out what it was found in,
// so that a number is read once.
type reader struct {
	low    []byte
	now    time.Time
	timing timing
}

// readTimes finds what the text says about time, relative to now and in its
// location.
func readTimes(text string, now time.Time) timing {
	r := &reader{low: asciiLower(text), now: now}
	for _, t := range tokenize(text) {
		if t.kind == quoted || t.kind == email {
			r.blank(t.start, t.end)
		}
	}
	r.each(slashPattern, r.ambiguous)
	r.each(isoPattern, r.iso)
	r.each(relativePattern, r.relative)
	r.each(dayPattern, r.day)
	r.each(monthPattern, r.month)
	r.each(weekdayPattern, r.weekday)
	r.each(rangePattern, r.clockRange)
	r.each(clockPattern, r.clock)
	r.each(durationPattern, r.length)
	r.each(barePattern, r.bareClock)
	r.each(daytimePattern, r.daytime)
	slices.SortStableFunc(r.timing.moments, func(a, b moment) int { return a.start - b.start })
	r.timing.join()
	slices.SortFunc(r.timing.spans, func(a, b [2]int) int { return a[0] - b[0] })
	return r.timing
}

// asciiLower lowers letters without changing the length of the text.
func asciiLower(s string) []byte {
	b := []byte(s)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return b
}

func (r *reader) blank(from, to int) {
	for i := from; i < to; i++ {
		r.low[i] = '\x00'
	}
}

// each calls read with the groups of every match, and blanks those that read
// accepts.
func (r *reader) each(p *regexp.Regexp, read func(g []string, m *moment) bool) {
	for _, loc := range p.FindAllSubmatchIndex(r.low, -1) {
		groups := make([]string, len(loc)/2)
		for i := range groups {
			if loc[2*i] >= 0 {
				groups[i] = string(r.low[loc[2*i]:loc[2*i+1]])
			}
		}
		m := moment{start: loc[0], end: loc[1], days: 1}
		if !read(groups, &m) {
			if m.odd {
				r.blank(loc[0], loc[1])
				r.timing.odd = append(r.timing.odd, [2]int{loc[0], loc[1]})
			}
			continue
		}
		r.blank(loc[0], loc[1])
		r.timing.spans = append(r.timing.spans, [2]int{loc[0], loc[1]})
		if m.hasDate || m.hasClock || m.exact != nil {
			r.timing.moments = append(r.timing.moments, m)
		}
	}
}

func (r *reader) today() time.Time {
	y, m, d := r.now.Date()
	return time.Date(y, m, d, 0, 0, 0, 0, r.now.Location())
}

func number(s string) int {
	if n, ok := smallNumbers[s]; ok {
		return n
	}
	n, _ := strconv.Atoi(s)
	return n
}

func (r *reader) iso(g []string, m *moment) bool {
	y, mon, d := number(g[1]), number(g[2]), number(g[3])
	m.date, m.hasDate = time.Date(y, time.Month(mon), d, 0, 0, 0, 0, r.now.Location()), true
	if m.odd = m.date.Day() != d || int(m.date.Month()) != mon; m.odd {
		return false
	}
	if g[4] == "" {
		return true
	}
	m.clock, m.hasClock = time.Duration(number(g[4]))*time.Hour+time.Duration(number(g[5]))*time.Minute+time.Duration(number(g[6]))*time.Second, true
	if m.odd = m.clock >= 24*time.Hour; m.odd {
		return false
	}
	if g[7] != "" {
		zone := strings.ToUpper(strings.ReplaceAll(g[7], ":", ""))
		layout, value := "2006-01-02T15:04:05Z0700", g[1]+"-"+g[2]+"-"+g[3]+"T"+g[4]+":"+g[5]+":"+orZero(g[6])+zone
		t, err := time.Parse(layout, value)
		if err != nil {
			return false
		}
		m.exact = &t
	}
	return true
}

func orZero(s string) string {
	if s == "" {
		return "00"
	}
	return s
}

func (r *reader) relative(g []string, m *moment) bool {
	amount := g[1] + g[2]
	if amount == "half an hour" {
		t := r.now.Add(30 * time.Minute)
		m.exact = &t
		return true
	}
	n, unit, ok := strings.Cut(squeeze(amount), " ")
	if !ok {
		return false
	}
	count := number(n)
	switch {
	case unit[0] == 'h' || strings.HasPrefix(unit, "min"):
		t := r.now.Add(time.Duration(count) * plainUnits[unit[0]])
		m.exact = &t
	case unit[0] == 'd':
		m.date, m.hasDate = r.today().AddDate(0, 0, count), true
	case unit[0] == 'w':
		m.date, m.hasDate = r.today().AddDate(0, 0, 7*count), true
	default:
		m.date, m.hasDate = r.today().AddDate(0, count, 0), true
	}
	return true
}

func (r *reader) day(g []string, m *moment) bool {
	m.hasDate = true
	today := r.today()
	monday := today.AddDate(0, 0, -(int(today.Weekday())+6)%7)
	first := today.AddDate(0, 0, 1-today.Day())
	switch w := squeeze(g[1]); {
	case strings.HasSuffix(w, "day after tomorrow"):
		m.date = today.AddDate(0, 0, 2)
	case w == "today":
		m.date = today
	case w == "tonight":
		m.date, m.clock, m.hasClock = today, 20*time.Hour, true
	case w == "tomorrow":
		m.date = today.AddDate(0, 0, 1)
	case w == "yesterday":
		m.date = today.AddDate(0, 0, -1)
	case strings.HasPrefix(w, "end of") || strings.HasPrefix(w, "the end of"):
		m.date = monday.AddDate(0, 0, 4)
		if strings.HasSuffix(w, "month") {
			m.date = first.AddDate(0, 1, -1)
		}
	case strings.HasSuffix(w, "weekend"):
		m.date, m.days = monday.AddDate(0, 0, 5+forward(w, 7)), 2
	case strings.HasSuffix(w, "week"):
		m.date, m.days = monday.AddDate(0, 0, forward(w, 7)), 7
	default:
		m.date = first.AddDate(0, forward(w, 1), 0)
		m.days = int(m.date.AddDate(0, 1, 0).Sub(m.date).Hours()+12) / 24
	}
	return true
}

// forward returns n for "next …", -n for "last …" and 0 for "this …".
func forward(w string, n int) int {
	switch {
	case strings.HasPrefix(w, "next"):
		return n
	case strings.HasPrefix(w, "last"):
		return -n
	}
	return 0
}

// weekday reads the name of a day. Alone, or with "this" or "coming", it is the
// first such day after today; with "next", the one in the next week, which
// begins on Monday.
func (r *reader) weekday(g []string, m *moment) bool {
	names := []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}
	want := slices.Index(names, g[2][:3])
	if (g[2] == "sun" || g[2] == "sat" || g[2] == "mon" || g[2] == "wed") && g[1] == "" {
		return false // "the sun"; these short forms need their "next"
	}
	today := r.today()
	monday := today.AddDate(0, 0, -(int(today.Weekday())+6)%7)
	m.hasDate = true
	switch g[1] {
	case "next":
		m.date = monday.AddDate(0, 0, 7+(want+6)%7)
	case "last":
		back := (int(today.Weekday())-want+6)%7 + 1
		m.date = today.AddDate(0, 0, -back)
	default:
		m.date = today.AddDate(0, 0, (want-int(today.Weekday())+6)%7+1)
	}
	return true
}

func (r *reader) month(g []string, m *moment) bool {
	name, day, year := g[1]+g[5], number(g[2]+g[4]), number(g[3]+g[6])
	months := []string{"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"}
	mon := time.Month(slices.Index(months, name[:3]) + 1)
	if day < 1 || day > 31 {
		return false
	}
	y := year
	if y == 0 {
		y = r.now.Year()
	}
	m.date, m.hasDate = time.Date(y, mon, day, 0, 0, 0, 0, r.now.Location()), true
	if m.odd = m.date.Month() != mon; m.odd {
		return false
	}
	if year == 0 && m.date.Before(r.today()) {
		m.date = m.date.AddDate(1, 0, 0)
	}
	return true
}

// oclock returns the time of day, and whether there is one. half is "am", "pm"
// or "".
func oclock(hour, minute, half string) (time.Duration, bool) {
	h, mi := number(hour), number(minute)
	if half != "" && (h < 1 || h > 12) || h > 23 || mi > 59 {
		return 0, false
	}
	switch {
	case strings.HasPrefix(half, "p") && h < 12:
		h += 12
	case strings.HasPrefix(half, "a") && h == 12:
		h = 0
	}
	return time.Duration(h)*time.Hour + time.Duration(mi)*time.Minute, true
}

// clockRange reads "2-3pm" and "from 14:00 to 15:30": a time and a duration.
func (r *reader) clockRange(g []string, m *moment) bool {
	var from, to time.Duration
	var ok1, ok2 bool
	if g[7] != "" {
		from, ok1 = oclock(g[7], g[8], "")
		to, ok2 = oclock(g[9], g[10], "")
	} else {
		half := g[3]
		if half == "" {
			half = g[6]
		}
		to, ok2 = oclock(g[4], g[5], g[6])
		from, ok1 = oclock(g[1], g[2], half)
		if ok1 && ok2 && g[3] == "" && from > to {
			from, ok1 = oclock(g[1], g[2], "am") // 11-1pm
		}
	}
	if !ok1 || !ok2 || to <= from {
		return false
	}
	m.clock, m.hasClock = from, true
	r.timing.duration = to - from
	return true
}

// ambiguous refuses 01/02/2026: which is the day depends on who wrote it.
func (r *reader) ambiguous(_ []string, m *moment) bool {
	m.odd = true
	return false
}

func (r *reader) clock(g []string, m *moment) bool {
	switch {
	case g[6] == "midnight":
		m.clock, m.hasClock = 0, true
	case g[6] != "":
		m.clock, m.hasClock = 12*time.Hour, true
	case g[4] != "":
		m.clock, m.hasClock = oclock(g[4], g[5], "")
	default:
		m.clock, m.hasClock = oclock(g[1], g[2], g[3])
	}
	m.odd = !m.hasClock && strings.HasPrefix(g[0], "at")
	return m.hasClock
}

// bareClock reads "at 2": in the afternoon up to 7, as people mean it.
func (r *reader) bareClock(g []string, m *moment) bool {
	half := ""
	if h := number(g[1]); h >= 1 && h <= 7 {
		half = "pm"
	}
	m.clock, m.hasClock = oclock(g[1], "", half)
	return m.hasClock
}

func (r *reader) daytime(g []string, m *moment) bool {
	m.hasClock = true
	m.clock = map[string]time.Duration{"morning": 9 * time.Hour, "afternoon": 14 * time.Hour, "evening": 18 * time.Hour}[g[1]]
	return true
}

func (r *reader) length(g []string, _ *moment) bool {
	var d time.Duration
	switch {
	case g[1] == "half an hour":
		d = 30 * time.Minute
	case g[1] != "":
		d = 90 * time.Minute
	default:
		d = time.Duration(number(g[2])) * plainUnits[g[3][0]]
		d += time.Duration(number(g[4])) * time.Minute
	}
	if d <= 0 {
		return false
	}
	if r.timing.duration == 0 {
		r.timing.duration = d
	}
	return true
}
