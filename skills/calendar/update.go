package calendar

import (
	"context"
	"path"
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
	dir := c.folder(env)
	file, err := find(dir, strings.TrimSpace(flags.Text(call, "id")))
	if err != nil {
		return nil, err
	}
	unlock, err := outfile.Lock(ctx, dir, file)
	if err != nil {
		return nil, mesh.Wrap(call.Skill, err)
	}
	defer unlock()
	name := path.Join(Folder, outfile.Folder(env.Owner()), file)
	cal, ev, e, err := open(dir, file, env.Now().Location())
	if err != nil {
		return nil, mesh.Errorf(mesh.Unavailable, call.Skill, "The event in %s cannot be read: %s: %w", name, reason(err), err)
	}
	what := "was changed"
	if remove {
		what = "was deleted"
	}
	key := outfile.Name(env.Tenant, call.Key)
	done, err := e.settled(ev, call, key)
	if err != nil {
		return nil, err
	}
	if done {
		return e.result(name, what), nil
	}
	if err := c.claim(ev, call, env, key, file); err != nil {
		return nil, err
	}
	if err := e.change(ev, call, remove); err != nil {
		return nil, err
	}
	stamp(cal, ev, file, key, env.Now())
	data, err := format(cal)
	if err != nil {
		return nil, mesh.Errorf(mesh.Precondition, call.Skill, "The event was written by another program in a way that cannot be changed here; change %s with that program: %w", name, err)
	}
	if err := outfile.Replace(dir, file, data); err != nil {
		return nil, mesh.Wrap(call.Skill, err)
	}
	if e, err = read(dir, file, env.Now().Location()); err != nil {
		return nil, mesh.Errorf(mesh.Unavailable, call.Skill, "The event in the calendar cannot be read back; check %s: %w", name, err)
	}
	return e.result(name, what), nil
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
	case !remove && !changes:
		return false, mesh.InvalidField(call.Skill, "id", "comes alone; name what is to change, as --start 2026-12-01T14:00")
	}
	return remove, nil
}

// find returns the file of the event of that id.
func find(dir, id string) (string, error) {
	all, err := files(dir)
	if err != nil {
		return "", err
	}
	found := slices.DeleteFunc(all, func(file string) bool {
		return idOf(file) != id && strings.TrimSuffix(file, suffix) != id
	})
	switch len(found) {
	case 0:
		return "", mesh.Errorf(mesh.NotFound, "calendar.find", "There is no event %s; find its id with calendar.list", mesh.Clip(strconv.Quote(id), maxShown))
	case 1:
		return found[0], nil
	}
	return "", mesh.Errorf(mesh.Invalid, "calendar.find", "The id %s is that of several events; give one of %s", id, mesh.Clip(strings.Join(found, ", "), 4*maxShown))
}

// settled reports whether the call was carried out before. It refuses calls
// for an event that was deleted or is not what the call is based on.
func (e *event) settled(ev *ical.Event, call *skill.Call, key string) (bool, error) {
	if slices.ContainsFunc(ev.Props.Values(propKey), func(p ical.Prop) bool { return p.Value == key }) {
		return true, nil
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
func (e *event) change(ev *ical.Event, call *skill.Call, remove bool) error {
	if remove {
		ev.Props.SetText(ical.PropStatus, string(ical.EventCancelled))
		return nil
	}
	if err := e.setTexts(call); err != nil {
		return err
	}
	e.putTexts(ev)
	if flags.Has(call, "start") || flags.Has(call, "end") || flags.Has(call, "duration") {
		if e.repeats {
			return mesh.Errorf(mesh.Precondition, call.Skill, "The event %q is repeated; change its time with a calendar program", e.title)
		}
		if err := e.setTimes(call); err != nil {
			return err
		}
		e.putTimes(ev)
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
	sequence := 0
	if p := ev.Props.Get(ical.PropSequence); p != nil {
		sequence, _ = p.Int() // what is no number counts as none
	}
	p := ical.NewProp(ical.PropSequence)
	p.Value = strconv.Itoa(max(0, sequence) + 1)
	ev.Props.Set(p)
	ev.Props.SetDateTime(ical.PropDateTimeStamp, now.UTC())
	ev.Props.SetDateTime(ical.PropLastModified, now.UTC())
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
