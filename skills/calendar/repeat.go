package calendar

import (
	"fmt"
	"os"
	"regexp"
	"strings"
	"time"

	"github.com/emersion/go-ical"
	"github.com/teambition/rrule-go"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/skills/internal/flags"
)

// usualRules are rules by the words that people have for them.
var usualRules = map[string]string{
	"daily": "FREQ=DAILY", "weekdays": "FREQ=WEEKLY;BYDAY=MO,TU,WE,TH,FR", "weekly": "FREQ=WEEKLY",
	"monthly": "FREQ=MONTHLY", "yearly": "FREQ=YEARLY",
}

// setRule reads by what a new event is repeated.
func (e *event) setRule(call *skill.Call) error {
	text, until := strings.TrimSpace(flags.Text(call, "repeat")), strings.TrimSpace(flags.Text(call, "until"))
	switch {
	case text == "" && until != "":
		return mesh.InvalidField(call.Skill, "until", "is given without repeat; say how often, as weekly")
	case text == "":
		return nil
	}
	rule := strings.TrimPrefix(strings.ToUpper(text), "RRULE:")
	if usual := usualRules[strings.ToLower(text)]; usual != "" {
		rule = usual
	}
	option, err := rrule.StrToROption(rule)
	if err != nil || !followed(option) || !option.Dtstart.IsZero() {
		return mesh.InvalidField(call.Skill, "repeat", "is %q; write daily, weekdays, weekly, monthly, yearly, or a rule of iCalendar with one date a day at most, as FREQ=WEEKLY;BYDAY=MO,WE;COUNT=10", mesh.Clip(text, maxShown))
	}
	if until != "" {
		last, day, ok := flags.When(until, e.start.Location())
		switch {
		case !ok:
			return mesh.InvalidField(call.Skill, "until", "is %q; %s", mesh.Clip(until, maxShown), timeRemedy)
		case option.Count > 0 || !option.Until.IsZero():
			return mesh.InvalidField(call.Skill, "until", "is given beside COUNT or UNTIL of the rule; give one of them")
		case last.Before(flags.Days(e.start, 0)):
			return mesh.InvalidField(call.Skill, "until", "is before the first date")
		case e.allDay:
			rule += ";UNTIL=" + last.Format(dayForm)
		case day: // that day included
			rule += ";UNTIL=" + flags.Days(last, 1).Add(-time.Second).UTC().Format(momentForm)
		default:
			rule += ";UNTIL=" + last.UTC().Format(momentForm)
		}
	}
	e.rule, e.repeats = rule, true
	return e.checkRule(call)
}

// moment is how a rule says up to when it goes, if that is no day.
var moment = regexp.MustCompile(`UNTIL=(\d{8}T\d{6})(Z?)`)

// moveUntil has a rule, whose dates are at the clock of start, end on the same date at the other clock.
func moveUntil(rule string, start time.Time, clock func(time.Time) time.Time) string {
	m := moment.FindStringSubmatch(rule)
	if m == nil {
		return rule
	}
	zone := start.Location()
	in := zone
	if m[2] != "" {
		in = time.UTC
	}
	until, err := time.ParseInLocation(localForm, m[1], in)
	if err != nil {
		return rule
	}
	until = until.In(zone)
	last := time.Date(until.Year(), until.Month(), until.Day(), start.Hour(), start.Minute(), start.Second(), 0, zone)
	if last.After(until) { // and so that day has none
		last = last.AddDate(0, 0, -1)
	}
	return strings.Replace(rule, m[0], "UNTIL="+clock(last).In(in).Format(localForm)+m[2], 1)
}

// followed reports whether the rule has one date a day at most, and no clock of its own.
func followed(o *rrule.ROption) bool {
	return o.Freq <= rrule.DAILY && len(o.Byhour)+len(o.Byminute)+len(o.Bysecond) == 0
}

// checkRule checks that the event is on the first of its dates, as all calendars demand.
func (e *event) checkRule(call *skill.Call) error {
	ev := ical.NewEvent()
	e.putTimes(ev)
	if err := e.putRule(ev); err != nil {
		return err
	}
	s := &series{cal: ical.NewCalendar(), master: ev, event: e, loc: e.start.Location()}
	dates, _, err := s.dates(e.start, e.start.Add(time.Second))
	for _, at := range dates {
		if s.on(at).start.Equal(e.start) {
			return nil
		}
	}
	if err != nil {
		return mesh.InvalidField(call.Skill, "repeat", "cannot be followed: %s", mesh.DetailOf(err))
	}
	return mesh.InvalidField(call.Skill, "start", "is no date of the rule in repeat; begin at the first one")
}

// putRule writes by what the event is repeated. A moment is then in the zone of the user, so that it
// stays at its clock when clocks change.
func (e *event) putRule(ev *ical.Event) error {
	p := ical.NewProp(ical.PropRecurrenceRule)
	p.Value = e.rule
	ev.Props.Set(p)
	if e.allDay {
		return nil
	}
	name, err := zoneName(e.start.Location())
	if err != nil {
		return err
	}
	for prop, at := range map[string]time.Time{ical.PropDateTimeStart: e.start, ical.PropDateTimeEnd: e.end} {
		if name == "" {
			ev.Props.SetDateTime(prop, at.UTC())
			continue
		}
		p := ical.NewProp(prop)
		p.Params.Set(ical.PropTimezoneID, name)
		p.Value = at.Format(localForm)
		ev.Props.Set(p)
	}
	return nil
}

// zoneName is the zone's name in the IANA list; "" for UTC and for fixed offsets, which need none.
func zoneName(loc *time.Location) (string, error) {
	name := loc.String()
	if loc == time.Local {
		name = os.Getenv("TZ")
		if link, err := os.Readlink("/etc/localtime"); name == "" && err == nil {
			_, name, _ = strings.Cut(link, "/zoneinfo/")
		}
	}
	if _, err := time.LoadLocation(name); err == nil && name != "" && name != "UTC" && name != "Local" {
		return name, nil
	}
	if from, to := time.Date(2026, 7, 1, 0, 0, 0, 0, loc).ZoneBounds(); from.IsZero() || to.IsZero() {
		return "", nil // its clocks do not change
	}
	return "", mesh.Errorf(mesh.Precondition, "calendar.zone", "The zone of the user has no name that calendars know; the operator of the mesh gives it one with TZ, as TZ=Europe/Oslo")
}

// describedYears is for how long a zone is described to programs that do not know its name.
const describedYears = 10

// describe is the zone from the moment on, for programs that do not know its name.
func describe(name string, from time.Time) *ical.Component {
	zone := ical.NewComponent(ical.CompTimezone)
	zone.Props.SetText(ical.PropTimezoneID, name)
	for at := from; at.Before(from.AddDate(describedYears, 0, 0)); {
		since, until := at.ZoneBounds()
		kind := ical.CompTimezoneStandard
		if at.IsDST() {
			kind = ical.CompTimezoneDaylight
		}
		label, offset := at.Zone()
		before := offset
		if since.IsZero() {
			since = time.Unix(0, 0)
		} else {
			_, before = since.Add(-time.Second).Zone()
		}
		c := ical.NewComponent(kind)
		for name, value := range map[string]string{
			ical.PropDateTimeStart:      since.UTC().Add(time.Duration(before) * time.Second).Format(localForm),
			ical.PropTimezoneOffsetFrom: offsetForm(before), ical.PropTimezoneOffsetTo: offsetForm(offset), ical.PropTimezoneName: label,
		} {
			p := ical.NewProp(name)
			p.Value = value
			c.Props.Set(p)
		}
		zone.Children = append(zone.Children, c)
		if until.IsZero() {
			break
		}
		at = until
	}
	return zone
}

func offsetForm(seconds int) string {
	sign := '+'
	if seconds < 0 {
		sign, seconds = '-', -seconds
	}
	return fmt.Sprintf("%c%02d%02d", sign, seconds/3600, seconds/60%60)
}
