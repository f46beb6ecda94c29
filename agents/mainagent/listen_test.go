package mainagent_test

import (
	"strings"
	"testing"

	"agentmesh/agents/internal/meshtest"
	"agentmesh/mesh"
)

// finding O4: in a session a question for main is answered by main in the same stream and
// task, with its name, and without losing the step; what may be for main is asked about.
func TestMainAnswersInASessionOfAnotherAgent(t *testing.T) {
	m := meshtest.Start(t, newWorld(t).all(), meshtest.Options{})
	thread := mesh.NewThreadID()
	first := m.Say(thread, "I want to create a skill that sends Slack alerts")
	m.Say(thread, "channel and text")
	s := m.Say(thread, "How do I configure rate limiting for an agent?")
	for _, want := range []string{"The main assistant says: ", "rate_limit.per_second"} {
		if !strings.Contains(s.Text, want) {
			t.Errorf("%q is not in what was said: %q", want, s.Text)
		}
	}
	if s.TaskID != first.TaskID || !strings.Contains(s.Asked(), "What should the skill be called?") {
		t.Errorf("ended %v in task %s, and asked %q", s.State, s.TaskID, s.Asked())
	}
	s = m.Say(thread, "Find my overdue tasks")
	if !strings.Contains(s.Asked(), "Is “Find my overdue tasks” an answer for the skill, or something for the main assistant?") {
		t.Fatalf("asked %q", s.Asked())
	}
	s = m.Say(thread, "main")
	if !strings.Contains(s.Text, "The main assistant says: ") || !strings.Contains(s.Text, "verdue") || !strings.Contains(s.Asked(), "What should the skill be called?") {
		t.Errorf("said %q, asked %q", s.Text, s.Asked())
	}
	m.Say(thread, "call it slack.ping")
	if s = m.Say(thread, "yes"); s.TaskID != first.TaskID || !strings.Contains(s.Text, "'slack.ping' is now active") {
		t.Errorf("said %q", s.Text)
	}
	if file := m.SkillFile("slack.ping"); strings.Contains(strings.ToLower(file), "overdue") || strings.Contains(file, "rate") || !strings.Contains(file, "- name: text\n") {
		t.Errorf("what was said to main is in the skill, or something is missing:\n%s", file)
	}
}

// An errand that main has done for the session asks the user for a word where it needs one,
// and goes on with it; then the session's question is put again.
func TestMainAsksTheUserInASessionOfAnotherAgent(t *testing.T) {
	w := newWorld(t)
	m := meshtest.Start(t, w.all(), meshtest.Options{})
	thread := mesh.NewThreadID()
	m.Say(thread, "I want to create a skill that sends Slack alerts")
	s := m.Say(thread, "main: Send bob@example.org the message: lunch at noon")
	if !strings.Contains(s.Asked(), "bob@example.org") || strings.Contains(w.files(".eml"), "Lunch") {
		t.Fatalf("said %q, asked %q, sent %q", s.Text, s.Asked(), w.files(".eml"))
	}
	s = m.Say(thread, "yes")
	if !strings.Contains(w.files(".eml"), "Lunch") || !strings.Contains(s.Asked(), "step by step") {
		t.Errorf("said %q, asked %q, sent %q", s.Text, s.Asked(), w.files(".eml"))
	}
	if calls := bodies[mesh.SkillCalled](m.Events(thread)); len(calls) != 1 {
		t.Errorf("called %+v, want one mail", calls)
	}
}
