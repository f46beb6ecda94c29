// Package calendar has the skills of the domain calendar.
//
// An event is written as an iCalendar file (RFC 5545) into the folder calendar,
// one event per file, from where calendar programs take it. A call with a key
// that was seen before writes nothing and has the same result, also when its
// file was taken away or it names another event. An owner may have a calendar on a
// CalDAV server beside it ([WithAccount]), whose events are listed and changed as well,
// and where new ones go. What was done under which key
// is noted beside the folder, and in the events. A tenant sees its own events
// only.
//
// An event has a version, which changes whenever its file does, by whatever
// program. A change can name the version that it is based on, and is refused
// when that is not the event's any more. What a change does not name stays as
// it is, also what other programs wrote and this one does not understand.
//
// Handlers may be called concurrently, also from several processes on one
// folder. The package sends nothing itself: invitations go by a calendar server, or by mail
// ([WithPost]).
package calendar

import (
	"context"
	"fmt"
	"net/mail"
	"path/filepath"
	"strings"
	"time"

	"github.com/emersion/go-ical"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/skills/calendar/davcal"
	"agentmesh/skills/internal/flags"
	"agentmesh/skills/internal/outfile"
	"agentmesh/skills/internal/quote"
)

// Folder is the folder of events, below the data folder.
const Folder = "calendar"

const suffix = ".ics"

// Bounds of an event, in bytes and persons.
const (
	maxText      = 16 << 10
	maxShown     = 60 // of what was given, in messages
	maxAttendees = 200
	maxDuration  = 366 * day
)

const day = 24 * time.Hour

// An Option changes a default of [Handlers].
type Option func(*calendar)

// WithAccount gives the owner a calendar on a server, beside the folder. By default nobody has one.
func WithAccount(owner mesh.Owner, a *davcal.Account) Option {
	return func(c *calendar) { c.accounts[owner] = a }
}

// Handlers returns the handlers of the domain, by what skill files name. They
// write below dir, which they make when they need it.
func Handlers(dir string, opts ...Option) map[string]skill.Handler {
	c := calendar{dir: dir, accounts: map[mesh.Owner]*davcal.Account{}}
	for _, opt := range opts {
		opt(&c)
	}
	return map[string]skill.Handler{
		"calendar.create": skill.HandlerFunc(c.create),
		"calendar.list":   skill.HandlerFunc(c.list),
		"calendar.update": skill.HandlerFunc(c.update),
	}
}

type calendar struct {
	dir      string
	accounts map[mesh.Owner]*davcal.Account
	post     Post // nil if there is none
}

// An event is what a file says.
type event struct {
	uid                          string
	title, location, description string
	start, end                   time.Time
	allDay                       bool
	attendees                    []string // addresses
	rule                         string   // of a new event that is repeated

	// What is only read.
	id, version string
	repeats     bool
	deleted     bool
}

func (c calendar) create(ctx context.Context, call *skill.Call, env *skill.Env) (*skill.Result, error) {
	const op = "calendar.create"
	if err := flags.Require(call, "title", "start"); err != nil {
		return nil, err
	}
	e, err := check(call, env.Now())
	if err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, mesh.Wrap(op, err)
	}
	e.uid = outfile.Name(env.Tenant, call.Key)
	h, err := c.host(ctx, call, env, c.home(env))
	if err != nil {
		return nil, err
	}
	if h != nil && len(e.attendees) == 0 {
		return nil, mesh.InvalidField(op, "attendees", "is missing; name those who are invited")
	}
	at, err := c.write(ctx, call, e, env, h)
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	file := e.uid + suffix
	name, shown := at.path(file), placed(at, file)
	// What the file says counts: under a repeated key it is the first event.
	o, err := at.read(ctx, file)
	var s *series
	if err == nil {
		if s, err = seriesOf(o, env.Now().Location()); err == nil {
			e = s.event
		}
	}
	if absent(err) {
		return nil, mesh.Errorf(mesh.Precondition, op, "The event was created under this key before (%s), and was taken away since; create another one", shown)
	}
	if err != nil {
		return nil, mesh.Errorf(mesh.Unavailable, op, "The event in the calendar cannot be read back; check %s: %w", shown, err)
	}
	if e.deleted {
		return nil, mesh.Errorf(mesh.Precondition, op, "The event %q was created under this key before, and was deleted since; create another one", e.title)
	}
	return c.requested(ctx, call, env, h, s, "", e.result(name, "is in the calendar"))
}

// requested invites to the event that the result tells of, if anybody is to be. The event is there:
// what does not succeed is told, and can be tried again by itself.
func (c calendar) requested(ctx context.Context, call *skill.Call, env *skill.Env, h *host, s *series, date string, r *skill.Result) (*skill.Result, error) {
	if h == nil {
		return r, nil
	}
	said, err := c.tell(ctx, call, env, h, s, date, methodRequest)
	if err != nil {
		said.words = fmt.Sprintf(" Nobody was invited: %s. Try again with calendar.update --id %s --invite.", mesh.DetailOf(err), r.Metadata["id"])
	}
	return said.in(r, "invited"), nil
}

// write writes the event where new ones go, unless that was done before: then where it was.
func (c calendar) write(ctx context.Context, call *skill.Call, e *event, env *skill.Env, h *host) (place, error) {
	const op = "calendar.write"
	ledger := c.ledger(created, env)
	unlock, err := ledger.Lock(ctx, e.uid)
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	defer unlock()
	noted, err := ledger.Get(e.uid)
	if err != nil {
		return nil, mesh.Wrap(op, err)
	}
	at := c.home(env)
	if here := c.places(env)[0]; noted != nil && string(noted) == e.uid+suffix {
		at = here
	} else if _, account := at.(server); noted != nil && !account {
		return nil, mesh.Errorf(mesh.Precondition, op, "The event was created under this key before, in an account that there is no more; create another one")
	}
	return at, at.create(ctx, ledger, e.uid, e.uid+suffix, func() ([]byte, error) {
		data, err := encode(e, env.Now(), func(ev *ical.Event) error {
			if h == nil {
				return nil
			}
			return h.organize(ev, call)
		})
		if err != nil {
			return nil, mesh.Errorf(mesh.Unknown, op, "The event could not be written: %w", err)
		}
		return data, nil
	})
}

// ledgers is the folder of what is known of keys, below the data folder.
const ledgers = ".calendar-keys"

// The ledgers that there are.
const (
	created = "created"
	changed = "changed"
)

// ledger returns the owner's ledger of what was created or changed.
func (c calendar) ledger(of string, env *skill.Env) outfile.Ledger {
	return outfile.NewLedger(filepath.Join(c.dir, ledgers, of, outfile.Distinct(env.Owner())))
}

// result tells what became of the event that is in the file of that name, or in an account if that
// is "".
func (e *event) result(name, what string) *skill.Result {
	content, files := fmt.Sprintf("The event %q on %s %s (%s). Its id is %s.", e.title, e.when(), what, name, e.id), []string{name}
	if name == "" {
		content, files = fmt.Sprintf("The event %q on %s %s. Its id is %s.", e.title, e.when(), what, e.id), nil
	}
	if len(e.attendees) > 0 {
		content += " Attendees: " + quote.Line(strings.Join(e.attendees, ", ")) + "."
	}
	return &skill.Result{
		Content: content, Files: files,
		Metadata: map[string]any{
			"uid": e.uid, "id": e.id, "version": e.version,
			"start": e.start.Format(time.RFC3339), "end": e.end.Format(time.RFC3339),
		},
	}
}

// check reads a new event from the call.
func check(call *skill.Call, now time.Time) (*event, error) {
	e := new(event)
	if err := e.setTexts(call); err != nil {
		return nil, err
	}
	var ok bool
	start := flags.Text(call, "start")
	if e.start, e.allDay, ok = flags.When(start, now.Location()); !ok {
		return nil, mesh.InvalidField(call.Skill, "start", "is %q; %s", mesh.Clip(start, maxShown), timeRemedy)
	}
	if err := e.setEnd(call); err != nil {
		return nil, err
	}
	if err := e.setRule(call); err != nil {
		return nil, err
	}
	var err error
	e.attendees, err = attendees(call)
	return e, err
}

// setTexts takes what the call gives; "none" takes away what may be absent.
func (e *event) setTexts(call *skill.Call) error {
	for _, f := range []struct {
		name  string
		clean func(string) string
		to    *string
	}{{"title", oneLine, &e.title}, {"location", oneLine, &e.location}, {"description", clean, &e.description}} {
		if !flags.Has(call, f.name) {
			continue
		}
		text := f.clean(flags.Text(call, f.name))
		switch {
		case len(text) > maxText:
			return mesh.InvalidField(call.Skill, f.name, "is %d bytes long; at most %d are allowed", len(text), maxText)
		case f.name == "title" && text == "":
			return mesh.InvalidField(call.Skill, "title", "has no visible text; say what the event is called")
		case f.name != "title" && strings.EqualFold(text, none):
			text = ""
		}
		*f.to = text
	}
	return nil
}

// none as a value takes away what is there.
const none = "none"

func attendees(call *skill.Call) ([]string, error) {
	list := flags.List(call, "attendees")
	if len(list) > maxAttendees {
		return nil, mesh.InvalidField(call.Skill, "attendees", "has %d addresses; at most %d are allowed", len(list), maxAttendees)
	}
	var out []string
	for _, text := range list {
		a, err := mail.ParseAddress(text)
		if err != nil || strings.ContainsFunc(a.Address, func(r rune) bool { return r <= ' ' || r > '~' || strings.ContainsRune(`"\;:,`, r) }) {
			return nil, mesh.InvalidField(call.Skill, "attendees", "has %q, which is not an email address; write it as bob@example.com", mesh.Clip(text, maxShown))
		}
		out = append(out, a.Address)
	}
	return out, nil
}

// setEnd takes end or duration; without either, an event takes an hour, or a
// day.
func (e *event) setEnd(call *skill.Call) error {
	op := call.Skill
	end, duration := flags.Text(call, "end"), flags.Text(call, "duration")
	switch {
	case end != "" && duration != "":
		return mesh.InvalidField(op, "duration", "is given beside end; give one of them")
	case end != "":
		var whole, ok bool
		if e.end, whole, ok = flags.When(end, e.start.Location()); !ok {
			return mesh.InvalidField(op, "end", "is %q; %s", mesh.Clip(end, maxShown), timeRemedy)
		}
		if e.allDay = e.allDay && whole; e.allDay { // to the end of that day
			e.end = flags.Days(e.end, 1)
		}
	case duration != "":
		d, ok := parseDuration(duration)
		if !ok || d <= 0 {
			return mesh.InvalidField(op, "duration", "is %q; write it as 30m, 1h30m or PT45M", mesh.Clip(duration, maxShown))
		}
		if e.allDay = e.allDay && d%day == 0; e.allDay { // days, of which not all have 24 hours
			e.end = flags.Days(e.start, int(d/day))
		} else {
			e.end = e.start.Add(d)
		}
	case e.allDay:
		e.end = flags.Days(e.start, 1)
	default:
		e.end = e.start.Add(time.Hour)
	}
	switch {
	case e.end.After(e.start) && e.end.Sub(e.start) <= maxDuration:
		return nil
	case duration != "":
		return mesh.InvalidField(op, "duration", "is %q; a year is the most", mesh.Clip(duration, maxShown))
	}
	return mesh.InvalidField(op, "end", "must be after start, by a year at most")
}

// when describes the time of the event for people.
func (e *event) when() string {
	const date, clock = "2006-01-02 (Mon)", "15:04"
	if e.allDay {
		last := flags.Days(e.end, -1)
		if last.Equal(e.start) {
			return e.start.Format(date) + ", all day"
		}
		return e.start.Format(date) + " to " + last.Format(date) + ", all day"
	}
	zone, _ := e.start.Zone()
	if e.start.Format(time.DateOnly) == e.end.Format(time.DateOnly) {
		return e.start.Format(date+", "+clock) + " to " + e.end.Format(clock) + " " + zone
	}
	return e.start.Format(date+" "+clock) + " to " + e.end.Format(date+" "+clock) + " " + zone
}
