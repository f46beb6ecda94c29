package dispatch_test

import (
	"strings"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/dispatch"
	"agentmesh/mesh/text/texttest"
)

// S0-009, S0-092, S0-112, S0-122: a failure skips what depends on it, however
// far, and nothing else.
func TestAFailureSkipsItsDependentsAlone(t *testing.T) {
	texttest.Fixed(t)
	w := newWorld(t)
	release := make(chan struct{})
	w.agent("worker", func(m *mission) error {
		switch idOf(m) {
		case "bad":
			defer close(release)
			if err := m.say("half of it"); err != nil {
				return err
			}
			return m.end(a2apb.TaskState_TASK_STATE_FAILED, "disk full")
		case "good":
			<-release // still at work when the other fails
		}
		return m.done("fine")
	})
	d, inv := w.dispatcher(dispatch.Options{})
	got := run(t, d, order("good"), order("bad"), order("child", "bad"), order("grandchild", "child"), order("both", "good", "bad"), order("other", "good"))
	want := map[string][2]string{
		"good":       {"completed", "fine"},
		"other":      {"completed", "fine"},
		"bad":        {"failed", "half of it\n\ndisk full"},
		"child":      {"skipped", "Skipped because dependency 'bad' failed."},
		"grandchild": {"skipped", "Skipped because dependency 'child' failed."},
		"both":       {"skipped", "Skipped because dependency 'bad' failed."},
	}
	for id, w := range want {
		if r := got[id]; r.Status != w[0] || r.Result != w[1] || r.ToolCalls != 0 {
			t.Errorf("%s: %+v, want %v", id, r, w)
		}
	}
	if n := len(bodies[mesh.DispatchIssued](w, inv)); n != 4 {
		t.Errorf("%d dispatches logged, want good, bad and other", n-1)
	}
}

// S0-026, S0-048, S0-087: an agent that takes too long is told to stop, and its
// siblings are not.
func TestAnAgentThatTakesTooLongIsStopped(t *testing.T) {
	texttest.Fixed(t)
	t.Parallel()
	const most = 3 * time.Second // in which the quick one is done, also on a busy machine
	w := newWorld(t)
	slow := w.agent("slow", func(m *mission) error { <-m.ctx.Done(); return m.ctx.Err() })
	w.agent("worker", func(m *mission) error { return m.done("quick") })
	d, inv := w.dispatcher(dispatch.Options{Timeout: most})
	got := run(t, d, dispatch.Order{AgentID: "s", Name: "slow", Mission: "sleep"}, order("q"), order("after", "s"))
	if r := got["s"]; r.Status != dispatch.StatusTimeout || r.Result != "The agent took too long and was stopped." || r.DurationMS < most.Milliseconds() {
		t.Errorf("slow: %+v", r)
	}
	if got["q"].Status != dispatch.StatusCompleted || got["after"].Status != dispatch.StatusSkipped {
		t.Errorf("others: %+v", got)
	}
	if id := receive(t, slow.canceled); id != "remote" {
		t.Errorf("asked to cancel %q", id)
	}
	x := w.state(inv).Execution(got["s"].ExecutionID)
	if x.State != a2apb.TaskState_TASK_STATE_FAILED || x.Reason != mesh.ReasonTimeout {
		t.Errorf("logged %v %s", x.State, x.Reason)
	}
}

// S0-047, S0-088: an agent whose process dies fails alone.
func TestACrashFailsOneAgentAlone(t *testing.T) {
	texttest.Fixed(t)
	w := newWorld(t)
	died := make(chan struct{})
	w.agent("brittle", func(m *mission) error {
		_ = m.say("I was ")
		m.crash()
		<-m.ctx.Done()
		close(died)
		return m.ctx.Err()
	})
	w.agent("worker", func(m *mission) error { <-died; return m.done("alive") })
	d, _ := w.dispatcher(dispatch.Options{})
	got := run(t, d, dispatch.Order{AgentID: "x", Name: "brittle", Mission: "break"}, order("y"))
	if r := got["x"]; r.Status != dispatch.StatusFailed || !strings.Contains(r.Result, "The agent could not be reached.") {
		t.Errorf("crashed: %+v", r)
	}
	if r := got["y"]; r.Status != dispatch.StatusCompleted {
		t.Errorf("sibling: %+v", r)
	}
}

// S1-055: the three answers of cancelling, for agents at work and for those
// that wait their turn.
func TestCancelEndsWhatRunsAndWhatWaits(t *testing.T) {
	w := newWorld(t)
	began := make(chan struct{})
	a := w.agent("worker", func(m *mission) error {
		if idOf(m) == "quick" {
			return m.done("done")
		}
		_ = m.say("so far")
		close(began)
		<-m.ctx.Done()
		return m.ctx.Err()
	})
	d, inv := w.dispatcher(dispatch.Options{MaxConcurrent: 1})
	run(t, d, order("quick"))
	for _, err := range d.Dispatch(t.Context(), []dispatch.Order{order("long"), order("queued"), order("child", "queued"), order("after", "long")}) {
		t.Fatal(err)
	}
	<-began
	for id, want := range map[string]string{"quick": "already_completed", "ghost": "not_found", "queued": "cancelled", "long": "cancelled"} {
		if got := d.Cancel(id); got != want {
			t.Errorf("Cancel(%s) = %q, want %q", id, got, want)
		}
	}
	got := wait(t, d)
	for id, want := range map[string]string{"quick": "completed", "long": "cancelled", "queued": "cancelled", "child": "skipped", "after": "skipped"} {
		if got[id].Status != want {
			t.Errorf("%s: %+v, want %s", id, got[id], want)
		}
	}
	if d.Cancel("queued") != "already_completed" {
		t.Error("what was cancelled can be cancelled again")
	}
	receive(t, a.canceled)
	if x := w.state(inv).Execution(got["long"].ExecutionID); x.State != a2apb.TaskState_TASK_STATE_CANCELED {
		t.Errorf("logged %v", x.State)
	}
}

// S1-025: Close stops what works and what waits; nothing is left, and the log
// says that it was cancelled.
func TestCloseLeavesNothingAtWork(t *testing.T) {
	w := newWorld(t)
	began := make(chan struct{})
	left := make(chan struct{})
	w.agent("worker", func(m *mission) error {
		close(began)
		<-m.ctx.Done()
		close(left)
		return m.ctx.Err()
	})
	d, inv := w.dispatcher(dispatch.Options{MaxConcurrent: 1})
	for _, err := range d.Dispatch(t.Context(), []dispatch.Order{order("runs"), order("waits"), order("child", "runs")}) {
		t.Fatal(err)
	}
	<-began
	waiting := make(chan map[string]dispatch.Result, 1)
	go func() { waiting <- wait(t, d) }()
	d.Close()
	<-left
	for id, r := range <-waiting {
		if r.Status != dispatch.StatusCanceled {
			t.Errorf("%s: %+v", id, r)
		}
	}
	for _, x := range w.state(inv).Executions()[2:] {
		if x.State != a2apb.TaskState_TASK_STATE_CANCELED {
			t.Errorf("%s is logged as %v", x.Label, x.State)
		}
	}
	if errs := d.Dispatch(t.Context(), []dispatch.Order{order("late")}); len(errs) != 1 || !mesh.IsCode(errs[0], mesh.Canceled) {
		t.Errorf("after Close: %v", errs)
	}
}

// An agent that waits, and about which the user is not asked because the model
// answered without its result, does not wait for ever.
func TestAnAgentThatNobodyAsksAboutIsEnded(t *testing.T) {
	w := newWorld(t)
	a := w.agent("worker", asker)
	d, inv := w.dispatcher(dispatch.Options{})
	run(t, d, order("ask"))
	d.Close()
	if x := w.state(inv).Executions()[2]; x.State != a2apb.TaskState_TASK_STATE_CANCELED {
		t.Errorf("logged %v", x.State)
	}
	if id := receive(t, a.canceled); id != "remote" {
		t.Errorf("%s was to be canceled", id)
	}
}
