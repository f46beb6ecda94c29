package tasks

import (
	"fmt"
	"strings"
	"time"

	"agentmesh/mesh/skill"
	"agentmesh/skills/internal/flags"
	"agentmesh/skills/internal/quote"
)

// report is a page of the numbered list of tasks that people read, also by mail.
// all says whether all tasks were looked at. What there is besides stands before
// the list, where it is not cut off.
func report(title string, page flags.Page, tasks []*Task, all bool, now time.Time) *skill.Result {
	note := ""
	if !all {
		note = fmt.Sprintf("Only %d tasks were looked at; delete what is not needed.", maxTasks)
	}
	head := fmt.Sprintf("%s: %d, as of %s", title, len(tasks), now.Format(time.DateOnly))
	if len(tasks) == 0 {
		head = "No tasks found: " + title + ", as of " + now.Format(time.DateOnly) + "."
	}
	part := page.Of(len(tasks), func(i int) string { return fmt.Sprintf("%d. %s", i+1, tasks[i].line(now)) })
	meta := facts(tasks[part.From:part.To])
	found := make([]map[string]any, 0, part.To-part.From)
	for _, t := range tasks[part.From:part.To] {
		found = append(found, map[string]any{"id": t.ID, "name": t.Title})
	}
	meta["count"], meta["found"] = len(tasks), found
	return &skill.Result{Content: part.Under(head, note), Metadata: meta}
}

func one(verb string, t *Task, now time.Time) *skill.Result {
	return &skill.Result{Content: verb + " task " + t.line(now), Metadata: facts([]*Task{t})}
}

func facts(tasks []*Task) map[string]any {
	ids := make([]string, len(tasks))
	for i, t := range tasks {
		ids[i] = t.ID
	}
	return map[string]any{"count": len(tasks), "task_ids": ids}
}

// line is the task as one line: title, due date, status, priority, id. Others
// than this package may have stored it, so that nothing in it is taken for clean.
func (t *Task) line(now time.Time) string {
	parts := []string{t.dueText(now), strings.ReplaceAll(t.Status, "_", " ")}
	if t.Priority == "high" || t.Priority == "low" {
		parts = append(parts, t.Priority+" priority")
	}
	if t.Assignee != "" {
		parts = append(parts, "assigned to "+t.Assignee)
	}
	if t.Archived != "" {
		parts = append(parts, "archived: "+t.Archived)
	}
	return quote.Line(fmt.Sprintf("%s (%s) [%s]", t.Title, strings.Join(parts, ", "), t.ID))
}

func (t *Task) dueText(now time.Time) string {
	end, ok := t.end(now.Location())
	if !ok {
		return "no due date"
	}
	text := "due " + t.Due
	late := int(now.Sub(end).Hours() / 24)
	if day, err := time.Parse(time.DateOnly, t.Due); err == nil { // days by their names, of which not all have 24 hours
		y, m, d := now.Date()
		late = int(time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Sub(day).Hours() / 24)
	} else {
		text = "due " + end.In(now.Location()).Format("2006-01-02 15:04")
	}
	switch {
	case !t.overdue(now):
	case late == 0:
		text += ", overdue"
	case late == 1:
		text += ", 1 day overdue"
	default:
		text += fmt.Sprintf(", %d days overdue", late)
	}
	return text
}

// page is all that is known of the task.
func (t *Task) page(now time.Time) string {
	var b strings.Builder
	b.WriteString(t.line(now))
	if t.Description != "" {
		b.WriteString("\n" + quote.Text(t.Description))
	}
	if len(t.Tags) > 0 {
		b.WriteString("\nTags: " + quote.Line(strings.Join(t.Tags, ", ")))
	}
	const layout = "2006-01-02 15:04"
	fmt.Fprintf(&b, "\nCreated %s", t.Created.In(now.Location()).Format(layout))
	if t.Creator != "" {
		b.WriteString(" by " + quote.Line(t.Creator))
	}
	if !t.Updated.Equal(t.Created) {
		b.WriteString(", changed " + t.Updated.In(now.Location()).Format(layout))
	}
	return b.String()
}
