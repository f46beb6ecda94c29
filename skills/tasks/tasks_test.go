package tasks_test

import (
	"context"
	"fmt"
	"io/fs"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/skilltest"
	"agentmesh/skills"
	"agentmesh/skills/internal/testbench"
	"agentmesh/skills/tasks"
)

type args = map[string]any

type bench struct {
	*testbench.Bench
	state skill.State
}

func setup(t *testing.T, pages ...fs.FS) *bench {
	t.Helper()
	b := &bench{Bench: testbench.New(t, tasks.Handlers(), append(pages, skills.FS)...), state: new(skilltest.State)}
	b.SetState(b.state)
	return b
}

func (b *bench) call(name, key string, a args) *skill.Result { return b.Call(name, key, a) }

func (b *bench) create(t *testing.T, a args) string {
	t.Helper()
	r := b.call("tasks.create", "", a)
	if r.Failed() {
		t.Fatal(r.Content)
	}
	return r.Metadata["task_ids"].([]string)[0]
}

// S3-119: a task that was created is found again.
func TestSearch_reportsWhatIsOverdueFirstThingsFirst(t *testing.T) {
	b := setup(t)
	late := b.create(t, args{"title": "Pay the rent", "due": "2026-11-18", "priority": "high", "assignee": "Bob"})
	noon := b.create(t, args{"title": "Call Ann", "due": "2026-11-20T12:00"})
	yesterday := b.create(t, args{"title": "Water\nthe plants", "due": "2026-11-19", "status": "in_progress"})
	b.create(t, args{"title": "Due today", "due": "2026-11-20"})
	b.create(t, args{"title": "Finished", "due": "2026-11-01", "status": "done"})
	b.create(t, args{"title": "Some day"})
	b.call("tasks.archive", "", args{"task_id": b.create(t, args{"title": "Old", "due": "2026-11-01"})})

	r := b.call("tasks.search", "", args{"status": "overdue"})
	want := fmt.Sprintf(`Overdue tasks: 3, as of 2026-11-20

1. Pay the rent (due 2026-11-18, 2 days overdue, todo, high priority, assigned to Bob) [%s]
2. Water the plants (due 2026-11-19, 1 day overdue, in progress) [%s]
3. Call Ann (due 2026-11-20 12:00, overdue, todo) [%s]`, late, yesterday, noon)
	if diff := cmp.Diff(want, r.Content); diff != "" {
		t.Error(diff)
	}
	found := []map[string]any{{"id": late, "name": "Pay the rent"}, {"id": yesterday, "name": "Water the plants"}, {"id": noon, "name": "Call Ann"}}
	if diff := cmp.Diff(map[string]any{"count": 3, "task_ids": []string{late, yesterday, noon}, "found": found}, r.Metadata); diff != "" {
		t.Error(diff)
	}
}

func TestSearch_filters(t *testing.T) {
	b := setup(t)
	for _, a := range []args{
		{"title": "alpha taxes", "due": "2026-11-30", "tags": "Money, home"},
		{"title": "beta", "description": "about taxes", "due": "2026-12-01", "status": "blocked", "assignee": "Bob"},
		{"title": "gamma", "status": "done"},
		{"title": "delta", "priority": "low"},
		{"title": "epsilon", "priority": "high"},
	} {
		b.create(t, a)
	}
	archived := b.create(t, args{"title": "zeta"})
	b.call("tasks.archive", "", args{"task_id": archived})
	for name, tt := range map[string]struct {
		args args
		want string // first words of the titles
	}{
		"open unless told": {nil, "alpha beta epsilon delta"},
		"several statuses": {args{"status": "blocked, done"}, "beta gamma"},
		"all":              {args{"status": []any{"all"}}, "alpha beta epsilon gamma delta"},
		"archived":         {args{"status": "archived"}, "zeta"},
		"words anywhere":   {args{"query": "TAXES"}, "alpha beta"},
		"all words":        {args{"query": "my tasks about taxes beta"}, "beta"},
		"before a day":     {args{"due-before": "2026-12-01"}, "alpha"},
		"tags in any case": {args{"tags": "money,HOME"}, "alpha"},
		"of a person":      {args{"assignee": "bob"}, "beta"},
		"limited":          {args{"limit": 2.0}, "alpha beta"},
		"nothing":          {args{"query": "nothing like it"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := b.call("tasks.search", "", tt.args)
			if r.Failed() {
				t.Fatal(r.Content)
			}
			var got []string
			for line := range strings.SplitSeq(r.Content, "\n") {
				if number, rest, ok := strings.Cut(line, ". "); ok && len(number) == 1 {
					got = append(got, strings.Fields(rest)[0])
				}
			}
			if strings.Join(got, " ") != tt.want {
				t.Errorf("found %q, want %s, in\n%s", got, tt.want, r.Content)
			}
		})
	}
	r := b.call("tasks.search", "", args{"query": "nothing like it", "status": "overdue"})
	if want := `No tasks found: Overdue tasks matching "nothing like it", as of 2026-11-20.`; r.Content != want || r.Metadata["count"] != 0 {
		t.Errorf("no matches are told as %q %v", r.Content, r.Metadata)
	}
	if r := b.call("tasks.search", "", args{"limit": 2.0}); !strings.Contains(r.Content, ", as of 2026-11-20\nShown are 1 to 2 of 4; go on with --offset 2.\n\n1. ") {
		t.Errorf("a part of a list begins as %q", r.Content)
	}
}

func TestCreate_hasOneEffectPerKey(t *testing.T) {
	b := setup(t)
	var wg sync.WaitGroup
	results := make([]*skill.Result, 8)
	for i := range results {
		wg.Go(func() { results[i] = b.call("tasks.create", "k1", args{"title": "Once"}) })
	}
	wg.Wait()
	for _, r := range results[1:] {
		if diff := cmp.Diff(results[0], r); diff != "" {
			t.Error(diff)
		}
	}
	b.call("tasks.create", "k2", args{"title": "Twice"})
	if r := b.call("tasks.search", "", nil); r.Metadata["count"] != 2 {
		t.Errorf("found %s", r.Content)
	}
}

// An id that is taken by another task makes the new id longer.
func TestCreate_findsAFreeID(t *testing.T) {
	b := setup(t)
	id := b.call("tasks.create", "k1", args{"title": "First"}).Metadata["task_ids"].([]string)[0]
	other := setup(t)
	if _, err := other.state.Put(context.Background(), tasks.Kind, id, []byte(`{"id":"`+id+`","title":"There","key":"other"}`), 0); err != nil {
		t.Fatal(err)
	}
	r := other.call("tasks.create", "k1", args{"title": "Second"})
	if got := r.Metadata["task_ids"].([]string)[0]; r.Failed() || got == id || !strings.HasPrefix(got, id) {
		t.Errorf("id is %s, want a longer one than %s", got, id)
	}
}

func TestUpdate_losesNoChange(t *testing.T) {
	b := setup(t)
	id := b.create(t, args{"title": "Old title", "due": "2026-12-01"})
	var wg sync.WaitGroup
	for _, a := range []args{{"title": "New title"}, {"priority": "high"}, {"assignee": "Bob"}, {"tags": "a,b"}, {"due": "none"}} {
		wg.Go(func() {
			a["task_id"] = id
			if r := b.call("tasks.update", "", a); r.Failed() {
				t.Error(r.Content)
			}
		})
	}
	wg.Wait()
	r := b.call("tasks.get", "", args{"task_id": id})
	want := "New title (no due date, todo, high priority, assigned to Bob) [" + id + "]\nTags: a, b\nCreated 2026-11-20 16:00 by ann"
	if r.Content != want {
		t.Errorf("task is %q, want %q", r.Content, want)
	}
}

// S3-090: by id, by several ids, or the recent ones.
func TestGet_byIDsOrRecent(t *testing.T) {
	b := setup(t)
	one := b.create(t, args{"title": "One", "description": "Details"})
	b.Advance(time.Minute)
	two := b.create(t, args{"title": "Two"})
	b.Advance(time.Minute)
	b.call("tasks.update", "", args{"task_id": one, "status": "done"})
	for name, tt := range map[string]struct {
		args args
		want []string
	}{
		"one":        {args{"task_id": one}, []string{"One (no due date, done)", "Details", "changed 2026-11-20 16:02"}},
		"as a list":  {args{"task_ids": []any{two, one, two}}, []string{"Two (no due date, todo) [" + two + "]\nCreated 2026-11-20 16:01 by ann\n\nOne"}},
		"as a word":  {args{"recent": "true", "limit": "1"}, []string{"Recently changed tasks: 2, as of 2026-11-20\nShown are 1 to 1 of 2; go on with --offset 1.\n\n1. One"}},
		"both":       {args{"recent": true, "task_id": one}, []string{"'recent' is given beside ids; give one of them"}},
		"no limit":   {args{"recent": true}, []string{"Recently changed tasks: 2", "1. One", "2. Two"}},
		"several":    {args{"task_ids": one + "," + two + ",t-nope"}, []string{"One", "Two", "There is no task t-nope; find its id with tasks.search"}},
		"the rest":   {args{"recent": true, "offset": "1"}, []string{"2, as of 2026-11-20\nShown are 2 to 2 of 2, which are the last.\n\n2. Two"}},
		"no id":      {nil, []string{"Missing required flag: --task_id, --task_ids or --recent"}},
		"unknown id": {args{"task_id": "t-nope"}, []string{"Failed to execute 'tasks.get': There is no task t-nope; find its id with tasks.search."}},
		"too many":   {args{"recent": true, "limit": 1000.0}, []string{"'limit' must be from 1 to 100"}},
	} {
		r := b.call("tasks.get", "", tt.args)
		for _, want := range tt.want {
			if !strings.Contains(r.Content, want) {
				t.Errorf("%s: %q lacks %q", name, r.Content, want)
			}
		}
	}
}

func TestTasks_refuseWithRemedy(t *testing.T) {
	b := setup(t)
	id := b.create(t, args{"title": "x"})
	for name, tt := range map[string]struct {
		skill string
		args  args
		want  string
	}{
		"no title":        {"tasks.create", args{}, "Missing required field: 'title'"},
		"invisible title": {"tasks.create", args{"title": "\x00\x01"}, "'title' must have from 1 to 300 bytes"},
		"long title":      {"tasks.create", args{"title": strings.Repeat("x", 301)}, "'title' must have from 1 to 300 bytes"},
		"due in words":    {"tasks.create", args{"title": "x", "due": "tomorrow"}, `'due' must be a day as 2026-12-01 or a moment as 2026-12-01T14:00, and is "tomorrow"`},
		"bad priority":    {"tasks.create", args{"title": "x", "priority": "urgent"}, "'priority' must be one of: low, normal, high"},
		"bad status":      {"tasks.search", args{"status": "late"}, "'status' must be one of: todo, in_progress"},
		"bad due_before":  {"tasks.search", args{"due_before": "soon"}, "'due_before' must be a day"},
		"nothing changes": {"tasks.update", args{"task_id": id}, "name what is to change"},
		"unknown task":    {"tasks.update", args{"task_id": "t-nope", "status": "done"}, "There is no task t-nope"},
		"archive unknown": {"tasks.archive", args{"task_id": "t-nope"}, "There is no task t-nope"},
	} {
		if r := b.call(tt.skill, "", tt.args); !r.Failed() || !strings.Contains(r.Content, tt.want) {
			t.Errorf("%s: %+v, want %q", name, r, tt.want)
		}
	}
	b.SetState(nil)
	if r := b.call("tasks.search", "", nil); !r.Failed() || !strings.Contains(r.Content, "Tasks need the state service") {
		t.Errorf("without state: %+v", r)
	}
}

// S3-135, S3-054: create, search, get, update and delete are one life.
func TestTasks_areCreatedFoundChangedAndDeleted(t *testing.T) {
	b := setup(t)
	id := b.create(t, args{"title": "Renew the certificate"})
	b.create(t, args{"title": "Other"})
	for _, step := range []struct {
		skill string
		args  args
		want  string
	}{
		{"tasks.search", args{"query": "certificate"}, "Open tasks matching \"certificate\": 1"},
		{"tasks.get", args{"task_id": id}, "Renew the certificate (no due date, todo)"},
		{"tasks.update", args{"task_id": id, "status": "blocked"}, "Updated task Renew the certificate (no due date, blocked)"},
		{"tasks.archive", args{"task_id": id}, "archived: not needed any more"},
		{"tasks.delete", args{"task_id": id}, "Deleted task " + id + " for good."},
	} {
		if r := b.call(step.skill, "", step.args); r.Failed() || !strings.Contains(r.Content, step.want) {
			t.Errorf("%s gave %+v, want %q", step.skill, r, step.want)
		}
	}
	for name, more := range map[string]args{"tasks.get": {}, "tasks.update": {"status": "done"}, "tasks.archive": {}, "tasks.delete": {}} {
		more["task_id"] = id
		if r := b.call(name, "", more); !r.Failed() || !strings.Contains(r.Content, "There is no task "+id) {
			t.Errorf("%s of a deleted task gave %+v", name, r)
		}
	}
	for _, status := range []string{"all", "archived"} {
		if r := b.call("tasks.search", "", args{"status": status, "query": "certificate"}); r.Metadata["count"] != 0 {
			t.Errorf("a search found %s", r.Content)
		}
	}
	if r := b.call("tasks.get", "", args{"recent": true}); r.Failed() || strings.Contains(r.Content, "certificate") {
		t.Errorf("recent tasks are %s", r.Content)
	}
	data, _, err := b.state.Get(t.Context(), tasks.Kind, id)
	if err != nil || strings.Contains(string(data), "certificate") {
		t.Errorf("what is left is %s, %v", data, err)
	}
}

// A repeated call deletes once and brings nothing back.
func TestDelete_hasOneEffectPerKey(t *testing.T) {
	b := setup(t)
	created := b.call("tasks.create", "c", args{"title": "Once"})
	id := created.Metadata["task_ids"].([]string)[0]
	first := b.call("tasks.delete", "d", args{"task_id": id})
	if diff := cmp.Diff(first, b.call("tasks.delete", "d", args{"task_id": id})); diff != "" || first.Failed() {
		t.Errorf("%s\n%s", first.Content, diff)
	}
	if r := b.call("tasks.delete", "d2", args{"task_id": id}); !r.Failed() || !strings.Contains(r.Content, "There is no task "+id) {
		t.Errorf("another call gave %+v", r)
	}
	if r := b.call("tasks.create", "c", args{"title": "Once"}); !r.Failed() || !strings.Contains(r.Content, "was deleted since") {
		t.Errorf("creating it again under its key gave %+v", r)
	}
}

// S3-158, S3-087: a page that declares less than the handler needs changes
// nothing about what it accepts; a call that was corrected succeeds.
func TestTasks_checkWhatThePageDoesNot(t *testing.T) {
	page := func(name, params string) *fstest.MapFile {
		return &fstest.MapFile{Data: []byte("---\nname: " + name + "\ndescription: Mine\nhandler: " + name + "\nparameters:\n" + params + "---\nMine.\n")}
	}
	b := setup(t, fstest.MapFS{
		"tasks/create.md": page("tasks.create", "  - name: title\n  - name: status\n  - name: priority\n  - name: tags\n"),
		"tasks/search.md": page("tasks.search", "  - name: status\n  - name: limit\n"),
		"tasks/get.md":    page("tasks.get", "  - name: task_ids\n  - name: recent\n  - name: limit\n"),
		"tasks/update.md": page("tasks.update", "  - name: task_id\n  - name: status\n"),
		"tasks/delete.md": page("tasks.delete", "  - name: task_id\n"),
	})
	for want, tt := range map[string]struct {
		skill string
		args  args
	}{
		"Invalid arguments for 'tasks.create': Missing required flag: --title": {"tasks.create", args{"status": "todo"}},
		"'status' must be one of: todo, in_progress, blocked, done, and is":    {"tasks.create", args{"title": "x", "status": "late"}},
		"'priority' must be one of: low, normal, high, and is \"urgent\"":      {"tasks.create", args{"title": "x", "priority": "urgent"}},
		"and is \"late\"":                                                        {"tasks.search", args{"status": "open,late"}},
		"'limit' must be from 1 to 100":                                          {"tasks.search", args{"limit": "many"}},
		"'recent' must be true or false":                                         {"tasks.get", args{"recent": "perhaps"}},
		"Missing required flag: --task_id, --task_ids or --recent":               {"tasks.get", args{"limit": "1"}},
		"Invalid arguments for 'tasks.update': Missing required flag: --task_id": {"tasks.update", args{"status": "done"}},
		"Invalid arguments for 'tasks.delete': Missing required flag: --task_id": {"tasks.delete", nil},
	} {
		if r := b.call(tt.skill, "", tt.args); !r.Failed() || !strings.Contains(r.Content, want) {
			t.Errorf("%s: %+v, want %q", tt.skill, r, want)
		}
	}
	id := b.create(t, args{"title": "x", "tags": "a, b"})
	if r := b.call("tasks.get", "", args{"task_ids": id + ", t-nope"}); r.Failed() || !strings.Contains(r.Content, "Tags: a, b") {
		t.Errorf("corrected, the call gave %+v", r)
	}
	if r := b.call("tasks.search", "", args{"limit": "1"}); r.Failed() || !strings.HasPrefix(r.Content, "Open tasks: 1") {
		t.Errorf("without a status, the search gave %+v", r)
	}
}

// S3-079: a handler is called with flags and the context of the call, one
// handler per action, and needs nothing else.
func TestHandlers_executeFlagsInAContext(t *testing.T) {
	env := &skill.Env{Tenant: "default", User: "ann", State: new(skilltest.State), Now: time.Now}
	call := &skill.Call{Skill: "tasks.create", Key: "k", Args: args{"title": "Straight", "tags": []any{"a"}}}
	r, err := skilltest.Do(t.Context(), tasks.Handlers()["tasks.create"], call, env)
	if err != nil || !strings.HasPrefix(r.Content, "Created task Straight") {
		t.Fatalf("%+v, %v", r, err)
	}
	if items, err := env.State.List(t.Context(), tasks.Kind, "", "", 10); err != nil || len(items) != 1 {
		t.Errorf("stored are %v, %v", items, err)
	}
}
