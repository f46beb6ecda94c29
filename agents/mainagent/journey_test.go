package mainagent_test

import (
	"slices"
	"strings"
	"testing"

	"agentmesh/agents/internal/meshtest"
	"agentmesh/mesh"
	"agentmesh/mesh/text/texttest"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"
)

const (
	completed = a2apb.TaskState_TASK_STATE_COMPLETED
	input     = a2apb.TaskState_TASK_STATE_INPUT_REQUIRED
)

// S4-017, S4-018, S4-019, S4-043: main asks the knowledge agent while the user
// sees "Researching", and answers with the documents' words and sources.
func TestAQuestionIsAnsweredFromTheDocumentsWithTheirSources(t *testing.T) {
	w := newWorld(t)
	m := meshtest.Start(t, w.all(), meshtest.Options{})
	thread := mesh.NewThreadID()
	s := m.Say(thread, "How do I configure rate limiting for my agent?")
	if s.State != completed || !s.Heard("Researching") {
		t.Errorf("ended %v with %q", s.State, s.Status)
	}
	for _, want := range []string{"rate_limit.per_second", "limits.md"} {
		if !strings.Contains(s.Text, want) {
			t.Errorf("the answer does not have %q:\n%s", want, s.Text)
		}
	}
	events := m.Events(thread)
	var asked []string
	for _, d := range bodies[mesh.DispatchIssued](events) {
		asked = append(asked, d.Child.Agent)
	}
	if diff := cmp.Diff([]string{"main", "knowledge"}, asked); diff != "" {
		t.Errorf("who was asked (-want +got):\n%s", diff)
	}
	if calls := bodies[mesh.SkillCalled](events); len(calls) != 1 || calls[0].Skill != "knowledge.search" {
		t.Errorf("skills called: %v", calls)
	}
}

// S0-002, S0-003, S0-007, S0-010, S0-011: the orchestrator takes the request
// apart and the effects happen; the second request is of other words, names
// and number of steps.
func TestARequestWithSeveralPartsIsDoneByAgentsInParallel(t *testing.T) {
	w := newWorld(t)
	m := meshtest.Start(t, w.all(), meshtest.Options{})
	thread := mesh.NewThreadID()
	for _, title := range []string{"Renew the certificate", "Pay the invoice"} {
		if s := m.Say(thread, `Create a task "`+title+`" due 2026-11-18`); s.State != completed || !strings.Contains(s.Text, title) {
			t.Fatalf("ended %v: %s", s.State, s.Text)
		}
	}
	begun := len(m.Events(thread))
	s := m.Say(thread, "Find my overdue tasks, then email the report to bob@example.com and create a follow-up meeting tomorrow at 2pm")
	if mailed := w.files(".eml"); s.State != input || mailed != "" { // finding C11
		t.Fatalf("before a mail is sent the turn ended %v, and mailed %q", s.State, mailed)
	}
	s = m.Say(thread, "yes")
	if s.State != completed || !s.Heard("Working on it") {
		t.Errorf("ended %v with %q: %s", s.State, s.Status, s.Text)
	}
	mailed, planned := w.files(".eml"), w.files(".ics")
	for _, want := range []string{"bob@example.com", "Renew the certificate", "Pay the invoice"} {
		if !strings.Contains(mailed, want) {
			t.Errorf("the mail does not have %q:\n%s", want, mailed)
		}
	}
	if !strings.Contains(planned, "20261121T140000") {
		t.Errorf("the meeting is not tomorrow at 2pm:\n%s", planned)
	}
	turn := m.Events(thread)[begun:]
	var searched, after []mesh.ExecutionID
	for _, d := range bodies[mesh.DispatchIssued](turn) {
		switch {
		case slices.Contains(d.Child.Skills, "tasks.search"):
			searched = append(searched, d.Child.ID)
		case len(d.Child.DependsOn) > 0:
			after = append(after, d.Child.DependsOn...)
		}
	}
	if len(searched) != 1 || !slices.Equal(after, []mesh.ExecutionID{searched[0], searched[0]}) {
		t.Errorf("the search is %v, and what came after waited for %v; want mail and meeting to wait for it alone", searched, after)
	}
	for _, e := range turn {
		if b, ok := e.Body.(mesh.SkillCalled); ok && e.Actor == "agent:orchestrator" {
			t.Errorf("the orchestrator called the skill %s itself", b.Skill)
		}
	}

	s = m.Say(thread, `Add a task "Order paper" and list my open tasks`)
	if s.State != completed || !strings.Contains(s.Text, "Order paper") {
		t.Errorf("ended %v: %s", s.State, s.Text)
	}
}

// What is missing is asked, the answer completes the request in the same task, and
// nothing has an effect before the user agreed to what is sent, whoever works on
// it (finding C11).
func TestWhatIsMissingIsAskedAndTheAnswerCompletesTheRequest(t *testing.T) {
	w := newWorld(t)
	m := meshtest.Start(t, w.all(), meshtest.Options{})
	thread := mesh.NewThreadID()
	first := m.Say(thread, `Create a task "Order paper" and email Bob saying "It is on the list"`)
	if first.State != input || !strings.Contains(first.Asked(), "e-mail address of Bob") {
		t.Fatalf("ended %v: %q asked %q", first.State, first.Text, first.Asked())
	}
	second := m.Say(thread, "bob@example.com")
	if second.TaskID != first.TaskID || second.State != input || !strings.Contains(second.Asked(), "bob@example.com") {
		t.Fatalf("task %s ended %v: %q asked %q", second.TaskID, second.State, second.Text, second.Asked())
	}
	if calls := bodies[mesh.SkillCalled](m.Events(thread)); len(calls) > 0 {
		t.Errorf("before the user agreed it called %+v", calls)
	}
	last := m.Say(thread, "yes")
	if last.TaskID != first.TaskID || last.State != completed || !strings.Contains(w.files(".eml"), "It is on the list") || !strings.Contains(last.Text, "Order paper") {
		t.Errorf("task %s ended %v: %s", last.TaskID, last.State, last.Text)
	}
	if calls := bodies[mesh.SkillCalled](m.Events(thread)); len(calls) != 2 {
		t.Errorf("called %+v", calls)
	}
}

// S4-026 to S4-030, S4-033, S4-035, S4-037, S4-040 to S4-042, S4-044: the
// conversation is handed over in the live stream, a skill is built in all five
// states, and main confirms that it is active.
func TestASkillIsBuiltInAGuidedConversation(t *testing.T) {
	texttest.Fixed(t)
	m := meshtest.Start(t, newWorld(t).all(), meshtest.Options{})
	thread := mesh.NewThreadID()
	first := m.Say(thread, "I want to create a skill that sends Slack alerts")
	if first.State != input || !first.Heard("Connecting you with Skill Creation Assistant...") {
		t.Fatalf("ended %v with %q", first.State, first.Status)
	}
	if !strings.Contains(first.Text, "sends Slack alerts") {
		t.Errorf("the builder does not know what the user wants: %q", first.Text)
	}
	second := m.Say(thread, "It posts a message to a channel. It needs the channel and the message text")
	if second.TaskID != first.TaskID || !strings.Contains(second.Asked(), "slack.send_alert") {
		t.Errorf("asked %q in task %s", second.Asked(), second.TaskID)
	}
	third := m.Say(thread, "ok")
	if !strings.Contains(third.Asked(), "name: slack.send_alert") || !strings.Contains(third.Asked(), "Shall I save it") {
		t.Errorf("said %q and asked %q", third.Text, third.Asked())
	}
	last := m.Say(thread, "yes")
	for _, want := range []string{"Your skill is ready! Returning you to the main assistant.", "Great, your skill 'slack.send_alert' is now active."} {
		if !strings.Contains(last.Text, want) {
			t.Errorf("did not say %q but %q", want, last.Text)
		}
	}
	if last.State != completed || last.TaskID != first.TaskID {
		t.Errorf("ended %v in task %s, want %s", last.State, last.TaskID, first.TaskID)
	}
	states := slices.Compact(slices.Concat(first.Steps, second.Steps, third.Steps, last.Steps))
	if diff := cmp.Diff([]string{"gathering_requirements", "defining_triggers", "generating", "testing", "complete"}, states); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
	file := m.SkillFile("slack.send_alert")
	for _, want := range []string{"- name: channel\n", "- name: message_text\n", "It posts a message to a channel"} {
		if !strings.Contains(file, want) {
			t.Errorf("the file does not have %q:\n%s", want, file)
		}
	}
	if s := m.Say(thread, "hello"); s.State != completed || !strings.Contains(s.Text, "Hello") {
		t.Errorf("main does not have the conversation again: %v %q", s.State, s.Text)
	}
}

// S4-029, S4-046, S4-064: who leaves finds what there was, also after the mesh
// was restarted.
func TestACancelledSkillIsOfferedAgain(t *testing.T) {
	w := newWorld(t)
	m := meshtest.Start(t, w.all(), meshtest.Options{})
	thread := mesh.NewThreadID()
	m.Say(thread, "I want to create a skill that sends Slack alerts")
	m.Say(thread, "channel and text")
	s := m.Say(thread, "cancel")
	if s.State != completed || !strings.Contains(s.Text, "What you said there is kept.") || !strings.Contains(s.Text, "continue it later") {
		t.Fatalf("ended %v: %q", s.State, s.Text)
	}
	m.Stop()
	m = meshtest.Start(t, w.all(), meshtest.Options{Data: m.Data})
	s = m.Say(thread, "I would like to create the skill after all")
	if !strings.Contains(s.Asked(), "Welcome back!") || !strings.Contains(s.Asked(), "sends Slack alerts") {
		t.Fatalf("asked %q", s.Asked())
	}
	if s = m.Say(thread, "yes"); !strings.Contains(s.Asked(), "What should the skill be called?") {
		t.Fatalf("asked %q, want the question at which the user left", s.Asked())
	}
	m.Say(thread, "call it slack.ping")
	if s = m.Say(thread, "yes"); !strings.Contains(s.Text, "'slack.ping' is now active") {
		t.Errorf("said %q", s.Text)
	}
	if file := m.SkillFile("slack.ping"); !strings.Contains(file, "- name: text\n") {
		t.Errorf("what was said before is lost:\n%s", file)
	}
}
