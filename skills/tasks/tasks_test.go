package tasks_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/skilltest"
	"agentmesh/skills"
	"agentmesh/skills/tasks"
)

type args = map[string]any

type bench struct {
	x   *skill.Executor
	env skill.Env
	now time.Time
}

func setup(t *testing.T) *bench {
	t.Helper()
	c, _ := skill.Load(skills.FS)
	b := &bench{x: skill.NewExecutor(c.Get, tasks.Handlers()), now: time.Date(2026, 11, 20, 16, 0, 0, 0, time.FixedZone("CET", 3600))}
	b.env = skill.Env{Tenant: "default", User: "ann", State: new(skilltest.State), Now: func() time.Time { return b.now }}
	return b
}

func (b *bench) call(name, key string, a args) *skill.Result {
	return b.x.Execute(context.Background(), &skill.Call{Skill: name, Args: a, Key: key}, &b.env, nil)
}

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
	if diff := cmp.Diff(map[string]any{"count": 3, "task_ids": []string{late, yesterday, noon}}, r.Metadata); diff != "" {
		t.Error(diff)
	}
}

func TestSearch_filters(t *testing.T) {
	b := setup(t)
	for _, a := range []args{
		{"title": "alpha tax", "due": "2026-11-30", "tags": "Money, home"},
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
		"words anywhere":   {args{"query": "TAX"}, "alpha beta"},
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
	if r := b.call("tasks.search", "", args{"limit": 2.0}); !strings.HasSuffix(r.Content, "2 more; ask with a higher limit or a narrower search.") {
		t.Errorf("a cut list ends as %q", r.Content)
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
	if _, err := other.env.State.Put(context.Background(), tasks.Kind, id, []byte(`{"id":"`+id+`","title":"There","key":"other"}`), 0); err != nil {
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
	b.now = b.now.Add(time.Minute)
	two := b.create(t, args{"title": "Two"})
	b.now = b.now.Add(time.Minute)
	b.call("tasks.update", "", args{"task_id": one, "status": "done"})
	for name, tt := range map[string]struct {
		args args
		want []string
	}{
		"one":        {args{"task_id": one}, []string{"One (no due date, done)", "Details", "changed 2026-11-20 16:02"}},
		"several":    {args{"task_ids": one + "," + two + ",t-nope"}, []string{"One", "Two", "There is no task t-nope; find its id with tasks.search"}},
		"recent":     {args{"recent": true, "limit": "1"}, []string{"Recently changed tasks: 1", "1. One"}},
		"no id":      {nil, []string{"'task_id' is missing; give task_id, task_ids or recent"}},
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
	b.env.State = nil
	if r := b.call("tasks.search", "", nil); !r.Failed() || !strings.Contains(r.Content, "Tasks need the state service") {
		t.Errorf("without state: %+v", r)
	}
}
