package limit_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/limit"
)

// S3-040, S3-041, S0-066, S0-067, S0-068, S0-069: the defaults of the limits.
func TestTheZeroBudgetsHaveTheDefaults(t *testing.T) {
	for name, want := range map[string]int{
		limit.AgentToolCalls: 5, limit.AgentSteps: 6, limit.TurnSkillCalls: 30, limit.TurnAgents: 8,
		limit.ThreadSkillCalls: 50, limit.UserSkillCalls: 0, limit.AgentChildren: 64, "no.such": 0,
	} {
		var b limit.Budgets
		if got := b.Most(name); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
		if want == 0 {
			if trip := b.Check(name, 1_000_000); trip != nil {
				t.Errorf("%s trips: %+v", name, trip)
			}
			continue
		}
		if trip := b.Check(name, want-1); trip != nil {
			t.Errorf("%s trips after %d: %+v", name, want-1, trip)
		}
		if diff := cmp.Diff(&limit.Trip{Limit: name, Used: int64(want), Most: int64(want)}, b.Check(name, want)); diff != "" {
			t.Errorf("%s after %d (-want +got)\n%s", name, want, diff)
		}
	}
	if got := (limit.Budgets{}).Period(); got != 5*time.Minute {
		t.Errorf("the window is %v", got)
	}
}

func TestEveryLimitCanBeSetAndTurnedOff(t *testing.T) {
	set := map[string]func(*limit.Budgets, int){
		limit.AgentToolCalls:   func(b *limit.Budgets, n int) { b.AgentCalls = n },
		limit.AgentSteps:       func(b *limit.Budgets, n int) { b.AgentSteps = n },
		limit.TurnSkillCalls:   func(b *limit.Budgets, n int) { b.TurnCalls = n },
		limit.TurnAgents:       func(b *limit.Budgets, n int) { b.TurnAgents = n },
		limit.ThreadSkillCalls: func(b *limit.Budgets, n int) { b.ThreadCalls = n },
		limit.UserSkillCalls:   func(b *limit.Budgets, n int) { b.UserCalls = n },
	}
	for name, set := range set {
		for n, want := range map[int]int{1: 1, limit.SoloTurnCalls: 10, 1000: 1000, limit.Unlimited: 0} {
			var b limit.Budgets
			set(&b, n)
			if err := b.Validate(); err != nil {
				t.Errorf("%s = %d: %v", name, n, err)
			}
			if got := b.Most(name); got != want {
				t.Errorf("%s = %d allows %d", name, n, got)
			}
			if trip := b.Check(name, 1001); (trip != nil) != (want > 0) {
				t.Errorf("%s = %d after 1001: %+v", name, n, trip)
			}
		}
	}
}

func TestBudgetsThatCannotBeAreRefusedByTheirFields(t *testing.T) {
	for field, b := range map[string]limit.Budgets{
		"agent_calls": {AgentCalls: -2}, "agent_steps": {AgentSteps: -2}, "turn_calls": {TurnCalls: -9}, "turn_agents": {TurnAgents: -3},
		"thread_calls": {ThreadCalls: limit.MaxWindowCalls + 1}, "user_calls": {UserCalls: limit.MaxWindowCalls + 1},
		"window": {Window: limit.MaxWindow + 1}, "children": {Children: limit.MaxChildren + 1},
	} {
		err := b.Validate()
		if !mesh.IsCode(err, mesh.Invalid) || mesh.FieldOf(err) != field {
			t.Errorf("%s: %v", field, err)
		}
	}
	const most = 1_000_000_000
	for field, b := range map[string]limit.Budgets{
		"agent_calls": {AgentCalls: most}, "agent_steps": {AgentSteps: limit.MaxAgentSteps + 1},
		"turn_calls": {TurnCalls: limit.MaxTurnCalls + 1}, "turn_agents": {TurnAgents: most},
	} {
		err := b.Validate()
		if !mesh.IsCode(err, mesh.Invalid) || mesh.FieldOf(err) != field || !strings.Contains(err.Error(), "at most") {
			t.Errorf("%s: %v", field, err)
		}
	}
	if err := (limit.Budgets{AgentCalls: limit.MaxAgentCalls, AgentSteps: limit.MaxAgentSteps, TurnCalls: limit.MaxTurnCalls, TurnAgents: limit.MaxTurnAgents}).Validate(); err != nil {
		t.Errorf("as much as there may be: %v", err)
	}
	for _, n := range []int{limit.Unlimited, limit.MaxChildren + 1} { // there is no such thing for children
		if err := (limit.Budgets{Children: n}).Validate(); err == nil || strings.Contains(err.Error(), "no limit") {
			t.Errorf("%d children: %v", n, err)
		}
	}
	err := limit.Budgets{Window: -1, TurnCalls: -2}.Validate()
	if err == nil || !strings.Contains(err.Error(), "window") || !strings.Contains(err.Error(), "turn_calls") {
		t.Errorf("two fields: %v", err)
	}
}

// The nearest limit is named first, and each is met exactly when it is used up.
func TestACallIsStoppedByTheFirstLimitItMeets(t *testing.T) {
	b := limit.Budgets{AgentCalls: 2, TurnCalls: 4, ThreadCalls: 6, Window: time.Minute}
	for name, tt := range map[string]struct {
		calls limit.Spent
		want  string
	}{
		"nothing yet":                            {limit.Spent{Dispatched: true}, ""},
		"one short of all":                       {limit.Spent{Dispatched: true, Calls: 1, Turn: 3, Thread: 5}, ""},
		"the agent's":                            {limit.Spent{Dispatched: true, Calls: 2, Turn: 4, Thread: 6}, limit.AgentToolCalls},
		"the agent's own, of the dispatch":       {limit.Spent{Dispatched: true, MostCalls: 1, Calls: 1}, limit.AgentToolCalls},
		"more of the agent's own":                {limit.Spent{Dispatched: true, MostCalls: 3, Calls: 2}, ""},
		"an agent that nobody dispatched":        {limit.Spent{Calls: 3, Turn: 3}, ""},
		"one that nobody dispatched but limited": {limit.Spent{Calls: 3, MostCalls: 3}, limit.AgentToolCalls},
		"the turn's":                             {limit.Spent{Turn: 4, Thread: 6}, limit.TurnSkillCalls},
		"the conversation's":                     {limit.Spent{Turn: 3, Thread: 6}, limit.ThreadSkillCalls},
		"more than it allows":                    {limit.Spent{Thread: 9}, limit.ThreadSkillCalls},
	} {
		t.Run(name, func(t *testing.T) {
			tt.calls.ThreadFirst = start
			trip := b.Ledger(tt.calls).Check(limit.StopsCalls)
			if trip == nil {
				trip = &limit.Trip{}
			}
			if trip.Limit != tt.want {
				t.Fatalf("got %+v", trip)
			}
			if free := trip.Free.Equal(start.Add(time.Minute + time.Millisecond)); free != (tt.want == limit.ThreadSkillCalls) {
				t.Errorf("there is room at %v", trip.Free)
			}
		})
	}
}

// S3-042, S3-043: what is said of a turn asks whether to continue; what is said
// of a conversation is something else, and says when.
func TestATripIsAnErrorAFactAndATripAgain(t *testing.T) {
	for name, want := range map[string]string{
		limit.AgentToolCalls:   "skill calls of this agent is reached (3 of 4); answer with what there is",
		limit.AgentSteps:       "steps of this agent is reached (3 of 4)",
		limit.TurnSkillCalls:   "whether to continue",
		limit.TurnAgents:       "agents for one message of the user is reached (3 of 4)",
		limit.ThreadSkillCalls: "in this conversation is reached (3 of 4); say what is done and what is not, and that there is room for more at " + start.UTC().Format(time.DateTime) + " UTC",
		limit.UserSkillCalls:   "of this user is reached (3 of 4)",
		"later.one":            "later.one is reached (3 of 4)",
	} {
		trip := &limit.Trip{Limit: name, Used: 3, Most: 4}
		if name == limit.ThreadSkillCalls {
			trip.Free = start
		}
		err := trip.Err("test")
		if err.Code != mesh.Exhausted || err.Reason != "LIMIT:"+name || !strings.Contains(err.Detail, want) {
			t.Errorf("%s: %+v", name, err)
		}
		err.Detail = "finding C8: nobody reads this"
		if f := trip.Fact(); f.Limit != name || f.Used != 3 || f.Most != 4 || f.Detail == "" || !f.Free.Equal(trip.Free) {
			t.Errorf("%s: %+v", name, f)
		}
		if diff := cmp.Diff(trip, limit.TripOf(fmt.Errorf("called: %w", mesh.Wrap("other", err)))); diff != "" {
			t.Errorf("%s (-want +got)\n%s", name, diff)
		}
	}
	for _, err := range []error{nil, errors.New("x"), mesh.Errorf(mesh.Exhausted, "x", "The limit is reached (3 of 4)"), &mesh.Error{Reason: "TASK_NOT_FOUND"}} {
		if trip := limit.TripOf(err); trip != nil {
			t.Errorf("%v: %+v", err, trip)
		}
	}
}

func TestAUsersCallsAreCountedWithinTheWindow(t *testing.T) {
	w := limit.NewWindows(limit.Budgets{UserCalls: 3, Window: time.Minute}, 10)
	take := func(name string, after time.Duration) bool { return w.Take(name, start.Add(after)) == nil }
	for i := range 3 {
		if !take("ann", time.Duration(i)*time.Second) {
			t.Fatalf("call %d is refused", i+1)
		}
	}
	trip := w.Take("ann", start.Add(time.Minute))
	if diff := cmp.Diff(&limit.Trip{Limit: limit.UserSkillCalls, Used: 3, Most: 3, Free: start.Add(time.Minute + time.Millisecond)}, trip); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if !take("bob", time.Minute) {
		t.Error("another user is refused")
	}
	if !take("ann", time.Minute+time.Millisecond) || take("ann", time.Minute+time.Millisecond) {
		t.Error("the window does not slide")
	}
	w.Return("ann", 1)
	w.Return("nobody", 1)
	if !take("ann", time.Minute+time.Millisecond) || take("ann", time.Minute+time.Millisecond) {
		t.Error("what was given back cannot be taken again, or more than that")
	}
}

func TestWithoutALimitOfUsersNothingIsCounted(t *testing.T) {
	for _, w := range []*limit.Windows{new(limit.Windows), limit.NewWindows(limit.Budgets{}, 1), limit.NewWindows(limit.Budgets{UserCalls: limit.Unlimited}, 1)} {
		for range 2000 {
			if trip := w.Take("ann", start); trip != nil {
				t.Fatalf("%+v", trip)
			}
		}
		w.Return("ann", 1)
	}
}

func TestWhoWasQuietTheLongestIsForgotten(t *testing.T) {
	w := limit.NewWindows(limit.Budgets{UserCalls: 1}, 2)
	for _, name := range []string{"a", "b", "a", "c"} { // b was quiet the longest
		w.Take(name, start)
	}
	if w.Take("a", start) == nil || w.Take("b", start) != nil {
		t.Error("another one was forgotten")
	}
}

func TestCallersAtOnceNeverExceedTheWindow(t *testing.T) {
	w := limit.NewWindows(limit.Budgets{UserCalls: 100}, 10)
	var taken atomic.Int32
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for range 50 {
				if w.Take("ann", start) == nil {
					taken.Add(1)
				}
			}
		})
	}
	all.Wait()
	if taken.Load() != 100 {
		t.Errorf("%d calls", taken.Load())
	}
}
