package edge_test

import (
	"cmp"
	"slices"
	"testing"

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
