package edge_test

import (
	"fmt"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/store/disk"
	"agentmesh/mesh/thread"
)

// finding C13: a message that comes while its thread is deleted is answered as one
// to a thread that is not there yet: it begins a new one, and never hears of what
// it raced with. One to a task that is gone hears that.
func TestSendsAndDeletionsOfAThreadDoNotMeet(t *testing.T) {
	s, err := disk.Open(filepath.Join(t.TempDir(), "mesh.db"), disk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	w := buildOn(t, s)
	w.agent("main", func(s *scene) { s.answer("done") })
	task := mesh.NewExecutionID(w.thread)
	deletions, refused := 0, 0
	for round := 0; round < 60 || (deletions < 5 || refused < 5) && !t.Failed(); round++ {
		before := string(task) // of the round before, and over
		var all sync.WaitGroup
		var deleted error
		var lead [2]time.Duration // of the deletion, or of the messages
		lead[round%2] = time.Duration(round%8) * 200 * time.Microsecond
		all.Go(func() {
			time.Sleep(lead[1])
			deleted = w.any().states.Delete(t.Context(), w.key(), func(s *thread.State) error {
				if s.Seq == 0 || s.NextTurn() != nil {
					return mesh.Errorf(mesh.Precondition, "test", "it is empty, or at work")
				}
				return nil
			})
		})
		all.Go(func() {
			if _, err := w.Send(w.ctx(w.thread), to(say("more"), before)); !mesh.IsCode(err, mesh.NotFound) && !mesh.IsCode(err, mesh.Precondition) {
				t.Errorf("round %d, to a task that is over or gone: %v", round, err)
			}
		})
		for i := range 3 {
			all.Go(func() {
				time.Sleep(lead[0])
				acc, err := w.Send(w.ctx(w.thread), say(fmt.Sprintf("message %d of round %d", i, round)))
				if mesh.IsCode(err, mesh.NotFound) {
					return // it was answered, and then deleted, before its sender looked
				}
				if err != nil {
					t.Errorf("round %d: %v", round, err)
					return
				}
				if i == 0 {
					task = mesh.ExecutionID(acc.Task.GetId())
				}
				for _, err := range w.Updates(w.ctx(w.thread), acc.Task.GetId(), acc.Cursor) {
					if err == nil {
						continue
					}
					if _, _, gone := w.Task(w.ctx(w.thread), acc.Task.GetId()); !mesh.IsCode(err, mesh.NotFound) || !mesh.IsCode(gone, mesh.NotFound) {
						t.Errorf("round %d, what became of it: %v; and it is there: %v", round, err, gone)
					}
				}
			})
		}
		all.Wait()
		switch {
		case deleted == nil:
			deletions++
		case mesh.IsCode(deleted, mesh.Precondition):
			refused++
		default:
			t.Errorf("round %d, deleting: %v", round, deleted)
		}
	}
	t.Logf("the thread was deleted %d times, and stayed %d times", deletions, refused)
}
