package datafolder

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/api"
	"agentmesh/mesh/state"
	"agentmesh/mesh/store/disk"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
	"agentmesh/mesh/threadlog"
)

var (
	bob = mesh.Owner{Tenant: "acme", User: "bob"}
	ann = mesh.Owner{Tenant: "acme", User: "ann"}
)

// folder makes a data folder in which bob and eve have something, and ann has one value.
func folder(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	within(t, dir, func(store *disk.Store) {
		kv := state.New(store)
		for _, user := range []string{"bob", "eve"} {
			for i := range 3 {
				key := state.UserSpace("acme", user, "tasks").Key(fmt.Sprintf("t-%d", i))
				if _, err := kv.Put(t.Context(), key, []byte(user), 0); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := kv.Put(t.Context(), state.Key{Kind: "skill-owners", Name: "acme/" + user + ".skill"}, []byte(user), 0); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				id := mesh.NewThreadID()
				x := mesh.Execution{ID: mesh.NewExecutionID(id), Kind: mesh.KindTurn, Agent: "main", User: user, Text: "hi"}
				events := []*mesh.Event{{ID: mesh.NewEventID(), Actor: "user:" + user, Execution: x.ID, Body: mesh.TaskOpened{Execution: x}}}
				err := cache.New(threadlog.New(store), 0).Decide(t.Context(), mesh.ThreadKey{Tenant: "acme", ID: id}, func(*thread.State) (cache.Decision, error) {
					return cache.Decision{Events: events}, nil
				})
				if err != nil {
					t.Fatal(err)
				}
			}
		}
		if _, err := kv.Put(t.Context(), state.UserSpace("acme", "ann", "tasks").Key("t-1"), []byte("ann"), 0); err != nil {
			t.Fatal(err)
		}
	})
	return dir
}

func within(t *testing.T, dir string, do func(*disk.Store)) {
	t.Helper()
	store, err := disk.Open(filepath.Join(dir, file), disk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	do(store)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}
}

// holdings says what each user has.
func holdings(t *testing.T, dir string) map[string]int {
	t.Helper()
	got := map[string]int{}
	within(t, dir, func(store *disk.Store) {
		kv := state.New(store)
		for _, user := range []string{"ann", "bob", "eve"} {
			items, _, err := kv.List(t.Context(), state.UserSpace("acme", user, "tasks").Page(state.Page{Limit: 100}))
			if err != nil {
				t.Fatal(err)
			}
			if got[user+" values"] = len(items); user == "ann" {
				for _, it := range items {
					got["of "+string(it.Data)]++
				}
			}
			for _, skill := range []string{"bob.skill", "eve.skill"} {
				if of, err := api.NewSkillOwners(kv).Of(t.Context(), "acme", skill); err != nil {
					t.Fatal(err)
				} else if of == user {
					got[user+" skills"]++
				}
			}
		}
		log := threadlog.New(store)
		infos, err := log.Threads(t.Context(), "acme", 0, 100)
		if err != nil {
			t.Fatal(err)
		}
		for _, info := range infos {
			events, err := log.Read(t.Context(), info.Key, 0, 100)
			if err != nil {
				t.Fatal(err)
			}
			got[thread.Fold(events).Owner+" threads"]++
		}
	})
	return got
}

func chown(dir string, merges, files func() error) ([]Moved, error) {
	return Chown{Data: dir, From: bob, To: ann, Kinds: []string{"memory", "tasks"},
		Merge: func(_, _ string, had, more []byte) ([]byte, error) {
			if had != nil {
				more = had
			}
			return more, merges()
		},
		Files: func() ([]Moved, error) { return nil, files() },
	}.Run(context.Background(), nil)
}

// parts of T3: what is moved is all there, and once, wherever the move was cut short
// before, and nothing is moved twice.
func TestWhatWasCutShortIsMovedByTheNextRun(t *testing.T) {
	want := map[string]int{"ann values": 3, "of bob": 2, "of ann": 1, "ann skills": 1, "ann threads": 2,
		"bob values": 0, "eve values": 3, "eve skills": 1, "eve threads": 2}
	cut := errors.New("cut")
	fine := func() error { return nil }
	for k := range 4 {
		dir, left := folder(t), k
		if _, err := chown(dir, func() error {
			if left--; left < 0 {
				return cut
			}
			return nil
		}, fine); (err == nil) != (k == 3) {
			t.Fatalf("after %d values: %v", k, err)
		}
		if _, err := chown(dir, fine, fine); err != nil {
			t.Fatal(err)
		}
		got := holdings(t, dir)
		for what, n := range want {
			if got[what] != n {
				t.Errorf("cut after %d values: %s: %d, want %d", k, what, got[what], n)
			}
		}
		again, err := chown(dir, fine, fine)
		if err != nil || slices.ContainsFunc(again, func(m Moved) bool { return m.Count > 0 }) {
			t.Errorf("once more: %v, %v", again, err)
		}
	}
	dir := folder(t)
	if _, err := chown(dir, fine, func() error { return cut }); !errors.Is(err, cut) || holdings(t, dir)["bob values"] != 3 {
		t.Errorf("files that cannot be moved: %v", err)
	}
}

func TestNothingIsMovedUnderANode(t *testing.T) {
	fine := func() error { return nil }
	dir := folder(t)
	within(t, dir, func(*disk.Store) {
		if _, err := chown(dir, fine, fine); !mesh.IsCode(err, mesh.Precondition) {
			t.Errorf("in a folder that is open: %v", err)
		}
	})
	if _, err := chown(t.TempDir(), fine, fine); !mesh.IsCode(err, mesh.NotFound) {
		t.Errorf("in no data folder: %v", err)
	}
}
