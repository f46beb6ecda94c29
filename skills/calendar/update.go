package calendar

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/emersion/go-ical"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/skills/internal/flags"
	"agentmesh/skills/internal/outfile"
)

// propKey holds, once per key, what says that a change was made already.
const propKey = "X-AGENTMESH-KEY"

// maxKeys bounds the keys that an event remembers, the last ones.
const maxKeys = 100

// update changes what the call names of one event, or deletes it.
func (c calendar) update(ctx context.Context, call *skill.Call, env *skill.Env) (*skill.Result, error) {
	remove, err := checkUpdate(call)
	if err != nil {
		return nil, err
	}
	id, date := parted(strings.TrimSpace(flags.Text(call, "id")))
	key, ledger := outfile.Name(env.Tenant, call.Key), c.ledger(changed, env)
	at, name, err := c.find(ctx, env, id)
	if remove && date == "" && mesh.IsCode(err, mesh.NotFound) {
		// It may be this call that took it away.
		if noted, lost := ledger.Get(key); lost == nil && noted != nil && isCalled(string(noted), id) {
			return &skill.Result{Content: fmt.Sprintf("The event %s was deleted.", id), Metadata: map[string]any{"id": id}}, nil
		}
	}
	if err != nil {
		return nil, err
	}
	unlock, err := ledger.Lock(ctx, name)
	if err != nil {
		return nil, mesh.Wrap(call.Skill, err)
	}
	defer unlock()
	h, err := c.host(ctx, call, env, at)
	if err != nil {
		return nil, err
	}
	w := &work{calendar: c, call: call, env: env, at: at, name: name, date: date, key: key, remove: remove, host: h}
	r, err := w.do(ctx)
	if mesh.IsCode(err, mesh.Conflict) && flags.Text(call, "version") == "" {
		// Somebody was faster, and the call is not based on what was there before.
		r, err = w.do(ctx)
	}
	return r, err
}

// A work is one change of one event.
type work struct {
	calendar
	call   *skill.Call
	env    *skill.Env
	at     place
	name   string // of the object
	date   string // of the series, or "" for all
	key    string
	remove bool
	host   *host // nil if nobody is told
}

// do reads the object, changes it and writes it, unless that was done before.
func (w *work) do(ctx context.Context) (*skill.Result, error) {
	call, shown, file := w.call, placed(w.at, w.name), w.at.path(w.name)
	o, err := w.at.read(ctx, w.name)
	var s *series
	if err == nil {
		s, err = seriesOf(o, w.env.Now().Location())
	}
	if err != nil {
		return nil, mesh.Errorf(mesh.Unavailable, call.Skill, "The event in %s cannot be read: %s: %w", shown, reason(err), err)
	}
	what := "was changed"
	if w.remove {
		what = "was deleted"
	}
	done, err := s.settled(call, w.key)
	if err != nil {
		return nil, err
	}
	if done {
		return w.result(ctx, s, file, what, outcome{})
	}
	if err := w.claim(s.master, call, w.env, w.key, w.name); err != nil {
		return nil, err
	}
	var said outcome
	if w.remove && w.host != nil { // before it is gone: a repeated call could not tell of it
		if said, err = w.tell(ctx, call, w.env, w.host, s, w.date, methodCancel); err != nil {
			return nil, mesh.Wrap(call.Skill, err)
		}
		if s, err = seriesOf(o, w.env.Now().Location()); err != nil { // telling looks at a date
			return nil, mesh.Wrap(call.Skill, err)
		}
	}
	if w.remove && w.date == "" {
		if gone, err := w.at.remove(ctx, o); gone || err != nil {
			if err != nil {
				return nil, mesh.Wrap(call.Skill, err)
			}
			return w.result(ctx, s, file, what, said)
		}
	}
	data, err := w.changed(s)
	if err != nil {
		return nil, err
	}
	if err := w.at.replace(ctx, o, data); err != nil {
		return nil, mesh.Wrap(call.Skill, err)
	}
	if o, err = w.at.read(ctx, w.name); err == nil {
		s, err = seriesOf(o, w.env.Now().Location())
	}
	if err != nil {
		return nil, mesh.Errorf(mesh.Unavailable, call.Skill, "The event in the calendar cannot be read back; check %s: %w", shown, err)
	}
	return w.result(ctx, s, file, what, said)
}

// result tells what became of the event, after who takes part was told of what is new; of its end
// they were told before, as said.
func (w *work) result(ctx context.Context, s *series, file, what string, said outcome) (*skill.Result, error) {
	r := s.told(w.date).result(file, what)
	if w.remove {
		return said.in(r, "told"), nil
	}
	return w.requested(ctx, w.call, w.env, w.host, s, w.date, r)
}

// changed is the object after the change.
func (w *work) changed(s *series) ([]byte, error) {
	ev, e := s.master, s.event
	var err error
	switch {
	case w.remove && w.date != "":
		err = s.drop(w.date)
	case w.date != "":
		if ev, e, err = s.at(w.date); err == nil {
			e.repeats = false // this one is not
			err = s.change(ev, e, w.call)
		}
	case w.remove:
		ev.Props.SetText(ical.PropStatus, string(ical.EventCancelled))
	default:
		err = s.change(ev, e, w.call)
	}
	if err == nil && w.host != nil && !w.remove {
		err = w.host.organize(ev, w.call)
	}
	if err != nil {
		return nil, err
	}
	stamp(s.cal, ev, w.name, w.key, w.env.Now())
	data, err := format(s.cal)
	if err != nil {
		return nil, mesh.Errorf(mesh.Precondition, w.call.Skill, "The event was written by another program in a way that cannot be changed here; change %s with that program: %w", placed(w.at, w.name), err)
	}
	return data, nil
}

// told is what is told of the series, or of the date.
func (s *series) told(date string) *event {
	if date == "" {
		return s.event
	}
	if _, e, err := s.at(date); err == nil {
		return e
	}
	e := *s.event // the date is there no more
	e.id += mark + date
	return &e
}

// checkUpdate reports whether the call wants the event deleted.
func checkUpdate(call *skill.Call) (remove bool, err error) {
	if err := flags.Require(call, "id"); err != nil {
		return false, err
	}
	if remove, err = flags.Bool(call, "delete"); err != nil {
		return false, err
	}
	changes := slices.ContainsFunc([]string{"title", "start", "end", "duration", "attendees", "location", "description"},
		func(name string) bool { return flags.Has(call, name) })
	switch {
	case remove && changes:
		return false, mesh.InvalidField(call.Skill, "delete", "is given beside changes; give one of them")
	case !remove && !changes && !flags.Has(call, "invite"):
		return false, mesh.InvalidField(call.Skill, "id", "comes alone; name what is to change, as --start 2026-12-01T14:00")
	}
	return remove, nil
}

// find returns the place and the name of the event of that id.
func (c calendar) find(ctx context.Context, env *skill.Env, id string) (at place, name string, err error) {
	var found []string
	for _, p := range c.places(env) {
		all, err := p.names(ctx)
		if err != nil {
			return nil, "", mesh.Wrap("calendar.find", err)
		}
		for _, n := range all {
			if isCalled(n, id) {
				found, at, name = append(found, n), p, n
			}
		}
	}
	switch len(found) {
	case 0:
		return nil, "", mesh.Errorf(mesh.NotFound, "calendar.find", "There is no event %s; find its id with calendar.list", mesh.Clip(strconv.Quote(id), maxShown))
	case 1:
		return at, name, nil
	}
	return nil, "", mesh.Errorf(mesh.Invalid, "calendar.find", "The id %s is that of several events; give one of %s", id, mesh.Clip(strings.Join(found, ", "), 4*maxShown))
}

// isCalled reports whether the object of that name has the id.
func isCalled(name, id string) bool {
	return idOf(name) == id || strings.TrimSuffix(name, suffix) == id
}

// settled reports whether the call was carried out before. It refuses calls
// for an event that was deleted or is not what the call is based on.
func (s *series) settled(call *skill.Call, key string) (bool, error) {
	e := s.event
	for _, ev := range s.cal.Events() {
		if slices.ContainsFunc(ev.Props.Values(propKey), func(p ical.Prop) bool { return p.Value == key }) {
			return true, nil
		}
	}
	if e.deleted {
		return false, mesh.Errorf(mesh.NotFound, call.Skill, "The event %q was deleted; create another one", e.title)
	}
	if v := strings.TrimSpace(flags.Text(call, "version")); v != "" && v != e.version {
		return false, mesh.Errorf(mesh.Conflict, call.Skill, "The event %q was changed meanwhile: its version is %s, not %s. Look at it again with calendar.list, then decide again",
			e.title, e.version, mesh.Clip(strconv.Quote(v), maxShown))
	}
	return false, nil
}

// claim notes that the key is for a change of this event. It refuses one that is
// for another event, and one that may have been forgotten by this one.
func (c calendar) claim(ev *ical.Event, call *skill.Call, env *skill.Env, key, file string) error {
	noted, fresh, err := c.ledger(changed, env).Claim(key, []byte(file))
	switch {
	case err != nil:
		return mesh.Wrap(call.Skill, err)
	case string(noted) != file:
		return mesh.Errorf(mesh.Precondition, call.Skill, "Under this key, another event was named before; nothing was changed now. Make another call")
	case !fresh && len(ev.Props.Values(propKey)) >= maxKeys:
		return mesh.Errorf(mesh.Precondition, call.Skill, "This call was begun before, and the event was changed too often since to tell whether it was made; look at it with calendar.list, then decide again")
	}
	return nil
}

// change edits the event as the call says, and leaves the rest of it alone.
func (s *series) change(ev *ical.Event, e *event, call *skill.Call) error {
	if err := e.setTexts(call); err != nil {
		return err
	}
	e.putTexts(ev)
	if flags.Has(call, "start") || flags.Has(call, "end") || flags.Has(call, "duration") {
		if err := e.setTimes(call); err != nil {
			return err
		}
		if !e.repeats {
			e.putTimes(ev)
		} else if err := s.move(); err != nil {
			return err
		}
	}
	if !flags.Has(call, "attendees") {
		return nil
	}
	e.attendees = nil
	if !strings.EqualFold(strings.Join(flags.List(call, "attendees"), ","), none) {
		var err error
		if e.attendees, err = attendees(call); err != nil {
			return err
		}
	}
	e.putAttendees(ev)
	return nil
}

// setTimes moves the event. It takes as long as before unless the call says
// otherwise, or makes a day of a moment.
func (e *event) setTimes(call *skill.Call) error {
	before := *e
	text := flags.Text(call, "start")
	if flags.Has(call, "start") {
		var ok bool
		if e.start, e.allDay, ok = flags.When(text, e.start.Location()); !ok {
			return mesh.InvalidField(call.Skill, "start", "is %q; %s", mesh.Clip(text, maxShown), timeRemedy)
		}
	}
	switch {
	case flags.Has(call, "end") || flags.Has(call, "duration") || e.allDay != before.allDay:
		return e.setEnd(call)
	case e.allDay: // days, of which not all have 24 hours
		e.end = flags.Days(e.start, int(before.end.Sub(before.start).Round(day)/day))
	default:
		e.end = e.start.Add(before.end.Sub(before.start))
	}
	return nil
}

// stamp makes a new version of the event.
func stamp(cal *ical.Calendar, ev *ical.Event, file, key string, now time.Time) {
	revise(ev, now)
	keys := append(slices.Clone(ev.Props[propKey]), ical.Prop{Name: propKey, Params: ical.Params{}, Value: key})
	ev.Props[propKey] = keys[max(0, len(keys)-maxKeys):]
	if ev.Props.Get(ical.PropUID) == nil {
		ev.Props.SetText(ical.PropUID, strings.TrimSuffix(file, suffix))
	}
	for name, text := range map[string]string{ical.PropVersion: "2.0", ical.PropProductID: product} {
		if cal.Props.Get(name) == nil {
			cal.Props.SetText(name, text)
		}
	}
}

// revise makes the event later than what was told of it before.
func revise(ev *ical.Event, now time.Time) {
	sequence := 0
	if p := ev.Props.Get(ical.PropSequence); p != nil {
		sequence, _ = p.Int() // what is no number counts as none
	}
	p := ical.NewProp(ical.PropSequence)
	p.Value = strconv.Itoa(max(0, sequence) + 1)
	ev.Props.Set(p)
	ev.Props.SetDateTime(ical.PropDateTimeStamp, now.UTC())
	ev.Props.SetDateTime(ical.PropLastModified, now.UTC())
}
