package offline

import (
	"strings"
	"testing"
)

// Whoever names an agent gets that one, with what it is to do and without the
// address; names of people and things that only look so are left alone.
func TestRoute_theUserNamesTheAgent(t *testing.T) {
	agents := []agentLine{{name: "worker-2"}, {name: "tasks"}, {name: "knowledge"}, {name: "mail"}}
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

// To be told something is no order to send it.
func TestConversation_tellMeAboutAsksForKnowledge(t *testing.T) {
	w := newWorld(t)
	w.say("Tell me about rate limiting")
	if got := strings.Join(w.consulted, " "); got != "knowledge" {
		t.Errorf("asked %q", got)
	}
}

// A passage with a word or two of the question is said to be no answer.
func TestAnswerFrom_saysWhenTheDocumentsSayLittle(t *testing.T) {
	const found = "### 1. Auth > none\nSource: auth.md:3\n\nThe default, for one machine.\n\nSources: auth.md"
	for question, little := range map[string]bool{
		"How do I descale the espresso machine?": true,
		"What is the default for one machine?":   false,
		"What is a machine?":                     false,
	} {
		if got := answerFrom(question, found); strings.HasPrefix(got, "The documents do not say much about this.") != little {
			t.Errorf("%q is answered with %q", question, got)
		}
	}
}
