// Package tasks has the skills of the domain tasks: a to-do list per tenant,
// kept in the mesh's State.
//
// All calls have one effect per key, whatever their arguments: for which task a
// key is, is stored beside the tasks, and whether it was carried out, in the
// task. Updates of the same task by several agents are serialised by its
// version, and none is lost. Handlers may be called concurrently. What is
// deleted leaves its id and keys behind and nothing else, so that no call that is
// repeated brings it back.
//
// What is remembered is bounded. The keys of changes are in 256 values of each
// tenant, by the key's hash: in each the last 64, so some 16,000; a change that
// is repeated after its key was pushed out is made again, unless the task knows
// it as one of its last 10. What deleted tasks leave is kept until the State has
// no room for another task. Then what was left first goes first, and a call that
// created one of these is made again if it is repeated.
//
// It assigns and reminds nobody: a task is a record.
package tasks

import (
	"cmp"
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
	"agentmesh/skills/internal/flags"
	"agentmesh/skills/internal/quote"
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
	// Changes are the keys of the calls that changed it last, the latest last.
	Changes []string `json:"changes,omitempty"`
	// Rev is how often it was changed.
	Rev int `json:"rev,omitempty"`
	// Deleted is the key of the call that deleted the task. Of the rest, ID
	// and Key are left then, and Updated, which is when it was deleted.
	Deleted string `json:"deleted,omitempty"`
}

func statuses() []string   { return []string{Todo, InProgress, Blocked, Done} }
func priorities() []string { return []string{"low", "normal", "high"} }

// Handlers returns the handlers of the domain, by what skill files name.
func Handlers() map[string]skill.Handler {
	return map[string]skill.Handler{
		"tasks.create":  skill.HandlerFunc(stateful(create)),
		"tasks.search":  skill.HandlerFunc(Search),
		"tasks.get":     skill.HandlerFunc(stateful(get)),
		"tasks.update":  skill.HandlerFunc(stateful(update)),
		"tasks.archive": skill.HandlerFunc(stateful(archive)),
		"tasks.delete":  skill.HandlerFunc(stateful(remove)),
	}
}

// Search is the code of tasks.search, for those who look before a model does: it changes
// nothing.
func Search(ctx context.Context, call *skill.Call, env *skill.Env) (*skill.Result, error) {
	return stateful(search)(ctx, call, env)
}

// stateful refuses calls that come without a State.
func stateful(h skill.Code) skill.Code {
	return func(ctx context.Context, call *skill.Call, env *skill.Env) (*skill.Result, error) {
		if env.State == nil {
			return nil, mesh.Errorf(mesh.Precondition, call.Skill, "Tasks need the state service of the mesh; run the agent with --mesh")
		}
		return h(ctx, call, env)
	}
}

func create(ctx context.Context, call *skill.Call, env *skill.Env) (*skill.Result, error) {
	if err := flags.Require(call, "title"); err != nil {
		return nil, err
	}
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
		if _, err = env.State.Put(ctx, Kind, t.ID, data, 0); mesh.IsCode(err, mesh.Exhausted) && makeRoom(ctx, env) {
			_, err = env.State.Put(ctx, Kind, t.ID, data, 0)
		}
		if err == nil {
			return one("Created", t, now), nil
		}
		if !mesh.IsCode(err, mesh.Conflict) {
			return nil, mesh.Wrap(call.Skill, err)
		}
		there, _, err := load(ctx, env, t.ID)
		switch {
		case err != nil:
			return nil, err
		case there.Key == call.Key && there.Deleted != "":
			return nil, mesh.Errorf(mesh.Precondition, call.Skill, "The task %s was created under this key before, and was deleted since; create another one", there.ID)
		case there.Key == call.Key:
			return one("Created", there, now), nil
		}
	}
	return nil, mesh.Errorf(mesh.Unknown, call.Skill, "No id is free for the task")
}

func get(ctx context.Context, call *skill.Call, env *skill.Env) (*skill.Result, error) {
	ids := flags.List(call, "task_ids")
	if id := strings.TrimSpace(flags.Text(call, "task_id")); id != "" {
		ids = append([]string{id}, ids...)
	}
	ids = unique(ids)
	latest, err := flags.Bool(call, "recent")
	switch {
	case err != nil:
		return nil, err
	case latest && len(ids) > 0:
		return nil, mesh.InvalidField(call.Skill, "recent", "is given beside ids; give one of them")
	case latest:
		return recent(ctx, call, env)
	case len(ids) == 0:
		return nil, mesh.Errorf(mesh.Invalid, call.Skill, "Missing required flag: --task_id, --task_ids or --recent")
	case len(ids) > maxLimit:
		return nil, mesh.InvalidField(call.Skill, "task_ids", "has %d ids; at most %d are allowed", len(ids), maxLimit)
	}
	var b strings.Builder
	var found []*Task
	for _, id := range ids {
		t, _, err := read(ctx, env, id)
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

// unique keeps the first of equal ids.
func unique(ids []string) []string {
	var out []string
	for _, id := range ids {
		if !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

func recent(ctx context.Context, call *skill.Call, env *skill.Env) (*skill.Result, error) {
	page, err := flags.PageOf(call, 5, maxLimit)
	if err != nil {
		return nil, err
	}
	found, all, err := readAll(ctx, env)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(found, func(a, b *Task) int { return b.Updated.Compare(a.Updated) })
	return report("Recently changed tasks", page, found, all, env.Now()), nil
}

func update(ctx context.Context, call *skill.Call, env *skill.Env) (*skill.Result, error) {
	if err := flags.Require(call, "task_id"); err != nil {
		return nil, err
	}
	if !slices.ContainsFunc([]string{"title", "status", "due", "description", "priority", "assignee", "tags"}, func(name string) bool { return flags.Has(call, name) }) {
		return nil, mesh.InvalidField(call.Skill, "task_id", "comes alone; name what is to change, as --status done")
	}
	t, err := change(ctx, call, env, func(t *Task) error { return t.apply(call, env.Now().Location()) })
	if err != nil {
		return nil, err
	}
	return one("Updated", t, env.Now()), nil
}

func archive(ctx context.Context, call *skill.Call, env *skill.Env) (*skill.Result, error) {
	if err := flags.Require(call, "task_id"); err != nil {
		return nil, err
	}
	t, err := change(ctx, call, env, func(t *Task) error {
		if t.Archived = quote.Line(cmp.Or(flags.Text(call, "reason"), "not needed any more")); t.Archived == "" || len(t.Archived) > maxTitle {
			return mesh.InvalidField(call.Skill, "reason", "must have from 1 to %d bytes of visible text", maxTitle)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return one("Archived", t, env.Now()), nil
}

// remove deletes a task for good.
func remove(ctx context.Context, call *skill.Call, env *skill.Env) (*skill.Result, error) {
	if err := flags.Require(call, "task_id"); err != nil {
		return nil, err
	}
	id := strings.TrimSpace(flags.Text(call, "task_id"))
	for range maxAttempts {
		t, version, err := load(ctx, env, id)
		if err != nil {
			return nil, err
		}
		if t.Deleted != "" && t.Deleted != call.Key {
			return nil, missing(id)
		}
		if t.Deleted == "" {
			// Without room for it, there is no note: the task has the key.
			if err := claim(ctx, call, env, t); err != nil && !mesh.IsCode(err, mesh.Exhausted) {
				return nil, err
			}
			data, err := json.Marshal(&Task{ID: t.ID, Key: t.Key, Deleted: call.Key, Updated: env.Now().UTC().Truncate(time.Second)})
			if err != nil {
				return nil, mesh.Errorf(mesh.Unknown, call.Skill, "The task cannot be deleted: %w", err)
			}
			_, err = env.State.Put(ctx, Kind, t.ID, data, version)
			if mesh.IsCode(err, mesh.Conflict) {
				continue
			}
			if err != nil {
				return nil, mesh.Wrap(call.Skill, err)
			}
		}
		return &skill.Result{Content: "Deleted task " + t.ID + " for good.", Metadata: facts([]*Task{t})}, nil
	}
	return nil, contended(call)
}
