package offline

import "testing"

// Whoever knows a skill's name need not find words that the planner knows.
func TestASkillMayBeCalledByItsName(t *testing.T) {
	cat := testCatalog(t)
	for text, want := range map[string]string{
		"use mail.send to find tasks":           "mail.send",
		"Tasks.create: email bob@x.org":         "tasks.create",
		"please run the skill calendar.list":    "calendar.list",
		"create a task to rename mail.send":     "tasks.create",
		"find the tasks that mention mail.send": "tasks.search",
		"tell me a joke":                        "", // nobody is to be mailed
	} {
		got := ""
		if s := cat.best(newClause(text)); s != nil {
			got = s.Name
		}
		if got != want {
			t.Errorf("%s: %q, want %q", text, got, want)
		}
	}
}
