package calendar

import (
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"
)

const timeRemedy = "write it as 2026-12-01T14:00, 2026-12-01T14:00:00Z or, for a whole day, 2026-12-01"

var (
	words = regexp.MustCompile(`^(\d+(?:\.\d+)?)\s*(minutes?|mins?|hours?|hrs?|days?)$`)
	iso   = regexp.MustCompile(`^PT(?:(\d+)H)?(?:(\d+)M)?$`)
)

// parseDuration reads 1h30m, PT45M, or "2 hours".
func parseDuration(s string) (time.Duration, bool) {
	s = strings.TrimSpace(s)
	if d, err := time.ParseDuration(strings.ToLower(s)); err == nil {
		return d, true
	}
	if m := words.FindStringSubmatch(strings.ToLower(s)); m != nil {
		n, err := strconv.ParseFloat(m[1], 64)
		unit := map[byte]time.Duration{'m': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}[m[2][0]]
		d := n * float64(unit)
		return time.Duration(d), err == nil && d <= float64(maxDuration)
	}
	if iso.MatchString(strings.ToUpper(s)) {
		d, err := time.ParseDuration(strings.ToLower(s[len("PT"):]))
		return d, err == nil
	}
	return 0, false
}

// clean makes text fit for iCalendar: valid, with "\n" as the only control
// character beside tabs.
func clean(s string) string {
	s = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(strings.ToValidUTF8(s, "\ufffd"))
	return strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, s))
}

func oneLine(s string) string { return strings.Join(strings.Fields(clean(s)), " ") }
