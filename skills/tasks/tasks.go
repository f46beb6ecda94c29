// Package tasks has the skills of the domain tasks: a to-do list per tenant,
// kept in the mesh's State.
//
// Creating is idempotent by the call's key; updates of the same task by
// several agents are serialised by its version, and none is lost. Handlers may
// be called concurrently.
//
// It assigns and reminds nobody: a task is a record.
package tasks

import (
	"context"
	"crypto/sha256"
	"encoding/base32"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
)

// Kind is the kind of the State's values that are tasks.
const Kind = "tasks"

// The values of Task.Status.
const (
	Todo       = "todo"
	InProgress = "in_progress"
	Blocked    = "blocked"
	Done       = "done"
)

// A Task is one thing to do, as it is stored in JSON.
type Task struct {
	ID          string `json:"id"`
	Title       string `json:"title"`
	Description string `json:"description,omitempty"`
	Status      string `json:"status"`
	// Due is a day, as "2026-12-01", or a moment in RFC 3339, or "".
	Due      string   `json:"due,omitempty"`
	Priority string   `json:"priority,omitempty"` // low, normal, high
	Assignee string   `json:"assignee,omitempty"`
	Tags     []string `json:"tags,omitempty"`
	Creator  string   `json:"creator,omitempty"`
	// Archived is why the task was put away; it is out of searches then.
	Archived string    `json:"archived,omitempty"`
	Created  time.Time `json:"created"`
	Updated  time.Time `json:"updated"`
	// Key is the idempotency key of the call that created the task.
	Key string `json:"key"`
}

// Handlers returns the handlers of the domain, by what skill files name.
func Handlers() map[string]skill.Handler {
	return map[string]skill.Handler{
		"tasks.create":  stateful(create),
		"tasks.search":  stateful(search),
		"tasks.get":     stateful(get),
		"tasks.update":  stateful(update),
		"tasks.archive": stateful(archive),
	}
}

// stateful refuses calls that come without a State.
func stateful(h skill.HandlerFunc) skill.Handler {
	return skill.HandlerFunc(func(ctx context.Context, call *skill.Call, env *skill.Env) (*skill.Result, error) {
		if env.State == nil {
			return nil, mesh.Errorf(mesh.Precondition, call.Skill, "Tasks need the state service of the mesh; run the agent with --mesh")
		}
		return h(ctx, call, env)
	})
}

func create(ctx context.Context, call *skill.Call, env *skill.Env) (*skill.Result, error) {
	now := env.Now()
	t := &Task{
		Status: Todo, Priority: "normal", Creator: env.User, Key: call.Key,
		Created: now.UTC().Truncate(time.Second), Updated: now.UTC().Truncate(time.Second),
	}
	if err := t.apply(call, now.Location()); err != nil {
		return nil, err
	}
	// The id is made from the key; it grows until it is no other task's.
	sum := sha256.Sum256([]byte(call.Key))
	letters := strings.ToLower(base32.StdEncoding.EncodeToString(sum[:]))
	for n := 5; n <= 50; n += 5 {
		t.ID = "t-" + letters[:n]
		data, err := json.Marshal(t)
		if err != nil {
			return nil, mesh.Errorf(mesh.Unknown, call.Skill, "The task cannot be stored: %w", err)
		}
		_, err = env.State.Put(ctx, Kind, t.ID, data, 0)
		if err == nil {
			return one("Created", t, now), nil
		}
		if !mesh.IsCode(err, mesh.Conflict) {
			return nil, mesh.Wrap(call.Skill, err)
		}
		there, _, err := read(ctx, env, t.ID)
		if err != nil {
			return nil, err
		}
		if there.Key == call.Key {
			return one("Created", there, now), nil
		}
	}
	return nil, mesh.Errorf(mesh.Unknown, call.Skill, "No id is free for the task")
}

func get(ctx context.Context, call *skill.Call, env *skill.Env) (*skill.Result, error) {
	ids := call.Strings("task_ids")
	if id := call.String("task_id"); id != "" {
		ids = append([]string{id}, ids...)
	}
	limit := int(call.Int("limit"))
	switch {
	case call.Bool("recent") && len(ids) == 0:
		return recent(ctx, call, env, limit)
	case len(ids) == 0:
		return nil, mesh.InvalidField(call.Skill, "task_id", "is missing; give task_id, task_ids or recent")
	case len(ids) > maxLimit:
		return nil, mesh.InvalidField(call.Skill, "task_ids", "has %d ids; at most %d are allowed", len(ids), maxLimit)
	}
	var b strings.Builder
	var found []*Task
	for _, id := range ids {
		t, _, err := read(ctx, env, strings.TrimSpace(id))
		if mesh.IsCode(err, mesh.NotFound) && len(ids) > 1 {
			fmt.Fprintf(&b, "%s\n\n", mesh.DetailOf(err))
			continue
		}
		if err != nil {
			return nil, err
		}
		found = append(found, t)
		b.WriteString(t.page(env.Now()) + "\n\n")
	}
	return &skill.Result{Content: strings.TrimSpace(b.String()), Metadata: facts(found)}, nil
}

func recent(ctx context.Context, call *skill.Call, env *skill.Env, limit int) (*skill.Result, error) {
	if limit < 1 || limit > maxLimit {
		return nil, mesh.InvalidField(call.Skill, "limit", "must be from 1 to %d", maxLimit)
	}
	all, err := readAll(ctx, env)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(all, func(a, b *Task) int { return b.Updated.Compare(a.Updated) })
	all = all[:min(limit, len(all))]
	return report("Recently changed tasks", all, len(all), env.Now()), nil
}

func update(ctx context.Context, call *skill.Call, env *skill.Env) (*skill.Result, error) {
	if len(call.Args) < 2 {
		return nil, mesh.InvalidField(call.Skill, "task_id", "comes alone; name what is to change, as --status done")
	}
	t, err := change(ctx, call, env, func(t *Task) error { return t.apply(call, env.Now().Location()) })
	if err != nil {
		return nil, err
	}
	return one("Updated", t, env.Now()), nil
}

func archive(ctx context.Context, call *skill.Call, env *skill.Env) (*skill.Result, error) {
	t, err := change(ctx, call, env, func(t *Task) error {
		if t.Archived = oneLine(call.String("reason")); t.Archived == "" || len(t.Archived) > maxTitle {
			return mesh.InvalidField(call.Skill, "reason", "must have from 1 to %d bytes of visible text", maxTitle)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return one("Archived", t, env.Now()), nil
}
