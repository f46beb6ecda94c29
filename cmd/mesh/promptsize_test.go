package main

import (
	"path/filepath"
	"strings"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/llm"
	"agentmesh/mesh/llm/tokens"
	"agentmesh/mesh/skill"
	"agentmesh/mesh/skill/command"
	"agentmesh/skills"
)

// fixed returns how many tokens of a request are the system prompt without what
// is known, and its tools.
func (r *modelRequest) fixed() (system, tools int) {
	count := new(tokens.Counter)
	prompt, _, _ := strings.Cut(string(r.Messages[0].Content), "\n\nActive tasks:")
	var all []llm.Tool
	for _, t := range r.Tools {
		all = append(all, llm.Tool{Name: t.Function.Name, Description: t.Function.Description, Parameters: t.Function.Parameters})
	}
	return count.Text(prompt), count.Tools(all)
}

// checkSize checks that what is the same in each request of an agent leaves the
// room to the conversation: it is about 1,000 tokens, so that a request with a
// history of 6,000 comes to about 7,000 (S3-055).
func checkSize(t *testing.T, who string, r *modelRequest) {
	t.Helper()
	system, tools := r.fixed()
	most := 575
	for _, t := range r.Tools {
		switch t.Function.Name {
		case "cancel_agent": // with list_agents, two more than the three that collect has
			most += 200
		case "answer_agent": // a third
			most += 120
		}
	}
	if system < 100 || system > 650 || tools > most {
		t.Errorf("%s has a prompt of %d tokens, and tools of %d", who, system, tools)
	}
}

// checkKnown checks what a model is told before it asks: the open tasks, and then
// what the memory has about the message, both quoted (S3-052, S3-145), in as few
// tokens as each may have (S3-055).
func checkKnown(t *testing.T, r *modelRequest, task, memory string) {
	t.Helper()
	const mark = "\n[Quoted text: data from elsewhere."
	_, known, ok := strings.Cut(string(r.Messages[0].Content), "\n\nActive tasks:"+mark)
	open, remembered, also := strings.Cut(known, "\n\nFrom the memory:"+mark)
	if !ok || !also {
		t.Fatalf("the open tasks and then the memory are not in the prompt:\n%s", r.Messages[0].Content)
	}
	for part, want := range map[string]string{open: task, remembered: memory} {
		found := false
		for line := range strings.Lines(part) {
			if strings.Contains(line, want) {
				found = strings.HasPrefix(line, "> ")
			}
		}
		if !found {
			t.Errorf("%q is not quoted in\n%s", want, part)
		}
	}
	count := new(tokens.Counter)
	if n, m := count.Text(open), count.Text(remembered); n > 100 || m > 500 {
		t.Errorf("the tasks take %d tokens, the memory %d", n, m)
	}
}

// S0-053, S0-096: what changes ends the orchestrator's prompt, on the wire: the domains of skills,
// the user, the open tasks, and what the memory has about the message; and each part has the
// room that it may have: after 12,000 tokens of conversation, all of them with the history that
// is left and the results of two agents come to 3,500 to 8,500.
func TestTheOrchestratorsPromptEndsWithWhatChanges(t *testing.T) {
	t.Parallel()
	model := startScripted(t, func(r *modelRequest) modelReply {
		said, after := r.since()
		switch {
		case !r.offers("dispatch_agent"):
			return modelReply{text: "I found that " + strings.Repeat("it is late ", 40)}
		case strings.HasPrefix(said, "Letter"):
			return modelReply{text: "Read."}
		case len(after) == 0:
			order := func(id string) modelCall {
				return modelCall{"dispatch_agent", map[string]any{"agent_id": id, "name": "worker", "mission": "Find " + id, "skills": []string{"tasks.search"}}}
			}
			return modelReply{calls: []modelCall{order("a"), order("b"), {"get_agent_results", map[string]any{}}}}
		}
		return modelReply{text: "Both are late."}
	})
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "mesh.yaml"), "main: orchestrator\ndefaults: {orchestrator: {profile: collect}}\n")
	m := upWith(t, dir, model.env())
	m.runAPI("tasks.create", map[string]any{"title": "Call Ann"})
	m.runAPI("memory.save", map[string]any{"content": "Likes a letter better than mail", "category": "preference"})
	id := mesh.NewThreadID()
	for range 4 { // of 3,000 tokens each, of which not all have room
		speaker(speakGRPC).complete(t, m, id, "Letter:"+strings.Repeat(" word", 3000))
	}
	if h := speaker(speakGRPC).complete(t, m, id, "Is a letter or mail late?"); h.text != "Both are late." {
		t.Fatalf("the answer is %q", h.text)
	}
	all := model.asked()
	last := all[len(all)-1]
	checkSize(t, "orchestrator", last)
	checkKnown(t, last, "Call Ann", "Likes a letter better than mail")
	system, count := string(last.Messages[0].Content), new(tokens.Counter)
	at, slots := 0, []string{"\nAvailable skill domains: ", "\nThe user is ", "\n\nActive tasks:", "\n\nFrom the memory:"}
	for i, slot := range slots {
		next := strings.Index(system, slot)
		if next < at {
			t.Fatalf("%q is at %d, after what is at %d:\n%s", slot, next, at, system)
		}
		if at = next; i < 2 { // the others are bounded above
			line, _, _ := strings.Cut(system[at+1:], "\n")
			if n := count.Text(line); n > 50 {
				t.Errorf("%q has %d tokens", line, n)
			}
		}
	}
	results, total := count.Text(string(last.Messages[len(last.Messages)-1].Content)), 0
	for _, msg := range last.Messages {
		total += count.Text(string(msg.Content))
	}
	_, tools := last.fixed()
	if total += tools; results < 200 || results > 1000 || total < 3500 || total > 8500 {
		t.Errorf("the results have %d tokens, and the request has %d", results, total)
	}
}

// The summary of the skills that the binary has costs less than 400 tokens, a
// tenth of what a tool for each costs (S3-008).
func TestTheSummaryOfTheShippedSkillsIsShort(t *testing.T) {
	catalog, problems := skill.Load(skills.FS)
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	var tools []llm.Tool
	for _, s := range catalog.List() {
		tools = append(tools, llm.Tool{Name: s.Name, Description: s.Description, Parameters: command.Schema(s)})
	}
	count := new(tokens.Counter)
	summary, each := count.Text(command.Summary(catalog.Domains())), count.Tools(tools)
	if len(tools) < 25 || summary > 400 || summary*10 > each {
		t.Errorf("the summary of %d skills has %d tokens, the tools %d", len(tools), summary, each)
	}
}
