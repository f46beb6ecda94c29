package offline

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh/llm"
)

// used returns the calls as "agent skill", sorted, as parallel agents run in
// any order.
func (w *world) used() []string {
	var out []string
	for _, u := range w.uses {
		out = append(out, u.Agent+" "+u.Skill)
	}
	slices.Sort(out)
	return out
}

func (w *world) args(t *testing.T, skill string) map[string]any {
	t.Helper()
	for _, u := range w.uses {
		if u.Skill == skill {
			return u.Args
		}
	}
	t.Fatalf("%s was not called; calls: %v", skill, w.used())
	return nil
}

func (w *world) dispatch(t *testing.T, id string) map[string]any {
	t.Helper()
	for _, d := range w.dispatched {
		if d["agent_id"] == id {
			return d
		}
	}
	t.Fatalf("%s was not dispatched", id)
	return nil
}

func wantIn(t *testing.T, answer string, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if !strings.Contains(answer, p) {
			t.Errorf("the answer does not contain %q:\n%s", p, answer)
		}
	}
}

// A search first, then mail and calendar in parallel with its result; one
// answer that sums up (S0-007, S0-049, S0-133, S0-135).
func TestConversation_searchThenMailAndMeeting(t *testing.T) {
	w := newWorld(t)
	answer := w.say("Find my overdue tasks, then email the report to bob@example.com and create a follow-up meeting tomorrow at 2pm")

	if diff := cmp.Diff([]string{"calendar-1 calendar.create", "mail-1 mail.send", "tasks-1 tasks.search"}, w.used()); diff != "" {
		t.Fatal(diff)
	}
	for _, id := range []string{"mail-1", "calendar-1"} {
		if diff := cmp.Diff([]string{"tasks-1"}, list(w.dispatch(t, id)["depends_on"])); diff != "" {
			t.Errorf("%s depends on: %s", id, diff)
		}
	}
	mail := w.args(t, "mail.send")
	if diff := cmp.Diff([]any{"bob@example.com"}, mail["to"]); diff != "" {
		t.Error(diff)
	}
	if mail["body"] != w.replies["tasks.search"] {
		t.Errorf("the mail says %q", mail["body"])
	}
	if got := w.args(t, "calendar.create")["start"]; got != "2026-11-21T14:00:00+01:00" {
		t.Errorf("the meeting starts %v", got)
	}
	wantIn(t, answer, "Renew the certificate", "Done with mail.send.", "Done with calendar.create.", "offline planner")
}

// The same request in other words, with other names and numbers of steps, is
// carried out as well; no request is known by heart.
func TestConversation_otherWords(t *testing.T) {
	tests := map[string][]string{
		"Could you look up which todos are overdue and after that mail them to zoe@corp.io, and book a sync with her for Tuesday at 9am?": {"calendar-1 calendar.create", "mail-1 mail.send", "tasks-1 tasks.search"},
		"1. list my blocked tasks\n2. forward the list to li@x.cn":                                                                        {"mail-1 mail.send", "tasks-1 tasks.search"},
		"Get my open todos. Then notify team@corp.io. After that, book a retrospective meeting for Monday at 11am. Finally archive task t-3.": {
			"calendar-1 calendar.create", "mail-1 mail.send", "tasks-1 tasks.search", "tasks-2 tasks.archive"},
		"Look up overdue tasks then mail them to x@y.zz then schedule a sync next Monday 10:00 then create a todo \"prepare slides\" then alert #team saying \"all set\" then list my calendar for tomorrow": {
			"calendar-1 calendar.create", "calendar-2 calendar.list", "mail-1 mail.send", "slack-1 slack.alert", "tasks-1 tasks.search", "tasks-2 tasks.create"},
		"check the weather forecast for Lima and send it to pat@x.org":                        {"mail-1 mail.send", "weather-1 weather.forecast"},
		"Please look up how to configure rate limiting and send the answer to eve@x.org":      {"knowledge-1 knowledge.search", "mail-1 mail.send"},
		"close task t-7 and let bob@example.com know":                                         {"mail-1 mail.send", "tasks-1 tasks.update"},
		"I'd like you to add a task to renew the domain, and remind me to pay Ann on Monday.": {"tasks-1 tasks.create", "tasks-2 tasks.create"},
		"remind me to call Bob tomorrow":                                                      {"tasks-1 tasks.create"},
		"what do I have on my calendar tomorrow?":                                             {"calendar-1 calendar.list"},
		"What are my overdue tasks?":                                                          {"tasks tasks.search"},
	}
	for text, want := range tests {
		t.Run(text, func(t *testing.T) {
			w := newWorld(t)
			w.say(text)
			if diff := cmp.Diff(want, w.used()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// One agent reads and sends with skills of two domains, in parallel with
// another one that schedules (S0-010, S0-011).
func TestConversation_oneAgentWithSkillsOfTwoDomains(t *testing.T) {
	w := newWorld(t)
	w.say("Send bob@example.com the overdue tasks report and schedule a review meeting")
	if diff := cmp.Diff([]string{"mail.send", "tasks.search"}, list(w.dispatch(t, "mail-1")["skills"])); diff != "" {
		t.Error(diff)
	}
	if deps := w.dispatch(t, "calendar-1")["depends_on"]; deps != nil {
		t.Errorf("the meeting waits for %v", deps)
	}
	var serial []string
	for _, u := range w.uses {
		if u.Agent == "mail-1" {
			serial = append(serial, u.Skill)
		}
	}
	if diff := cmp.Diff([]string{"tasks.search", "mail.send"}, serial); diff != "" {
		t.Error(diff)
	}
	if got := w.args(t, "mail.send")["body"]; got != w.replies["tasks.search"] {
		t.Errorf("the mail says %q", got)
	}
}

// A request with one part uses one agent (S0-132).
func TestConversation_simpleRequestUsesOneAgent(t *testing.T) {
	w := newWorld(t)
	w.say("show my blocked tasks")
	if len(w.dispatched) != 1 || len(w.uses) != 1 {
		t.Errorf("dispatched %v, used %v", w.dispatched, w.uses)
	}
}

// A question is answered from documents, with the sources of what is quoted
// and without what has nothing to do with it.
func TestConversation_questionIsAnsweredFromDocuments(t *testing.T) {
	w := newWorld(t)
	answer := w.say("How do I configure rate limiting for my agent?")
	if diff := cmp.Diff([]string{"knowledge"}, w.consulted); diff != "" {
		t.Error(diff)
	}
	wantIn(t, answer, "Set rate_limit in mesh.yaml", "Sources: docs/limits.md")
	if strings.Contains(answer, "pasta") {
		t.Error("the answer quotes what has nothing to do with the question")
	}
}

func TestConversation_handoffTriggers(t *testing.T) {
	for text, want := range map[string]int{
		"I want to create a skill that sends Slack alerts":   1,
		"Could you build me a really nice new skill?":        1,
		"I need a new skill":                                 1,
		"make a skill for the weather":                       1,
		"How do I create a skill?":                           0,
		"create a task to write down which skill is new":     0,
		"Find my tasks and create a meeting about the skill": 0,
	} {
		w := newWorld(t)
		w.say(text)
		if len(w.handoffs) != want {
			t.Errorf("%q: %d handoffs, want %d", text, len(w.handoffs), want)
		}
	}
}

// What is not understood is said, and the rest runs (S0-136).
func TestConversation_partsThatAreNotUnderstood(t *testing.T) {
	w := newWorld(t)
	answer := w.say("Order a pizza, and email bob@example.com my overdue tasks")
	wantIn(t, answer, "I did not understand “Order a pizza”", "mail.send", "Renew the certificate")
	if diff := cmp.Diff([]string{"mail-1 mail.send", "mail-1 tasks.search"}, w.used()); diff != "" {
		t.Error(diff)
	}

	w = newWorld(t)
	answer = w.say("asdf qwer zxcv")
	wantIn(t, answer, "I did not understand “asdf qwer zxcv”", "- knowledge:", "- tasks:")
	if len(w.consulted)+len(w.uses) > 0 {
		t.Error("something was done nevertheless")
	}

	w = newWorld(t)
	wantIn(t, w.say("Cancel the meeting"), "I did not understand “Cancel the meeting”")
	if len(w.uses) > 0 {
		t.Errorf("it did %v instead", w.uses)
	}
}

// A failure is explained, and so is what was skipped because of it (S0-092,
// S0-136).
func TestConversation_failuresAreExplained(t *testing.T) {
	w := newWorld(t)
	w.fail["tasks.search"] = "the task store is locked"
	answer := w.say("Find my overdue tasks and schedule a meeting with the team for Monday at 10am, then email them to bob@example.com.")
	wantIn(t, answer, "1 of 3 steps were finished", "failed: I could not use tasks.search: the task store is locked.",
		"was skipped: Skipped because dependency 'tasks-1' failed.", "Done with calendar.create.")
	if slices.Contains(w.used(), "mail-1 mail.send") {
		t.Error("the mail was sent without the report")
	}
	if len(w.uses) != 2 {
		t.Errorf("the failed call was made again: %v", w.used())
	}
}

// An address that nobody told is asked for.
func TestConversation_missingAddressIsAskedFor(t *testing.T) {
	w := newWorld(t)
	wantIn(t, w.say("Send Bob the overdue tasks report"), "the e-mail address of Bob")
	if slices.Contains(w.used(), "mail-1 mail.send") {
		t.Error("a mail was sent to nobody")
	}
}

// An agent that cannot be reached is a limitation that the answer names
// (S4-062).
func TestConversation_unavailableAgentIsNamed(t *testing.T) {
	w := newWorld(t)
	w.down["knowledge"] = "connection refused"
	wantIn(t, w.say("How do I configure rate limiting?"), "I could not get an answer from the knowledge agent: connection refused.")
}

// The planner says what it is in the first answer of a conversation only, and
// only where it speaks to the user.
func TestConversation_noticeInTheFirstAnswer(t *testing.T) {
	w := newWorld(t)
	first := w.say("Hello")
	wantIn(t, first, "offline planner", "MESH_LLM_URL", "MESH_LLM_KEY", "MESH_LLM_MODEL")
	second := w.run(t.Context(), w.mainTools(), userSays("Hello"), llm.Message{Role: llm.RoleAssistant, Text: first}, userSays("Who are you?"))
	if strings.Contains(second, "MESH_LLM_URL") {
		t.Errorf("the second answer says it again: %s", second)
	}
	if direct := w.run(t.Context(), w.orchestratorTools(), userSays("show my tasks")); strings.Contains(direct, "MESH_LLM_URL") {
		t.Errorf("the orchestrator says it: %s", direct)
	}
}

// Questions about the planner itself are answered without asking anybody.
func TestConversation_asksNobodyAboutItself(t *testing.T) {
	for text, asked := range map[string]int{
		"Hello": 0, "Thanks!": 0, "Who are you?": 0, "help me please": 0, "What can you do for me?": 0, "which agents are available?": 0,
		"What can I do about rate limits?": 1, "Help me to find my tasks": 1,
	} {
		w := newWorld(t)
		if w.say(text); len(w.consulted) != asked {
			t.Errorf("%q: asked %v", text, w.consulted)
		}
	}
}

// Ids of agents are not used twice in a conversation.
func TestConversation_agentIDsStayUnique(t *testing.T) {
	w := newWorld(t)
	earlier := llm.Message{Role: llm.RoleAssistant}
	earlier.Tools = append(earlier.Tools, struct{ ID, Name, Arguments string }{"1", "dispatch_agent", `{"agent_id":"tasks-1"}`})
	w.run(t.Context(), w.orchestratorTools(), userSays("show my tasks"), earlier,
		llm.Message{Role: llm.RoleTool, ToolID: "1", Text: "{}"}, llm.Message{Role: llm.RoleAssistant, Text: "Done."}, userSays("show my open tasks"))
	w.dispatch(t, "tasks-2")
}

// When a limit takes the tools away, the planner answers with what it has.
func TestConversation_answersWithoutToolsFromWhatItHas(t *testing.T) {
	w := newWorld(t)
	loop := llm.Loop{Model: planner, Tools: w.workerTools("a", granted("tasks.search", "mail.send")), MaxSteps: 1}
	answer := ""
	for e, err := range loop.Run(t.Context(), []llm.Message{userSays("Send bob@example.com the overdue tasks report")}) {
		if err != nil {
			t.Fatal(err)
		}
		if e.Reply != nil {
			answer = e.Reply.Text
		}
	}
	wantIn(t, answer, "Renew the certificate")
}

// A skill that was granted alone is used, whatever words the mission has.
func TestConversation_onlyGrantedSkillIsUsed(t *testing.T) {
	w := newWorld(t)
	w.run(t.Context(), w.workerTools("a", granted("tasks.search")), userSays("Everything past its deadline, if you can"))
	if diff := cmp.Diff([]string{"a tasks.search"}, w.used()); diff != "" {
		t.Error(diff)
	}
}

// Without any tool the planner says that it can do nothing.
func TestConversation_withoutToolsSaysSo(t *testing.T) {
	w := newWorld(t)
	wantIn(t, w.run(t.Context(), nil, userSays("Find my tasks")), "no tools")
}

// legal reads a reply and reports what is wrong with it.
func legal(t *testing.T, req *llm.Request) (calls []map[string]any) {
	t.Helper()
	done := false
	for c, err := range planner.Generate(t.Context(), req) {
		switch {
		case err != nil:
			t.Fatalf("error: %v", err)
		case done:
			t.Fatal("a chunk after Done")
		case c.Done != nil:
			done = true
		case c.Tool != nil:
			var args map[string]any
			if err := json.Unmarshal([]byte(c.Tool.Arguments), &args); err != nil || c.Tool.ID == "" || c.Tool.Name == "" {
				t.Fatalf("illegal call %+v: %v", c.Tool, err)
			}
			calls = append(calls, args)
		case c.Text == "":
			t.Fatal("an empty chunk")
		}
	}
	if !done {
		t.Fatal("no Done")
	}
	return calls
}

// Any text, in any role, yields a legal reply.
func FuzzGenerate_isLegal(f *testing.F) {
	for _, s := range []string{"", "Find my overdue tasks, then email the report to bob@example.com", "then then, and ; and", "“ ‘ \" '", "\xff\xfe", "1. 2. 3.", "after", strings.Repeat("to ", 3), "tomorrow at 99pm in" + strings.Repeat(" a", 3),
		"## Results from prior agents\nResults from x:\n", "send , cc", "İİİ tomorrow", "@ # a@b.c # 12"} {
		f.Add(s, s)
	}
	w := newWorld(&testing.T{})
	f.Fuzz(func(t *testing.T, text, result string) {
		tools := map[string]string{toolConsult: "", toolDispatch: toolGetSkill, toolUseSkill: ""}
		for name, other := range tools {
			var offered []llm.Tool
			switch name {
			case toolConsult:
				offered = w.mainTools().tools
			case toolDispatch:
				offered = w.orchestratorTools().tools
			default:
				offered = w.workerTools("a", testSkills).tools
			}
			req := &llm.Request{Messages: []llm.Message{userSays(text)}, Tools: offered}
			legal(t, req)
			if other == "" {
				other = name
			}
			req.Messages = append(req.Messages, llm.Message{Role: llm.RoleAssistant, Tools: append(llm.Message{}.Tools, struct{ ID, Name, Arguments string }{"1", other, text})},
				llm.Message{Role: llm.RoleTool, ToolID: "1", Text: result})
			legal(t, req)
			req.Messages[len(req.Messages)-1].Text = listAll(library(t, testSkills))
			for _, args := range legal(t, req) {
				if id, ok := args["agent_id"]; ok && id == "" {
					t.Error("a dispatch without id")
				}
			}
		}
	})
}

// hard are what long texts are made of that are hard to take apart.
var hard = []string{
	"find tasks after finding tasks ", "and mail, ", "a, ", "\"x\" ", "tomorrow at 2pm ", "buy a to b and fix the x, ", "a@b.co ", "archive the task x and ",
	"create tasks: a, b and ", "save x and ", "mail and ", "do you know x. ", "show tasks and tasks and ", "!", "and ", "could you please ",
}

// A text of the greatest length gets a reply like any other, and a longer one is
// refused.
func TestGenerate_longTexts(t *testing.T) {
	w := newWorld(t)
	for _, unit := range hard {
		for _, size := range []int{maxText, 4 * maxText} {
			text := strings.Repeat(unit, size/len(unit))
			calls := legal(t, &llm.Request{Messages: []llm.Message{userSays(text)}, Tools: w.workerTools("a", testSkills).tools})
			if size > maxText && len(calls) > 0 {
				t.Errorf("%d bytes of %q lead to %v", size, unit, calls)
			}
		}
	}
}

// To take a text apart costs about as much as the text is long: the clauses that
// are compared with all skills, which is what takes the time, have together no
// more than a few times its words, and four times as much for four times the
// text.
func TestSplit_comparesAboutAsMuchAsThereIs(t *testing.T) {
	cat := newCatalog(readSkills(listAll(library(t, testSkills))))
	compared := func(unit string, size int) (words, all int) {
		s := splitter{verbs: cat.verbs, matches: func(c clause) bool {
			words += len(c.tokens)
			return cat.matches(c)
		}}
		text := strings.Repeat(unit, size/len(unit))
		s.split(text)
		return words, len(tokenize(text))
	}
	for _, unit := range hard {
		small, _ := compared(unit, maxText/16)
		large, all := compared(unit, maxText/4)
		if large > 4*small+100 || large > 8*all+100 {
			t.Errorf("of %q, %d words were compared, and in a text four times as long, of %d words, %d", unit, small, all, large)
		}
	}
}

func BenchmarkGenerate_longTexts(b *testing.B) {
	tools := (&world{}).workerTools("a", testSkills).tools
	for _, unit := range hard {
		b.Run(unit, func(b *testing.B) {
			req := &llm.Request{Messages: []llm.Message{userSays(strings.Repeat(unit, maxText/len(unit)))}, Tools: tools}
			for b.Loop() {
				for _, err := range planner.Generate(b.Context(), req) {
					if err != nil {
						b.Fatal(err)
					}
				}
			}
		})
	}
}

// The same request gets the same reply.
func TestGenerate_isDeterministic(t *testing.T) {
	w := newWorld(t)
	req := &llm.Request{Messages: []llm.Message{userSays("find tasks, mail them to a@b.co, book a meeting on Monday and add a todo")}, Tools: w.orchestratorTools().tools}
	req.Messages = append(req.Messages, llm.Message{Role: llm.RoleAssistant, Tools: append(llm.Message{}.Tools, struct{ ID, Name, Arguments string }{"1", toolGetSkill, "{}"})},
		llm.Message{Role: llm.RoleTool, ToolID: "1", Text: listAll(library(t, testSkills))})
	first := legal(t, req)
	for range 20 {
		if diff := cmp.Diff(first, legal(t, req)); diff != "" {
			t.Fatal(diff)
		}
	}
}
