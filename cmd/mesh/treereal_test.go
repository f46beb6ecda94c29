package main

import (
	"regexp"
	"strings"
	"testing"

	"agentmesh/mesh"
)

// S1-072, S1-082, finding O6: on the real binary, the tree of a turn in which the
// orchestrator had a specialist work, with what that called; and what cannot be ended or
// told any more is said to be over, what is a turn is refused, and what is not known too.
func TestTheTreeOfARealTurn(t *testing.T) {
	t.Parallel()
	m := up(t, t.TempDir())
	id := mesh.NewThreadID()
	m.mesh("send", "--thread", id, "Create a task to call Ann and list my calendar for today").succeeds(t)
	shown := m.mesh("threads", "show", id, "--tree", "--follow").succeeds(t)
	worker := regexp.MustCompile(`(?m)^ +[├└]─ .*✓ completed.*  ([0-9a-f]{32}-[0-9a-f]{16})$`).FindStringSubmatch(shown)
	for _, want := range []string{"turn main  ✓ completed", "(orchestrator)  ✓ completed", "skill tasks.create", "sub-agent"} {
		if !strings.Contains(shown, want) {
			t.Errorf("the tree lacks %q:\n%s", want, shown)
		}
	}
	if worker == nil {
		t.Fatalf("no sub-agent in the tree:\n%s", shown)
	}
	if got := m.mesh("threads", "cancel", worker[1]).succeeds(t); got != "already_completed (completed)\n" {
		t.Errorf("cancelled: %q", got)
	}
	if got := m.mesh("threads", "tell", worker[1], "hurry", "up").succeeds(t); got != "already_completed (completed)\n" {
		t.Errorf("told: %q", got)
	}
	if f := m.mesh("threads", "cancel", string(mesh.NewExecutionID(id))); f.code == 0 {
		t.Errorf("cancelled what is not there: %+v", f)
	}
	m.mesh("threads", "cancel", worker[1], "--thread", mesh.NewThreadID()).fails(t, exitUsage, "the execution is of another thread than --thread")
	one := m.mesh("threads", "show", worker[1], "--thread", id).succeeds(t)
	head, result, _ := strings.Cut(one, "\n\n")
	line, _, _ := strings.Cut(result, "\n") // of the text that the log has
	if !strings.Contains(head, worker[1]) || line == "" || !strings.Contains(m.mesh("threads", "export", id).succeeds(t), line) {
		t.Errorf("one execution is shown as\n%s", one)
	}
	if got := m.mesh("threads", "show", worker[1], "--json").succeeds(t); !strings.Contains(got, `"result":`) || strings.Count(got, "\n") != 1 {
		t.Errorf("one execution is %s", got)
	}
	m.mesh("threads", "show", worker[1], "--tree").fails(t, exitUsage, "--tree is for a thread")
}
