package offline

import (
	"regexp"
	"slices"
	"strings"
	"time"
)

var (
	lowerTimes = set("from since after start starts starts_at begin date when time day at")
	upperTimes = set("to before until end ends due_before deadline")
	clockTimes = set("start starts starts_at begin time at")
)

// clocks takes the times of the clause. Of two that are no span the user is asked
// which is meant.
func (f *form) clocks() {
	var params []*param
	for i := range f.s.Parameters {
		if f.s.Parameters[i].kind == kindTime {
			params = append(params, &f.s.Parameters[i])
		}
	}
	if len(params) == 0 || f.s.answers() || f.s.recalls() {
		return
	}
	end := len(f.c.toks)
	if sends := f.s.first(kindAddress) != nil && f.s.first(kindTime) == nil; f.content >= 0 && (sends || f.s.first(kindBody) == f.writes()) {
		end = f.content
	}
	var all []moment
	for _, m := range moments(clause{f.c.text, f.c.toks[:end]}, f.now) {
		adjective := f.c.at(m.from-1).in(determiners) && m.lead == "" && f.c.at(m.to).kind == word && !f.c.at(m.to).in(prepositions) && !f.c.at(m.to).in(glue) && f.content >= 0 && m.from > f.content
		if m.from == 0 && m.lead == "" && f.verb != "" || adjective || slices.Contains(f.used[m.from:m.to], true) {
			continue
		}
		for f.c.at(m.from-1).is("due", "starting", "scheduled", "beginning") && !f.used[m.from-1] {
			m.from--
		}
		if n := len(all); n > 0 && f.between(all[n-1].to, m.from, "or", "and", ",") {
			f.eat(all[n-1].to, m.from)
		}
		all = append(all, m)
	}
	if len(all) == 0 {
		return
	}
	var said []string
	for _, m := range all {
		said = append(said, "“"+f.c.words(m.from, m.to)+"”")
		f.eat(m.from, m.to)
	}
	first := all[0]
	ask := slot{param: params[0].Name, kind: kindTime, ask: "Which time is meant, " + strings.Join(said, " or ") + "?"}
	switch {
	case len(all) > 1:
		f.missing = append(f.missing, ask)
	case first.unclear != "" || first.until != nil && first.until.unclear != "":
		ask.ask = "Which date or time is “" + f.c.words(first.from, first.to) + "”? Please say it as 2026-12-01, 14:30 or 2pm."
		if first.hasDay && first.unclear == "" {
			ask.day = &first
		}
		f.missing = append(f.missing, ask)
	case first.week && !f.s.reads():
		ask.ask = "On which day " + f.c.words(first.to-2, first.to) + "?"
		f.missing = append(f.missing, ask)
	case f.s.reads():
		f.lookFor(&first, params)
	default:
		f.appoint(&first, params)
	}
}

// lookFor says between which times things are looked for.
func (f *form) lookFor(m *moment, params []*param) {
	from, to := *m, *m
	if m.until != nil {
		to = *m.until
	}
	switch m.lead {
	case "since", "after", "from":
		if m.until == nil {
			to.hasDay, to.hasClock = false, false
		}
		if m.lead == "since" && !from.exact && from.day.After(f.now) {
			from.day = from.day.AddDate(0, 0, -7)
		}
	case "before", "until", "till", "by":
		from.hasDay, from.hasClock = false, false
	}
	set := false
	for _, p := range params {
		low, high := lowerTimes[p.Name], upperTimes[p.Name]
		switch {
		case low && (from.hasDay || from.hasClock) && f.args[p.Name] == nil:
			f.set(p, from.written(f.now))
			set = true
		case high && (to.hasDay || to.hasClock):
			if strings.Contains(p.Name, "before") && m.lead != "before" && !to.hasClock {
				to.day = to.day.AddDate(0, 0, 1) // that day too
			}
			f.set(p, to.written(f.now))
			set = true
		}
	}
	if !set {
		f.left = append(f.left, f.c.words(m.from, m.to))
	}
}

// appoint says when something takes place or is due.
func (f *form) appoint(m *moment, params []*param) {
	p := params[0]
	end := f.s.named("end", "ends", "until")
	switch {
	case slices.Contains(changes[f.verb], kindChoice) && !f.c.at(m.from).is("due"), // "mark it as done tomorrow"
		slices.Contains([]string{"before", "after", "since", "between"}, m.lead) && m.until == nil,
		m.until != nil && (end == nil || end == p || f.s.target() != nil), (m.lead == "until" || m.lead == "till") && (p.Name != "due" || f.s.target() != nil):
		f.left = append(f.left, f.c.words(m.from, m.to))
		return
	}
	f.setTime(p, *m)
	if m.until != nil {
		f.setTime(end, *m.until)
	}
}

// setTime sets a time, or asks for the half of it that is not known.
func (f *form) setTime(p *param, m moment) {
	_, known := m.at(f.now)
	allDay := wholeDay.MatchString(f.c.all())
	switch {
	case m.hasClock && !m.hasDay && !known, m.hasClock && !m.hasDay && f.s.target() != nil:
		f.missing = append(f.missing, slot{param: p.Name, kind: kindTime, day: &m, ask: "On which day at " + clockOf(m.clock) + "?"})
	case m.hasDay && !m.hasClock && clockTimes[p.Name] && !allDay:
		f.missing = append(f.missing, slot{param: p.Name, kind: kindTime, day: &m, ask: "At what time on " + m.day.Format("Monday, 2 January 2006") + "? Say “all day” if it takes the whole day."})
	default:
		f.set(p, m.written(f.now))
	}
	for i := range f.c.toks {
		if n := len(strings.Fields(wholeDay.FindString(f.c.words(i, i+2)))); allDay && n > 0 && f.c.at(i).in(wholly) {
			f.eat(i, i+n)
		}
	}
}

var (
	wholeDay = regexp.MustCompile(`(?i)\b(?:all|whole)[ -]day\b`)
	wholly   = set("all whole all-day whole-day")
)

func clockOf(d time.Duration) string { return time.Time{}.Add(d).Format("15:04") }

// answered reads the user's answer to the question for a time; false if it is
// none.
func (s *slot) answered(text string, now time.Time) (moment, bool) {
	c := newClause(text).trimmed()
	if s.day != nil && s.day.hasDay && wholeDay.MatchString(c.all()) && len(c.toks) < 4 {
		return *s.day, true
	}
	if c.at(0).kind == word && clockForm.MatchString(c.at(0).low) || c.at(0).is("noon") {
		c = newClause("at " + text).trimmed()
	}
	all := moments(c, now)
	if len(all) != 1 || all[0].unclear != "" || all[0].until != nil || all[0].from > 1 || len(c.toks)-all[0].to > 1 {
		return moment{}, false
	}
	m := all[0]
	if s.day != nil && !m.exact {
		if !m.hasDay && s.day.hasDay {
			m.day, m.hasDay = s.day.day, true
		}
		if !m.hasClock && s.day.hasClock {
			m.clock, m.hasClock = s.day.clock, true
		}
	}
	return m, m.hasDay || m.hasClock
}
