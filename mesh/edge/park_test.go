package edge_test

import (
	"slices"
	"sync/atomic"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/handoff"
)

// parting is a world in which main hands over to smith, who asks on and on; and how much time
// passes beside that of the tests.
func parting(t *testing.T) (*world, *atomic.Int64, chan *scene) {
	ahead := new(atomic.Int64)
	w := build(t, func(c *settings) {
		c.edge.Now = func() time.Time { return time.Now().Add(time.Duration(ahead.Load())) }
	})
	mains := make(chan *scene, 10)
	w.agent("main", func(s *scene) {
		mains <- s
		if s.text() == "go" || s.text() == "resume" {
			s.must(s.give("smith", 0))
			s.move(completed, "")
			return
		}
		s.answer("main: " + s.text())
	})
	w.agent("smith", func(s *scene) {
		if s.text() == "done" {
			s.answer("smith: that was it")
			return
		}
		s.move(asks, "smith: and then?")
	})
	return w, ahead, mains
}

// in sends the words without the task's id, as clients that know the thread do.
func (w *world) in(words string) *heard { return w.hear(w.send(words)) }

// S4-029: after a break that was longer than a session may be, the conversation is main's: it
// is told once which session is parked, the task goes on with it, and the session's agent gets
// the conversation again when main hands it over once more.
func TestASessionIsParkedWhenItsUserSaidNothingForTooLong(t *testing.T) {
	w, ahead, mains := parting(t)
	w.in("go")
	soon(t, mains)
	ahead.Store(int64(59 * time.Minute))
	if h := w.in("within the hour"); h.state != asks {
		t.Fatalf("heard %v", h)
	}
	ahead.Store(int64(119*time.Minute + 30*time.Second)) // an hour and a half since the start, and more than one since the last word
	now := time.Now().Add(time.Duration(ahead.Load()))
	if h := w.fold().HandoffAt(now); h.State != mesh.HandoffState(mesh.HandoffParked) || !h.Active() {
		t.Errorf("before anybody says a word it is %+v", h)
	}
	h := w.in("hello again")
	if h.state != completed {
		for _, e := range w.logs()[w.key()] {
			t.Logf("%d %s %s %T %+v", e.Seq, e.Actor, e.Execution, e.Body, e.Time)
		}
		t.Fatalf("heard %v", h)
	}
	s := soon(t, mains)
	told := s.told("handoff_parked").GetFields()
	if h.state != completed || told["target_agent_id"].GetStringValue() != "smith" || told["state"].GetStringValue() != "parked" || s.text() != "hello again" {
		t.Errorf("heard %v; main got %q and is told %v", h, s.text(), told)
	}
	st := w.fold()
	if st.Handoff.Active() || st.Handoff.Outcome != mesh.HandoffParked || st.Handoff.State != mesh.HandoffState(mesh.HandoffParked) || st.ActiveAgent("main") != "main" {
		t.Errorf("the handoff is %+v", st.Handoff)
	}
	if turns := st.Turns(); len(turns) != 1 || len(st.Unfinished(turns[0].ID)) > 0 {
		t.Errorf("there are %d turns; %d executions are left open", len(turns), len(st.Unfinished(turns[0].ID)))
	}
	w.in("and now")
	if s := soon(t, mains); s.told("handoff_parked") != nil {
		t.Error("main is told again")
	}
	w.in("resume")
	soon(t, mains)
	if st := w.fold(); st.ActiveAgent("main") != "smith" || st.Handoff.State != mesh.HandoffActive {
		t.Errorf("resumed, the handoff is %+v", st.Handoff)
	}
}

// A client that names the task, another one's message, and a session between two tasks: the
// message is main's in each.
func TestEachWayToSpeakAgainParksTheSession(t *testing.T) {
	ways := map[string]struct {
		before string
		speak  func(*world, string) *heard
		turns  int
	}{
		"in the task": {"more", func(w *world, task string) *heard {
			return w.hear(w.post(w.ctx(w.thread), &a2apb.SendMessageRequest{Message: &a2apb.Message{
				MessageId: "again", TaskId: task, Role: a2apb.Role_ROLE_USER, Parts: []*a2apb.Part{{Content: &a2apb.Part_Text{Text: "again"}}}}}))
		}, 1},
		"in the thread":        {"more", func(w *world, _ string) *heard { return w.in("again") }, 1},
		"after a task is over": {"done", func(w *world, _ string) *heard { return w.in("again") }, 2},
	}
	for name, tt := range ways {
		t.Run(name, func(t *testing.T) {
			w, ahead, mains := parting(t)
			acc := w.send("go")
			w.hear(acc)
			soon(t, mains)
			w.in(tt.before)
			ahead.Store(int64(2 * time.Hour))
			h := tt.speak(w, acc.Task.Id)
			if s := soon(t, mains); h.state != completed || s.text() != "again" || s.told("handoff_parked") == nil {
				t.Errorf("heard %v; main got %q", h, s.text())
			}
			if st := w.fold(); len(st.Turns()) != tt.turns || st.Handoff.Outcome != mesh.HandoffParked {
				t.Errorf("%d turns, handoff %+v", len(st.Turns()), st.Handoff)
			}
		})
	}
}

// S4-036: who leaves a session that is over by time, whose question with the way out is still
// on the screen, has left it as any other, and is not told that it was parked.
func TestASessionThatIsOverByTimeIsLeftToo(t *testing.T) {
	for name, call := range modes {
		t.Run(name, func(t *testing.T) {
			w, ahead, mains := parting(t)
			w.in("go")
			soon(t, mains)
			ahead.Store(int64(2 * time.Hour))
			h := w.hear(w.post(w.call(call), say("exit")))
			s := soon(t, mains)
			if h.state != completed || s.told("handoff_parked") != nil || s.told("handoff_return").GetFields()["outcome"].GetStringValue() != "cancelled" {
				t.Errorf("heard %v; main is told %v", h, s.told("handoff_return"))
			}
			if st := w.fold(); st.Handoff.Active() || st.Handoff.Outcome != mesh.HandoffCancelled || len(st.Turns()) != 1 {
				t.Errorf("%d turns; the handoff is %+v", len(st.Turns()), st.Handoff)
			}
		})
	}
}

// Once a session is over by time its agent wants nothing of its user any more: who lacks
// meanwhile what it requires is answered by main.
func TestWhoLacksWhatAParkedAgentRequiresIsAnswered(t *testing.T) {
	w, ahead, mains := parting(t)
	w.agent("smith", func(s *scene) { s.move(asks, "and then?") }, param("required_permissions", "skill:create"))
	author := func(c *mesh.Call) { c.Principal.Roles = []mesh.Role{mesh.RoleSkillAuthor} }
	w.hear(w.post(w.call(author), say("go")))
	soon(t, mains)
	none := func(c *mesh.Call) { c.Principal.Roles = nil }
	if _, err := w.Send(w.call(none), say("and")); !mesh.IsCode(err, mesh.Denied) {
		t.Fatalf("within the hour: %v", err)
	}
	ahead.Store(int64(2 * time.Hour))
	if h := w.hear(w.post(w.call(none), say("hello"))); h.state != completed || h.text != "main: hello" {
		t.Errorf("heard %v", h)
	}
}

// finding O9: of a handoff from which nobody is to return, the agent keeps the stream in the
// very turn in which it says that it is done, and the next message is its own too.
func TestAnAgentThatStaysGoesOnInItsStream(t *testing.T) {
	w := build(t)
	w.agent("main", func(s *scene) {
		_, err := s.w.any().handoffs.Start(s.ctx, s.call.Principal.Grant, handoff.Start{Target: "smith", PreserveState: true})
		s.must(err)
		s.move(completed, "")
	})
	w.agent("smith", func(s *scene) {
		if s.text() == "go" {
			s.say("made. ")
			s.must(s.giveBack("it is made", 1))
			s.say("what else?")
			s.move(completed, "")
			return
		}
		s.answer("smith: " + s.text())
	})
	if h := w.in("go"); h.state != completed || h.text != "made. what else?" || slices.Contains(h.words, "Returning you to the main assistant.") {
		t.Errorf("heard %v", h)
	}
	if h := w.in("more"); h.text != "smith: more" {
		t.Errorf("heard %v", h)
	}
	if st := w.fold(); !st.Handoff.Active() || st.Handoff.Outcome != mesh.HandoffCompleted || st.Handoff.Result != "it is made" {
		t.Errorf("the handoff is %+v", st.Handoff)
	}
}

// soon returns what main was asked with.
func soon(t *testing.T, mains <-chan *scene) *scene {
	t.Helper()
	select {
	case s := <-mains:
		return s
	case <-time.After(patient / 4):
		t.Fatal("main was not asked")
		return nil
	}
}
