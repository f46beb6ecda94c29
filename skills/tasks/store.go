package tasks

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/skills/internal/flags"
	"agentmesh/skills/internal/quote"
)

// Bounds of a task and of what is read at once.
const (
	maxTitle    = 300      // bytes
	maxText     = 16 << 10 // bytes
	maxTags     = 30
	maxTag      = 100 // bytes
	maxShown    = 60  // bytes of what was given, in messages
	maxLimit    = 100
	maxTasks    = 20_000 // read by one search
	pageSize    = 500
	maxKeys     = 10 // of changes that a task remembers
	maxAttempts = 10 // at a task that others change as well
)

// apply writes the arguments that are there into the task.
func (t *Task) apply(call *skill.Call, loc *time.Location) error {
	for _, f := range []struct {
		name string
		most int
		to   *string
	}{
		{"title", maxTitle, &t.Title}, {"assignee", maxTitle, &t.Assignee}, {"status", maxTitle, &t.Status},
		{"priority", maxTitle, &t.Priority},
	} {
		if !flags.Has(call, f.name) {
			continue
		}
		v := quote.Line(flags.Text(call, f.name))
		if v == "" || len(v) > f.most {
			return mesh.InvalidField(call.Skill, f.name, "must have from 1 to %d bytes of visible text", f.most)
		}
		*f.to = v
	}
	// What others stored is theirs; what is given is checked.
	for _, f := range []struct {
		name, value string
		allowed     []string
	}{{"status", t.Status, statuses()}, {"priority", t.Priority, priorities()}} {
		if flags.Has(call, f.name) {
			if err := flags.Enum(call, f.name, []string{f.value}, f.allowed...); err != nil {
				return err
			}
		}
	}
	if flags.Has(call, "description") {
		t.Description = strings.TrimSpace(strings.ToValidUTF8(flags.Text(call, "description"), "\ufffd"))
	}
	if len(t.Description) > maxText {
		return mesh.InvalidField(call.Skill, "description", "is %d bytes long; at most %d are allowed", len(t.Description), maxText)
	}
	if flags.Has(call, "tags") {
		t.Tags = nil
		for _, raw := range flags.List(call, "tags") {
			tag := quote.Line(raw)
			if tag == "" || len(tag) > maxTag {
				return mesh.InvalidField(call.Skill, "tags", "has %q; each must have from 1 to %d bytes of visible text", mesh.Clip(raw, maxShown), maxTag)
			}
			t.Tags = append(t.Tags, tag)
		}
		if len(t.Tags) > maxTags {
			return mesh.InvalidField(call.Skill, "tags", "has %d elements; at most %d are allowed", len(t.Tags), maxTags)
		}
	}
	if !flags.Has(call, "due") {
		return nil
	}
	text := strings.TrimSpace(flags.Text(call, "due"))
	if strings.EqualFold(text, "none") {
		t.Due = ""
		return nil
	}
	due, day, ok := flags.When(text, loc)
	switch {
	case !ok:
		return mesh.InvalidField(call.Skill, "due", "must be a day as 2026-12-01 or a moment as 2026-12-01T14:00, and is %q", mesh.Clip(text, maxShown))
	case day:
		t.Due = due.Format(time.DateOnly)
	default:
		t.Due = due.Format(time.RFC3339)
	}
	return nil
}

// end returns the moment after which the task is overdue; false without a
// due date. A day lasts to its end where the reader is.
func (t *Task) end(loc *time.Location) (time.Time, bool) {
	due, day, ok := flags.When(t.Due, loc)
	if day {
		due = flags.Days(due, 1)
	}
	return due, ok
}

func (t *Task) open() bool { return t.Status != Done && t.Archived == "" }

func (t *Task) overdue(now time.Time) bool {
	end, ok := t.end(now.Location())
	return ok && t.open() && !end.After(now)
}

// read returns the task and its version. The error is NotFound if there is
// none, or none any more.
func read(ctx context.Context, env *skill.Env, id string) (*Task, int64, error) {
	t, version, err := load(ctx, env, id)
	if err == nil && t.Deleted != "" {
		return nil, 0, missing(id)
	}
	return t, version, err
}

// load is read that also returns what is left of a deleted task.
func load(ctx context.Context, env *skill.Env, id string) (*Task, int64, error) {
	if !idRule.MatchString(id) {
		return nil, 0, missing(id)
	}
	data, version, err := env.State.Get(ctx, Kind, id)
	if mesh.IsCode(err, mesh.NotFound) {
		return nil, 0, missing(id)
	}
	if err != nil {
		return nil, 0, mesh.Wrap("tasks.load", err)
	}
	t := new(Task)
	if err := json.Unmarshal(data, t); err != nil {
		return nil, 0, mesh.Errorf(mesh.Unknown, "tasks.load", "The task %s is stored in a form that cannot be read: %w", mesh.Clip(id, maxShown), err)
	}
	return t, version, nil
}

// idPrefix begins the State's keys that are tasks.
const idPrefix = "t-"

// idRule is the form of the ids of tasks.
var idRule = regexp.MustCompile(`^t-[a-z2-7]{5,50}$`)

func missing(id string) error {
	return mesh.Errorf(mesh.NotFound, "tasks.load", "There is no task %s; find its id with tasks.search", mesh.Clip(quote.Line(id), maxShown))
}

func contended(call *skill.Call) error {
	return mesh.Errorf(mesh.Conflict, call.Skill, "The task is being changed by others all the time; try again")
}

// readAll returns the tenant's tasks by id, at most maxTasks, and whether these
// are all. Those that cannot be read are logged and left out.
func readAll(ctx context.Context, env *skill.Env) (tasks []*Task, all bool, err error) {
	for after := ""; len(tasks) < maxTasks; {
		items, err := env.State.List(ctx, Kind, idPrefix, after, pageSize)
		if err != nil {
			return nil, false, mesh.Wrap("tasks.readAll", err)
		}
		if len(items) == 0 { // a page may be shorter than asked for, and more come
			return tasks, true, nil
		}
		for _, it := range items {
			after = it.Key
			t := new(Task)
			if err := json.Unmarshal(it.Data, t); err != nil {
				env.Logger.WarnContext(ctx, "stored task skipped", "key", it.Key, "err", err)
				continue
			}
			if t.Deleted == "" {
				tasks = append(tasks, t)
			}
		}
	}
	return tasks, false, nil
}

// change edits the task that the call names and stores it. It reads and edits
// again when somebody else has stored it meanwhile.
func change(ctx context.Context, call *skill.Call, env *skill.Env, edit func(*Task) error) (*Task, error) {
	claimed := false
	for range maxAttempts {
		t, version, err := read(ctx, env, strings.TrimSpace(flags.Text(call, "task_id")))
		if err != nil {
			return nil, err
		}
		if call.Key != "" && slices.Contains(t.Changes, call.Key) {
			return t, nil // what others changed since stays
		}
		if err := edit(t); err != nil {
			return nil, err
		}
		if !claimed {
			if err := claim(ctx, call, env, t); err != nil {
				return nil, err
			}
			claimed = true
		}
		t.Rev++
		t.Changes = append(t.Changes, call.Key)
		t.Changes = t.Changes[max(0, len(t.Changes)-maxKeys):]
		t.Updated = env.Now().UTC().Truncate(time.Second)
		data, err := json.Marshal(t)
		if err != nil {
			return nil, mesh.Errorf(mesh.Unknown, call.Skill, "The task cannot be stored: %w", err)
		}
		if _, err = env.State.Put(ctx, Kind, t.ID, data, version); err == nil {
			return t, nil
		}
		if !mesh.IsCode(err, mesh.Conflict) {
			return nil, mesh.Wrap(call.Skill, err)
		}
	}
	return nil, contended(call)
}
