package main

import (
	"bytes"
	"encoding/json"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
)

// browserReport is what the pages in a browser saw.
type browserReport struct {
	Task   string
	Opened int // connections of the EventSource
	CutAt  int // how many events came before the connection broke
	Events []struct{ ID, State, Text string }
	// Intruder is what became of the page of another origin.
	Intruder intruderReport
}

type intruderReport struct {
	Said  int    // the status of saying something
	Read  string // the error of reading the task
	Heard string // what became of its EventSource
}

// A browser's own EventSource follows a task that a page began, through all
// that the user answers, to its end. When the connection breaks it reconnects
// by itself and misses and repeats nothing. A page of another origin can
// neither say something nor hear anything (S4-023, S4-053).
func TestInteropABrowsersEventSourceFollowsATask(t *testing.T) {
	t.Parallel()
	s := sdkNamed(t, "node")
	for _, path := range []string{"../../.build/interop/js/node_modules/playwright-core", "/usr/bin/chromium"} {
		if _, err := os.Stat(path); err != nil {
			t.Skipf("no browser to drive: %v; .ci/interop installs it", err)
		}
	}
	m, skill, other := up(t, t.TempDir()), "plants.browser", mesh.NewThreadID()
	cmd := s.command(t, "browser", append([]string{"http://" + m.http, mesh.NewThreadID(), other}, sdkLines(skill)...)...)
	var problems bytes.Buffer
	cmd.Stderr = &problems
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v\n%s%s", err, out, problems.Bytes())
	}
	var r browserReport
	if err := json.Unmarshal(out, &r); err != nil {
		t.Fatalf("%v in %s", err, out)
	}
	r.checkOrder(t)
	r.checkTold(t, m, "'"+skill+"' is now active")

	want := intruderReport{Said: http.StatusForbidden, Read: "TypeError", Heard: "closed"}
	if d := cmp.Diff(want, r.Intruder); d != "" {
		t.Errorf("the page of another origin: -want +got\n%s", d)
	}
	if tasks, _ := m.get("/tasks?contextId=" + other)["tasks"].([]any); len(tasks) != 0 {
		t.Errorf("the page of another origin began %v", tasks)
	}
}

// checkOrder checks that the ids of events rise, over the broken connection
// too. Only what a connection begins with, the task as it is, may be where the
// one before it ended.
func (r *browserReport) checkOrder(t *testing.T) {
	t.Helper()
	if r.Opened != 2 || r.CutAt == 0 || r.CutAt >= len(r.Events) {
		t.Fatalf("the EventSource connected %d times, want 2; the first broke after %d of %d events", r.Opened, r.CutAt, len(r.Events))
	}
	last := 0
	for i, e := range r.Events {
		id, err := strconv.Atoi(e.ID)
		if err != nil || id < last || id == last && i != r.CutAt {
			t.Errorf("event %d has the id %q after %d", i, e.ID, last)
		}
		last = id
	}
}

// checkTold checks that the events told all that the task has, and how it went.
func (r *browserReport) checkTold(t *testing.T, m *realMesh, done string) {
	t.Helper()
	var text strings.Builder
	var states []string
	for _, e := range r.Events {
		text.WriteString(e.Text)
		if e.State != "" {
			states = append(states, e.State)
		}
	}
	if d := cmp.Diff(taskText(getTask(t, m, r.Task)), text.String()); d != "" || !strings.Contains(text.String(), done) {
		t.Errorf("the page did not hear %q, or not what the task has: -task +page\n%s", done, d)
	}
	states = slices.Compact(slices.DeleteFunc(states, func(s string) bool { return s == "TASK_STATE_SUBMITTED" }))
	want := []string{stateWorking, stateInput, stateWorking, stateInput, stateWorking, stateInput, stateWorking, stateComplete}
	if states[0] == stateInput { // it asked before the page listened
		want = want[1:]
	}
	if d := cmp.Diff(want, states); d != "" {
		t.Errorf("states: -want +got\n%s", d)
	}
}
