package edge_test

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/thread"
)

// echo answers with what it was told.
func echo(s *scene) { s.answer("you said " + s.text()) }

// gated answers each message when the test opens its gate.
func gated(gate <-chan struct{}) func(*scene) {
	return func(s *scene) {
		s.ensure()
		if s.until(gate) {
			s.answer("you said " + s.text())
		} else {
			s.move(canceled, "")
		}
	}
}

// One turn at a time, in the order of the messages.
func TestTurnsOfAThreadRunInTheOrderOfTheirMessages(t *testing.T) {
	w := build(t)
	gate := make(chan struct{})
	var mu sync.Mutex
	var order []string
	w.agent("main", func(s *scene) {
		mu.Lock()
		order = append(order, s.text())
		mu.Unlock()
		gated(gate)(s)
	})
	var accs []*a2a.Accepted
	for i := range 6 {
		acc := w.send(fmt.Sprint("m", i))
		if acc.Task.GetStatus().GetState() != submitted || acc.Task.GetContextId() != w.thread {
			t.Errorf("message %d was answered with %v", i, acc.Task)
		}
		accs = append(accs, acc)
	}
	close(gate)
	var ends []mesh.Seq
	for i, acc := range accs {
		h := w.hear(acc)
		if h.state != completed || h.text != fmt.Sprint("you said m", i) {
			t.Errorf("turn %d: %v", i, h)
		}
		ends = append(ends, h.all[len(h.all)-1].Seq)
	}
	if want := []string{"m0", "m1", "m2", "m3", "m4", "m5"}; !slices.Equal(order, want) || !slices.IsSorted(ends) {
		t.Errorf("the agent heard %v, and turns ended at %v", order, ends)
	}
}

// Turns that wait are bounded; the refused message leaves nothing behind, and
// room that a turn leaves is room again.
func TestMoreMessagesThanMayWaitAreRefused(t *testing.T) {
	w := build(t, func(c *settings) { c.edge.MaxQueued = 2 })
	gate := make(chan struct{})
	w.agent("main", gated(gate))
	first := w.send("0")
	w.send("1")
	last := w.send("2")
	before := w.fold().Seq
	_, err := w.Send(w.ctx(w.thread), say("3"))
	if !mesh.IsCode(err, mesh.Exhausted) || mesh.DetailOf(err) == "" {
		t.Errorf("the fourth: %v, want Exhausted with what to do", err)
	}
	for _, ev := range w.logs()[w.key()][before:] {
		if _, posted := ev.Body.(mesh.MessagePosted); posted {
			t.Errorf("the refused message is in the log")
		}
	}
	if _, err := w.Send(w.ctx(mesh.NewThreadID()), say("elsewhere")); err != nil {
		t.Errorf("another thread: %v", err)
	}
	close(gate)
	w.hear(first)
	w.hear(last)
	w.send("3")
}

// A message to a task that an agent works on is taken, and given to the agent
// when it is done (A2A v1.0 §3.3.3).
func TestAMessageToAWorkingTaskIsDeliveredAfterTheLeg(t *testing.T) {
	for name, end := range map[string]func(*scene){
		"that completes": func(s *scene) { s.answer("first. ") },
		"that asks":      func(s *scene) { s.say("first. "); s.move(asks, "Which?") },
	} {
		t.Run(name, func(t *testing.T) {
			w := build(t)
			gate := make(chan struct{})
			main := w.agent("main", func(s *scene) {
				if s.text() == "go" {
					s.ensure()
					s.until(gate)
					end(s)
					return
				}
				s.put("more", "then "+s.text(), false)
				s.move(completed, "")
			})
			acc := w.send("go")
			w.until(acc, func(h *heard) bool { return h.state == working })
			again := w.post(w.ctx(w.thread), to(say("this"), acc.Task.Id))
			if again.Task.Id != acc.Task.Id {
				t.Errorf("the message opened %s, want it in %s", again.Task.Id, acc.Task.Id)
			}
			close(gate)
			h := w.until(acc, func(*heard) bool { return false })
			if h.state != completed || h.text != "first. then this" || slices.Contains(h.words, "Which?") {
				t.Errorf("heard %v", h)
			}
			if main.plays.Load() != 2 {
				t.Errorf("the agent was called %d times", main.plays.Load())
			}
			if n := len(w.snapshot(acc.Task.Id).History); n != 2 {
				t.Errorf("history has %d messages, want 2", n)
			}
		})
	}
}

// A hundred identical sends are one execution, and all of them hear it.
func TestAResendAttachesToItsTask(t *testing.T) {
	w := build(t)
	gate := make(chan struct{})
	main := w.agent("main", gated(gate))
	req := say("once")
	accs := make([]*a2a.Accepted, 100)
	var wg sync.WaitGroup
	for i := range accs {
		ctx := w.ctx(w.thread)
		wg.Go(func() {
			acc, err := w.Send(ctx, req)
			if err != nil {
				t.Errorf("send %d: %v", i, err)
			}
			accs[i] = acc
		})
	}
	wg.Wait()
	if t.Failed() {
		return
	}
	close(gate)
	for _, acc := range accs {
		if acc.Task.Id != accs[0].Task.Id {
			t.Fatalf("tasks %s and %s", acc.Task.Id, accs[0].Task.Id)
		}
		if h := w.hear(acc); h.state != completed || h.text != "you said once" {
			t.Errorf("heard %v", h)
		}
	}
	late := w.post(w.ctx(w.thread), req) // also when all is over
	if late.Task.Id != accs[0].Task.Id || late.Task.Status.State != completed || textOf(late.Task.Artifacts[0].Parts) != "you said once" {
		t.Errorf("afterwards: %v", late.Task)
	}
	inTask := to(say("once"), "")
	inTask.Message.MessageId = req.Message.MessageId
	if got := w.post(w.ctx(w.thread), inTask).Task.Id; got != accs[0].Task.Id {
		t.Errorf("the same bytes made another task, %s", got)
	}
	if main.plays.Load() != 1 || len(w.fold().Turns()) != 1 {
		t.Errorf("%d executions, %d turns, want 1 of each", main.plays.Load(), len(w.fold().Turns()))
	}
}

// Clients reuse message ids: other words, and other people, are no resend.
func TestTheSameMessageIDWithOtherContentIsANewMessage(t *testing.T) {
	w := build(t)
	w.agent("main", echo)
	req := say("one")
	first := w.post(w.ctx(w.thread), req)
	other := say("two")
	other.Message.MessageId = req.Message.MessageId
	second := w.post(w.ctx(w.thread), other)
	w.share("bob")
	bob := w.call(func(c *mesh.Call) { c.Principal.User = "bob" })
	third := w.post(bob, req)
	if first.Task.Id == second.Task.Id || first.Task.Id == third.Task.Id {
		t.Fatalf("tasks %s, %s, %s, want three", first.Task.Id, second.Task.Id, third.Task.Id)
	}
	for acc, want := range map[*a2a.Accepted]string{first: "you said one", second: "you said two", third: "you said one"} {
		if h := w.hear(acc); h.text != want {
			t.Errorf("heard %v, want %q", h, want)
		}
	}
	if users := w.fold().Turns(); users[0].User != "ann" || users[2].User != "bob" {
		t.Errorf("turns of %s and %s", users[0].User, users[2].User)
	}
}

// A client that leaves changes nothing.
func TestTheTurnFinishesWithoutItsClient(t *testing.T) {
	w := build(t)
	gate := make(chan struct{})
	w.agent("main", gated(gate))
	ctx, leave := context.WithCancel(w.ctx(w.thread))
	acc := w.post(ctx, say("go"))
	for u, err := range w.Updates(ctx, acc.Task.Id, acc.Cursor) {
		if err != nil {
			if !mesh.IsCode(err, mesh.Canceled) {
				t.Errorf("the client that left: %v", err)
			}
			continue
		}
		if u.Response.GetStatusUpdate() != nil {
			leave()
		}
	}
	leave()
	close(gate)
	w.await("the turn ends", func(s *thread.State) bool { return s.NextTurn() == nil && s.Turns() != nil })
	if task := w.snapshot(acc.Task.Id); task.Status.State != completed || textOf(task.Artifacts[0].Parts) != "you said go" {
		t.Errorf("the task is %v", task)
	}
}

// A message with a context alone goes on with what waits for its user, if the
// client speaks our extension; to a plain client it is a new task.
func TestAnAnswerWithoutTaskIDContinuesForThoseWhoSpeakTheExtension(t *testing.T) {
	w := build(t)
	w.agent("main", func(s *scene) {
		if s.text() == "go" {
			s.move(asks, "Which?")
			return
		}
		s.answer("ok " + s.text())
	})
	first := w.send("go")
	w.hear(first)
	w.share("bob")
	bob := w.post(w.call(func(c *mesh.Call) { c.Principal.User = "bob" }), say("mine"))
	plain := w.post(w.call(func(c *mesh.Call) { c.Extensions = nil }), say("new"))
	w.hear(bob)
	w.hear(plain)
	cont := w.send("that")
	if bob.Task.Id == first.Task.Id || plain.Task.Id == first.Task.Id || cont.Task.Id != first.Task.Id {
		t.Errorf("tasks %s (bob), %s (plain), %s; the first is %s", bob.Task.Id, plain.Task.Id, cont.Task.Id, first.Task.Id)
	}
	if h := w.hear(cont); h.state != completed || h.text != "ok that" {
		t.Errorf("heard %v", h)
	}
}
