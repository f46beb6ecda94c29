package offline

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
)

// order returns what the agent of that id was told.
func (b *bench) order(id string) map[string]any {
	b.t.Helper()
	for _, o := range b.ordered {
		if o["agent_id"] == id {
			return o
		}
	}
	b.t.Fatalf("%s was not dispatched: %v", id, b.ordered)
	return nil
}

// A search first, then mail and calendar in parallel with its result; one
// answer that sums up (S0-007, S0-049, S0-133, S0-135). Nothing happens before
// the user agrees (finding C11).
func TestDelegates_searchThenMailAndMeeting(t *testing.T) {
	const text = "Find my overdue tasks, then email the report to bob@example.com and create a follow-up meeting tomorrow at 2pm"
	b := newBench(t)
	if asked := b.hold(ways[0], []string{text}); !strings.HasPrefix(asked, askMark) || len(b.ordered)+len(b.calls) > 0 {
		t.Fatalf("before the user agreed it dispatched %v: %s", b.ordered, asked)
	}
	answer := b.hold(ways[0], []string{text, "yes"})
	for _, id := range []string{"mail-1", "calendar-1"} {
		if diff := cmp.Diff([]string{"tasks-1"}, list(b.order(id)["depends_on"])); diff != "" {
			t.Errorf("%s depends on: %s", id, diff)
		}
	}
	if len(b.calls) != 3 || !slices.ContainsFunc(b.calls, func(c string) bool { return strings.HasPrefix(c, "mail.send ") && strings.Contains(c, "Buy milk") }) {
		t.Errorf("called %q", b.calls)
	}
	wantIn(t, answer, "These are the results of the 3 steps", "Buy milk", "Done with mail.send.", "Done with calendar.create.", "offline planner")
}

// One agent reads and sends with skills of two domains, in parallel with
// another one that schedules (S0-010, S0-011).
func TestDelegates_oneAgentWithSkillsOfTwoDomains(t *testing.T) {
	b := newBench(t)
	b.hold(ways[0], []string{"Send Bob the overdue tasks report and schedule a review meeting", "bob@example.com", "Monday at 10am", "yes"})
	if diff := cmp.Diff([]string{"mail.send", "tasks.search"}, list(b.order("mail-1")["skills"])); diff != "" {
		t.Error(diff)
	}
	if deps := b.order("calendar-1")["depends_on"]; deps != nil {
		t.Errorf("the meeting waits for %v", deps)
	}
	slices.Sort(b.calls)
	want := []string{`calendar.create {"start":"2026-11-23T10:00:00+01:00","title":"Review meeting"}`,
		`mail.send {"body":` + plainJSON(b.replies["tasks.search"]) + `,"subject":"Overdue tasks report","to":["bob@example.com"]}`,
		`tasks.search {"status":["overdue"]}`}
	if diff := cmp.Diff(want, b.calls); diff != "" {
		t.Error(diff)
	}
}

// A request with one part uses one agent (S0-132), with an id that was not used
// before in the conversation.
func TestDelegates_simpleRequestUsesOneAgent(t *testing.T) {
	b := newBench(t)
	b.say(ways[0], userSays("show my blocked tasks"))
	if len(b.ordered) != 1 || len(b.calls) != 1 {
		t.Errorf("dispatched %v, called %v", b.ordered, b.calls)
	}
	r := reader{skills: learnt(t), now: friday(), taken: map[string]bool{"tasks-1": true}}
	if p := r.plan("show my blocked tasks"); len(p.jobs) != 1 || p.jobs[0].id != "tasks-2" {
		t.Errorf("planned %+v", p.jobs)
	}
}

// learnt are all skills as a planner knows them.
func learnt(t *testing.T) []skill {
	t.Helper()
	var out []skill
	for _, s := range newBench(t).known([]string{"*"}) {
		out = append(out, learn(s))
	}
	return out
}

// replies returns what the planner says to the messages.
func replies(t *testing.T, about llm.About, messages ...llm.Message) (text string, calls []mesh.ToolUse, ask string) {
	t.Helper()
	for c, err := range planner.Generate(t.Context(), &llm.Request{About: about, Messages: messages}) {
		switch {
		case err != nil:
			t.Fatal(err)
		case c.Tool != nil:
			calls = append(calls, *c.Tool)
		case c.Done != nil:
			ask = c.Done.Ask
		}
		text += c.Text
	}
	return text, calls, ask
}

func called(id, name, args, result string, failed bool) []llm.Message {
	return []llm.Message{{Role: llm.RoleAssistant, Tools: []mesh.ToolUse{{ID: id, Name: name, Arguments: args}}}, {Role: llm.RoleTool, ToolID: id, Name: name, Text: result, Failed: failed}}
}

// A failure is explained, and so is what was skipped because of it (S0-092,
// S0-136).
func TestDelegates_failuresAreExplained(t *testing.T) {
	messages := []llm.Message{userSays("Find my overdue tasks, then email them to bob@example.com, and book a review tomorrow at 10")}
	for i, id := range []string{"tasks-1", "mail-1", "calendar-1"} {
		messages = append(messages, called(id, toolDispatch, `{"agent_id":"`+id+`","mission":"Mission `+string(rune('A'+i))+`"}`, `{}`, false)...)
	}
	messages = append(messages, called("r", toolResults, `{}`, `{"agents":[{"agent_id":"tasks-1","status":"failed","result":"the task store is locked"},`+
		`{"agent_id":"mail-1","status":"skipped","result":"Skipped because dependency 'tasks-1' failed."},{"agent_id":"calendar-1","status":"completed","result":"Booked."}]}`, false)...)
	text, calls, _ := replies(t, about(&llm.Facts{Dispatches: true}, nil), messages...)
	wantIn(t, text, "1 of 3 steps were finished", "Mission A — failed: the task store is locked.", "was skipped: Skipped because dependency 'tasks-1' failed.", "Booked.")
	if len(calls) > 0 {
		t.Errorf("it goes on with %v", calls)
	}
}

// An agent that cannot be reached is a limitation that the answer names
// (S4-062); what an agent asks is asked, and the answer goes to it with the
// request (finding C11).
func TestRoutes_tellsWhatCameOfIt(t *testing.T) {
	b := newBench(t)
	tools := about(b.mainFacts(), nil)
	ask := userSays("How do I configure rate limiting?")
	text, _, _ := replies(t, tools, append([]llm.Message{ask}, called("1", toolConsult, `{"agent":"knowledge","task":"x"}`, `{"agent":"knowledge","status":"failed","result":"connection refused"}`, false)...)...)
	wantIn(t, text, "I could not get an answer from the knowledge agent: connection refused.")

	messages := append([]llm.Message{userSays("Email Bob saying hi")}, called("1", toolConsult, `{"agent":"orchestrator","task":"Email Bob saying hi"}`, `{"agent":"orchestrator","status":"awaiting","result":"Which address?"}`, false)...)
	if _, _, question := replies(t, tools, messages...); question != "Which address?" {
		t.Errorf("asked %q", question)
	}
	messages = append(messages, llm.Message{Role: llm.RoleAssistant, Text: "Which address?", Asks: llm.FinishAsk}, userSays("bob@x.org"))
	_, calls, _ := replies(t, tools, messages...)
	if len(calls) != 1 || calls[0].Arguments != `{"agent":"orchestrator","answers":["bob@x.org"],"task":"Email Bob saying hi"}` {
		t.Errorf("called %+v", calls)
	}
}

// Whoever names an agent gets that one, with what it is to do and without the
// address; names of people and things that only look so are left alone.
func TestRoutes_theUserNamesTheAgent(t *testing.T) {
	agents := []llm.Agent{{Name: "worker-2"}, {Name: "tasks"}, {Name: "knowledge"}, {Name: "mail"}}
	for text, want := range map[string]string{
		"Ask worker-2 to find my overdue tasks":       "worker-2: find my overdue tasks",
		"please ask the knowledge agent about grants": "knowledge: Tell me about grants",
		"Ask knowledge how limits work":               "knowledge: how limits work",
		"Tell the tasks agent to archive task t-3.":   "tasks: archive task t-3",
		"Let worker-2 search my open tasks":           "worker-2: search my open tasks",
		"worker-2: show my overdue tasks":             "worker-2: show my overdue tasks",
		"@tasks what is overdue":                      "tasks: what is overdue",
		"ask bob to come":                             "",
		"Mail bob@example.com the report":             "",
		"Tasks that are overdue":                      "",
		"Let mail be mail":                            "",
		"worker-2":                                    "",
		"Ask worker-2":                                "",
	} {
		got := ""
		if name, task := addressee(newClause(text).trimmed(), agents); name != "" {
			got = name + ": " + task
		}
		if got != want {
			t.Errorf("%q goes to %q, want %q", text, got, want)
		}
	}
}

func TestRoutes_handoffTriggers(t *testing.T) {
	for text, want := range map[string]int{
		"I want to create a skill that sends Slack alerts":   1,
		"Could you build me a really nice new skill?":        1,
		"I need a new skill":                                 1,
		"make a skill for the weather":                       1,
		"How do I create a skill?":                           0,
		"don't create a skill":                               0,
		"create a task to write down which skill is new":     0,
		"Find my tasks and create a meeting about the skill": 0,
	} {
		b := newBench(t)
		b.handoffs = true
		b.say(ways[0], userSays(text))
		if len(b.handed) != want {
			t.Errorf("%q: %d handoffs, want %d", text, len(b.handed), want)
		}
	}
}

// The planner says what it is in the first answer of a conversation only, and
// answers about itself without asking anybody.
func TestRoutes_aboutItself(t *testing.T) {
	b := newBench(t)
	first := b.say(ways[0], userSays("Hello"))
	wantIn(t, first, "offline planner", "MESH_LLM_URL", "MESH_LLM_KEY", "MESH_LLM_MODEL")
	for _, text := range []string{"Hello", "Thanks!", "Who are you?", "help me please", "What can you do for me?", "which agents are available?"} {
		said := b.say(ways[0], userSays("Hello"), llm.Message{Role: llm.RoleAssistant, Text: first}, userSays(text))
		if strings.Contains(said, "MESH_LLM_URL") || strings.Contains(said, "not understand") || len(b.ordered) > 0 {
			t.Errorf("%q is answered with %s", text, said)
		}
	}
}

// Agents hand no answer on that was meant for the mesh, and tell what came of
// what they delegated.
func TestAnswers_areNotDelegated(t *testing.T) {
	b := newBench(t)
	for _, tt := range []struct {
		facts              *llm.Facts
		tool, result, said string
		want               []string
	}{
		{b.mainFacts(), toolConsult, `{"agent":"orchestrator","status":"completed","result":"Ann was called."}`, "maybe", []string{"Ann was called.", "I did not understand “maybe”"}},
		{b.mainFacts(), toolConsult, `{"agent":"tasks","status":"cancelled","result":"Stopped, as the user wishes."}`, "no", []string{"Stopped, as the user wishes."}},
		{&llm.Facts{Dispatches: true}, toolResults, `{"agents":[]}`, "create a task to call Dave", nil},
	} {
		messages := append([]llm.Message{userSays("Call Ann and Bob")}, called("1", tt.tool, `{"agent":"orchestrator","task":"x"}`, tt.result, false)...)
		text, calls, _ := replies(t, about(tt.facts, nil), append(messages, userSays(tt.said))...)
		if len(calls) > 0 {
			t.Errorf("%q leads to %v", tt.said, calls)
		}
		wantIn(t, text, tt.want...)
	}
}
