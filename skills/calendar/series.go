package calendar

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/emersion/go-ical"
	"github.com/teambition/rrule-go"

	"agentmesh/mesh"
	"agentmesh/skills/calendar/davcal"
	"agentmesh/skills/internal/flags"
)

// Bounds of what is made of one rule.
const (
	maxDates = 400    // dates shown of one event
	maxSteps = 50_000 // dates passed over on the way
)

// A series is what an object says: an event, which may be repeated, and the exceptions of single
// dates.
type series struct {
	cal        *ical.Calendar
	master     *ical.Event // of an object that has exceptions alone, the first
	exceptions []*ical.Event
	event      *event // what the master is understood as
	loc        *time.Location
}

// seriesOf reads an object, its times in loc.
func seriesOf(o davcal.Object, loc *time.Location) (*series, error) {
	cal, ev, e, err := decode(o.Data, loc)
	if err != nil {
		return nil, err
	}
	e.id, e.version = idOf(o.Name), versionOf(o)
	s := &series{cal: cal, master: ev, event: e, loc: loc}
	for _, x := range cal.Events() {
		if x.Component != ev.Component && x.Props.Get(ical.PropRecurrenceID) != nil {
			s.exceptions = append(s.exceptions, &x)
		}
	}
	return s, nil
}

// masterOf is the event that exceptions are of.
func masterOf(cal *ical.Calendar) *ical.Event {
	events := cal.Events()
	at := slices.IndexFunc(events, func(ev ical.Event) bool { return ev.Props.Get(ical.PropRecurrenceID) == nil })
	if len(events) == 0 {
		return nil
	}
	return &events[max(0, at)]
}

// between returns what the object has from..to; of a series each date, or the first ones and that
// there are more. One whose rule cannot be followed is there once, at its first time.
func (s *series) between(from, to time.Time) (found []*event, more bool) {
	add := func(e *event) {
		if !e.deleted && e.start.Before(to) && e.end.After(from) {
			found = append(found, e)
		}
	}
	apart := map[int64]bool{} // dates that have an exception
	for _, x := range s.exceptions {
		e, at, err := s.exception(x)
		if err != nil {
			continue // what is not understood is in its place in the series
		}
		apart[at.Unix()] = true
		if !s.event.deleted {
			add(e)
		}
	}
	dates, more, err := s.dates(from, to)
	if err != nil || !s.event.repeats {
		add(s.event)
		return found, false
	}
	for _, at := range dates {
		if !apart[at.Unix()] {
			add(s.on(at))
		}
	}
	return found, more
}

// exception returns what an exception is understood as, and the date that it is of.
func (s *series) exception(x *ical.Event) (e *event, at time.Time, err error) {
	defer caught(&err)
	if e, err = understand(x, s.loc); err != nil {
		return nil, time.Time{}, err
	}
	p := x.Props.Get(ical.PropRecurrenceID)
	at, err = p.DateTime(s.zone())
	e.id, e.version, e.repeats = s.event.id+mark+dateOf(at, p.ValueType() == ical.ValueDate), s.event.version, true
	return e, at, err
}

// mark parts the id of a series from the date of one of its events.
const mark = "@"

const (
	dayForm    = "20060102"
	momentForm = "20060102T150405Z"
	localForm  = "20060102T150405"
)

// parted takes an id apart. Names of files may have the mark as well, and no date behind it.
func parted(id string) (event, date string) {
	at := strings.LastIndex(id, mark)
	if at < 0 {
		return id, ""
	}
	date = id[at+len(mark):]
	for _, form := range []string{dayForm, momentForm} {
		if len(date) == len(form) && strings.Trim(date, "0123456789TZ") == "" {
			return id[:at], date
		}
	}
	return id, ""
}

// dateOf is how a date of a series is called.
func dateOf(at time.Time, allDay bool) string {
	if allDay {
		return at.Format(dayForm)
	}
	return at.UTC().Format(momentForm)
}

// zone is that in which the series is repeated: of a day, none.
func (s *series) zone() *time.Location {
	p := s.master.Props.Get(ical.PropDateTimeStart)
	if p.ValueType() == ical.ValueDate {
		return time.UTC
	}
	if zone, err := time.LoadLocation(p.Params.Get(ical.PropTimezoneID)); err == nil && p.Params.Get(ical.PropTimezoneID) != "" {
		return zone
	}
	if strings.HasSuffix(p.Value, "Z") {
		return time.UTC
	}
	return s.loc
}

// on is the event of the series at that date.
func (s *series) on(at time.Time) *event {
	e := *s.event
	e.id = s.event.id + mark + dateOf(at, e.allDay)
	if e.allDay { // days, of which not all have 24 hours
		n := int(s.event.end.Sub(s.event.start).Round(day) / day)
		e.start = flags.At(at, s.loc)
		e.end = flags.Days(e.start, n)
		return &e
	}
	e.start = at.In(s.loc)
	e.end = e.start.Add(s.event.end.Sub(s.event.start))
	return &e
}

// dates are those of the series whose events touch from..to, the first [maxDates] if there are more. The error says that its rule cannot
// be followed: the library panics at some of what is no rule, as at BYEASTER=1000.
func (s *series) dates(from, to time.Time) (dates []time.Time, more bool, err error) {
	const op = "calendar.dates"
	defer func() {
		if p := recover(); p != nil {
			dates, more, err = nil, false, mesh.Errorf(mesh.Invalid, op, "its rule is none: %v", p)
		}
	}()
	set, err := s.rule()
	if set == nil || err != nil {
		return nil, false, err
	}
	lasts := s.event.end.Sub(s.event.start) + day // a day of a zone may begin half a day earlier elsewhere
	next := set.Iterator()
	for range maxSteps {
		at, is := next()
		if !is || at.After(to.Add(day)) || len(dates) == maxDates {
			return dates, is && s.on(at).start.Before(to), nil
		}
		if at.Add(lasts).After(from) {
			dates = append(dates, at)
		}
	}
	return nil, false, mesh.Errorf(mesh.Invalid, op, "it is repeated too often")
}

// rule is by what the event is repeated; nil if it is not. Rules with many dates a day are refused:
// anybody may send an invitation, and its rule is followed here.
func (s *series) rule() (*rrule.Set, error) {
	const op = "calendar.rule"
	zone, props := s.zone(), s.master.Props
	if !s.event.repeats {
		return nil, nil
	}
	start, err := props.Get(ical.PropDateTimeStart).DateTime(zone)
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	var set rrule.Set
	option, err := props.RecurrenceRule()
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	if option != nil {
		if !followed(option) {
			return nil, mesh.Errorf(mesh.Invalid, op, "it is repeated within a day")
		}
		option.Dtstart = start
		rule, err := rrule.NewRRule(*option)
		if err != nil {
			return nil, mesh.Wrap(op, err)
		}
		set.RRule(rule)
	} else {
		set.RDate(start)
	}
	for _, at := range moments(props.Values(ical.PropRecurrenceDates), zone) {
		set.RDate(at)
	}
	for _, at := range moments(props.Values(ical.PropExceptionDates), zone) {
		set.ExDate(at)
	}
	return &set, nil
}

// moments reads properties with lists of dates. What is none is left out.
func moments(props []ical.Prop, zone *time.Location) (all []time.Time) {
	for _, p := range props {
		for value := range strings.SplitSeq(p.Value, ",") {
			one := p
			one.Value, _, _ = strings.Cut(value, "/") // of a period, its beginning
			if at, err := one.DateTime(zone); err == nil {
				all = append(all, at)
			}
		}
	}
	return all
}

// at returns the exception of that date, which it makes of the series if there is none, and what it
// is understood as. The error is NotFound if the series has no such date.
func (s *series) at(date string) (*ical.Event, *event, error) {
	for _, x := range s.exceptions {
		if e, _, err := s.exception(x); err == nil && strings.HasSuffix(e.id, mark+date) {
			return x, e, nil
		}
	}
	when, err := time.Parse(momentForm, date)
	if s.event.allDay {
		when, err = time.Parse(dayForm, date)
	}
	if err != nil || !s.event.repeats {
		return nil, nil, s.noDate(date)
	}
	dates, _, err := s.dates(when, when.Add(time.Second))
	if err != nil {
		return nil, nil, mesh.Errorf(mesh.Precondition, "calendar.at", "The event %q is repeated by a rule that is not followed here; change it with a calendar program: %w", s.event.title, err)
	}
	i := slices.IndexFunc(dates, when.Equal)
	if i < 0 {
		return nil, nil, s.noDate(date)
	}
	x := ical.NewEvent()
	x.Children = s.master.Children
	x.Props = maps.Clone(s.master.Props)
	for _, name := range []string{ical.PropRecurrenceRule, ical.PropRecurrenceDates, ical.PropExceptionDates, ical.PropDuration, propKey} {
		x.Props.Del(name)
	}
	e, like := s.on(dates[i]), s.master.Props.Get(ical.PropDateTimeStart)
	s.put(x, ical.PropRecurrenceID, e.start, like)
	s.put(x, ical.PropDateTimeStart, e.start, like)
	s.put(x, ical.PropDateTimeEnd, e.end, like)
	s.cal.Children = append(s.cal.Children, x.Component)
	s.exceptions = append(s.exceptions, x)
	return x, e, nil
}

func (s *series) noDate(date string) error {
	return mesh.Errorf(mesh.NotFound, "calendar.at", "The event %q has no date %s; find its id with calendar.list", s.event.title, mesh.Clip(date, maxShown))
}

// drop takes the date out of the series.
func (s *series) drop(date string) error {
	x, _, err := s.at(date)
	if err != nil {
		return err
	}
	at, err := x.Props.Get(ical.PropRecurrenceID).DateTime(s.zone())
	if err != nil {
		return mesh.Wrap("calendar.drop", err)
	}
	s.cal.Children = slices.DeleteFunc(s.cal.Children, func(c *ical.Component) bool { return c == x.Component })
	s.master.Props.Add(s.like(ical.PropExceptionDates, at, s.master.Props.Get(ical.PropDateTimeStart)))
	return nil
}

// move gives all dates of the series the clock of the event's new time. The day stays: rules name
// days in many ways.
func (s *series) move() error {
	const op = "calendar.move"
	zone, props := s.zone(), s.master.Props
	start := props.Get(ical.PropDateTimeStart)
	before, err := start.DateTime(zone)
	if err != nil {
		return mesh.Wrap(op, err)
	}
	now := s.event.start.In(zone)
	if s.event.allDay || start.ValueType() == ical.ValueDate || now.Format(dayForm) != before.Format(dayForm) {
		return mesh.Errorf(mesh.Precondition, op, "The event %q is repeated; only the time of day of all its dates can be changed here. Change one date by its id with %s, or the series with a calendar program", s.event.title, mark)
	}
	if _, err := s.rule(); err != nil {
		return mesh.Errorf(mesh.Precondition, op, "The event %q is repeated by a rule that is not followed here; change its time with a calendar program: %w", s.event.title, err)
	}
	clock := func(at time.Time) time.Time {
		at = at.In(zone)
		return time.Date(at.Year(), at.Month(), at.Day(), now.Hour(), now.Minute(), now.Second(), 0, zone)
	}
	for _, name := range []string{ical.PropExceptionDates, ical.PropRecurrenceDates} {
		old := moments(props.Values(name), zone)
		props.Del(name)
		for _, at := range old {
			props.Add(s.like(name, clock(at), start))
		}
	}
	for _, x := range s.exceptions {
		if at, err := x.Props.Get(ical.PropRecurrenceID).DateTime(zone); err == nil {
			s.put(x, ical.PropRecurrenceID, clock(at), start)
		}
	}
	if rule := props.Get(ical.PropRecurrenceRule); rule != nil {
		rule.Value = moveUntil(rule.Value, before.In(zone), clock)
	}
	s.put(s.master, ical.PropDateTimeEnd, s.event.end, start)
	s.put(s.master, ical.PropDateTimeStart, now, start)
	props.Del(ical.PropDuration)
	return nil
}

func (s *series) put(ev *ical.Event, name string, at time.Time, like *ical.Prop) {
	ev.Props.Set(s.like(name, at, like))
}

// like writes the moment in the zone, or as the day, that the other property is in: a series keeps
// its clock when clocks change.
func (s *series) like(name string, at time.Time, other *ical.Prop) *ical.Prop {
	p := ical.NewProp(name)
	zone := other.Params.Get(ical.PropTimezoneID)
	switch {
	case other.ValueType() == ical.ValueDate:
		p.SetDate(at)
	case zone != "":
		p.Params.Set(ical.PropTimezoneID, zone)
		p.Value = at.In(s.zone()).Format(localForm)
	case strings.HasSuffix(other.Value, "Z"):
		p.Value = at.UTC().Format(momentForm)
	default: // where whoever reads it is
		p.Value = at.In(s.loc).Format(localForm)
	}
	return p
}
