package calendar

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/skills/internal/flags"
	"agentmesh/skills/internal/outfile"
	"agentmesh/skills/internal/quote"
)

// list shows the owner's events that touch the time from..to.
func (c calendar) list(ctx context.Context, call *skill.Call, env *skill.Env) (*skill.Result, error) {
	const op = "calendar.list"
	loc := env.Now().Location()
	from, to, err := span(call, env.Now())
	if err != nil {
		return nil, err
	}
	page, err := flags.PageOf(call, 50, 200)
	if err != nil {
		return nil, err
	}
	var found []*event
	var unread, cut []string
	for _, at := range c.places(env) {
		objects, not, err := at.within(ctx, env, from, to)
		if err != nil {
			return nil, mesh.Wrap(op, err)
		}
		unread = append(unread, not...)
		for _, o := range objects {
			if err := ctx.Err(); err != nil { // rules may take time
				return nil, mesh.Wrap(op, err)
			}
			s, err := seriesOf(o, loc)
			if err != nil {
				unread = append(unread, o.Name+": "+reason(err))
				env.Logger.WarnContext(ctx, "calendar file skipped", "file", o.Name, "err", err)
				continue
			}
			events, more := s.between(from, to)
			found = append(found, events...)
			if more {
				cut = append(cut, mesh.Clip(s.event.title, maxShown))
			}
		}
	}
	slices.SortFunc(found, func(a, b *event) int {
		return cmp.Or(a.start.Compare(b.start), cmp.Compare(a.uid, b.uid), cmp.Compare(a.id, b.id))
	})
	named := make([]map[string]any, 0, min(len(found), page.Limit))
	for _, e := range found[:cap(named)] {
		named = append(named, map[string]any{"id": e.id, "name": e.title})
	}
	return &skill.Result{
		Content: report(found, page, from, to,
			some("%d files of the calendar cannot be read, and events in them are not listed:", unread),
			some("%d events are repeated more often than is listed; name a shorter time to see all dates of them:", cut)),
		Metadata: map[string]any{"count": len(found), "unread": len(unread), "cut": len(cut), "found": named},
	}, nil
}

func (c calendar) folder(env *skill.Env) string {
	return filepath.Join(c.dir, Folder, outfile.Folder(env.Owner()))
}

// files returns the names of the files that may be events.
func files(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, mesh.Errorf(mesh.Unavailable, "calendar", "The calendar folder cannot be read; check its permissions: %w", err)
	}
	var out []string
	for _, e := range entries {
		if e.Type().IsRegular() && filepath.Ext(e.Name()) == suffix {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

// span returns the time asked for: by default the 30 days from today.
func span(call *skill.Call, now time.Time) (from, to time.Time, err error) {
	const op = "calendar.list"
	from = flags.Days(now, 0)
	if s := flags.Text(call, "from"); s != "" {
		var ok bool
		if from, _, ok = flags.When(s, now.Location()); !ok {
			return from, to, mesh.InvalidField(op, "from", "is %q; %s", mesh.Clip(s, maxShown), timeRemedy)
		}
	}
	to = from.AddDate(0, 0, 30)
	if s := flags.Text(call, "to"); s != "" {
		var day, ok bool
		if to, day, ok = flags.When(s, now.Location()); !ok {
			return from, to, mesh.InvalidField(op, "to", "is %q; %s", mesh.Clip(s, maxShown), timeRemedy)
		}
		if day { // that day included
			to = flags.Days(to, 1)
		}
	}
	if !to.After(from) {
		return from, to, mesh.InvalidField(op, "to", "must be after from")
	}
	return from, to, nil
}

func report(events []*event, page flags.Page, from, to time.Time, notes ...string) string {
	const layout = "2006-01-02 15:04"
	when := "from " + from.Format(layout) + " to " + to.Format(layout)
	head := fmt.Sprintf("Events %s: %d", when, len(events))
	if len(events) == 0 {
		head = "No events found " + when + "."
	}
	return page.Of(len(events), func(i int) string { return fmt.Sprintf("%d. %s", i+1, events[i].line()) }).Under(head, notes...)
}

func (e *event) line() string {
	text := e.when() + ": " + quote.Line(e.title)
	if e.location != "" {
		text += " (" + quote.Line(e.location) + ")"
	}
	if len(e.attendees) > 0 {
		text += ", with " + quote.Line(strings.Join(e.attendees, ", "))
	}
	if e.repeats {
		text += ", repeated"
	}
	return text + fmt.Sprintf(" [id %s, version %s]", e.id, e.version)
}

// some names a few of them below the head, which takes how many there are; "" if there are none.
func some(head string, of []string) string {
	const named = 5
	if len(of) == 0 {
		return ""
	}
	text := fmt.Sprintf(head, len(of))
	for _, one := range of[:min(named, len(of))] {
		text += "\n- " + quote.Line(one)
	}
	if more := len(of) - named; more > 0 {
		text += fmt.Sprintf("\n- and %d more", more)
	}
	return text
}
