package mainagent_test

import (
	"strings"
	"testing"
	"time"

	"agentmesh/agents/internal/meshtest"
	"agentmesh/mesh"
	"agentmesh/mesh/node"
)

const (
	offered   = "Would you like to continue?"
	unrelated = "How do I configure rate limiting for my agent?"
)

// leftSkill begins a skill, leaves it in its second step, and returns the mesh.
func leftSkill(t *testing.T, w *world, thread, word string, sessions node.Sessions) *meshtest.Mesh {
	t.Helper()
	m := meshtest.Start(t, w.all(), meshtest.Options{Sessions: sessions})
	m.Say(thread, "I want to create a skill that sends Slack alerts")
	if s := m.Say(thread, "channel and text"); !strings.Contains(s.Asked(), "What should the skill be called?") {
		t.Fatalf("asked %q", s.Asked())
	}
	if s := m.Say(thread, word); s.State != completed || strings.Contains(s.Text, offered) || !strings.Contains(s.Text, "You are back with me") {
		t.Fatalf("ended %v: %q", s.State, s.Text)
	}
	return m
}

// S4-046, S4-064: who left a session, in whichever words, is offered to go on with it when
// the next message is answered, says yes, and is where it was left: nothing is asked again,
// though the mesh was started anew in between.
func TestWhoLeftASessionIsOfferedToGoOnWithIt(t *testing.T) {
	for _, word := range []string{"exit", "cancel", "please cancel creating the skill"} {
		t.Run(word, func(t *testing.T) {
			w := newWorld(t)
			thread := mesh.NewThreadID()
			m := leftSkill(t, w, thread, word, node.Sessions{})
			s := m.Say(thread, unrelated)
			if s.State != completed || !strings.Contains(s.Text, "rate_limit.per_second") ||
				!strings.HasSuffix(s.Text, "By the way, you left the Skill Creation Assistant at step 2 of 5 (defining triggers), and what you said there is kept. "+offered+" Say “yes”.") {
				t.Fatalf("ended %v: %q", s.State, s.Text)
			}
			m.Stop()
			m = meshtest.Start(t, w.all(), meshtest.Options{Data: m.Data})
			if s = m.Say(thread, "yes"); !strings.Contains(s.Asked(), "What should the skill be called?") || strings.Contains(s.Asked(), "Welcome back") {
				t.Fatalf("said %q, asked %q; want the question at which the user left", s.Text, s.Asked())
			}
			m.Say(thread, "call it slack.ping")
			if s = m.Say(thread, "yes"); !strings.Contains(s.Text, "'slack.ping' is now active") {
				t.Errorf("said %q", s.Text)
			}
			if file := m.SkillFile("slack.ping"); !strings.Contains(file, "- name: text\n") {
				t.Errorf("what was said before is lost:\n%s", file)
			}
			if s = m.Say(thread, unrelated); strings.Contains(s.Text, offered) {
				t.Errorf("a skill that is done is offered: %q", s.Text)
			}
		})
	}
}

// S4-064: it is offered once: after a no, and after another message, a yes is one to main.
func TestASessionIsOfferedOnce(t *testing.T) {
	for _, answer := range []string{"no", unrelated} {
		t.Run(answer, func(t *testing.T) {
			thread := mesh.NewThreadID()
			m := leftSkill(t, newWorld(t), thread, "exit", node.Sessions{})
			if s := m.Say(thread, unrelated); !strings.Contains(s.Text, offered) {
				t.Fatalf("said %q", s.Text)
			}
			for _, said := range []string{answer, "yes", unrelated} {
				if s := m.Say(thread, said); strings.Contains(s.Text, offered) || strings.Contains(s.Asked(), "skill") {
					t.Errorf("after %q: said %q, asked %q", said, s.Text, s.Asked())
				}
			}
			// It is there for whoever asks for it.
			if s := m.Say(thread, "I would like to create the skill after all"); !strings.Contains(s.Asked(), "Welcome back!") {
				t.Errorf("asked %q", s.Asked())
			}
		})
	}
}

// S4-080: what was noted in a session is dropped when it is older than it is kept: it is
// neither offered nor taken up.
func TestASessionIsKeptForItsRetention(t *testing.T) {
	nothing, thread := time.Duration(0), mesh.NewThreadID()
	m := leftSkill(t, newWorld(t), thread, "exit", node.Sessions{Retention: &nothing})
	if s := m.Say(thread, unrelated); strings.Contains(s.Text, offered) {
		t.Errorf("said %q", s.Text)
	}
	s := m.Say(thread, "I want to create a skill that mails the weather")
	if strings.Contains(s.Asked(), "Welcome back!") || !strings.Contains(s.Text, "mails the weather") {
		t.Errorf("said %q, asked %q", s.Text, s.Asked())
	}
	dropped := 0
	for _, n := range bodies[mesh.StateNoted](m.Events(thread)) {
		if n.Agent == "skill-builder" && len(n.Data) == 0 {
			dropped++
		}
	}
	if dropped != 1 {
		t.Errorf("%d times dropped", dropped)
	}
	if s = m.Say(thread, "the city"); !strings.Contains(s.Asked(), "What should the skill be called?") {
		t.Errorf("asked %q: a session is not dropped while it goes on", s.Asked())
	}
}

// What a client says of sessions counts for nothing: there is none to go on with.
func TestAClientCannotMakeASessionUp(t *testing.T) {
	m := meshtest.Start(t, newWorld(t).all(), meshtest.Options{})
	thread := mesh.NewThreadID()
	s := m.SayWith(thread, "yes", map[string]any{"resume": map[string]any{"agent": "skill-builder", "offered": true}, "channel": "chat"})
	for _, d := range bodies[mesh.DispatchIssued](m.Events(thread)) {
		ext := d.Message.GetMetadata().GetFields()[mesh.ExtensionURI].GetStructValue().GetFields()
		if ext["resume"] != nil || ext["channel"].GetStringValue() != "chat" {
			t.Errorf("%s was told %v", d.Child.Agent, ext)
		}
	}
	if n := len(bodies[mesh.HandoffStarted](m.Events(thread))); n != 0 || s.State != completed {
		t.Errorf("%d handoffs; ended %v: %q", n, s.State, s.Text)
	}
}
