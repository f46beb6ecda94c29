package tasks

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/skills/internal/flags"
	"agentmesh/skills/internal/quote"
)

// A filter says which tasks are wanted.
type filter struct {
	statuses []string
	words    []string
	before   time.Time
	tags     []string
	assignee string
}

func search(ctx context.Context, call *skill.Call, env *skill.Env) (*skill.Result, error) {
	now := env.Now()
	f := filter{
		statuses: flags.List(call, "status"), words: queryWords(call),
		tags: flags.List(call, "tags"), assignee: strings.TrimSpace(flags.Text(call, "assignee")),
	}
	if err := flags.Enum(call, "status", f.statuses, append(statuses(), "open", "overdue", "archived", "all")...); err != nil {
		return nil, err
	}
	if len(f.statuses) == 0 {
		f.statuses = []string{"open"}
	}
	if s := flags.Text(call, "due_before"); flags.Has(call, "due_before") {
		var ok bool // a day stands for its beginning: what is due on it is not before it
		if f.before, _, ok = flags.When(s, now.Location()); !ok {
			return nil, mesh.InvalidField(call.Skill, "due_before", "must be a day as 2026-12-01 or a moment as 2026-12-01T14:00, and is %q", mesh.Clip(s, maxShown))
		}
	}
	page, err := flags.PageOf(call, 20, maxLimit)
	if err != nil {
		return nil, err
	}
	found, all, err := readAll(ctx, env)
	if err != nil {
		return nil, err
	}
	found = slices.DeleteFunc(found, func(t *Task) bool { return !f.wants(t, now) })
	slices.SortFunc(found, func(a, b *Task) int { return byUrgency(a, b, now.Location()) })
	return report(f.title(call), page, found, all, now), nil
}

func (f *filter) wants(t *Task, now time.Time) bool {
	if !slices.ContainsFunc(f.statuses, func(s string) bool { return hasStatus(t, s, now) }) {
		return false
	}
	if !f.before.IsZero() {
		if end, ok := t.end(now.Location()); !ok || end.After(f.before) {
			return false
		}
	}
	if f.assignee != "" && !strings.EqualFold(f.assignee, t.Assignee) {
		return false
	}
	for _, tag := range f.tags {
		if !slices.ContainsFunc(t.Tags, func(has string) bool { return strings.EqualFold(tag, has) }) {
			return false
		}
	}
	text := strings.ToLower(strings.Join(append([]string{t.ID, t.Title, t.Description, t.Assignee}, t.Tags...), "\n"))
	return !slices.ContainsFunc(f.words, func(w string) bool { return !strings.Contains(text, w) })
}

// hasStatus knows the stored statuses and those that follow from them.
func hasStatus(t *Task, status string, now time.Time) bool {
	switch status {
	case "archived":
		return t.Archived != ""
	case "all":
		return t.Archived == ""
	case "open":
		return t.open()
	case "overdue":
		return t.overdue(now)
	}
	return t.Archived == "" && t.Status == status
}

// queryWords drops what people say around the words that they look for.
func queryWords(call *skill.Call) []string {
	filler := []string{"a", "an", "the", "my", "our", "all", "any", "of", "for", "with", "about", "task", "tasks", "todo", "todos"}
	return slices.DeleteFunc(flags.Words(call, "query"), func(w string) bool { return slices.Contains(filler, w) })
}

// title says what was asked for, as "Overdue tasks matching \"tax\"".
func (f *filter) title(call *skill.Call) string {
	status := strings.ReplaceAll(strings.Join(f.statuses, ", "), "_", " ")
	title := strings.ToUpper(status[:1]) + status[1:] + " tasks"
	if len(f.words) > 0 {
		title += " matching \"" + mesh.Clip(quote.Line(flags.Text(call, "query")), maxShown) + "\""
	}
	if len(f.tags) > 0 {
		title += " tagged " + mesh.Clip(quote.Line(strings.Join(f.tags, ", ")), maxShown)
	}
	if f.assignee != "" {
		title += " of " + mesh.Clip(quote.Line(f.assignee), maxShown)
	}
	if !f.before.IsZero() {
		title += " due before " + strings.TrimSpace(flags.Text(call, "due_before"))
	}
	return title
}

// byUrgency puts what is due first in front, and what is never due last.
func byUrgency(a, b *Task, loc *time.Location) int {
	endA, hasA := a.end(loc)
	endB, hasB := b.end(loc)
	switch {
	case hasA != hasB && hasA:
		return -1
	case hasA != hasB:
		return 1
	}
	rank := map[string]int{"high": 0, "normal": 1, "low": 2}
	return cmp.Or(endA.Compare(endB), cmp.Compare(rank[a.Priority], rank[b.Priority]), a.Created.Compare(b.Created), cmp.Compare(a.ID, b.ID))
}
