package main

import (
	"fmt"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"

	"agentmesh/mesh"
)

// Two processes of one agent are one agent with two places. One that is killed while it is
// idle fails nothing, although the mesh has not heard of it yet (finding O9); one that is
// stopped has left before it is gone; and nobody takes the name without joining them.
func TestProcessesOfOneAgentStandInForOneAnother(t *testing.T) {
	t.Parallel()
	m := up(t, t.TempDir())
	writeFile(t, m.dir+"/handbook/kitchen.md", "# Kitchen\n\nDescale the espresso machine with 40 ml of citric acid.\n")
	var all [3]*process
	for i := range all {
		all[i] = runAgent(t, m, m.dir, "knowledge", "handbook", "--docs", "handbook", "--replica", "--data", fmt.Sprint("data-", i))
	}
	processes := func() string {
		var states []string
		list := m.mesh("agents", "list").succeeds(t)
		count := regexp.MustCompile(`(?m)^handbook +(\w+).* (\d of \d) processes`).FindStringSubmatch(list)
		if count == nil {
			t.Fatalf("listed is\n%s", list)
		}
		for _, row := range regexp.MustCompile(`(?m)^ +(live|down)`).FindAllStringSubmatch(list, -1) {
			states = append(states, row[1])
		}
		return count[1] + ", " + count[2] + ": " + strings.Join(states, " ")
	}
	if got := processes(); got != "live, 3 of 3: live live live" { //nolint:dupword // one each
		t.Error(got)
	}
	answers := func(times int) {
		t.Helper()
		id := mesh.NewThreadID()
		for range times {
			if h := speaker(speakGRPC).complete(t, m, id, "Ask handbook how to descale the espresso machine"); !strings.Contains(h.text, "citric acid") {
				t.Fatalf("heard %q; main asked %s", h.text, m.asked(id))
			}
		}
		if got := m.asked(id); strings.Contains(got, "failed") {
			t.Errorf("main asked %s", got)
		}
	}
	answers(1)
	all[0].kill9()
	answers(6)
	m.mesh("agent", "run", "knowledge", "--name", "handbook", "--docs", filepath.Join(m.dir, "handbook")).fails(t, exitFailure, "each registers as a replica")
	all[1].signal(syscall.SIGTERM)
	if code := all[1].wait(); code != exitOK {
		t.Errorf("exit code %d; stderr: %s", code, all[1].stderr.String())
	}
	if got := processes(); !strings.Contains(got, " of 2: ") {
		t.Errorf("one was killed and one has left: %s", got)
	}
	answers(2)
	if show := m.mesh("agents", "show", "handbook").succeeds(t); strings.Count(show, "process ") != 2 {
		t.Errorf("shown is\n%s", show)
	}
}
