package edge_test

import (
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
)

// A task that is over is read the same however often, whoever did what with the
// answer before, and by those alone who might read it the first time.
func TestAFinishedTaskIsReadTheSameAgain(t *testing.T) {
	w := listing(t)
	for _, name := range []string{"main", "smith"} {
		w.agent(name, func(s *scene) { s.answer("done") })
	}
	acc := w.post(w.ctx(w.thread), say("go"))
	w.hear(acc)
	first := w.snapshot(acc.Task.Id)
	want := proto.CloneOf(first)
	first.Artifacts[0], first.History[0], first.Status = nil, nil, nil // the caller's own
	list := func() *a2apb.Task {
		tasks, _ := w.pages(w.anywhere(), &a2apb.ListTasksRequest{PageSize: size(2), IncludeArtifacts: proto.Bool(true)})
		if len(tasks) != 1 {
			t.Fatalf("%d tasks are listed", len(tasks))
		}
		return tasks[0]
	}
	for range 2 {
		for name, got := range map[string]*a2apb.Task{"read": w.snapshot(acc.Task.Id), "listed": list()} {
			if diff := cmp.Diff(want, got, protocmp.Transform()); diff != "" {
				t.Errorf("%s again (-first +now):\n%s", name, diff)
			}
			got.Artifacts, got.History[0] = nil, nil
		}
	}
	by := func(agent string) error {
		_, _, err := w.Task(w.call(func(c *mesh.Call) { c.Agent = agent }), acc.Task.Id)
		return err
	}
	if err := by("main"); err != nil {
		t.Errorf("by its own agent's address: %v", err)
	}
	if err := by("smith"); !mesh.IsCode(err, mesh.NotFound) {
		t.Errorf("by another agent's address: %v", err)
	}
	other := w.call(func(c *mesh.Call) { c.Principal.Tenant = "other" })
	if _, _, err := w.Task(other, acc.Task.Id); !mesh.IsCode(err, mesh.NotFound) {
		t.Errorf("by another tenant: %v", err)
	}
}

// Who takes less of a task that is over gets less, and nobody else does.
func TestAFinishedTaskIsWholeThoughSomebodyTookLess(t *testing.T) {
	w := build(t)
	w.agent("main", func(s *scene) {
		s.put("a", "one ", false)
		s.put("a", "two ", true)
		s.move(completed, "")
	})
	acc := w.send("go")
	w.hear(acc)
	part, _, err := w.Task(w.call(func(c *mesh.Call) { c.Room = 1 }), acc.Task.Id)
	if err != nil || part.Artifacts[0].Parts[0].GetText() != "one " || part.Metadata.GetFields()[mesh.KeyTruncated] == nil {
		t.Errorf("who takes less gets %v, %v", part, err)
	}
	whole := w.snapshot(acc.Task.Id)
	if whole.Artifacts[0].Parts[0].GetText() != "one two " || whole.Metadata.GetFields()[mesh.KeyTruncated] != nil {
		t.Errorf("who takes all gets %v", whole)
	}
}

// A task goes with its thread, wherever that was deleted, and whatever thread comes
// after it under the same id.
func TestAFinishedTaskGoesWithItsThread(t *testing.T) {
	w := listing(t)
	w.agent("main", func(s *scene) { s.answer("done") })
	var gone []string
	for range 3 {
		acc := w.post(w.ctx(w.thread), say("go"))
		w.hear(acc)
		w.snapshot(acc.Task.Id)
		for _, id := range gone {
			if _, _, err := w.Task(w.ctx(w.thread), id); !mesh.IsCode(err, mesh.NotFound) {
				t.Errorf("of a thread that was there before: %v", err)
			}
		}
		if err := w.any().states.Delete(t.Context(), w.key(), func(*thread.State) error { return nil }); err != nil {
			t.Fatal(err)
		}
		gone = append(gone, acc.Task.Id)
		if _, _, err := w.Task(w.ctx(w.thread), acc.Task.Id); !mesh.IsCode(err, mesh.NotFound) {
			t.Errorf("of a thread that is deleted: %v", err)
		}
		if tasks, _ := w.pages(w.anywhere(), &a2apb.ListTasksRequest{PageSize: size(2)}); len(tasks) > 0 {
			t.Errorf("listed although deleted: %v", tasks)
		}
	}
}
