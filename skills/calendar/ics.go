package calendar

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/emersion/go-ical"

	"agentmesh/mesh"
	"agentmesh/skills/internal/flags"
)

// product names what wrote a file.
const product = "-//agentmesh//calendar//EN"

// maxFile bounds what is read as an event.
const maxFile = 1 << 20

// encode writes the event, which complete adds to. Moments are in UTC, which needs no description of a
// zone beside it, unless the event is repeated; whole days have no zone at all.
func encode(e *event, now time.Time, complete func(*ical.Event) error) ([]byte, error) {
	ev := ical.NewEvent()
	ev.Props.SetText(ical.PropUID, e.uid)
	ev.Props.SetDateTime(ical.PropDateTimeStamp, now.UTC())
	e.putTimes(ev)
	e.putTexts(ev)
	e.putAttendees(ev)
	if err := complete(ev); err != nil {
		return nil, err
	}
	cal := ical.NewCalendar()
	cal.Props.SetText(ical.PropVersion, "2.0")
	cal.Props.SetText(ical.PropProductID, product)
	if e.rule != "" {
		if err := e.putRule(ev); err != nil {
			return nil, err
		}
		if name := ev.Props.Get(ical.PropDateTimeStart).Params.Get(ical.PropTimezoneID); name != "" {
			cal.Children = append(cal.Children, describe(name, e.start))
		}
	}
	cal.Children = append(cal.Children, ev.Component)
	return format(cal)
}

func format(cal *ical.Calendar) ([]byte, error) {
	var b bytes.Buffer
	if err := ical.NewEncoder(&b).Encode(cal); err != nil {
		return nil, err
	}
	return fold(b.Bytes()), nil
}

// fold breaks lines so that none is longer than 75 bytes (RFC 5545 §3.1),
// which the encoder leaves to its caller. Characters stay whole.
func fold(data []byte) []byte {
	const most = 75
	var b bytes.Buffer
	for line := range bytes.SplitSeq(bytes.TrimSuffix(data, []byte("\r\n")), []byte("\r\n")) {
		for room := most; len(line) > room; room = most - 1 {
			cut := room
			for !utf8.RuneStart(line[cut]) {
				cut--
			}
			b.Write(line[:cut])
			b.WriteString("\r\n ")
			line = line[cut:]
		}
		b.Write(line)
		b.WriteString("\r\n")
	}
	return b.Bytes()
}

func (e *event) putTimes(ev *ical.Event) {
	if e.allDay {
		ev.Props.SetDate(ical.PropDateTimeStart, e.start)
		ev.Props.SetDate(ical.PropDateTimeEnd, e.end)
	} else {
		ev.Props.SetDateTime(ical.PropDateTimeStart, e.start.UTC())
		ev.Props.SetDateTime(ical.PropDateTimeEnd, e.end.UTC())
	}
	ev.Props.Del(ical.PropDuration)
}

func (e *event) putTexts(ev *ical.Event) {
	for name, text := range map[string]string{
		ical.PropSummary: e.title, ical.PropLocation: e.location, ical.PropDescription: e.description,
	} {
		switch was, _ := ev.Props.Text(name); {
		case text == "":
			ev.Props.Del(name)
		case text != was:
			ev.Props.SetText(name, text)
		}
	}
}

// putAttendees keeps what is known of those who take part already.
func (e *event) putAttendees(ev *ical.Event) {
	known := make(map[string]ical.Prop)
	for _, p := range ev.Props.Values(ical.PropAttendee) {
		known[strings.ToLower(addressOf(p))] = p
	}
	ev.Props.Del(ical.PropAttendee)
	for _, address := range e.attendees {
		p, ok := known[strings.ToLower(address)]
		if !ok {
			p = *ical.NewProp(ical.PropAttendee)
			p.Value = "mailto:" + address
		}
		ev.Props.Add(&p)
	}
}

func addressOf(p ical.Prop) string {
	const scheme = "mailto:"
	if len(p.Value) > len(scheme) && strings.EqualFold(p.Value[:len(scheme)], scheme) {
		return p.Value[len(scheme):]
	}
	return p.Value
}

// decode reads what anybody may have written. The decoder panics at some of
// what is no calendar, as at "0;0="; that is an error of the file.
func decode(data []byte, loc *time.Location) (cal *ical.Calendar, ev *ical.Event, e *event, err error) {
	defer caught(&err)
	if cal, err = ical.NewDecoder(bytes.NewReader(data)).Decode(); err != nil {
		return nil, nil, nil, err
	}
	if ev = masterOf(cal); ev == nil {
		return nil, nil, nil, errors.New("no event")
	}
	e, err = understand(ev, loc)
	return cal, ev, e, err
}

// caught makes a panic of the library the error of what it was given.
func caught(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("no calendar: %v", p)
	}
}

// understand reads one event, or one exception, of which anybody may have written each.
func understand(ev *ical.Event, loc *time.Location) (e *event, err error) {
	start := ev.Props.Get(ical.PropDateTimeStart)
	if start == nil {
		return nil, errors.New("no start")
	}
	e = &event{allDay: start.ValueType() == ical.ValueDate, repeats: ev.Props.Get(ical.PropRecurrenceRule) != nil || ev.Props.Get(ical.PropRecurrenceDates) != nil}
	in := loc
	if e.allDay { // days have no zone, and not all of them a midnight
		in = time.UTC
	}
	if e.start, err = ev.DateTimeStart(in); err != nil {
		return nil, zoned(start, err)
	}
	if e.end, err = ev.DateTimeEnd(in); err != nil {
		return nil, zoned(ev.Props.Get(ical.PropDateTimeEnd), err)
	}
	if e.allDay {
		e.start, e.end = flags.At(e.start, loc), flags.At(e.end, loc)
	} else {
		e.start, e.end = e.start.In(loc), e.end.In(loc)
	}
	for name, to := range map[string]*string{
		ical.PropUID: &e.uid, ical.PropSummary: &e.title, ical.PropLocation: &e.location, ical.PropDescription: &e.description,
	} {
		if *to, err = ev.Props.Text(name); err != nil {
			return nil, err
		}
	}
	status, _ := ev.Props.Text(ical.PropStatus)
	e.deleted = strings.EqualFold(status, string(ical.EventCancelled))
	for _, p := range ev.Props.Values(ical.PropAttendee) {
		e.attendees = append(e.attendees, addressOf(p))
	}
	return e, nil
}

// zoned says that the time's zone is unknown, if that is why it cannot be read:
// some programs write a zone under a name of their own.
func zoned(p *ical.Prop, err error) error {
	if p == nil || p.Params.Get(ical.PropTimezoneID) == "" {
		return err
	}
	zone := p.Params.Get(ical.PropTimezoneID)
	if _, unknown := time.LoadLocation(zone); unknown == nil {
		return err
	}
	return mesh.Errorf(mesh.Invalid, "calendar.read", "its time zone %q is not known here; a name of the IANA list, as Europe/Oslo, is: %w", mesh.Clip(zone, maxShown), err)
}

// reason is why a file cannot be read, in words for those who can mend it.
func reason(err error) string {
	var known *mesh.Error
	switch {
	case errors.As(err, &known) && known.Detail != "":
		return known.Detail
	case errors.Is(err, fs.ErrPermission):
		return "it must not be opened"
	}
	return "it is no calendar with an event that can be understood"
}

// idOf is how the event in a file is called towards models: the beginning of
// the name if it is one that was made here, else a short name for it.
func idOf(file string) string {
	const digits = 8
	stem := strings.TrimSuffix(file, suffix)
	if raw, err := hex.DecodeString(stem); err == nil && len(raw) == 16 {
		return stem[:digits]
	}
	sum := sha256.Sum256([]byte(stem))
	return hex.EncodeToString(sum[:digits/2])
}
