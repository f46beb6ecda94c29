package edge_test

import (
	"sync/atomic"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/handoff"
	"agentmesh/mesh/text/texttest"
)

// apart is a world in which main asked in one task, and handed over in another one to smith,
// who waits there; a client that knows only A2A has both. What main does with the answer ends
// when the gate opens.
func apart(t *testing.T, opts ...option) (w *world, one, two *a2a.Accepted, gate chan struct{}) {
	texttest.Fixed(t)
	w, gate = build(t, opts...), make(chan struct{})
	w.agent("main", func(s *scene) {
		switch {
		case s.told("handoff_return") != nil:
			s.answer("back")
		case s.text() == "one":
			s.move(asks, "What?")
		case s.text() == "two":
			s.must(s.give("smith", 0))
			s.move(completed, "")
		case s.msg.GetTaskId() == "":
			s.answer("main: " + s.text())
		default: // the answer to its question
			s.say("thinking. ")
			if s.until(gate) {
				s.put("answer", "so "+s.text(), true)
				s.move(completed, "")
			}
		}
	})
	w.agent("smith", func(s *scene) {
		if s.text() == "done" {
			s.answer("done")
			return
		}
		s.move(asks, "Which one?")
	})
	one = w.post(w.call(plain), say("one"))
	w.hear(one)
	two = w.post(w.call(plain), say("two"))
	w.hear(two)
	return w, one, two, gate
}

// However a handoff ends, main's work on the answer to what it asked in another task goes on:
// its answer is that task's, and nothing of the handoff is told there.
func TestAHandoffThatEndsLeavesWorkInOtherTasksAlone(t *testing.T) {
	end := func(w *world) {
		if _, err := w.any().handoffs.End(w.ctx(w.thread), w.key(), mesh.Principal{Tenant: "acme", User: "ann"}, handoff.End{Outcome: mesh.HandoffCancelled}); err != nil {
			w.t.Error(err)
		}
	}
	for name, tt := range map[string]struct {
		end  func(w *world, one, two *a2a.Accepted)
		more string // that main says in the first task
		text string // of the second task
		two  mesh.TaskState
	}{
		"by EndHandoff": {func(w *world, _, _ *a2a.Accepted) { end(w) }, "", "", canceled},
		"by a word":     {func(w *world, _, _ *a2a.Accepted) { w.post(w.call(plain), say("exit")) }, "", "back", completed},
		"by a word in its task": {func(w *world, _, two *a2a.Accepted) {
			w.post(w.call(plain), to(say("exit"), two.Task.Id))
		}, "", "back", completed},
		"by a button in the other": {func(w *world, one, _ *a2a.Accepted) {
			w.post(w.call(plain), to(flagged(say("and?"), true), one.Task.Id))
		}, "main: and?", "", canceled},
	} {
		t.Run(name, func(t *testing.T) {
			w, one, two, gate := apart(t)
			acc := w.post(w.call(plain), to(say("blue"), one.Task.Id))
			w.until(acc, func(h *heard) bool { return h.text != "" })
			tt.end(w, one, two)
			if w.fold().Handoff.Active() {
				t.Fatal("the handoff goes on")
			}
			close(gate)
			if h := w.hear(acc); h.text != "thinking. so blue"+tt.more || h.state != completed || len(h.words) > 0 {
				t.Errorf("the first task: %v", h)
			}
			if h := w.until(two, func(*heard) bool { return false }); h.state != tt.two || h.text != tt.text {
				t.Errorf("the second task: %v", h)
			}
		})
	}
}

// A word in a task in which another agent asked is said to that: it leaves nobody.
func TestAWordForWhoAskedElsewhereLeavesNobody(t *testing.T) {
	w, one, _, gate := apart(t)
	close(gate)
	if h := w.hear(w.post(w.call(plain), to(say("exit"), one.Task.Id))); h.text != "thinking. so exit" || !w.fold().Handoff.Active() {
		t.Errorf("heard %v", h)
	}
}

// An answer that parks a session that rests elsewhere is still the answer to the question.
func TestAnAnswerThatParksASessionIsAnAnswer(t *testing.T) {
	ahead := new(atomic.Int64)
	w, one, two, gate := apart(t, func(c *settings) {
		c.edge.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	close(gate)
	ahead.Store(int64(2 * time.Hour))
	h := w.hear(w.post(w.call(plain), to(say("blue"), one.Task.Id)))
	if s := w.fold(); h.text != "thinking. so blue" || s.Handoff.Outcome != mesh.HandoffParked || s.Turn(mesh.ExecutionID(two.Task.Id)).State != asks {
		t.Errorf("heard %v; the handoff is %+v", h, s.Handoff)
	}
}

// Who leaves without naming a task, when the agent is done and another one waits for the answer
// in a task of its own, leaves in a new task: that question stands.
func TestWhoLeavesIsAskedStillElsewhere(t *testing.T) {
	w, one, two, gate := apart(t)
	close(gate)
	w.hear(w.post(w.call(plain), to(say("done"), two.Task.Id)))
	left := w.post(w.call(plain), say("exit"))
	if h := w.hear(left); left.Task.Id == one.Task.Id || h.text != "back" || w.fold().Handoff.Active() {
		t.Errorf("left in %s, heard %v", left.Task.Id, h)
	}
	if h := w.hear(w.post(w.call(plain), to(say("blue"), one.Task.Id))); h.text != "thinking. so blue" {
		t.Errorf("heard %v", h)
	}
}
