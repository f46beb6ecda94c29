package edge_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/call"
	"agentmesh/mesh/handoff"
	"agentmesh/mesh/text/texttest"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/threadlog"
)

// gives is a main agent that hands everything to smith and tells how it got
// control back.
func gives(s *scene) {
	if back := s.told("handoff_return"); back != nil {
		f := back.Fields
		s.answer("back: " + f["state"].GetStringValue() + ", " + f["result_summary"].GetStringValue())
		return
	}
	s.say("one moment. ")
	s.must(s.give("smith", 1))
	s.until(nil)
}

// S4-062, S4-063: a specialist that fails gives the stream back to main, which
// learns why and explains; the handoff is over, and what was said stays.
func TestMainExplainsWhenTheSpecialistFails(t *testing.T) {
	texttest.Fixed(t)
	tests := map[string]struct {
		play  func(*scene)
		said  string // before it failed
		words string
	}{
		"it dies":                 {(*scene).breaks, "", ": The agent could not be reached."},
		"it fails":                {func(s *scene) { s.move(failed, "no coal") }, "", ": no coal"},
		"it fails in the middle":  {func(s *scene) { s.say("half of it, "); s.move(failed, "no coal") }, "half of it, ", ": no coal"},
		"it says nothing":         {func(*scene) {}, "", ": The agent stopped without finishing its task."},
		"it rejects":              {func(s *scene) { s.move(a2apb.TaskState_TASK_STATE_REJECTED, "not mine") }, "", ": not mine"},
		"without any word":        {func(s *scene) { s.move(failed, "") }, "", "."},
		"it breaks the protocol":  {func(s *scene) { s.send(&a2apb.StreamResponse{}); s.until(nil) }, "", ": The agent sent an empty answer."},
		"it is at work for ever":  {(*scene).hang, "", ": The agent took too long and was stopped."},
		"it is silent, and stays": {func(s *scene) { <-s.ctx.Done() }, "", ": The agent took too long and was stopped."},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := build(t, func(c *settings) {
				if strings.HasSuffix(tt.words, "was stopped.") {
					c.turn.Limits.Agents = map[string]call.Limits{"smith": {Time: 30 * time.Millisecond}}
				}
			})
			w.agent("main", gives)
			w.agent("smith", tt.play)
			acc := w.send("go")
			h := w.hear(acc)
			if want := "one moment. " + tt.said + "back: error, smith could not go on" + tt.words; h.state != completed || h.text != want {
				t.Errorf("heard %v,\nwant %q", h, want)
			}
			if s := w.fold(); s.Handoff.Active() || s.Handoff.Outcome != mesh.HandoffError || s.ActiveAgent("main") != "main" {
				t.Errorf("the handoff is %+v", s.Handoff)
			}
		})
	}
}

// S4-031, S4-032, S4-037, S4-076: what the specialist is told; one that does
// not know the extension is told in words.
func TestTheSpecialistLearnsWhyItWasCalled(t *testing.T) {
	w := build(t)
	told := make(chan *scene, 1)
	smith := func(s *scene) { told <- s; s.answer("done") }
	w.agent("main", gives)
	w.agent("smith", smith)
	w.hear(w.send("go"))
	s := <-told
	f := s.told("handoff").GetFields()
	for name, want := range map[string]string{
		"type": "handoff", "thread_id": w.thread, "tenant_id": "acme", "user_id": "ann", "source_agent_id": "main",
		"target_agent_id": "smith", "handoff_reason": "because", "context_summary": "what was said", "state": "pending", // as GetHandoff has it until it is heard
	} {
		if got := f[name].GetStringValue(); got != want {
			t.Errorf("%s is %q, want %q", name, got, want)
		}
	}
	if r := f["recent_messages"].GetListValue().GetValues(); len(r) > 0 { // S4-076: nothing word by word
		t.Errorf("it is told %v", r)
	}
	if g := s.call.Principal.Grant; s.text() != "go" || g.User != "ann" || !g.Has(mesh.CapHandoff) || g.Has(mesh.CapCreateSkill) { // S4-072: of what agents may, what the user may
		t.Errorf("it got %q under %+v", s.text(), s.call.Principal.Grant)
	}
	w.thread = mesh.NewThreadID()
	w.agent("smith", smith, foreign)
	w.hear(w.send("go"))
	if s := <-told; s.text() != "Context: what was saidgo" {
		t.Errorf("a foreign specialist got %q", s.text())
	}
}

// S4-028: what the first agent says after it gave the stream away is kept for
// the record and shown to nobody; its execution is settled.
func TestWhatTheFirstAgentSaysLateIsLoggedAndNotShown(t *testing.T) {
	ends := map[string]struct {
		play  func(*scene)
		stays bool // until the grace is over
	}{
		"and completes": {func(s *scene) { s.move(completed, "bye") }, false},
		"and asks":      {func(s *scene) { s.move(asks, "Hello?") }, false},
		"and goes on":   {func(s *scene) { s.hang() }, true},
		"and is deaf":   {func(s *scene) { <-s.ctx.Done() }, true},
		"and breaks":    {(*scene).breaks, false},
	}
	for name, tt := range ends {
		t.Run(name, func(t *testing.T) {
			w := buildOne(t, func(c *settings) {
				if !tt.stays {
					c.turn.HandoffGrace = patient
				}
			})
			w.agent("main", func(s *scene) {
				s.say("over to smith. ")
				s.logged("over to smith. ")
				late := func(err error) error {
					s.must(err)
					s.put("answer", "too late", true)
					s.logged("too late")
					return nil
				}
				if tt.stays { // while the thread's state is held, no grace begins
					s.must(w.nodes[0].states.With(s.ctx, w.key(), func(*thread.State) error { return late(s.push("smith")) }))
				} else {
					s.must(late(s.give("smith", 1)))
				}
				tt.play(s)
			})
			w.agent("smith", func(s *scene) {
				s.logged("too late")
				s.answer("I am smith")
				s.until(nil)
			})
			acc := w.send("go")
			h := w.hear(acc)
			if h.state != completed || h.text != "over to smith. I am smith" || slices.Contains(h.words, "Hello?") || slices.Contains(h.words, "bye") {
				t.Errorf("heard %v", h)
			}
			if task := w.snapshot(acc.Task.Id); len(task.Artifacts) != 2 || textOf(task.Artifacts[0].Parts) != "over to smith. " {
				t.Errorf("the task has %v", task.Artifacts)
			}
			if x := w.fold().Executions()[1]; !mesh.Terminal(x.State) {
				t.Errorf("main's execution is %v", x.State)
			}
		})
	}
}

// finding N12: what an agent says after its EndHandoff is kept for the record and shown to nobody,
// as after its StartHandoff; the stream is main's from that call on.
func TestWhatASpecialistSaysAfterItGaveTheStreamBackIsLoggedAndNotShown(t *testing.T) {
	texttest.Fixed(t)
	ends := map[string]struct {
		play  func(*scene)
		first bool // before main is called
	}{
		"and completes":                    {func(s *scene) { s.move(completed, "bye") }, false},
		"and asks":                         {func(s *scene) { s.move(asks, "Hello?") }, false},
		"and breaks":                       {(*scene).breaks, false},
		"and completes before main begins": {func(s *scene) { s.move(completed, "bye") }, true},
	}
	for name, tt := range ends {
		t.Run(name, func(t *testing.T) {
			w := buildOne(t, func(c *settings) { c.turn.HandoffGrace = patient })
			w.agent("main", func(s *scene) {
				if s.told("handoff_return") != nil {
					s.logged("too late")
				}
				gives(s)
			})
			w.agent("smith", func(s *scene) {
				s.say("here it is. ")
				s.logged("here it is. ")
				late := func(err error) error {
					s.must(err)
					s.put("answer", "too late", true)
					s.put("another", "much too late", false)
					s.logged("too late")
					return nil
				}
				if tt.first { // while the thread's state is held, nobody is called
					s.must(w.nodes[0].states.With(s.ctx, w.key(), func(st *thread.State) error {
						return late(s.decide(mesh.HandoffEnded{Started: st.Handoff.Seq, Outcome: mesh.HandoffCompleted, Summary: "made"}))
					}))
				} else {
					s.must(late(s.giveBack("made", 1)))
				}
				tt.play(s)
			})
			acc := w.send("go")
			h := w.hear(acc)
			if h.state != completed || h.text != "one moment. here it is. back: completed, made" || slices.Contains(h.words, "Hello?") || slices.Contains(h.words, "bye") {
				t.Errorf("heard %v", h)
			}
			if task := w.snapshot(acc.Task.Id); len(task.Artifacts) != 3 || textOf(task.Artifacts[1].Parts) != "here it is. " {
				t.Errorf("the task has %v", task.Artifacts)
			}
			s := w.await("smith is settled", func(s *thread.State) bool { return len(s.Executions()) > 2 && mesh.Terminal(s.Executions()[2].State) })
			if x := s.Executions()[2]; x.Agent != "smith" || s.Handoff.Outcome != mesh.HandoffCompleted || s.Handoff.Active() {
				t.Errorf("%s is %v, %s; the handoff is %+v", x.Agent, x.State, x.Reason, s.Handoff)
			}
		})
	}
}

// An agent that gives the stream away and then asks or completes, before the
// edge has noticed the first, is settled as handed off.
func TestAnExecutionThatEndsWithAHandoffIsSettledAsSuch(t *testing.T) {
	for name, tt := range map[string]struct{ last, want mesh.TaskState }{
		"completed": {completed, completed}, "asking": {asks, canceled},
	} {
		t.Run(name, func(t *testing.T) {
			w := build(t)
			w.agent("main", func(s *scene) {
				s.say("x")
				s.logged("x")
				// While the thread's state is held, nobody can react to what is logged.
				s.must(w.nodes[0].states.With(s.ctx, w.key(), func(*thread.State) error {
					err := s.push("smith")
					s.put("answer", "y", true)
					s.move(tt.last, "")
					s.logged("y")
					return err
				}))
			})
			held := make(chan struct{})
			w.agent("smith", func(s *scene) { s.ensure(); s.until(held); s.answer("z") })
			acc := w.send("go")
			s := w.await("main is settled", func(s *thread.State) bool {
				return len(s.Executions()) == 3 && mesh.Terminal(s.Executions()[1].State)
			})
			if x := s.Executions()[1]; x.State != tt.want || x.Reason != mesh.ReasonHandedOff {
				t.Errorf("main's execution is %v, %s", x.State, x.Reason)
			}
			close(held)
			if h := w.hear(acc); h.text != "xz" {
				t.Errorf("heard %v", h)
			}
		})
	}
}

// give without the rules of package handoff, as a node of another version may.
func (s *scene) push(target string) error {
	return s.decide(mesh.HandoffStarted{From: s.call.Principal.Grant.Agent, To: target})
}

// decide appends a decision about the thread's handoff, whoever holds the thread's state.
func (s *scene) decide(what mesh.Body) error {
	g := s.call.Principal.Grant
	var last mesh.Seq
	for _, ev := range s.w.logs()[g.Key()] {
		if scope, ok := mesh.ScopeOf(ev); ok && scope == mesh.ThreadScope {
			last = ev.Seq
		}
	}
	decided := &mesh.Event{Execution: g.Execution, Actor: "agent:" + g.Agent, Body: what}
	_, err := s.w.log.Append(s.ctx, g.Key(), []*mesh.Event{decided},
		threadlog.AppendOptions{Expect: map[mesh.Scope]mesh.Seq{mesh.ThreadScope: last}})
	return err
}

// Agents that hand over to each other for ever are stopped.
func TestTooManyHandoffsEndTheTask(t *testing.T) {
	for name, after := range map[string]func(*scene){
		"and go on": func(s *scene) { s.until(nil) }, "and complete": func(s *scene) { s.move(completed, "") },
	} {
		t.Run(name, func(t *testing.T) {
			w := build(t, func(c *settings) { c.turn.HandoffGrace = time.Millisecond })
			other := map[string]string{"main": "smith", "smith": "main"}
			var all []*actor
			for agent := range other {
				all = append(all, w.agent(agent, func(s *scene) { s.ensure(); s.must(s.push(other[agent])); after(s) }))
			}
			h := w.hear(w.send("go"))
			if h.state != failed || h.reason() != "TOO_MANY_HANDOFFS" {
				t.Errorf("heard %v", h)
			}
			if n := all[0].plays.Load() + all[1].plays.Load(); n != 10 {
				t.Errorf("%d legs, want 10", n)
			}
		})
	}
}

// Whether the handoff or the cancellation comes first, the task ends as
// canceled, once, and nothing of it is left.
func TestACancelThatRacesWithAHandoffEndsTheTask(t *testing.T) {
	for range 20 {
		w := build(t)
		ready := make(chan struct{})
		w.agent("main", func(s *scene) {
			s.say("x")
			close(ready)
			if err := s.give("smith", 1); err != nil && !mesh.IsCode(err, mesh.Precondition) {
				s.must(err)
			}
			s.hang()
		})
		w.agent("smith", (*scene).hang)
		acc := w.send("go")
		<-ready
		w.mustCancel(acc.Task.Id)
		if h := w.hear(acc); h.state != canceled {
			t.Fatalf("heard %v", h)
		}
	}
}

// S4-036: the user gets out while the specialist works; main has the stream at
// once, and the specialist is told to stop.
func TestTheUserEndsAHandoffWhileTheSpecialistWorks(t *testing.T) {
	texttest.Fixed(t)
	w := build(t)
	w.agent("main", gives)
	smith := w.agent("smith", func(s *scene) { s.say("working. "); s.hang() })
	acc := w.send("go")
	w.until(acc, func(h *heard) bool { return strings.Contains(h.text, "working") })
	if _, err := w.any().handoffs.End(t.Context(), w.key(), mesh.Principal{Tenant: "acme", User: "ann"}, handoff.End{Outcome: mesh.HandoffCancelled, Summary: "enough"}); err != nil {
		t.Fatal(err)
	}
	h := w.hear(acc)
	if h.state != completed || h.text != "one moment. working. back: cancelled, enough" || !slices.Contains(h.words, "Returning you to the main assistant.") {
		t.Errorf("heard %v", h)
	}
	w.close()
	if x := w.fold().Executions()[2]; !mesh.Terminal(x.State) || !slices.Equal(smith.asked(), []string{string(x.ID)}) {
		t.Errorf("smith's execution %s is %v; it was asked to cancel %v", x.ID, x.State, smith.asked())
	}
}

// S4-026, S4-027, S4-064: messages that wait while the stream changes hands,
// and those after, go to the specialist until it gives control back.
func TestQueuedTurnsGoToWhoeverHasTheConversationThen(t *testing.T) {
	texttest.Fixed(t)
	w := build(t)
	gate := make(chan struct{})
	w.agent("main", func(s *scene) {
		s.ensure()
		s.until(gate)
		if s.text() == "go" {
			s.must(s.give("smith", 0))
			s.move(completed, "")
			return
		}
		s.answer("main: " + s.text())
	})
	w.agent("smith", func(s *scene) {
		s.say("smith: " + s.text() + ". ")
		if s.text() == "last" {
			s.must(s.giveBack("made", 1))
		}
		s.move(completed, "")
	})
	first, queued, last, after := w.send("go"), w.send("queued"), w.send("last"), w.send("after")
	close(gate)
	for i, want := range []string{"smith: go. ", "smith: queued. ", "smith: last. main: Control returns from smith (completed). made", "main: after"} {
		acc := []string{first.Task.Id, queued.Task.Id, last.Task.Id, after.Task.Id}[i]
		var text string
		w.await("turn is over", func(s *thread.State) bool {
			x := s.Turn(mesh.ExecutionID(acc))
			return x != nil && mesh.Terminal(x.State)
		})
		for _, a := range w.snapshot(acc).Artifacts {
			text += textOf(a.Parts)
		}
		if text != want {
			t.Errorf("turn %d: %q, want %q", i, text, want)
		}
	}
}
