package calendar

import (
	"bytes"
	"errors"
	"io"
	"os"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/emersion/go-ical"
)

// maxFile bounds what is read as an event.
const maxFile = 1 << 20

// encode writes the event. Moments are in UTC, which needs no description of a
// zone beside it; whole days have no zone at all.
func encode(e *event, now time.Time) ([]byte, error) {
	ev := ical.NewEvent()
	ev.Props.SetText(ical.PropUID, e.uid)
	ev.Props.SetDateTime(ical.PropDateTimeStamp, now.UTC())
	if e.allDay {
		ev.Props.SetDate(ical.PropDateTimeStart, e.start)
		ev.Props.SetDate(ical.PropDateTimeEnd, e.end)
	} else {
		ev.Props.SetDateTime(ical.PropDateTimeStart, e.start.UTC())
		ev.Props.SetDateTime(ical.PropDateTimeEnd, e.end.UTC())
	}
	for name, text := range map[string]string{
		ical.PropSummary: e.title, ical.PropLocation: e.location, ical.PropDescription: e.description,
	} {
		if text != "" {
			ev.Props.SetText(name, text)
		}
	}
	for _, address := range e.attendees {
		p := ical.NewProp(ical.PropAttendee)
		p.Value = "mailto:" + address
		ev.Props.Add(p)
	}
	cal := ical.NewCalendar()
	cal.Props.SetText(ical.PropVersion, "2.0")
	cal.Props.SetText(ical.PropProductID, "-//agentmesh//calendar//EN")
	cal.Children = append(cal.Children, ev.Component)
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

// read returns the first event of the file, its times in loc.
func read(file string, loc *time.Location) (*event, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // only read
	cal, err := ical.NewDecoder(io.LimitReader(f, maxFile)).Decode()
	if err != nil {
		return nil, err
	}
	events := cal.Events()
	if len(events) == 0 || events[0].Props.Get(ical.PropDateTimeStart) == nil {
		return nil, errors.New("no event with a start")
	}
	ev := events[0]
	e := &event{allDay: ev.Props.Get(ical.PropDateTimeStart).ValueType() == ical.ValueDate}
	if e.start, err = ev.DateTimeStart(loc); err != nil {
		return nil, err
	}
	if e.end, err = ev.DateTimeEnd(loc); err != nil {
		return nil, err
	}
	e.start, e.end = e.start.In(loc), e.end.In(loc)
	for name, to := range map[string]*string{
		ical.PropUID: &e.uid, ical.PropSummary: &e.title, ical.PropLocation: &e.location, ical.PropDescription: &e.description,
	} {
		if *to, err = ev.Props.Text(name); err != nil {
			return nil, err
		}
	}
	for _, p := range ev.Props.Values(ical.PropAttendee) {
		address := p.Value
		if len(address) > len("mailto:") && strings.EqualFold(address[:len("mailto:")], "mailto:") {
			address = address[len("mailto:"):]
		}
		e.attendees = append(e.attendees, address)
	}
	return e, nil
}
