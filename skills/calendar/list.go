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

// list reads the tenant's events that touch the time from..to.
func (c calendar) list(ctx context.Context, call *skill.Call, env *skill.Env) (*skill.Result, error) {
	const op = "calendar.list"
	loc := env.Now().Location()
	from, to, err := span(call, env.Now())
	if err != nil {
		return nil, err
	}
	limit, err := flags.Int(call, "limit", 50, 1, 200)
	if err != nil {
		return nil, err
	}
	dir := c.folder(env)
	entries, err := files(dir)
	if err != nil {
		return nil, err
	}
	var found []*event
	for _, entry := range entries {
		if err := ctx.Err(); err != nil {
			return nil, mesh.Wrap(op, err)
		}
		e, err := read(filepath.Join(dir, entry), loc)
		if err != nil {
			env.Logger.WarnContext(ctx, "calendar file skipped", "file", entry, "err", err)
			continue
		}
		if !e.deleted && e.start.Before(to) && e.end.After(from) {
			found = append(found, e)
		}
	}
	slices.SortFunc(found, func(a, b *event) int {
		return cmp.Or(a.start.Compare(b.start), cmp.Compare(a.uid, b.uid))
	})
	return &skill.Result{Content: report(found, limit, from, to), Metadata: map[string]any{"count": len(found)}}, nil
}

func (c calendar) folder(env *skill.Env) string {
	return filepath.Join(c.dir, Folder, outfile.TenantFolder(env.Tenant))
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
	y, m, d := now.Date()
	from = time.Date(y, m, d, 0, 0, 0, 0, now.Location())
	if s := flags.Text(call, "from"); s != "" {
		var ok bool
		if from, _, ok = parseTime(s, now.Location()); !ok {
			return from, to, mesh.InvalidField(op, "from", "is %q; %s", mesh.Clip(s, maxShown), timeRemedy)
		}
	}
	to = from.AddDate(0, 0, 30)
	if s := flags.Text(call, "to"); s != "" {
		var day, ok bool
		if to, day, ok = parseTime(s, now.Location()); !ok {
			return from, to, mesh.InvalidField(op, "to", "is %q; %s", mesh.Clip(s, maxShown), timeRemedy)
		}
		if day { // that day included
			to = to.AddDate(0, 0, 1)
		}
	}
	if !to.After(from) {
		return from, to, mesh.InvalidField(op, "to", "must be after from")
	}
	return from, to, nil
}

func report(events []*event, limit int, from, to time.Time) string {
	const layout = "2006-01-02 15:04"
	when := "from " + from.Format(layout) + " to " + to.Format(layout)
	if len(events) == 0 {
		return "No events found " + when + "."
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Events %s: %d\n", when, len(events))
	for i, e := range events[:min(limit, len(events))] {
		fmt.Fprintf(&b, "\n%d. %s: %s", i+1, e.when(), quote.Line(e.title))
		if e.location != "" {
			fmt.Fprintf(&b, " (%s)", quote.Line(e.location))
		}
		if len(e.attendees) > 0 {
			fmt.Fprintf(&b, ", with %s", quote.Line(strings.Join(e.attendees, ", ")))
		}
		if e.repeats {
			b.WriteString(", repeated")
		}
		fmt.Fprintf(&b, " [id %s, version %s]", e.id, e.version)
	}
	if more := len(events) - limit; more > 0 {
		fmt.Fprintf(&b, "\n\n%d more; ask with a higher limit or a shorter time.", more)
	}
	return b.String()
}
