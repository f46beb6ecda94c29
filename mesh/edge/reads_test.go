package edge_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/threadlog"
)

// A library is a store that tells where it is read from.
type library struct {
	threadlog.Backend
	mu   sync.Mutex
	read func(after mesh.Seq)
}

func (l *library) Read(ctx context.Context, key mesh.ThreadKey, after mesh.Seq, limit int) ([]threadlog.Record, error) {
	l.mu.Lock()
	read := l.read
	l.mu.Unlock()
	if read != nil {
		read(after)
	}
	return l.Backend.Read(ctx, key, after, limit)
}

// watch has f told of reads from now on.
func (l *library) watch(f func(after mesh.Seq)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.read = f
}

// finding C13: who cancels a task reads what comes, and the task itself, but not the
// conversation before it.
func TestACancelReadsNothingFromBeforeItsTask(t *testing.T) {
	lib := &library{Backend: mem.Open()}
	w := rebuild(t, lib, "node-1")
	w.agent("main", func(s *scene) {
		if s.text() == "hello" {
			s.answer("hello")
			return
		}
		s.say("working. ")
		s.until(nil)
		s.move(canceled, "")
	})
	w.hear(w.send("hello"))
	acc := w.send("go")
	w.until(acc, func(h *heard) bool { return h.text != "" })
	opened := w.fold().Turn(mesh.ExecutionID(acc.Task.Id)).Opened
	var before sync.Map
	lib.watch(func(after mesh.Seq) {
		if after < opened-1 {
			before.Store(after, true)
		}
	})
	w.mustCancel(acc.Task.Id)
	lib.watch(nil)
	before.Range(func(after, _ any) bool {
		t.Errorf("the thread was read after %v; the task begins at %d", after, opened)
		return true
	})
}

// finding C13: what the calls of a turn did that was cut off is read from where the
// turn begins, a page at a time, and holds up nobody who uses the thread meanwhile.
func TestWhatCallsDidIsReadBesideTheDecision(t *testing.T) {
	lib := &library{Backend: mem.Open()}
	w := rebuild(t, lib, "node-1")
	w.agent("main", dispatcher(nil))
	w.hear(w.send("hello"))
	acc := w.send("stay")
	w.until(acc, func(h *heard) bool { return h.text != "" })
	s := w.fold()
	turn := s.Turn(mesh.ExecutionID(acc.Task.Id))
	own := turn.Leg().Execution
	w.called(own, "mail.send", "{}", &mesh.SkillReturned{Content: "ok"})
	for i := range 600 { // more than a page, and than a state reads at once
		w.called(own, fmt.Sprint("notes.add", i), "{}", &mesh.SkillReturned{Content: "no", Failed: true})
	}
	w.called(own, "tasks.create", "{}", nil)
	w.called(mesh.ExecutionID(w.send("later").Task.Id), "x.after", "{}", nil) // another turn's
	open := w.called(own, "tasks.delete", "{}", nil)
	w.crash()

	next := rebuild(t, lib, "node-2")
	next.thread = w.thread
	if err := next.nodes[0].states.With(t.Context(), next.key(), func(*thread.State) error { return nil }); err != nil { // folded now
		t.Fatal(err)
	}
	readings := 0
	lib.watch(func(after mesh.Seq) {
		if after < turn.Opened-1 {
			t.Errorf("the thread is read after %d; the turn begins at %d", after, turn.Opened)
		}
		if after == turn.Opened-1 {
			readings++
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			free := make(chan error, 1)
			go func() {
				free <- next.nodes[0].states.With(ctx, next.key(), func(*thread.State) error { return nil })
			}()
			select {
			case err := <-free:
				if err != nil {
					t.Error(err)
				}
			case <-ctx.Done():
				t.Error("the thread cannot be used while its calls are read")
			}
			switch readings { // what happens meanwhile has it read again
			case 1:
				next.called(own, "mail.late", "{}", nil)
			case 2:
				next.returned(own, open)
			case 3:
				next.called(own, "mail.last", "{}", &mesh.SkillReturned{Content: "ok"})
			}
		}
	})
	n, err := next.recover()
	lib.watch(nil)
	if n != 1 || err != nil || readings != 4 {
		t.Errorf("settled %d turns after %d readings, want 1 after 4: %v", n, readings, err)
	}
	said := next.hear(acc).lastWords()
	for _, list := range []string{"mail.send; tasks.delete; mail.last", "notes.add0; notes.add1;", "tasks.create; mail.late"} {
		if !strings.Contains(said, list) {
			t.Errorf("%q is not said: %s", list, said)
		}
	}
	if strings.Contains(said, "x.after") {
		t.Errorf("another turn's call is said: %s", said)
	}
}

// returned logs that a call came back.
func (w *world) returned(x mesh.ExecutionID, call string) {
	w.t.Helper()
	ev := &mesh.Event{Execution: x, Actor: "agent:main", Body: mesh.SkillReturned{Call: call, Content: "ok"}}
	if _, err := w.log.Append(w.t.Context(), w.key(), []*mesh.Event{ev}, threadlog.AppendOptions{}); err != nil {
		w.t.Fatal(err)
	}
}
