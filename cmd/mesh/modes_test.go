package main

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
)

// A calledSkill is one call of a skill, without how it was made.
type calledSkill struct {
	Skill  string
	Args   map[string]any
	Failed bool
}

// chosenID is what each mesh chooses by itself.
var chosenID = regexp.MustCompile(`\bt-[a-z0-9]{5,}\b`)

// modes are all ways of working that go together, and how calls are made in
// each.
var modes = []struct {
	mode, face string
	source     string
}{
	{"multi_agent", "cli", mesh.SourceCommand},
	{"multi_agent", "json", mesh.SourceUseSkill},
	{"single_loop", "json", mesh.SourceUseSkill},
	{"single_loop", "cli", mesh.SourceCommand},
	{"direct", "json", mesh.SourceDirect},
}

// The same conversation calls the same skills with the same arguments in every
// mode and through every face, and has the same effects: a late task is found,
// the report is mailed, the review is booked (S3-001, S3-002, S3-003, S3-130,
// S3-131, S3-132, S3-133, S3-121). S0-137: what differs is who calls them: the one agent
// that the user talks to, or agents that it has work, and then none of those that delegate.
func TestEveryModeCallsTheSameSkills(t *testing.T) {
	all := make([][]calledSkill, len(modes))
	t.Run("modes", func(t *testing.T) {
		for i, m := range modes {
			t.Run(m.mode+" "+m.face, func(t *testing.T) {
				t.Parallel()
				all[i] = callsInMode(t, m.mode, m.face, m.source)
			})
		}
	})
	if len(all[0]) < 4 {
		t.Fatalf("only %v was called", all[0])
	}
	for i, calls := range all[1:] {
		if d := cmp.Diff(all[0], calls); d != "" {
			t.Errorf("%s %s calls other skills than %s %s: -want +got\n%s", modes[i+1].mode, modes[i+1].face, modes[0].mode, modes[0].face, d)
		}
	}
}

func callsInMode(t *testing.T, mode, face, source string) []calledSkill {
	t.Helper()
	m := up(t, t.TempDir(), "--tool-mode", mode, "--skill-interface", face)
	id := mesh.NewThreadID()
	say := speaker(speakGRPC)
	say.complete(t, m, id, `Create a task called "Send the invoice to Acme" due 2020-03-01`)
	h := say.agreed(t, m, id, "Find my overdue tasks, mail the report to bob@example.com and book a review meeting tomorrow at 10am")
	for _, part := range []string{"bob@example.com", "Send the invoice to Acme"} {
		if !strings.Contains(h.text, part) {
			t.Errorf("%q is not in the answer:\n%s", part, h.text)
		}
	}
	if strings.Contains(h.text, "```cmd") {
		t.Errorf("the user reads commands:\n%s", h.text)
	}
	checkMail(t, errand{mailTo: "bob@example.com", mail: []string{"Send the invoice to Acme"}}, m.files("outbox/*.eml"))
	if got := readEvent(t, m.files("calendar/*.ics")[0])["SUMMARY"]; got != "Review meeting" {
		t.Errorf("the event is %q", got)
	}
	var calls []calledSkill
	at := map[string]int{}
	dispatched := 0
	by := map[string]bool{}
	for _, e := range m.log(id) {
		switch c := e.GetSkillCalled(); {
		case c != nil:
			by[e.GetActor()] = true
			call := calledSkill{Skill: c.GetSkill()}
			if err := json.Unmarshal(chosenID.ReplaceAll([]byte(c.GetArgs()), []byte("t-same")), &call.Args); err != nil {
				t.Fatal(err)
			}
			if c.GetSource() != source || c.GetVersion() == "" {
				t.Errorf("%s was called by %q in version %q, want by %q", c.GetSkill(), c.GetSource(), c.GetVersion(), source)
			}
			at[e.GetExecutionId()+c.GetCall()] = len(calls)
			calls = append(calls, call)
		case e.GetSkillReturned() != nil:
			calls[at[e.GetExecutionId()+e.GetSkillReturned().GetCall()]].Failed = e.GetSkillReturned().GetFailed()
		case e.GetDispatchIssued() != nil && e.GetActor() != "node":
			dispatched++
		}
	}
	if alone := mode != "multi_agent"; alone != (dispatched == 0) {
		t.Errorf("%d agents were dispatched", dispatched)
	} else if alone != by["agent:main"] || alone != (len(by) == 1) || by["agent:orchestrator"] {
		t.Errorf("skills were called by %v", by)
	}
	// What does not depend on each other runs at the same time.
	slices.SortStableFunc(calls, func(a, b calledSkill) int { return strings.Compare(a.Skill, b.Skill) })
	return calls
}

// S3-130: what does not go together is refused at the start, with what to do.
func TestModesThatDoNotGoTogetherAreRefusedAtTheStart(t *testing.T) {
	dir := t.TempDir()
	runMesh(t, dir, nil, "up", "--tool-mode", "direct", "--skill-interface", "cli").fails(t, 2, `skill_interface.*direct.*single_loop`)
	runMesh(t, dir, nil, "up", "--tool-mode", "many").fails(t, 2, `tool_mode.*multi_agent, single_loop or direct`)
}
