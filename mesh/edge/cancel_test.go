package edge_test

import (
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/text/texttest"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache"
)

func (w *world) cancel(id string) (*a2apb.Task, error) {
	return w.Cancel(w.ctx(""), &a2apb.CancelTaskRequest{Id: id})
}

// mustCancel cancels the task and checks that it is.
func (w *world) mustCancel(id string) {
	w.t.Helper()
	task, err := w.cancel(id)
	if err != nil || task.GetStatus().GetState() != canceled {
		w.t.Fatalf("cancel: %v, %v", task.GetStatus(), err)
	}
}

// A running agent is told, and has the last word about its own output.
func TestCancelTellsTheRunningAgentAndEndsTheTask(t *testing.T) {
	texttest.Fixed(t)
	for name, opts := range map[string][]as{"of the mesh": nil, "with task ids of its own": {foreign}} {
		t.Run(name, func(t *testing.T) {
			w := build(t)
			main := w.agent("main", func(s *scene) {
				s.say("I will ")
				s.until(nil)
				s.put("answer", "not", true)
				s.move(canceled, "")
			}, opts...)
			acc := w.send("go")
			w.until(acc, func(h *heard) bool { return h.text != "" })
			w.mustCancel(acc.Task.Id)
			h := w.hear(acc)
			if h.state != canceled || h.text != "I will not" || h.lastWords() != "Canceled." {
				t.Errorf("heard %v", h)
			}
			x := w.fold().Executions()[1]
			want := string(x.ID)
			if opts != nil {
				want = x.RemoteTask
			}
			if got := main.asked(); !slices.Equal(got, []string{want}) || want == "" {
				t.Errorf("the agent was asked to cancel %q, want %q", got, want)
			}
		})
	}
}

// An agent that does not care is cut off after the grace.
func TestATaskWhoseAgentIgnoresTheCancelEndsAnyway(t *testing.T) {
	w := build(t, func(c *settings) { c.turn.CancelGrace = 20 * time.Millisecond })
	left := make(chan struct{})
	w.agent("main", func(s *scene) { s.say("singing"); s.until(nil); close(left) }, deaf)
	acc := w.send("go")
	w.until(acc, func(h *heard) bool { return h.text != "" })
	w.mustCancel(acc.Task.Id)
	<-left // its stream was closed
	if x := w.fold().Executions()[1]; x.State != canceled {
		t.Errorf("its execution is %v", x.State)
	}
}

// An agent that hears of the cancellation before it hears of the task is told
// again when it has begun.
func TestAnAgentThatIsCanceledBeforeItBeganIsToldAgain(t *testing.T) {
	w := build(t)
	called, gate := make(chan struct{}), make(chan struct{})
	main := w.agent("main", func(s *scene) {
		s.mu.Lock()
		delete(s.scenes, s.task) // it does not know the task yet
		s.mu.Unlock()
		close(called)
		<-gate
		s.mu.Lock()
		s.scenes[s.task] = s
		s.mu.Unlock()
		s.hang()
	})
	acc := w.send("go")
	<-called
	over := make(chan struct{})
	go func() { defer close(over); w.mustCancel(acc.Task.Id) }() // waited for below
	for len(main.asked()) == 0 {
		runtime.Gosched()
	}
	close(gate)
	<-over
	if h := w.hear(acc); h.state != canceled || len(main.asked()) != 2 {
		t.Errorf("heard %v; the agent was asked %d times", h, len(main.asked()))
	}
}

// A task that waits its turn ends at once and is never begun.
func TestAQueuedTaskIsCanceledBeforeItBegins(t *testing.T) {
	w := build(t)
	gate := make(chan struct{})
	main := w.agent("main", gated(gate))
	first, second, third := w.send("1"), w.send("2"), w.send("3")
	w.until(first, func(h *heard) bool { return h.state == working })
	w.mustCancel(second.Task.Id)
	close(gate)
	if h := w.hear(third); h.text != "you said 3" {
		t.Errorf("the third: %v", h)
	}
	if h := w.hear(second); h.state != canceled || h.text != "" || len(main.asked()) != 0 || main.plays.Load() != 2 {
		t.Errorf("the second: %v; %d calls, %v", h, main.plays.Load(), main.asked())
	}
}

// A task that waits for its user has no stream, and its agent is told still.
func TestATaskThatWaitsForItsUserIsCanceled(t *testing.T) {
	for name, state := range map[string]mesh.TaskState{"for words": asks, "for credentials": auth} {
		t.Run(name, func(t *testing.T) {
			w := build(t)
			main := w.agent("main", func(s *scene) { s.move(state, "Please") })
			acc := w.send("go")
			w.until(acc, func(h *heard) bool { return h.state == state })
			w.mustCancel(acc.Task.Id)
			w.close() // waits until the agent was told
			x := w.fold().Executions()[1]
			if got := main.asked(); x.State != canceled || !slices.Contains(got, string(x.ID)) {
				t.Errorf("execution %s is %v, the agent was asked to cancel %v", x.ID, x.State, got)
			}
		})
	}
}

// Agents below that wait for the user with it are told too, whoever asked them.
func TestAgentsThatWaitBelowACanceledTaskAreTold(t *testing.T) {
	w := build(t)
	w.agent("main", func(s *scene) { s.move(asks, "May I?") })
	mail := w.agent("mail", echo)
	acc := w.send("go")
	w.hear(acc)
	main := w.fold().Executions()[1].ID
	child := mesh.Execution{ID: mesh.NewExecutionID(w.thread), Parent: main, Kind: mesh.KindAgent, Agent: "mail", User: "ann"}
	err := w.nodes[0].states.Decide(t.Context(), w.key(), func(*thread.State) (cache.Decision, error) {
		return cache.Decision{Events: []*mesh.Event{
			{Execution: main, Actor: "agent:main", Body: mesh.DispatchIssued{Child: child}},
			{Execution: child.ID, Actor: "agent:mail", Body: mesh.TaskMoved{State: asks, Reason: mesh.ReasonApproval}},
		}}, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	w.mustCancel(acc.Task.Id)
	w.close() // waits until the agents were told
	if x := w.fold().Execution(child.ID); x.State != canceled || !slices.Equal(mail.asked(), []string{string(child.ID)}) {
		t.Errorf("execution %s is %v, the agent was asked to cancel %v", x.ID, x.State, mail.asked())
	}
}

// What cannot be canceled says why (A2A v1.0 §3.1.5).
func TestATaskThatIsOverCannotBeCanceled(t *testing.T) {
	w := build(t)
	w.agent("main", func(s *scene) {
		if s.text() == "hang" {
			s.hang()
			return
		}
		echo(s)
	})
	acc := w.send("go")
	w.hear(acc)
	gone := w.send("hang")
	w.mustCancel(gone.Task.Id)
	seq := w.fold().Seq
	for _, id := range []string{acc.Task.Id, gone.Task.Id} {
		_, err := w.cancel(id)
		if e, _ := err.(*mesh.Error); e == nil || e.Code != mesh.Precondition || e.Reason != "TASK_NOT_CANCELABLE" {
			t.Errorf("got %v", err)
		}
	}
	if now := w.fold().Seq; now != seq {
		t.Errorf("the refusals wrote %d events", now-seq)
	}
}

// Whoever decides first in the log wins: the task is completed and cannot be
// canceled, or it is canceled, and everyone is told the same.
func TestAnAgentThatCompletesWhileItIsCanceledEndsTheTaskOnce(t *testing.T) {
	w := build(t)
	w.agent("main", func(s *scene) { s.say("x"); s.move(completed, "") })
	won := map[mesh.TaskState]int{}
	for range 40 {
		acc := w.send("go")
		task, err := w.cancel(acc.Task.Id)
		h := w.hear(acc)
		switch {
		case err == nil && (task.Status.State != canceled || h.state != canceled):
			t.Errorf("canceled as %v, heard %v", task.Status, h)
		case err != nil && (!mesh.IsCode(err, mesh.Precondition) || h.state != completed):
			t.Errorf("refused with %v, heard %v", err, h)
		}
		won[h.state]++
	}
	if won[canceled]+won[completed] != 40 {
		t.Errorf("ended as %v", won)
	}
}

// Many who cancel at once get the same answer, or learn that it was done.
func TestConcurrentCancelsAreOne(t *testing.T) {
	w := build(t)
	main := w.agent("main", (*scene).hang)
	acc := w.send("go")
	w.until(acc, func(h *heard) bool { return h.state == working })
	errs := make([]error, 20)
	var wg sync.WaitGroup
	for i := range errs {
		wg.Go(func() { _, errs[i] = w.cancel(acc.Task.Id) })
	}
	wg.Wait()
	ok := 0
	for _, err := range errs {
		if err == nil {
			ok++
		} else if !mesh.IsCode(err, mesh.Precondition) {
			t.Errorf("got %v", err)
		}
	}
	// It is told again when it had not begun yet.
	if n := len(main.asked()); ok == 0 || n < 1 || n > 2 {
		t.Errorf("%d succeeded, the agent was asked %d times", ok, n)
	}
}

// The next message does not wait for what is left of the one before: neither
// for an agent that ignores its cancellation, nor for one that gave the stream
// away and goes on.
func TestTheNextTurnDoesNotWaitForWhatIsLeftOfTheLast(t *testing.T) {
	w := build(t, func(c *settings) { c.turn.HandoffGrace = time.Minute })
	free := make(chan struct{})
	w.agent("main", func(s *scene) {
		s.ensure()
		s.must(s.give("smith", 0))
		s.until(free) // long after
	})
	w.agent("smith", func(s *scene) { s.answer("smith: " + s.text()) })
	for i := range 2 {
		if h := w.hear(w.send(fmt.Sprint(i))); h.text != fmt.Sprint("smith: ", i) {
			t.Errorf("heard %v", h)
		}
	}
	close(free)
}
