package edge_test

import (
	"cmp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"agentmesh/mesh"
	"agentmesh/mesh/handoff"
	"agentmesh/mesh/text/texttest"
	"agentmesh/mesh/thread"
)

// bob takes part in ann's thread.
func bob(c *mesh.Call) { c.Principal.User = "bob" }

// twoWait is a parting world in which smith waits in two turns of one session: in one for ann,
// and in a later one for bob, or for ann again, who addressed another agent.
func twoWait(t *testing.T, again func(*mesh.Call), opts ...as) (w *world, smith *actor, first, second string) {
	t.Helper()
	texttest.Fixed(t)
	w = build(t)
	w.agent("main", func(s *scene) {
		if s.told("handoff_return") == nil && s.text() == "go" {
			s.must(s.give("smith", 0))
			s.until(nil)
			return
		}
		s.answer("main: " + s.text())
	})
	w.agent("other", echo)
	smith = w.agent("smith", func(s *scene) {
		if s.text() == "done" {
			s.must(s.giveBack("that was it", 0))
			s.until(nil)
			return
		}
		s.move(asks, "Which one?")
	}, opts...)
	a := w.send("go")
	w.hear(a)
	w.share("bob")
	b := w.post(w.call(again), say("and another"))
	if h := w.hear(b); h.state != asks || b.Task.GetId() == a.Task.GetId() {
		t.Fatalf("heard %v in %s after %s", h, b.Task.GetId(), a.Task.GetId())
	}
	return w, smith, a.Task.GetId(), b.Task.GetId()
}

// However a handoff ends, it ends in all turns in which its agent waits: whose user did not end
// it reads that main has the conversation, and has the next message answered by main, be it the
// word by which the question said that the agent is left. The agent's tasks are canceled, also
// at an agent that knows nothing of the mesh.
func TestAHandoffEndsWhereverItsAgentWaits(t *testing.T) {
	ends := map[string]struct {
		end  func(*world, string) error
		over bool // also the turn of who ended it
	}{
		"by its agent": {func(w *world, task string) error {
			w.until(w.post(w.ctx(w.thread), to(say("done"), task)), func(h *heard) bool { return h.state == completed })
			return nil
		}, false},
		"by a user": {func(w *world, _ string) error {
			_, err := w.any().handoffs.End(w.ctx(w.thread), w.key(), mesh.Principal{Tenant: "acme", User: "ann"}, handoff.End{Outcome: mesh.HandoffCancelled})
			return err
		}, true},
		"by exit": {func(w *world, task string) error {
			w.until(w.post(w.ctx(w.thread), to(say("exit"), task)), func(h *heard) bool { return h.state == completed })
			return nil
		}, false},
	}
	users := map[string]func(*mesh.Call){"of two users": bob, "of one user": func(c *mesh.Call) { c.Agent, c.Extensions = "other", nil }}
	for kind, opts := range map[string][]as{"of the mesh": nil, "of others": {foreign}} {
		for how, tt := range ends {
			for whose, again := range users {
				if kind == "of others" && how == "by its agent" { // it knows no handoff
					continue
				}
				t.Run(kind+", "+how+", "+whose, func(t *testing.T) {
					w, smith, first, second := twoWait(t, again, opts...)
					if err := tt.end(w, first); err != nil {
						t.Fatal(err)
					}
					s := w.fold()
					if s.Handoff.Active() {
						t.Fatalf("the handoff is %+v", s.Handoff)
					}
					was := s.Turn(mesh.ExecutionID(second))
					if was.State != canceled || was.Reason != mesh.ReasonHandedOff || textOf(was.Message.GetParts()) == "" || len(s.Unfinished(was.ID)) > 0 {
						t.Errorf("the other turn is %v %s %v", was.State, was.Reason, was.Message)
					}
					if own := s.Turn(mesh.ExecutionID(first)); tt.over && (own.State != canceled || len(s.Unfinished(own.ID)) > 0) {
						t.Errorf("the turn of who ended it is %v", own.State)
					}
					for _, words := range []string{"the blue one", "exit"} {
						if h := w.hear(w.post(w.call(again), say(words))); h.state != completed || h.text != "main: "+words && h.text != "you said "+words {
							t.Errorf("%q: heard %v", words, h)
						}
					}
					w.close()
					if got := smith.asked(); !slices.Contains(got, taskAt("smith", s, second)) || !slices.Contains(got, taskAt("smith", s, first)) {
						t.Errorf("smith was asked to cancel %v", got)
					}
				})
			}
		}
	}
}

// taskAt is what the agent calls its task in the turn.
func taskAt(agent string, s *thread.State, turn string) string {
	for _, x := range s.Executions() {
		if x.Agent == agent && x.Parent == mesh.ExecutionID(turn) {
			return cmp.Or(x.RemoteTask, string(x.ID))
		}
	}
	return ""
}

// What parks a session ends the tasks of its agent too, in all turns in which it waits: a later
// session is another one. An agent that knows nothing of the mesh goes on in the context that
// it calls the conversation.
func TestAParkedSessionEndsTheTasksOfItsAgent(t *testing.T) {
	for kind, opts := range map[string][]as{"of the mesh": nil, "of others": {foreign}} {
		t.Run(kind, func(t *testing.T) {
			w, ahead, mains := parting(t)
			smith := w.agent("smith", func(s *scene) { s.move(asks, "and then?") }, opts...)
			first := w.send("go")
			w.hear(first)
			w.share("bob")
			second := w.post(w.call(bob), say("and I?"))
			w.hear(second)
			s := w.fold()
			ahead.Store(int64(2 * time.Hour))
			if h := w.in("hello"); h.state != completed || h.text != "main: hello" {
				t.Errorf("heard %v", h)
			}
			if h := w.hear(w.post(w.call(bob), to(say("hello"), second.Task.GetId()))); h.state != completed || h.text != "main: hello" {
				t.Errorf("bob heard %v", h)
			}
			soon(t, mains)
			if h := w.in("resume"); h.state != asks {
				t.Errorf("resumed: heard %v", h)
			}
			w.close()
			want := []string{taskAt("smith", s, first.Task.GetId()), taskAt("smith", s, second.Task.GetId())}
			slices.Sort(want)
			if got := slices.Sorted(slices.Values(smith.asked())); !slices.Equal(got, want) || smith.plays.Load() != 3 {
				t.Errorf("smith was asked to cancel %v, not %v, and had %d messages", got, want, smith.plays.Load())
			}
		})
	}
}

// An agent may work for longer than a session may rest: its user has as long to answer as ever,
// from when it asks, or is done, on.
func TestASessionRestsFromTheLastWorkOfItsAgentOn(t *testing.T) {
	for last, ask := range map[string]bool{"it asks": true, "it is done": false} {
		t.Run(last, func(t *testing.T) {
			ahead, worked, release := new(atomic.Int64), new(atomic.Int64), make(chan struct{})
			since := func(d *atomic.Int64) func() time.Time {
				return func() time.Time { return time.Now().Add(time.Duration(d.Load())) }
			}
			w := build(t, func(c *settings) { c.edge.Now, c.turn.Now = since(ahead), since(worked) })
			w.agent("main", func(s *scene) {
				if s.text() == "go" {
					s.must(s.give("smith", 0))
					s.until(nil)
					return
				}
				s.answer("main: " + s.text())
			})
			w.agent("smith", func(s *scene) {
				if s.text() != "go" {
					s.answer("smith: " + s.text())
					return
				}
				if s.say("working. "); !s.until(release) {
					return
				}
				if ask {
					s.move(asks, "Shall I save it?")
				} else {
					s.answer("made. ")
				}
			})
			acc := w.send("go")
			w.until(acc, func(h *heard) bool { return strings.Contains(h.text, "working") })
			worked.Store(int64(2 * time.Hour))
			close(release)
			w.hear(acc)
			worked.Store(0) // agents believe no ticket of a later time
			ahead.Store(int64(2*time.Hour + 59*time.Minute))
			if h := w.in("yes"); h.text != "smith: yes" {
				t.Errorf("answered within the hour: %v", h)
			}
			ahead.Store(int64(4 * time.Hour))
			if h := w.in("and"); h.text != "main: and" || w.fold().Handoff.Outcome != mesh.HandoffParked {
				t.Errorf("after more than an hour: %v", h)
			}
		})
	}
}
