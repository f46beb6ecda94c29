package main

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	meshv1 "agentmesh/gen/mesh/v1"
	"agentmesh/mesh"
)

// fiveTitles are the tasks that the model of this test creates, one by one.
var fiveTitles = []string{"Alpha", "Bravo", "Charlie", "Delta", "Echo"}

// A model that wants five calls where three are allowed: the user reads what is
// done and what is open and is asked, a yes finishes it in the same task, and
// nothing is done twice (S3-040, S3-042, S3-044, S3-045, S3-114).
func TestAtTheLimitOfATurnTheUserIsAskedAndAYesFinishesIt(t *testing.T) {
	t.Parallel()
	model := startScripted(t, func(req *modelRequest) modelReply {
		all := req.text()
		for _, title := range fiveTitles {
			if !strings.Contains(all, "Created task "+title) {
				return modelReply{calls: []modelCall{useSkill("tasks.create", map[string]any{"title": title})}}
			}
		}
		return modelReply{text: "All five are noted."}
	})
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "mesh.yaml"), "tool_mode: single_loop\nlimits: {turn_calls: 3}\n")
	m := upWith(t, dir, model.env())
	id := mesh.NewThreadID()
	say := speaker(speakGRPC)

	first := say(t, m, id, "Note Alpha, Bravo, Charlie, Delta and Echo")
	if len(first.status) == 0 {
		t.Fatalf("ended %v without a question: %s", first.state, first.text)
	}
	report := first.status[len(first.status)-1]
	for _, part := range []string{"3 skill calls", "Done so far:\n- tasks.create(", "Alpha", "Bravo", "Charlie", "Still open:\n- tasks.create(", "Delta"} {
		if !strings.Contains(report, part) {
			t.Errorf("%q is not in the report:\n%s", part, report)
		}
	}
	if !mesh.Interrupted(first.state) || !strings.HasSuffix(report, "Would you like me to continue?") {
		t.Fatalf("ended %v: %s", first.state, report)
	}
	last := say.complete(t, m, id, "yes")
	if last.task != first.task || !strings.Contains(last.text, "All five are noted.") {
		t.Errorf("task %s after %s: %s", last.task, first.task, last.text)
	}
	log := m.log(id)
	if created := madeCalls(log); len(created) != 5 || len(slices.Compact(slices.Sorted(slices.Values(created)))) != 5 {
		t.Errorf("called %q", created)
	}
	trips := slices.DeleteFunc(slices.Clone(log), func(e *meshv1.Event) bool { return e.GetLimitTripped() == nil })
	if len(trips) != 1 || trips[0].GetLimitTripped().GetLimit() != "turn.skill_calls" {
		t.Errorf("the log has the limits %v", trips)
	}
	found := m.mesh("skills", "run", "tasks.search").succeeds(t)
	count := map[string]int{}
	for _, title := range fiveTitles {
		count[title] = strings.Count(found, title)
	}
	if d := cmp.Diff(map[string]int{"Alpha": 1, "Bravo": 1, "Charlie": 1, "Delta": 1, "Echo": 1}, count); d != "" {
		t.Errorf("the tasks: -want +got\n%s\n%s", d, found)
	}
}

// Where other agents make the calls the user is asked just so, also when the
// mesh was killed while the question waited; each yes makes the next call, and
// none is made twice (S3-042, S3-044, S3-114, S0-076).
func TestInTheDefaultModeAYesGoesOnAtTheLimitToo(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	writeFile(t, filepath.Join(dir, "mesh.yaml"), "limits: {turn_calls: 1}\n")
	m := up(t, dir)
	id := mesh.NewThreadID()
	say := speaker(speakGRPC)
	asks := func(h heardTurn, open int) {
		t.Helper()
		report := strings.Join(h.status, "\n")
		if !mesh.Interrupted(h.state) || strings.Count(report, "Would you like me to continue?") != 1 ||
			strings.Contains(report, "say what is done") || strings.Count(report[strings.Index(report, "Still open:")+1:], "\n- ") != open {
			t.Fatalf("ended %v, said %q, asked %q; want %d open", h.state, h.text, report, open)
		}
	}
	first := say(t, m, id, "Create a task to call Ann, create a task to call Bob and create a task to call Carol")
	asks(first, 2)
	m.kill9()
	m = up(t, dir)
	asks(say(t, m, id, "yes"), 1)
	last := say.complete(t, m, id, "yes, continue")
	if last.task != first.task {
		t.Errorf("task %s after %s", last.task, first.task)
	}
	calls := madeCalls(m.log(id))
	slices.Sort(calls)
	if d := cmp.Diff([]string{`tasks.create {"title":"Call Ann"}`, `tasks.create {"title":"Call Bob"}`, `tasks.create {"title":"Call Carol"}`}, calls); d != "" {
		t.Errorf("-want +got\n%s", d)
	}
}
