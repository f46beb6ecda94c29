package edge_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/proto"

	"agentmesh/mesh"
	"agentmesh/mesh/call"
	"agentmesh/mesh/registry"
	"agentmesh/mesh/rpc/rpctest"
	"agentmesh/mesh/text/texttest"
	"agentmesh/mesh/threadlog"
)

// S4-020: however an agent fails, the task ends as FAILED with words
// for people and a reason for programs, and what was said stays.
func TestATaskWhoseAgentFailsEndsWithTheReason(t *testing.T) {
	texttest.Fixed(t)
	tests := map[string]struct {
		play   func(*scene)
		reason string
		words  string // part of what the user reads
		down   bool   // the directory is told
	}{
		"dies in the middle": {(*scene).dies, mesh.ReasonUnavailable, "could not be reached", true},
		"is overloaded":      {(*scene).breaks, mesh.ReasonUnavailable, "could not be reached", true},
		"says nothing":       {func(*scene) {}, mesh.ReasonNoAnswer, "without finishing", false},
		"does not finish":    {func(s *scene) { s.say("half") }, mesh.ReasonNoAnswer, "without finishing", false},
		"refuses":            {func(s *scene) { s.err = mesh.Errorf(mesh.Invalid, "x", "I cannot read this") }, call.ReasonRefused, "I cannot read this", false},
		"fails by itself":    {func(s *scene) { s.move(failed, "I give up") }, "", "I give up", false},
		"is oversized":       {func(s *scene) { s.say(strings.Repeat("x", mesh.MaxEvent)); s.move(completed, "") }, mesh.ReasonIllegal, "1044480", false},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := build(t)
			w.agent("main", tt.play)
			acc := w.send("go")
			h := w.hear(acc)
			if h.state != failed || h.reason() != tt.reason || !strings.Contains(h.lastWords(), tt.words) {
				t.Errorf("heard %v", h)
			}
			if down := len(w.dir.reported()) > 0; down != tt.down {
				t.Errorf("reported as down: %v", w.dir.reported())
			}
			w.agent("main", echo)
			if h := w.hear(w.send("again")); h.state != completed {
				t.Errorf("the conversation does not go on: %v", h)
			}
		})
	}
}

// A message that would not fit into the log with all that goes with it is
// refused; the longest one that is taken is answered.
func TestTheLongestMessageIsAnsweredAndALongerOneRefused(t *testing.T) {
	w := build(t)
	w.agent("main", func(s *scene) { s.answer("ok") })
	req := say("")
	longest := mesh.MaxLogged - proto.Size(req.Message) - 64 // what ids and lengths take
	req.Message.Parts = text(strings.Repeat("x", longest))
	if h := w.hear(w.post(w.ctx(w.thread), req)); h.state != completed {
		t.Errorf("heard %v", h)
	}
	for _, n := range []int{mesh.MaxLogged, mesh.MaxEvent - 600} {
		_, err := w.Send(w.ctx(w.thread), say(strings.Repeat("x", n)))
		if e, _ := err.(*mesh.Error); e == nil || e.Code != mesh.Exhausted || e.Field != "message" || !strings.Contains(e.Detail, "send less") {
			t.Errorf("%d bytes: %v", n, err)
		}
	}
}

// Messages that wait for the same agent reach it as one, and that may be too
// long although none of them is: the task says so and ends.
func TestMessagesThatAreTooLongTogetherEndTheTask(t *testing.T) {
	texttest.Fixed(t)
	w := build(t)
	gate := make(chan struct{})
	main := w.agent("main", func(s *scene) {
		if s.text() == "go" {
			s.say("half")
			s.until(gate)
		}
		s.move(asks, "Which?")
	})
	acc := w.send("go")
	w.until(acc, func(h *heard) bool { return h.text != "" })
	for range 3 {
		w.post(w.ctx(w.thread), to(say(strings.Repeat("x", 400_000)), acc.Task.Id))
	}
	close(gate)
	h := w.until(acc, func(h *heard) bool { return false })
	if h.state != failed || h.reason() != "MESSAGE_TOO_LONG" || !strings.Contains(h.lastWords(), "send less") || main.plays.Load() != 1 {
		t.Errorf("heard %v; %d calls", h, main.plays.Load())
	}
}

// dies stops the agent's whole server in the middle of a word.
func (s *scene) dies() {
	s.say("hal")
	s.logged("hal")
	go s.stop() // it waits for us; the cleanup does for it
	<-s.ctx.Done()
}

// An agent that is not there fails the task, not the call.
func TestAnAgentThatIsNotThereFailsTheTask(t *testing.T) {
	texttest.Fixed(t)
	tests := map[string]struct {
		entry registry.Entry
		words string
	}{
		"refuses connections": {registry.Entry{Name: "main", Card: &a2apb.AgentCard{}, Endpoint: rpctest.Free(t), Live: true}, "could not be reached"},
		"is not live":         {registry.Entry{Name: "main"}, "main is not live"},
		"has no address":      {registry.Entry{Name: "main", Live: true}, "host:port"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			w := build(t)
			w.dir.agents["main"] = tt.entry
			h := w.hear(w.send("go"))
			if h.state != failed || h.reason() != mesh.ReasonUnavailable || !strings.Contains(h.lastWords(), tt.words) {
				t.Errorf("heard %v", h)
			}
		})
	}
}

// An agent that takes too long is stopped, and told so.
func TestAnAgentThatTakesTooLongIsStopped(t *testing.T) {
	// A machine may be too busy for the agent to say anything in so short a time.
	for timeout := 30 * time.Millisecond; ; timeout *= 4 {
		w := build(t, func(c *settings) { c.turn.Limits.Time = timeout })
		main := w.agent("main", func(s *scene) { s.say("hm"); <-s.ctx.Done() })
		acc := w.send("go")
		h := w.hear(acc)
		if h.text == "" && timeout < patient {
			continue
		}
		if h.state != failed || h.reason() != mesh.ReasonTimeout || h.text != "hm" {
			t.Errorf("heard %v", h)
		}
		w.close()
		if got := main.asked(); !slices.Equal(got, []string{string(w.fold().Executions()[1].ID)}) {
			t.Errorf("it was asked to cancel %v", got)
		}
		return
	}
}

// A2A v1.0 §7.6: credentials come another way; the task shows that it waits
// and goes on by itself.
func TestATaskThatWaitsForCredentialsGoesOn(t *testing.T) {
	w := build(t)
	granted := make(chan struct{})
	w.agent("main", func(s *scene) {
		s.say("before ")
		s.move(auth, "Sign in, please")
		s.until(granted)
		s.move(working, "")
		s.put("answer", "after", true)
		s.move(completed, "")
	})
	acc := w.send("go")
	h := w.until(acc, func(h *heard) bool { return h.state == auth })
	if h.lastWords() != "Sign in, please" || w.snapshot(acc.Task.Id).Status.State != auth {
		t.Errorf("heard %v, the task is %v", h, w.snapshot(acc.Task.Id).Status)
	}
	close(granted)
	h = w.hear(acc)
	var states []mesh.TaskState
	for _, u := range h.all {
		s := u.Response.GetStatusUpdate()
		if s != nil && (len(states) == 0 || states[len(states)-1] != s.Status.State) {
			states = append(states, s.Status.State)
		}
	}
	if want := []mesh.TaskState{working, auth, working, completed}; !slices.Equal(states, want) || h.text != "before after" {
		t.Errorf("states %v and %q", states, h.text)
	}
}

// An agent may also end its stream while it waits for credentials: the task
// rests, says so once, and goes on with the next message.
func TestATaskWhoseAgentRestsForCredentialsRestsToo(t *testing.T) {
	w := build(t)
	main := w.agent("main", func(s *scene) {
		if s.text() == "go" {
			s.move(auth, "Sign in, please")
			return
		}
		s.answer("welcome")
	})
	acc := w.send("go")
	said := 0 // by the agent, and when its leg was settled
	for ev, err := range w.log.Follow(w.ctx(w.thread), w.key(), 0, 0) {
		if err != nil {
			t.Fatal(err)
		}
		if moved, ok := ev.Body.(mesh.TaskMoved); ok && string(ev.Execution) != acc.Task.Id && moved.State == auth {
			said++
		}
		if said == 2 {
			break
		}
	}
	if s := w.fold(); s.Turns()[0].State != auth {
		t.Fatalf("the turn is %v (%s)", s.Turns()[0].State, s.Turns()[0].Reason)
	}
	h := w.hear(w.post(w.ctx(w.thread), to(say("done"), acc.Task.Id)))
	if h.state != completed || h.text != "welcome" || main.plays.Load() != 2 {
		t.Errorf("heard %v", h)
	}
	all := w.hear(acc)
	shown := 0
	for _, u := range all.all {
		if u.Response.GetStatusUpdate().GetStatus().GetState() == auth {
			shown++
		}
	}
	if shown != 1 {
		t.Errorf("the user was told %d times that it waits", shown)
	}
}

// What an agent said and the log did not take is missed by the user, who is not
// told that all is well.
func TestATaskWhoseOutputCannotBeLoggedFails(t *testing.T) {
	w := buildOne(t)
	w.agent("main", func(s *scene) {
		s.say("before ")
		s.logged("before ")
		w.store.full.Store(1)
		s.put("answer", "after", true)
		s.move(completed, "")
	})
	if h := w.hear(w.send("go")); h.state != failed || h.reason() != "LOG_UNAVAILABLE" || h.text != "before " {
		t.Errorf("heard %v", h)
	}
}

// A thread that is deleted while its agent waits for credentials takes its
// turn with it, and nobody else.
func TestAThreadThatIsDeletedUnderItsAgentHurtsNobody(t *testing.T) {
	w := build(t)
	granted := make(chan struct{})
	w.agent("main", func(s *scene) {
		if s.text() != "go" {
			echo(s)
			return
		}
		s.move(auth, "Sign in, please")
		s.until(granted)
		s.answer("too late")
	})
	acc := w.send("go")
	w.until(acc, func(h *heard) bool { return h.state == auth })
	if err := w.log.Delete(t.Context(), w.key(), threadlog.AnyPos); err != nil {
		t.Fatal(err)
	}
	w.forget(w.key())
	close(granted)
	again := w.send("hello") // the id may be used again
	if h := w.hear(again); h.state != completed || h.text != "you said hello" {
		t.Errorf("heard %v", h)
	}
	if n := len(w.fold().Turns()); n != 1 {
		t.Errorf("the new thread has %d turns", n)
	}
}

// What agents call their artifacts does not collide, over all legs of a turn,
// and an artifact goes on under its id when the leg does.
func TestArtifactsOfTheLegsAreKeptApart(t *testing.T) {
	w := build(t)
	w.agent("main", func(s *scene) {
		s.put("a", "main ", false)
		s.put("2.a", "odd ", false)
		s.must(s.give("smith", 2))
	})
	w.agent("smith", func(s *scene) {
		if s.text() == "go" {
			s.put("a", "smith ", false)
			s.move(asks, "Which?")
			return
		}
		s.begin(working, "a")
		s.put("a", "again ", true)
		s.put("b", "more", false)
		s.move(completed, "")
	})
	first := w.send("go")
	w.hear(first)
	second := w.send("that")
	w.hear(second)
	got := map[string]string{}
	for _, a := range w.snapshot(first.Task.Id).Artifacts {
		got[a.ArtifactId] = textOf(a.Parts)
	}
	want := map[string]string{"a": "main ", "1.2.a": "odd ", "2.a": "smith again ", "2.b": "more"}
	if len(got) != len(want) {
		t.Errorf("artifacts %q, want %q", got, want)
	}
	for id, words := range want {
		if got[id] != words {
			t.Errorf("artifact %q is %q, want %q", id, got[id], words)
		}
	}
}
