package edge_test

import (
	"slices"
	"strings"
	"testing"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"google.golang.org/protobuf/types/known/structpb"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/text/texttest"
)

// leaves is an agent that is also left by the words.
func leaves(words ...any) as { return param("exit_words", words...) }

// param is an agent whose card gives the texts to the mesh.
func param(name string, words ...any) as {
	return func(_ *actor, c *a2apb.AgentCard) {
		list, err := structpb.NewList(words)
		if err != nil {
			panic(err)
		}
		c.Capabilities.Extensions[0].Params = &structpb.Struct{Fields: map[string]*structpb.Value{name: structpb.NewListValue(list)}}
	}
}

// flagged says, for programs, that the message leaves.
func flagged(req *a2apb.SendMessageRequest, leaves any) *a2apb.SendMessageRequest {
	v, err := structpb.NewValue(leaves)
	if err != nil {
		panic(err)
	}
	req.Message.Metadata = a2a.SetExtension(nil, map[string]*structpb.Value{a2a.KeyExit: v})
	return req
}

// plain is ann with a client that knows nothing of the mesh.
func plain(c *mesh.Call) { c.Extensions = nil }

// S4-036, S4-046: whoever has the stream, what the user says to leave ends the handoff as
// cancelled by the user and not the task: main answers in it. The agent's task is ended.
func TestTheUserLeavesWhoeverHasTheStream(t *testing.T) {
	texttest.Fixed(t)
	kinds := map[string][]as{"of the mesh": nil, "of others": {foreign}, "with words of its own": {leaves("cancel", "niemals, nö")}}
	for name, tt := range map[string]struct {
		req  *a2apb.SendMessageRequest
		only string // the kind of agent that the words are for
	}{
		"exit":               {say("exit"), ""},
		"in capitals":        {say("  EXIT\n"), ""},
		"with a mark":        {say("“Exit.”"), ""},
		"data":               {flagged(say("exit"), true), ""},
		"a word of its card": {say("NIEMALS, NÖ!"), "with words of its own"},
	} {
		for kind, opts := range kinds {
			if tt.only != "" && tt.only != kind {
				continue
			}
			for client, mode := range map[string]func(*mesh.Call){"extended": func(*mesh.Call) {}, "plain": plain} {
				t.Run(name+", "+kind+", "+client, func(t *testing.T) {
					w := build(t)
					w.agent("main", gives)
					smith := w.agent("smith", func(s *scene) { s.move(asks, "Which one?") }, opts...)
					first := w.send("go")
					w.hear(first)
					acc := w.post(w.call(mode), tt.req)
					h := w.hear(acc)
					if acc.Task.GetId() != first.Task.GetId() || h.state != completed || h.text != "back: cancelled, " ||
						!slices.Contains(h.words, "Returning you to the main assistant.") {
						t.Errorf("heard %v in %s after %s", h, acc.Task.GetId(), first.Task.GetId())
					}
					w.close()
					s := w.fold()
					if s.Handoff.Active() || s.Handoff.Outcome != mesh.HandoffCancelled || len(smith.asked()) != 1 {
						t.Errorf("the handoff is %+v; smith was asked to cancel %v", s.Handoff, smith.asked())
					}
				})
			}
		}
	}
}

// What is not the word alone is for the agent, and so are another agent's words; with main,
// "exit" is a message as any other.
func TestOnlyTheWholeMessageLeaves(t *testing.T) {
	for name, req := range map[string]*a2apb.SendMessageRequest{
		"a sentence":           say("exit the loop when it is done"),
		"a question":           say("exit?"),
		"another agent's word": say("cancel"),
		"data that says no":    flagged(say("stay"), false),
		"two parts":            {Message: &a2apb.Message{MessageId: mesh.NewEventID(), Role: a2apb.Role_ROLE_USER, Parts: append(text("exit"), text("exit")...)}},
	} {
		t.Run(name, func(t *testing.T) {
			w := build(t)
			w.agent("main", gives)
			smith := w.agent("smith", func(s *scene) { s.move(asks, "Which one?") })
			w.hear(w.send("go"))
			w.hear(w.post(w.ctx(w.thread), req))
			if n := smith.plays.Load(); n != 2 || !w.fold().Handoff.Active() {
				t.Errorf("smith had %d messages, the handoff is %+v", n, w.fold().Handoff)
			}
		})
	}
	w := build(t)
	w.agent("main", echo)
	for _, req := range []*a2apb.SendMessageRequest{say("exit"), flagged(say("exit"), true)} {
		if h := w.hear(w.post(w.ctx(w.thread), req)); h.text != "you said exit" || h.state != completed {
			t.Errorf("main was not asked: %v", h)
		}
	}
	_, err := w.Send(w.ctx(w.thread), flagged(say("exit"), "yes"))
	if e, _ := err.(*mesh.Error); e == nil || e.Code != mesh.Invalid || !strings.HasSuffix(e.Field, ".exit") {
		t.Errorf("an exit that is a text: %v", err)
	}
}

// What a message says besides that it leaves is for main.
func TestWhoLeavesWithARequestHasItAnswered(t *testing.T) {
	w := build(t)
	w.agent("main", func(s *scene) {
		if s.text() == "go" {
			s.must(s.give("smith", 0))
			s.until(nil)
			return
		}
		s.answer("main: " + s.text())
	})
	w.agent("smith", func(s *scene) { s.move(asks, "Which one?") })
	w.hear(w.send("go"))
	h := w.hear(w.post(w.ctx(w.thread), flagged(say("what time is it?"), true)))
	if h.text != "main: what time is it?" || h.state != completed || w.fold().Handoff.Active() {
		t.Errorf("heard %v", h)
	}
}

// S4-036: the user leaves while the agent works, and one that ended its task and kept the
// conversation. Both are answered by main, each in the task that its message is part of.
func TestTheUserLeavesAnAgentThatDoesNotWait(t *testing.T) {
	texttest.Fixed(t)
	t.Run("but works", func(t *testing.T) {
		w := build(t)
		w.agent("main", gives)
		smith := w.agent("smith", func(s *scene) { s.say("working. "); s.hang() })
		acc := w.send("go")
		w.until(acc, func(h *heard) bool { return strings.Contains(h.text, "working") })
		left := w.post(w.call(plain), say("exit"))
		if h := w.hear(acc); left.Task.GetId() != acc.Task.GetId() || h.state != completed || h.text != "one moment. working. back: cancelled, " {
			t.Errorf("heard %v", h)
		}
		w.close()
		if x := w.fold().Executions()[2]; !mesh.Terminal(x.State) || !slices.Equal(smith.asked(), []string{string(x.ID)}) {
			t.Errorf("smith's execution is %v; it was asked to cancel %v", x.State, smith.asked())
		}
	})
	t.Run("but is done", func(t *testing.T) {
		w := build(t)
		w.agent("main", gives)
		w.agent("smith", func(s *scene) { s.answer("done") })
		first := w.send("go")
		w.hear(first)
		acc := w.send("Exit")
		h := w.hear(acc)
		if h.state != completed || h.text != "back: cancelled, " || acc.Task.GetId() == first.Task.GetId() || w.fold().Handoff.Active() {
			t.Errorf("heard %v", h)
		}
		again := w.post(w.ctx(w.thread), say("exit"))
		if h := w.hear(again); h.state != completed { // main has it
			t.Errorf("heard %v", h)
		}
	})
}

// A resend of a message with which somebody left attaches to it: main has the conversation.
func TestLeavingTwiceByTheSameMessageLeavesOnce(t *testing.T) {
	w := build(t)
	w.agent("main", gives)
	w.agent("smith", func(s *scene) { s.move(asks, "Which one?") })
	w.hear(w.send("go"))
	req := say("exit")
	first := w.post(w.ctx(w.thread), req)
	w.hear(first)
	seq := w.fold().Seq
	if again := w.post(w.ctx(w.thread), req); again.Task.GetId() != first.Task.GetId() || w.fold().Seq != seq {
		t.Errorf("the resend opened %s, and the log went from %d to %d", again.Task.GetId(), seq, w.fold().Seq)
	}
}

// Who takes part in the thread leaves for all: main answers who left, and the task in which
// another user was asked is over. Who does not take part changes nothing.
func TestALeaverInASharedThreadEndsTheSessionForAll(t *testing.T) {
	w := build(t)
	w.agent("main", gives)
	smith := w.agent("smith", func(s *scene) { s.move(asks, "Which one?") })
	first := w.send("go")
	w.hear(first)
	bob := func(c *mesh.Call) { c.Principal.User = "bob" }
	if _, err := w.Send(w.call(bob), say("exit")); !mesh.IsCode(err, mesh.NotFound) || !w.fold().Handoff.Active() {
		t.Errorf("a stranger's exit: %v", err)
	}
	w.share("bob")
	acc := w.post(w.call(bob), say("exit"))
	if h := w.hear(acc); h.state != completed || h.text != "back: cancelled, " {
		t.Errorf("bob heard %v", h)
	}
	w.close()
	s := w.fold()
	if was := s.Turn(mesh.ExecutionID(first.Task.GetId())); was.State != canceled || s.Handoff.Active() || len(smith.asked()) != 1 {
		t.Errorf("ann's task is %v, the handoff %+v, smith was asked to cancel %v", was.State, s.Handoff, smith.asked())
	}
}

// S4-036, S4-039: each question of who has the conversation names the way out, for programs
// and in words, to every client: the agent itself where its card has words for it, and
// else the mesh. Main's own questions have none.
func TestEachQuestionOfASessionNamesTheWayOut(t *testing.T) {
	texttest.Fixed(t)
	const added = "\n\n(Say “exit” to go back to the main assistant.)"
	for name, tt := range map[string]struct {
		opts  []as
		state mesh.TaskState
		text  string
		words []string
	}{
		"of the mesh":                {nil, asks, "Which one?" + added, []string{"exit"}},
		"of others":                  {[]as{foreign}, asks, "Which one?" + added, []string{"exit"}},
		"that says so itself":        {[]as{leaves("cancel")}, asks, "Which one?", []string{"exit", "cancel"}},
		"that only says it would":    {[]as{leaves("cancel", "No more"), untrusted}, asks, "Which one?\n\n(Say one of “exit”, “cancel”, “No more” to go back to the main assistant.)", []string{"exit", "cancel", "No more"}},
		"that waits for credentials": {nil, auth, "Which one?" + added, []string{"exit"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := build(t)
			w.agent("main", gives)
			w.agent("smith", func(s *scene) {
				s.move(tt.state, "Which one?")
				if tt.state == auth {
					s.until(nil)
				}
			}, tt.opts...)
			acc := w.send("go")
			w.until(acc, func(h *heard) bool { return h.state == tt.state })
			for mode, call := range modes {
				task, _, err := w.Task(w.call(call), acc.Task.GetId())
				if err != nil {
					t.Fatal(err)
				}
				m := task.GetStatus().GetMessage()
				var words []string
				for _, v := range a2a.Extension(m.GetMetadata()).GetFields()[a2a.KeyExitWords].GetListValue().GetValues() {
					words = append(words, v.GetStringValue())
				}
				if textOf(m.GetParts()) != tt.text || !slices.Equal(words, tt.words) {
					t.Errorf("%s: %q with %q", mode, textOf(m.GetParts()), words)
				}
			}
			if h := w.hear(w.post(w.call(plain), say("exit"))); h.state != completed {
				t.Errorf("heard %v", h)
			}
		})
	}
	w := build(t)
	w.agent("main", func(s *scene) { s.move(asks, "What?") })
	if h := w.hear(w.send("go")); h.lastWords() != "What?" {
		t.Errorf("main asks %v", h)
	}
}

// A question with no room for a further paragraph names the way out for programs all the same.
func TestAQuestionThatFillsItsEventNamesTheWayOut(t *testing.T) {
	question := strings.Repeat("x", mesh.MaxEvent-4500)
	w := build(t)
	w.agent("main", gives)
	w.agent("smith", func(s *scene) { s.move(asks, question) }, foreign)
	h := w.hear(w.send("go"))
	words := a2a.Extension(h.last.GetStatus().GetMessage().GetMetadata()).GetFields()[a2a.KeyExitWords].GetListValue().GetValues()
	if h.state != asks || h.lastWords() != question || len(words) != 1 || words[0].GetStringValue() != "exit" {
		t.Errorf("%v, %d bytes, %v", h.state, len(h.lastWords()), words)
	}
}
