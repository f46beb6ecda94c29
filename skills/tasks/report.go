package tasks

import (
	"fmt"
	"strings"
	"time"

	"agentmesh/mesh/skill"
	"agentmesh/skills/internal/quote"
)

// report is the numbered list of tasks that people read, also by mail. all says
// whether all tasks were looked at.
func report(title string, tasks []*Task, total int, all bool, now time.Time) *skill.Result {
	note := ""
	if !all {
		note = fmt.Sprintf("\n\nOnly %d tasks were looked at; delete what is not needed.", maxTasks)
	}
	if total == 0 {
		return &skill.Result{Content: "No tasks found: " + title + ", as of " + now.Format(time.DateOnly) + "." + note, Metadata: facts(nil)}
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %d, as of %s\n", title, total, now.Format(time.DateOnly))
	for i, t := range tasks {
		fmt.Fprintf(&b, "\n%d. %s", i+1, t.line(now))
	}
	if more := total - len(tasks); more > 0 {
		fmt.Fprintf(&b, "\n\n%d more; ask with a higher limit or a narrower search.", more)
	}
	meta := facts(tasks)
	meta["count"] = total
	return &skill.Result{Content: b.String() + note, Metadata: meta}
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

// line is the task as one line: title, due date, status, priority, id.
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
	return fmt.Sprintf("%s (%s) [%s]", t.Title, strings.Join(parts, ", "), t.ID)
}

func (t *Task) dueText(now time.Time) string {
	end, ok := t.end(now.Location())
	if !ok {
		return "no due date"
	}
	text := "due " + t.Due
	if len(t.Due) > len(time.DateOnly) {
		text = "due " + end.In(now.Location()).Format("2006-01-02 15:04")
	}
	if t.overdue(now) {
		switch days := int(now.Sub(end).Hours()/24) + 1; {
		case days == 1 && len(t.Due) > len(time.DateOnly):
			text += ", overdue"
		case days == 1:
			text += ", 1 day overdue"
		default:
			text += fmt.Sprintf(", %d days overdue", days)
		}
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
		b.WriteString("\nTags: " + strings.Join(t.Tags, ", "))
	}
	const layout = "2006-01-02 15:04"
	fmt.Fprintf(&b, "\nCreated %s", t.Created.In(now.Location()).Format(layout))
	if t.Creator != "" {
		b.WriteString(" by " + t.Creator)
	}
	if !t.Updated.Equal(t.Created) {
		b.WriteString(", changed " + t.Updated.In(now.Location()).Format(layout))
	}
	return b.String()
}
