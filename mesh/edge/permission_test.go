package edge_test

import (
	"strings"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/a2a"
	"agentmesh/mesh/handoff"
	"agentmesh/mesh/text/texttest"
)

// requires is an agent that works for those who may create skills.
var requires = param("required_permissions", "skill:create")

// author is ann with the role that this takes.
func author(c *mesh.Call) { c.Principal.Roles = []mesh.Role{mesh.RoleSkillAuthor} }

// toAuthor is ann, who addresses the agent author.
func toAuthor(c *mesh.Call) { c.Agent = "author" }

// finding O5: to leave one agent opens no door to another: what a message says besides is
// checked for who is to work on it, and so is the turn that it would open there. Who only
// leaves is not held.
func TestNobodyGetsByLeavingWhatOneMayNot(t *testing.T) {
	for name, tt := range map[string]struct {
		req   *a2apb.SendMessageRequest
		who   func(*mesh.Call)
		taken string // what is heard, "" for a refusal
	}{
		"with a request for it":   {flagged(say("make a skill"), true), toAuthor, ""},
		"with a word alone to it": {say("exit"), toAuthor, ""},
		"with a request for main": {flagged(say("hello"), true), plain, "main: hello"},
		"with a word alone":       {say("exit"), plain, "main: back"},
		"with what it takes": {flagged(say("make a skill"), true), func(c *mesh.Call) {
			toAuthor(c)
			author(c)
		}, "made: make a skill"},
	} {
		t.Run(name, func(t *testing.T) {
			w := build(t)
			w.agent("main", func(s *scene) {
				switch {
				case s.text() == "go":
					s.must(s.give("smith", 0))
					s.move(completed, "")
				case s.told("handoff_return") != nil:
					s.answer("main: back")
				default:
					s.answer("main: " + s.text())
				}
			})
			w.agent("smith", func(s *scene) { s.move(asks, "Which one?") })
			made := w.agent("author", func(s *scene) { s.answer("made: " + s.text()) }, requires)
			w.hear(w.send("go"))
			before := len(w.fold().Turns()) // and not Seq: who gave the stream away is heard for a while
			acc, err := w.Send(w.call(tt.who), tt.req)
			if tt.taken != "" {
				if err != nil {
					t.Fatal(err)
				}
				if h := w.hear(acc); h.text != tt.taken || w.fold().Handoff.Active() {
					t.Errorf("heard %v", h)
				}
				return
			}
			if l := mesh.LackOf(err); l == nil || l.Permission != "skill:create" || l.Agent != "author" || !mesh.IsCode(err, mesh.Denied) {
				t.Errorf("refused with %v", err)
			}
			if s := w.fold(); len(s.Turns()) != before || !s.Handoff.Active() || made.plays.Load() > 0 {
				t.Errorf("%d turns were opened, and the author was asked %d times", len(s.Turns())-before, made.plays.Load())
			}
		})
	}
}

// Who is asked in one task and lacks what the agent requires that has the conversation in
// another one answers all the same; and who lacks by now what the agent requires that asked
// is refused, whoever has the conversation.
func TestAnAnswerNeedsWhatTheAgentThatAskedRequires(t *testing.T) {
	for name, tt := range map[string]struct {
		asked, other []as
		refused      bool
	}{
		"which is nothing":       {other: []as{requires}},
		"which one lacks by now": {asked: []as{requires}, refused: true},
	} {
		t.Run(name, func(t *testing.T) {
			w := build(t)
			w.agent("main", func(s *scene) { s.must(s.give("smith", 0)); s.move(completed, "") })
			w.agent("clerk", func(s *scene) {
				if strings.HasPrefix(s.text(), "one") {
					s.move(asks, "What?")
					return
				}
				s.answer("clerk: " + s.text())
			}, tt.asked...)
			w.agent("smith", func(s *scene) { s.move(asks, "Which one?") }, tt.other...)
			one := w.post(w.call(func(c *mesh.Call) { plain(c); author(c); c.Agent = "clerk" }), say("one"))
			w.hear(one)
			w.hear(w.post(w.call(func(c *mesh.Call) { plain(c); author(c) }), say("go")))
			acc, err := w.Send(w.call(plain), to(say("answer"), one.Task.Id))
			switch {
			case tt.refused:
				if l := mesh.LackOf(err); l == nil || l.Agent != "clerk" {
					t.Errorf("refused with %v", err)
				}
			case err != nil:
				t.Error(err)
			default:
				if h := w.hear(acc); h.text != "clerk: answer" {
					t.Errorf("heard %v", h)
				}
			}
		})
	}
}

// A task in which an agent waited that was parked with another user's message is main's: its
// answer needs nothing of what that agent requires.
func TestAnAnswerInATaskThatWasParkedIsForMain(t *testing.T) {
	w, ahead, mains := parting(t)
	w.agent("smith", func(s *scene) { s.move(asks, "and then?") }, requires)
	first := w.post(w.call(author), say("go"))
	w.hear(first)
	soon(t, mains)
	w.share("bob")
	ahead.Store(int64(2 * time.Hour))
	w.hear(w.post(w.call(func(c *mesh.Call) { c.Principal.User = "bob" }), say("hello")))
	if h := w.hear(w.post(w.call(plain), to(say("and"), first.Task.Id))); h.text != "main: and" {
		t.Errorf("heard %v", h)
	}
}

// finding O5: a turn that waits while the conversation is handed over is worked on by the agent
// that has it then only if that works for its user. Else it is refused, as a message would be,
// with permission and agent; the session goes on, and main answers who leaves it.
func TestATurnThatWaitedIsWorkedOnOnlyForWhoMay(t *testing.T) {
	for name, tt := range map[string]struct {
		roles []mesh.Role
		want  string
	}{
		"without the role": {[]mesh.Role{mesh.RoleUser}, ""},
		"with it":          {[]mesh.Role{mesh.RoleUser, mesh.RoleSkillAuthor}, "for bob: queued"},
	} {
		t.Run(name, func(t *testing.T) {
			w := build(t)
			gate := make(chan struct{})
			w.agent("main", func(s *scene) {
				s.ensure()
				if s.text() == "go" && s.until(gate) {
					s.must(s.give("smith", 0))
					s.move(completed, "")
					return
				}
				s.answer("main: " + s.text())
			})
			smith := w.agent("smith", func(s *scene) {
				if s.call.Principal.User == "ann" {
					s.move(asks, "Which one?")
					return
				}
				s.answer("for " + s.call.Principal.User + ": " + s.text())
			}, requires)
			first := w.post(w.call(author), say("go"))
			w.until(first, func(h *heard) bool { return h.state == working })
			w.share("bob")
			bob := func(c *mesh.Call) { c.Principal.User, c.Principal.Roles = "bob", tt.roles }
			second := w.post(w.call(bob), say("queued"))
			close(gate)
			w.hear(first)
			h := w.hear(second)
			if tt.want != "" {
				if h.text != tt.want || h.state != completed {
					t.Errorf("heard %v", h)
				}
				return
			}
			lack := a2a.Extension(h.last.GetMetadata()).GetFields()[a2a.KeyLack].GetStructValue().GetFields()
			if h.state != a2apb.TaskState_TASK_STATE_REJECTED || h.reason() != mesh.ReasonPermission || h.text != "" || smith.plays.Load() != 1 ||
				lack["permission"].GetStringValue() != "skill:create" || lack["agent"].GetStringValue() != "smith" || !strings.Contains(h.lastWords(), "skill:create") {
				t.Errorf("bob heard %v, lacks %v, and smith was asked %d times", h, lack, smith.plays.Load())
			}
			if s := w.fold(); !s.Handoff.Active() || s.Turn(mesh.ExecutionID(first.Task.Id)).State != asks {
				t.Errorf("the session is %+v", s.Handoff)
			}
			if h := w.hear(w.post(w.call(bob), flagged(say("hello"), true))); h.text != "main: hello" {
				t.Errorf("left, bob heard %v", h)
			}
		})
	}
}

// Who may answer for others, and takes no part in the conversation, answers what a turn asks and
// ends no session, by no message: that is for those who take part, as with EndHandoff.
func TestWhoAnswersForOthersEndsNoSession(t *testing.T) {
	texttest.Fixed(t)
	w := build(t)
	w.agent("main", gives)
	w.agent("smith", func(s *scene) { s.move(asks, "After "+s.text()+"?") })
	first := w.send("go")
	w.hear(first)
	bob := w.call(func(c *mesh.Call) {
		c.Principal.User, c.Principal.Roles = "bob", []mesh.Role{mesh.RoleUser, mesh.RoleApprover}
	})
	by, _ := mesh.CallFrom(bob)
	before := w.fold().Seq
	_, ends := w.any().handoffs.End(bob, w.key(), by.Principal, handoff.End{Outcome: mesh.HandoffCancelled})
	for name, req := range map[string]*a2apb.SendMessageRequest{
		"a word": to(say("exit"), first.Task.Id), "a button": to(flagged(say("and?"), true), first.Task.Id), "a word for any task": say("exit"),
	} {
		_, err := w.Send(bob, req)
		if !mesh.IsCode(err, mesh.Denied) || mesh.DetailOf(err) != mesh.DetailOf(ends) {
			t.Errorf("%s: %v; EndHandoff: %v", name, err, ends)
		}
	}
	if s := w.fold(); !s.Handoff.Active() || s.Seq != before {
		t.Errorf("the handoff is %+v; %d events were added", s.Handoff, s.Seq-before)
	}
	if h := w.hear(w.post(bob, to(say("yes"), first.Task.Id))); h.state != asks || !strings.HasPrefix(h.lastWords(), "After yes?") {
		t.Errorf("the answer: %v", h)
	}
}
