package dispatch_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"
	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/dispatch"
	"agentmesh/mesh/text/texttest"
)

// S0-007, S0-045, S0-108: what does not depend works at the same time: each of
// the three goes on only when all have begun.
func TestIndependentAgentsWorkAtTheSameTime(t *testing.T) {
	w := newWorld(t)
	var all sync.WaitGroup
	all.Add(3)
	w.agent("worker", func(m *mission) error {
		all.Done()
		all.Wait()
		return m.done("done " + idOf(m))
	})
	d, inv := w.dispatcher(dispatch.Options{})
	got := run(t, d, order("a"), order("b"), order("c"))
	for _, id := range []string{"a", "b", "c"} {
		if r := got[id]; r.Status != dispatch.StatusCompleted || r.Result != "done "+id || r.Agent != "worker" {
			t.Errorf("%s: %+v", id, r)
		}
	}
	for _, x := range w.state(inv).Executions()[2:] {
		if x.State != a2apb.TaskState_TASK_STATE_COMPLETED || x.Parent != inv.Execution || x.RemoteTask != "remote" {
			t.Errorf("logged %+v", x)
		}
	}
}

// S0-041, S0-042, S0-049, S0-109, S0-110: every agent runs exactly once, after
// all that it depends on, and gets the results of those alone (S0-046, S0-117).
func TestEveryAgentRunsOnceAfterWhatItDependsOn(t *testing.T) {
	for name, graph := range map[string][]dispatch.Order{
		"a chain":       {order("c", "b"), order("b", "a"), order("a")},
		"a diamond":     {order("a"), order("b", "a"), order("c", "a"), order("d", "b", "c")},
		"three waves":   {order("a1"), order("a2"), order("b1", "a1"), order("b2", "a1", "a2"), order("c1", "b1"), order("c2", "b1", "b2")},
		"two and a fan": {order("search"), order("report", "search"), order("meeting", "search")},
		"said twice":    {order("a"), order("b", "a", "a")},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			var mu sync.Mutex
			var ended []string
			prompts := map[string][]string{}
			w.agent("worker", func(m *mission) error {
				id := idOf(m)
				mu.Lock()
				prompts[id] = append(prompts[id], m.text)
				for _, o := range graph {
					for _, dep := range o.DependsOn {
						if o.AgentID == id && !slices.Contains(ended, dep) {
							t.Errorf("%s began before %s ended", id, dep)
						}
					}
				}
				ended = append(ended, id)
				mu.Unlock()
				return m.done("result-of-" + id)
			})
			d, inv := w.dispatcher(dispatch.Options{})
			run(t, d, graph...)
			for _, o := range graph {
				if n := len(prompts[o.AgentID]); n != 1 {
					t.Fatalf("%s ran %d times", o.AgentID, n)
				}
				for _, other := range graph {
					has := strings.Contains(prompts[o.AgentID][0], "result-of-"+other.AgentID+"\n")
					if has != slices.Contains(o.DependsOn, other.AgentID) {
						t.Errorf("%s was told the result of %s: %v", o.AgentID, other.AgentID, has)
					}
				}
			}
			if n := len(bodies[mesh.DispatchIssued](w, inv)); n != len(graph)+1 {
				t.Errorf("%d dispatches logged", n-1)
			}
			if n := len(bodies[mesh.DispatchSettled](w, inv)); n != len(graph) {
				t.Errorf("%d ends logged", n)
			}
		})
	}
}

// S0-043, S0-044, S0-111, S0-118, S0-120: whatever is wrong with one order
// refuses the whole batch before anything begins.
func TestAWrongBatchBeginsNothing(t *testing.T) {
	ok := order("ok")
	with := func(f func(*dispatch.Order)) dispatch.Order {
		o := order("bad")
		f(&o)
		return o
	}
	for name, tt := range map[string]struct {
		batch []dispatch.Order
		field string
	}{
		"a circle of two":      {[]dispatch.Order{ok, order("a", "b"), order("b", "a")}, "depends_on"},
		"a circle of three":    {[]dispatch.Order{order("a", "c"), order("b", "a"), order("c", "b"), ok}, "depends_on"},
		"itself":               {[]dispatch.Order{ok, order("a", "a")}, "depends_on"},
		"an unknown one":       {[]dispatch.Order{ok, order("a", "ghost")}, "depends_on"},
		"an id twice":          {[]dispatch.Order{ok, order("a"), order("a")}, "agent_id"},
		"an id of before":      {[]dispatch.Order{ok, order("before")}, "agent_id"},
		"no id":                {[]dispatch.Order{ok, order("")}, "agent_id"},
		"no mission":           {[]dispatch.Order{ok, with(func(o *dispatch.Order) { o.Mission = "" })}, "mission"},
		"no skills, no name":   {[]dispatch.Order{ok, with(func(o *dispatch.Order) { o.Name = "" })}, "skills"},
		"less than no calls":   {[]dispatch.Order{ok, with(func(o *dispatch.Order) { o.MaxToolCalls = -1 })}, "max_tool_calls"},
		"dependent of a wrong": {[]dispatch.Order{ok, order("x", "a"), order("a", "ghost")}, "depends_on"},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			var calls atomic.Int32
			w.agent("worker", func(m *mission) error { calls.Add(1); return m.done("x") })
			d, _ := w.dispatcher(dispatch.Options{})
			run(t, d, order("before"))
			errs := d.Dispatch(t.Context(), tt.batch)
			if len(errs) != len(tt.batch) {
				t.Fatalf("%d errors for %d orders", len(errs), len(tt.batch))
			}
			fields := ""
			for i, err := range errs {
				var e *mesh.Error
				if !errors.As(err, &e) || e.Code != mesh.Invalid || e.Detail == "" {
					t.Fatalf("order %d: %v", i, err)
				}
				fields += " " + e.Field
			}
			if !strings.Contains(fields, tt.field) {
				t.Errorf("fields%s, want %s", fields, tt.field)
			}
			wait(t, d)
			if n := calls.Load(); n != 1 || len(d.List()) != 1 {
				t.Errorf("%d agents were asked, %d listed", n, len(d.List()))
			}
		})
	}
}

// An order may depend on one of an earlier batch, done or not.
func TestALaterBatchMayDependOnAnEarlierOne(t *testing.T) {
	texttest.Fixed(t)
	w := newWorld(t)
	w.agent("worker", func(m *mission) error {
		if idOf(m) == "broken" {
			return m.end(a2apb.TaskState_TASK_STATE_FAILED, "no luck")
		}
		return m.done("result-of-" + idOf(m))
	})
	d, _ := w.dispatcher(dispatch.Options{})
	run(t, d, order("first"), order("broken"))
	got := run(t, d, order("second", "first"), order("third", "broken"))
	if got["second"].Status != dispatch.StatusCompleted {
		t.Errorf("second: %+v", got["second"])
	}
	if r := got["third"]; r.Status != dispatch.StatusSkipped || r.Result != "Skipped because dependency 'broken' failed." {
		t.Errorf("third: %+v", r)
	}
}

// No more than MaxConcurrent work at a time; the others wait
// their turn, in the order in which they were dispatched.
func TestTheSurplusWaitsItsTurn(t *testing.T) {
	w := newWorld(t)
	var at, most atomic.Int32
	var mu sync.Mutex
	var began []string
	w.agent("worker", func(m *mission) error {
		n := at.Add(1)
		for {
			old := most.Load()
			if n <= old || most.CompareAndSwap(old, n) {
				break
			}
		}
		mu.Lock()
		began = append(began, idOf(m))
		mu.Unlock()
		defer at.Add(-1)
		return m.done("x")
	})
	d, _ := w.dispatcher(dispatch.Options{MaxConcurrent: 1})
	got := run(t, d, order("a"), order("b"), order("c"), order("d"))
	for id, r := range got {
		if r.Status != dispatch.StatusCompleted {
			t.Errorf("%s: %+v", id, r)
		}
	}
	if most.Load() != 1 || !slices.Equal(began, []string{"a", "b", "c", "d"}) {
		t.Errorf("at most %d worked at a time; begun %v", most.Load(), began)
	}
}

// S1-036, S0-091: by default five are at work at the same time, and of eight the others are
// pending until one of them ends.
func TestFiveAreAtWorkAtATime(t *testing.T) {
	w := newWorld(t)
	begun, hold := make(chan string, 8), make(chan struct{})
	w.agent("worker", func(m *mission) error {
		begun <- idOf(m)
		<-hold
		return m.done("x")
	})
	d, _ := w.dispatcher(dispatch.Options{})
	var batch []dispatch.Order
	for i := range 8 {
		batch = append(batch, order(fmt.Sprint("w", i)))
	}
	for _, err := range d.Dispatch(t.Context(), batch) {
		t.Fatal(err)
	}
	for range 5 {
		receive(t, begun)
	}
	at := map[string]int{}
	for _, r := range d.List() {
		at[r.Status]++
	}
	if at[dispatch.StatusRunning] != 5 || at[dispatch.StatusPending] != 3 || len(begun) != 0 {
		t.Errorf("they are %v, and %d more have begun", at, len(begun))
	}
	close(hold)
	for id, r := range wait(t, d) {
		if r.Status != dispatch.StatusCompleted {
			t.Errorf("%s: %+v", id, r)
		}
	}
}

// S0-027: an agent is pending, running and then completed, failed or timed out, and one that
// depends on what failed is skipped.
func TestTheStatusesOfAnAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	begun := make(chan string, 8)
	w.agent("worker", func(m *mission) error {
		begun <- idOf(m)
		switch idOf(m) {
		case "fails":
			return m.end(a2apb.TaskState_TASK_STATE_FAILED, "no")
		case "hangs":
			<-m.ctx.Done()
			return m.ctx.Err()
		}
		return m.done("x")
	})
	d, _ := w.dispatcher(dispatch.Options{Timeouts: map[string]time.Duration{"worker": time.Hour}})
	late := order("hangs")
	late.Timeout = 2 * time.Second // S0-048, S1-037: its own goes before the agent's
	for _, err := range d.Dispatch(t.Context(), []dispatch.Order{late, order("next", "hangs")}) {
		t.Fatal(err)
	}
	receive(t, begun)
	var early []string
	for _, r := range d.List() {
		early = append(early, r.Status)
	}
	if !slices.Equal(early, []string{dispatch.StatusRunning, dispatch.StatusPending}) {
		t.Errorf("at first they are %v", early)
	}
	got := run(t, d, order("works"), order("fails"), order("last", "fails"))
	for id, want := range map[string]string{"works": "completed", "fails": "failed", "last": "skipped", "hangs": "timeout", "next": "skipped"} {
		if got[id].Status != want {
			t.Errorf("%s is %q, want %s", id, got[id].Status, want)
		}
	}
}

// A batch that goes over the limit of a run is refused whole, before the node is asked,
// and the log says which limit it was.
func TestTooManyAgentsAreRefusedAndLogged(t *testing.T) {
	texttest.Fixed(t)
	w := newWorld(t)
	w.agent("worker", func(m *mission) error { return m.done("x") })
	d, inv := w.dispatcher(dispatch.Options{MaxAgents: 2})
	run(t, d, order("a"))
	errs := d.Dispatch(t.Context(), []dispatch.Order{order("b"), order("c")})
	if len(errs) != 2 || !mesh.IsCode(errs[0], mesh.Exhausted) || !strings.Contains(mesh.DetailOf(errs[1]), "at most 2 agents") {
		t.Fatalf("errors %v", errs)
	}
	limits := bodies[mesh.LimitTripped](w, inv)
	if len(limits) != 1 || limits[0].Limit != "turn.agents" || limits[0].Used != 3 || limits[0].Most != 2 {
		t.Errorf("logged %+v", limits)
	}
	if got := run(t, d, order("b")); got["b"].Status != dispatch.StatusCompleted {
		t.Errorf("what still fits: %+v", got["b"])
	}
}

// S0-023, S0-024, S0-026: Wait waits for what was named, in the order of
// dispatch, and tells what it knows when its time is over.
func TestWaitTellsResultsInTheOrderOfDispatch(t *testing.T) {
	w := newWorld(t)
	hold := make(chan struct{})
	w.agent("worker", func(m *mission) error {
		if idOf(m) == "slow" {
			<-hold
		}
		return m.done("done " + idOf(m))
	})
	d, _ := w.dispatcher(dispatch.Options{MaxConcurrent: 2})
	for _, err := range d.Dispatch(t.Context(), []dispatch.Order{order("z"), order("slow"), order("a", "z"), order("last", "slow")}) {
		t.Fatal(err)
	}
	statuses := func(rs []dispatch.Result) (out []string) {
		for _, r := range rs {
			out = append(out, r.AgentID+" "+r.Status)
		}
		return out
	}
	got, err := d.Wait(t.Context(), []string{"a", "z"})
	if diff := cmp.Diff([]string{"z completed", "a completed"}, statuses(got)); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	over, cancel := context.WithCancel(t.Context())
	cancel()
	got, err = d.Wait(over, nil)
	if diff := cmp.Diff([]string{"z completed", "slow running", "a completed", "last pending"}, statuses(got)); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if _, err := d.Wait(t.Context(), []string{"ghost"}); !mesh.IsCode(err, mesh.Invalid) {
		t.Errorf("an unknown id: %v", err)
	}
	close(hold)
	got, err = d.Wait(t.Context(), nil)
	if diff := cmp.Diff([]string{"z completed", "slow completed", "a completed", "last completed"}, statuses(got)); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}
