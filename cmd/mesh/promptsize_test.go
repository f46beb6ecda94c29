package main

import (
	"strings"
	"testing"

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
	most := 550
	for _, t := range r.Tools {
		switch t.Function.Name {
		case "cancel_agent": // with list_agents, two more than the three that S0-096 counts
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
