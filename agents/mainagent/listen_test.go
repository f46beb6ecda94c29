package mainagent_test

import (
	"strings"
	"testing"

	"agentmesh/agents/internal/meshtest"
	"agentmesh/agents/skillbuilder"
	"agentmesh/mesh"
	"agentmesh/mesh/agent"
	"agentmesh/mesh/llm/scripted"
	"agentmesh/mesh/node"
	"agentmesh/mesh/text/texttest"
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

// What main has done for a session, three levels below it, waits for the user's approval as it
// does without one, also over a restart of the whole mesh: a yes has it done once, anything
// else not; then the session's question is put again. Who leaves instead has left it, too.
func TestAnApprovalInASessionGoesUpToTheUser(t *testing.T) {
	texttest.Fixed(t)
	for answer, want := range map[string]struct{ effects, says, asks string }{
		"yes":    {"mail.send map[to:bob]", "The main assistant says: Done", "step by step"},
		"no":     {"", "The main assistant says: Done", "step by step"},
		"cancel": {"", "What you said there is kept", ""},
	} {
		t.Run(answer, func(t *testing.T) {
			o := newOffice(t)
			o.model("main", scripted.Call("request_handoff", `{"agent":"skill-builder","reason":"a skill","summary":"a skill that sends Slack alerts"}`),
				consult(scripted.Step{}, "orchestrator", "Mail bob"), scripted.Say("Done."), scripted.Say("Welcome."))
			o.model("orchestrator", scripted.Call("dispatch_agent", `{"agent_id":"m","mission":"Mail bob","skills":["mail.send"]}`),
				scripted.Call("get_agent_results", `{}`), scripted.Say("Orchestrated."))
			o.model("mail", use("mail.send", "to", "bob"), scripted.Say("Over."))
			agents := o.all()
			agents["skill-builder"] = func(env node.Env) (agent.Agent, error) {
				return skillbuilder.New(skillbuilder.Config{Card: meshtest.Card(t, "skill-builder"), Conns: env.Conns, Now: friday, Logger: env.Logger})
			}
			o.open(agents)
			thread := mesh.NewThreadID()
			o.Say(thread, "I want to create a skill that sends Slack alerts")
			s := o.Say(thread, "main: mail bob")
			if !strings.Contains(s.Asked(), "May I run mail.send?") || !strings.Contains(s.Asked(), "cancel") || len(o.happened()) > 0 {
				t.Fatalf("said %q, asked %q after %v", s.Text, s.Asked(), o.happened())
			}
			o.open(agents)
			s = o.Say(thread, answer)
			if got := strings.Join(o.happened(), "|"); got != want.effects || !strings.Contains(s.Text, want.says) || !strings.Contains(s.Asked(), want.asks) {
				t.Errorf("did %q, said %q, asked %q", got, s.Text, s.Asked())
			}
		})
	}
}
