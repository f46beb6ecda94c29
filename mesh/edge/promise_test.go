package edge_test

import (
	"slices"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/thread"
)

// A task that was canceled is over: what its agent says afterwards, which does
// not care, is in no log, and nobody waits for it.
func TestWhatAnAgentSaysAfterItsCancelIsNotLogged(t *testing.T) {
	w := build(t, func(c *settings) { c.turn.CancelGrace, c.turn.HandoffGrace = 20*time.Millisecond, patient })
	left := make(chan struct{})
	w.agent("main", func(s *scene) {
		defer close(left)
		if s.text() != "go" {
			echo(s)
			return
		}
		s.say("singing")
		for s.ctx.Err() == nil { // on and on, until nobody listens
			s.put("answer", " la", true)
			time.Sleep(time.Millisecond)
		}
		s.put("answer", " late", true)
		s.move(completed, "done")
	}, deaf)
	acc := w.send("go")
	w.until(acc, func(h *heard) bool { return h.text != "" })
	w.mustCancel(acc.Task.Id)
	<-left
	w.close() // nothing writes any more
	events := w.logs()[w.key()]
	s := thread.Fold(events)
	turn := s.Turn(mesh.ExecutionID(acc.Task.Id))
	for _, ev := range events[turn.Ended:] {
		t.Errorf("after the end there is %T of %s", ev.Body, ev.Actor)
	}
	if x := s.Executions()[1]; turn.State != canceled || x.State != canceled {
		t.Errorf("the turn is %v, its agent's execution %v", turn.State, x.State)
	}
}

// An agent that gave the stream away and says no end is let go when the grace is
// over, while the node goes on.
func TestAnAgentThatLostTheStreamIsLetGo(t *testing.T) {
	w := build(t) // with a short grace for handoffs
	left := make(chan struct{})
	main := w.agent("main", func(s *scene) {
		s.must(s.give("smith", 0))
		<-s.ctx.Done()
		close(left)
	}, deaf)
	w.agent("smith", func(s *scene) {
		s.say("I am smith")
		s.until(left)
		s.move(completed, "")
	})
	if h := w.hear(w.send("go")); h.state != completed {
		t.Errorf("heard %v", h)
	}
	first := w.fold().Executions()[1]
	if got := main.asked(); first.State != canceled || !slices.Equal(got, []string{string(first.ID)}) {
		t.Errorf("the first agent's execution is %v; it was asked to cancel %v", first.State, got)
	}
}

// A turn that was accepted outlives a disk that takes nothing for a while,
// whenever that begins: when there is room again, and without a restart, it
// ends, and the conversation goes on.
func TestAnAcceptedTurnOutlivesAFullDisk(t *testing.T) {
	tests := map[string]struct {
		called bool // its agent, when the disk fills
		state  mesh.TaskState
	}{
		"before its agent was called": {false, completed},
		"while its agent works":       {true, failed}, // its words are lost, and it says so
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := buildOne(t)
			begun, release := make(chan struct{}), make(chan struct{})
			w.agent("main", func(s *scene) {
				if s.text() == "first" {
					close(begun)
					<-release
					s.move(completed, "")
					return
				}
				if s.text() == "go" && tt.called {
					s.say("before ")
					s.logged("before ")
					w.store.full.Store(1 << 30)
				}
				s.put("answer", "you said "+s.text(), true)
				s.move(completed, "")
			})
			posted := 2
			if !tt.called { // it waits for another turn, as else it begins with the message
				posted++
				w.send("first")
				<-begun
			}
			task := mesh.ExecutionID(w.send("go").Task.Id)
			if !tt.called {
				w.store.room.Store(1) // for the end of that turn
				close(release)
			}
			for range 3 { // what Run does by the clock
				for w.busy(w.key()) {
					time.Sleep(time.Millisecond)
				}
				w.tend()
			}
			if _, err := w.Send(w.ctx(w.thread), say("meanwhile")); !mesh.IsCode(err, mesh.Unavailable) {
				t.Errorf("a message that cannot be kept: %v", err)
			}
			for w.busy(w.key()) {
				time.Sleep(time.Millisecond)
			}
			if turn := w.fold().Turn(task); turn == nil || mesh.Terminal(turn.State) {
				t.Fatalf("on a full disk the turn is %+v", turn)
			}
			w.store.full.Store(0)
			w.tend()
			s := w.await("its end", func(s *thread.State) bool { turn := s.Turn(task); return turn != nil && mesh.Terminal(turn.State) })
			if turn := s.Turn(task); turn.State != tt.state || tt.state == failed && turn.Reason == "" {
				t.Errorf("the turn is %v because of %q", turn.State, turn.Reason)
			}
			if h := w.hear(w.send("hello")); h.state != completed || h.text != "you said hello" {
				t.Errorf("then: %v", h)
			}
			posts := 0
			for _, ev := range w.logs()[w.key()] {
				if _, ok := ev.Body.(mesh.MessagePosted); ok {
					posts++
				}
			}
			if posts != posted {
				t.Errorf("%d messages are in the log", posts)
			}
		})
	}
}
