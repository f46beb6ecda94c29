package tasks_test

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/state"
	"agentmesh/mesh/store/mem"
	"agentmesh/skills/tasks"
)

// bounded is the mesh's own State, which takes so many values of a kind.
type bounded struct{ kv *state.KV }

func boundedBy(most int) bounded { return bounded{state.New(mem.Open(), state.WithMaxKeys(most))} }

func key(kind, name string) state.Key {
	return state.Key{Tenant: mesh.DefaultTenant, Kind: kind, Name: name}
}

func (s bounded) Get(ctx context.Context, kind, name string) ([]byte, int64, error) {
	v, err := s.kv.Get(ctx, key(kind, name))
	return v.Data, v.Version, err
}

func (s bounded) Put(ctx context.Context, kind, name string, data []byte, version int64) (int64, error) {
	return s.kv.Put(ctx, key(kind, name), data, version)
}

func (s bounded) Delete(ctx context.Context, kind, name string, version int64) error {
	return s.kv.Delete(ctx, key(kind, name), version)
}

func (s bounded) List(ctx context.Context, kind, prefix, after string, limit int) ([]skill.Item, error) {
	found, _, err := s.kv.List(ctx, state.Page{Tenant: mesh.DefaultTenant, Kind: kind, Prefix: prefix, After: after, Limit: limit})
	var out []skill.Item
	for _, it := range found {
		out = append(out, skill.Item{Key: it.Name, Data: it.Data, Version: it.Version})
	}
	return out, err
}

func (s bounded) size(t *testing.T) int {
	t.Helper()
	items, err := s.List(t.Context(), tasks.Kind, "", "", state.MaxPage)
	if err != nil {
		t.Fatal(err)
	}
	return len(items)
}

// However often tasks are changed, the State does not run full of it, and the
// latest keys are known all the same.
func TestUpdate_doesNotFillTheState(t *testing.T) {
	t.Parallel()
	b, s := setup(t), boundedBy(258) // two tasks, and what is known of keys
	b.SetState(s)
	id, other := b.create(t, args{"title": "x"}), b.create(t, args{"title": "y"})
	for i := range 1200 {
		if r := b.call("tasks.update", fmt.Sprint("n", i), args{"task_id": id, "priority": "low"}); r.Failed() {
			t.Fatalf("change %d: %s", i, r.Content)
		}
	}
	if n := s.size(t); n > 258 {
		t.Errorf("there are %d values", n)
	}
	if r := b.call("tasks.update", "n1100", args{"task_id": other, "priority": "high"}); !mesh.IsCode(r.Err, mesh.Precondition) {
		t.Errorf("a key of another task: %+v", r)
	}
}

// What is known of keys is bounded in each value too, and the latest stay.
func TestUpdate_remembersTheLatestKeys(t *testing.T) {
	t.Parallel()
	b := setup(t)
	id, other := b.create(t, args{"title": "x"}), b.create(t, args{"title": "y"})
	b.call("tasks.update", "first", args{"task_id": id, "priority": "low"})
	slots, err := b.state.List(t.Context(), tasks.Kind, "keys-", "", 300)
	if err != nil || len(slots) != 1 {
		t.Fatalf("%v, %v", slots, err)
	}
	var notes []map[string]any
	if err := json.Unmarshal(slots[0].Data, &notes); err != nil {
		t.Fatal(err)
	}
	for i := range 64 {
		notes = append(notes, map[string]any{"key": fmt.Sprintf("%032d", i), "id": id, "rev": 0})
	}
	put := func(notes []map[string]any) {
		data, err := json.Marshal(notes)
		if err == nil {
			_, err = b.state.Put(t.Context(), tasks.Kind, slots[0].Key, data, skill.AnyVersion)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	put(notes[:64])
	if r := b.call("tasks.update", "first", args{"task_id": other, "priority": "low"}); !mesh.IsCode(r.Err, mesh.Precondition) {
		t.Errorf("the key is the first of 64: %+v", r)
	}
	put(notes[1:])
	if r := b.call("tasks.update", "first", args{"task_id": other, "priority": "low"}); r.Failed() {
		t.Errorf("the key was pushed out: %+v", r)
	}
	data, _, err := b.state.Get(t.Context(), tasks.Kind, slots[0].Key)
	if err != nil || json.Unmarshal(data, &notes) != nil || len(notes) != 64 || notes[63]["id"] != other {
		t.Errorf("%d notes, %v: %s", len(notes), err, data)
	}
	if _, err := b.state.Put(t.Context(), tasks.Kind, slots[0].Key, []byte("{"), skill.AnyVersion); err != nil {
		t.Fatal(err)
	}
	if r := b.call("tasks.update", "first", args{"task_id": id, "priority": "high"}); r.Failed() {
		t.Errorf("over what cannot be read: %+v", r)
	}
}

// Where there is no room any more, deleting works and makes some.
func TestDelete_worksWhenTheStateIsFull(t *testing.T) {
	t.Parallel()
	const most = 5
	b, s := setup(t), boundedBy(most)
	b.SetState(s)
	var ids []string
	for i := range most {
		ids = append(ids, b.create(t, args{"title": fmt.Sprint("task ", i)}))
	}
	if r := b.call("tasks.create", "", args{"title": "more"}); !mesh.IsCode(r.Err, mesh.Exhausted) || !strings.Contains(r.Content, "delete some first") {
		t.Errorf("beyond the bound: %+v", r)
	}
	if r := b.call("tasks.update", "u", args{"task_id": ids[1], "status": "done"}); !mesh.IsCode(r.Err, mesh.Exhausted) {
		t.Errorf("without room to remember the call: %+v", r)
	}
	for range 2 {
		if r := b.call("tasks.delete", "d", args{"task_id": ids[0]}); r.Failed() {
			t.Errorf("deleting: %+v", r)
		}
	}
	if r := b.call("tasks.update", "u", args{"task_id": ids[1], "status": "done"}); r.Failed() {
		t.Errorf("changing, after one was deleted: %+v", r)
	}
	for i, id := range ids[1:3] { // the note takes the room of the first
		b.Advance(time.Second)
		if r := b.call("tasks.delete", fmt.Sprint("d", i), args{"task_id": id}); r.Failed() {
			t.Errorf("deleting: %+v", r)
		}
	}
	for range 2 {
		if r := b.call("tasks.create", "c", args{"title": "more"}); r.Failed() {
			t.Errorf("creating, after some were deleted: %+v", r)
		}
	}
	if r := b.call("tasks.search", "", args{"status": "all"}); r.Metadata["count"] != 3 || s.size(t) > most {
		t.Errorf("%d values: %s", s.size(t), r.Content)
	}
}

// What earlier versions stored for each key is no task, and makes room.
func TestTasks_liveBesideKeysOfEarlierVersions(t *testing.T) {
	t.Parallel()
	const most = 300
	b, s := setup(t), boundedBy(most)
	b.SetState(s)
	id := b.create(t, args{"title": "x"})
	for i := range most - 1 {
		if _, err := s.Put(t.Context(), tasks.Kind, fmt.Sprintf("k-%032x", i), []byte(`{"id":"`+id+`","rev":0}`), 0); err != nil {
			t.Fatal(err)
		}
	}
	for name, a := range map[string]args{"tasks.search": {"status": "all"}, "tasks.get": {"recent": true}} {
		if r := b.call(name, "", a); r.Failed() || r.Metadata["count"] != 1 {
			t.Errorf("%s: %+v", name, r)
		}
	}
	for _, call := range []struct {
		name string
		args args
	}{
		{"tasks.create", args{"title": "y"}}, {"tasks.update", args{"task_id": id, "status": "done"}}, {"tasks.delete", args{"task_id": id}},
	} {
		if r := b.call(call.name, call.name, call.args); r.Failed() {
			t.Errorf("%s: %+v", call.name, r)
		}
	}
}
