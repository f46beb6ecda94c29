package edge_test

import (
	"slices"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/text/texttest"
	"agentmesh/mesh/thread"
)

// asking is a world in which main handed over to smith, who asks each user; bob takes part, and
// asked for something too if he is to.
func asking(t *testing.T, both bool) (w *world, smith *actor, ann, bobs *a2a.Accepted) {
	texttest.Fixed(t)
	w = build(t)
	w.agent("main", func(s *scene) {
		if s.text() == "go" {
			s.must(s.give("smith", 0))
			s.move(completed, "")
			return
		}
		s.answer("main: " + s.text())
	})
	smith = w.agent("smith", func(s *scene) {
		if s.text() == "work" {
			s.say("working. ")
			s.hang()
			return
		}
		s.move(asks, "Which one?")
	})
	ann = w.send("go")
	w.hear(ann)
	w.share("bob")
	if both {
		bobs = w.post(w.call(bob), say("for me, too"))
		w.hear(bobs)
	}
	return w, smith, ann, bobs
}

// S4-036, S4-046: to cancel the task in which the agent of a handoff asks its user leaves it: the
// handoff ends as cancelled by who did, with what it noted, in one decision with the task, and
// the next message is main's. Tasks of others in which it waits are over, too.
func TestToCancelTheTaskInWhichASessionAsksLeavesIt(t *testing.T) {
	for name, tt := range map[string]struct {
		who  func(*mesh.Call)
		both bool
	}{
		"its user":                        {plain, false},
		"who takes part":                  {bob, false},
		"its user, while another one was": {plain, true},
	} {
		t.Run(name, func(t *testing.T) {
			w, smith, ann, bobs := asking(t, tt.both)
			ctx := w.call(tt.who)
			by, _ := mesh.CallFrom(ctx)
			task, err := w.Cancel(ctx, &a2apb.CancelTaskRequest{Id: ann.Task.Id})
			if err != nil || task.GetStatus().GetState() != canceled {
				t.Fatalf("canceled as %v, %v", task.GetStatus(), err)
			}
			s := w.fold()
			at, _ := s.Session(time.Now())
			if s.Handoff.Active() || s.Handoff.Outcome != mesh.HandoffCancelled || !at.Left || at.Agent != "smith" {
				t.Errorf("the handoff is %+v, the session %+v", s.Handoff, at)
			}
			end := slices.IndexFunc(w.logs()[w.key()], func(e *mesh.Event) bool { _, ends := e.Body.(mesh.HandoffEnded); return ends })
			if b := w.logs()[w.key()][end].Body.(mesh.HandoffEnded); b.By != "user:"+by.Principal.User {
				t.Errorf("it was ended by %s", b.By)
			}
			if bobs != nil {
				if m := w.snapshot(bobs.Task.Id).GetStatus(); m.GetState() != canceled || textOf(m.GetMessage().GetParts()) != "ann left smith for everybody in this conversation. You are back with the main assistant; smith can be continued later." {
					t.Errorf("bob's task is %v", m)
				}
			}
			if h := w.hear(w.post(w.call(tt.who), say("hello"))); h.text != "main: hello" {
				t.Errorf("heard %v", h)
			}
			w.close()
			if n := len(w.fold().Turns()); smith.plays.Load() != int64(n-1) || len(smith.asked()) != n-1 {
				t.Errorf("smith was asked %d times, and to cancel %v", smith.plays.Load(), smith.asked())
			}
		})
	}
}

// A session goes on when another user cancels what they asked of its agent, and when what it
// does is stopped: nobody said that it is to end.
func TestToCancelElseLeavesNoSession(t *testing.T) {
	goesOn := func(w *world, s *thread.State) {
		w.t.Helper()
		if !s.Handoff.Active() {
			w.t.Errorf("the handoff is %+v", s.Handoff)
		}
		if h := w.hear(w.send("more")); h.state != asks {
			w.t.Errorf("heard %v", h)
		}
	}
	t.Run("another user's", func(t *testing.T) {
		w, _, ann, bobs := asking(t, true)
		w.mustCancel(bobs.Task.Id)
		if x := w.fold().Turn(mesh.ExecutionID(ann.Task.Id)); x.State != asks {
			t.Errorf("ann's task is %v", x.State)
		}
		goesOn(w, w.fold())
	})
	t.Run("at work", func(t *testing.T) {
		w, _, ann, _ := asking(t, false)
		acc := w.send("work")
		w.until(acc, func(h *heard) bool { return h.text != "" })
		w.mustCancel(ann.Task.Id)
		goesOn(w, w.fold())
	})
}
