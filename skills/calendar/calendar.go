// Package calendar has the skills of the domain calendar.
//
// By default an event is written as an iCalendar file (RFC 5545) into the
// folder calendar, one event per file, from where calendar programs take it. A
// call with a key that was seen before writes nothing and has the same result.
// Handlers may be called concurrently. A tenant sees its own events only.
//
// It sends no invitations and expands no recurrences.
package calendar

import (
	"context"
	"fmt"
	"net/mail"
	"path"
	"path/filepath"
	"strings"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/skills/internal/outfile"
)

// Folder is the folder of events, below the data folder.
const Folder = "calendar"

// Bounds of an event, in bytes and persons.
const (
	maxText      = 16 << 10
	maxShown     = 60 // of what was given, in messages
	maxAttendees = 200
	maxDuration  = 366 * 24 * time.Hour
)

// Handlers returns the handlers of the domain, by what skill files name. They
// write below dir, which they make when they need it.
func Handlers(dir string) map[string]skill.Handler {
	c := calendar{dir: dir}
	return map[string]skill.Handler{
		"calendar.create": skill.HandlerFunc(c.create),
		"calendar.list":   skill.HandlerFunc(c.list),
	}
}

type calendar struct{ dir string }

// An event is what a file says.
type event struct {
	uid                          string
	title, location, description string
	start, end                   time.Time
	allDay                       bool
	attendees                    []string // addresses
}

func (c calendar) create(ctx context.Context, call *skill.Call, env *skill.Env) (*skill.Result, error) {
	const op = "calendar.create"
	e, err := check(call, env.Now())
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, mesh.Wrap(op, err)
	}
	e.uid = outfile.Name(env.Tenant, call.Key)
	data, err := encode(e, env.Now())
	if err != nil {
		return nil, mesh.Errorf(mesh.Unknown, op, "The event could not be written: %w", err)
	}
	name := path.Join(Folder, outfile.TenantFolder(env.Tenant), e.uid+".ics")
	file := filepath.Join(c.dir, filepath.FromSlash(name))
	if err := outfile.WriteOnce(filepath.Dir(file), filepath.Base(file), data); err != nil {
		return nil, mesh.Wrap(op, err)
	}
	// What the file says counts: under a repeated key it is the first event.
	if e, err = read(file, env.Now().Location()); err != nil {
		return nil, mesh.Errorf(mesh.Unavailable, op, "The event in the calendar cannot be read back; check %s: %w", name, err)
	}
	content := fmt.Sprintf("The event %q on %s is in the calendar (%s).", e.title, e.when(), name)
	if len(e.attendees) > 0 {
		content += " Attendees: " + strings.Join(e.attendees, ", ") + "."
	}
	return &skill.Result{
		Content: content, Files: []string{name},
		Metadata: map[string]any{"uid": e.uid, "start": e.start.Format(time.RFC3339), "end": e.end.Format(time.RFC3339)},
	}, nil
}

func check(call *skill.Call, now time.Time) (*event, error) {
	const op = "calendar.create"
	e := &event{
		title: oneLine(call.String("title")), location: oneLine(call.String("location")),
		description: clean(call.String("description")),
	}
	for _, f := range []struct{ name, text string }{{"title", e.title}, {"location", e.location}, {"description", e.description}} {
		if len(f.text) > maxText {
			return nil, mesh.InvalidField(op, f.name, "is %d bytes long; at most %d are allowed", len(f.text), maxText)
		}
	}
	if e.title == "" {
		return nil, mesh.InvalidField(op, "title", "has no visible text; say what the event is called")
	}
	var ok bool
	if e.start, e.allDay, ok = parseTime(call.String("start"), now.Location()); !ok {
		return nil, mesh.InvalidField(op, "start", "is %q; %s", mesh.Clip(call.String("start"), maxShown), timeRemedy)
	}
	if err := e.setEnd(call); err != nil {
		return nil, err
	}
	list := call.Strings("attendees")
	if len(list) > maxAttendees {
		return nil, mesh.InvalidField(op, "attendees", "has %d addresses; at most %d are allowed", len(list), maxAttendees)
	}
	for _, text := range list {
		a, err := mail.ParseAddress(text)
		if err != nil || strings.ContainsFunc(a.Address, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`"\;:,`, r) }) {
			return nil, mesh.InvalidField(op, "attendees", "has %q, which is not an email address; write it as bob@example.com", mesh.Clip(text, maxShown))
		}
		e.attendees = append(e.attendees, a.Address)
	}
	return e, nil
}

func (e *event) setEnd(call *skill.Call) error {
	const op = "calendar.create"
	end, duration := call.String("end"), call.String("duration")
	switch {
	case end != "" && duration != "":
		return mesh.InvalidField(op, "duration", "is given beside end; give one of them")
	case end != "":
		var day, ok bool
		if e.end, day, ok = parseTime(end, e.start.Location()); !ok {
			return mesh.InvalidField(op, "end", "is %q; %s", mesh.Clip(end, maxShown), timeRemedy)
		}
		if day && e.allDay { // to the end of that day
			e.end = e.end.AddDate(0, 0, 1)
		}
		e.allDay = e.allDay && day
	case duration != "":
		d, ok := parseDuration(duration)
		if !ok || d <= 0 {
			return mesh.InvalidField(op, "duration", "is %q; write it as 30m, 1h30m or PT45M", mesh.Clip(duration, maxShown))
		}
		e.end = e.start.Add(d)
		e.allDay = false
	case e.allDay:
		e.end = e.start.AddDate(0, 0, 1)
	default:
		e.end = e.start.Add(time.Hour)
	}
	if !e.end.After(e.start) || e.end.Sub(e.start) > maxDuration {
		return mesh.InvalidField(op, "end", "must be after start, by a year at most")
	}
	return nil
}

// when describes the time of the event for people.
func (e *event) when() string {
	const day, clock = "2006-01-02 (Mon)", "15:04"
	if e.allDay {
		last := e.end.AddDate(0, 0, -1)
		if last.Equal(e.start) {
			return e.start.Format(day) + ", all day"
		}
		return e.start.Format(day) + " to " + last.Format(day) + ", all day"
	}
	zone, _ := e.start.Zone()
	if e.start.Format(time.DateOnly) == e.end.Format(time.DateOnly) {
		return e.start.Format(day+", "+clock) + " to " + e.end.Format(clock) + " " + zone
	}
	return e.start.Format(day+" "+clock) + " to " + e.end.Format(day+" "+clock) + " " + zone
}
