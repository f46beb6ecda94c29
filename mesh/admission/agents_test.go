package admission

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"agentmesh/mesh"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/thread/cache/cachetest"
	"agentmesh/mesh/threadlog"
)

// dispatches has the grant's execution dispatch an agent.
func (l *library) dispatches(t *testing.T, by *mesh.Grant, agent string) (*mesh.Grant, error) {
	t.Helper()
	return l.budgeted(t, by, agent, mesh.Budget{})
}

// finding O2: however many dispatchers work for one message of the user, and whatever
// they count themselves, the node lets eight agents be dispatched; who only consults others
// so that they dispatch is none of them. A restart forgets nothing, and the user's next
// message begins anew. S0-058, S0-067, S0-070, S0-123.
func TestATurnHasSoManyAgentsWhoeverDispatchesThem(t *testing.T) {
	budgets := limit.Budgets{AgentSteps: limit.Unlimited}
	l, c := timed(t, budgets)
	turn := l.post(t)
	main := l.run(t, turn, "main", "*")
	top := l.must(t, main, "orchestrator", mesh.Budget{}) // the sixth, until it dispatches
	ran := 0
	for i := range 5 {
		l.must(t, main, fmt.Sprint("helper", i), mesh.Budget{})
		ran++
	}
	for i := range 9 { // with the five, fourteen
		if i == 2 {
			l.restart(c, WithBudgets(budgets))
		}
		switch _, err := l.dispatches(t, top, fmt.Sprint("worker", i)); {
		case err == nil:
			ran++
		case ran < 8:
			t.Fatalf("agent %d is refused: %v", ran+1, err)
		default:
			wantTrip(t, err, limit.TurnAgents, 8, 8)
		}
	}
	_, err := l.dispatches(t, main, "another")
	wantTrip(t, err, limit.TurnAgents, 8, 8)
	if ran != 8 {
		t.Errorf("%d agents ran", ran)
	}
	if got := l.tripped(t); got != "turn.agents 8/8" {
		t.Errorf("the log says %q", got)
	}
	l.says(t, turn, "yes")
	for i := range 8 {
		if _, err := l.dispatches(t, top, fmt.Sprint("more", i)); err != nil {
			t.Fatalf("after the user's word agent %d is refused: %v", i+1, err)
		}
	}
	_, err = l.dispatches(t, top, "last")
	wantTrip(t, err, limit.TurnAgents, 8, 8)
}

// Of many who dispatch at once, one gets the last agent of the turn.
func TestDispatchersAtOnceNeverExceedTheAgentsOfATurn(t *testing.T) {
	const most = 12
	stores(t, func(t *testing.T, s threadlog.Backend) {
		l := over(&cachetest.Store{Backend: s}, WithBudgets(limit.Budgets{TurnAgents: most + 1}))
		main := l.run(t, l.post(t), "main", "*")
		var by []*mesh.Grant
		for i := range most {
			g := l.must(t, main, fmt.Sprint("planner", i), mesh.Budget{})
			l.must(t, g, "worker", mesh.Budget{}) // now it is consulted, and counted no more
			by = append(by, g)
		}
		var all sync.WaitGroup
		var ran atomic.Int32
		for i, g := range by {
			all.Go(func() {
				switch _, err := l.dispatches(t, g, fmt.Sprint("agent", i)); {
				case err == nil:
					ran.Add(1)
				case limit.TripOf(err) == nil || limit.TripOf(err).Limit != limit.TurnAgents:
					t.Errorf("refused with %v", err)
				}
			})
		}
		all.Wait()
		if ran.Load() != 1 {
			t.Errorf("%d agents ran where one more may", ran.Load())
		}
	})
}

// S0-071, S0-072, S0-073: a dispatch is stopped by the limit of agents, then by that of the
// steps, then by that of the conversation; the last step's own dispatches are made.
func TestADispatchMeetsItsLimitsInTheirOrder(t *testing.T) {
	steps := func(g *mesh.Grant) *mesh.Event {
		return &mesh.Event{Execution: g.Execution, Body: mesh.ModelReplied{Tools: []mesh.ToolUse{{ID: mesh.NewEventID(), Name: "dispatch_agent", Arguments: "{}"}}}}
	}
	b := limit.Budgets{TurnAgents: 1, AgentSteps: 2, ThreadCalls: 3, AgentCalls: limit.Unlimited}
	for _, want := range []string{limit.TurnAgents, limit.AgentSteps, limit.ThreadSkillCalls, ""} {
		l, _ := timed(t, b)
		main := l.run(t, l.post(t), "main", "*")
		for range 3 {
			if _, err := l.add(t.Context(), main, steps(main)); err != nil {
				t.Fatal(err)
			}
		}
		l.calls(t, main, 0, 3)
		if want == limit.TurnAgents {
			b.TurnAgents = limit.Unlimited
			l.restart(&clock{at: l.now()}, WithBudgets(limit.Budgets{TurnAgents: 1, AgentSteps: limit.Unlimited, ThreadCalls: limit.Unlimited}))
			l.must(t, main, "first", mesh.Budget{})
			l.restart(&clock{at: l.now()}, WithBudgets(limit.Budgets{TurnAgents: 1, AgentSteps: 2, ThreadCalls: 3}))
		}
		_, err := l.dispatches(t, main, "worker")
		switch trip := limit.TripOf(err); {
		case want == "" && err != nil:
			t.Errorf("without a limit: %v", err)
		case want != "" && (trip == nil || trip.Limit != want):
			t.Errorf("%v, want the limit %s", err, want)
		}
		switch want {
		case limit.AgentSteps:
			b.AgentSteps = 3 // the third step's own dispatch
		case limit.ThreadSkillCalls:
			b.ThreadCalls = limit.Unlimited
		}
	}
}

// An execution gets a share of agents as of all else: what it does not use stays its
// parent's, and what it uses counts for all above it.
func TestSharesOfAgentsAreUsedUpTheTree(t *testing.T) {
	l, _ := timed(t, limit.Budgets{})
	main := l.run(t, l.post(t), "main", "*")
	top := l.must(t, main, "orchestrator", mesh.Budget{Agents: 4, Tokens: 1000})
	low := l.must(t, top, "planner", mesh.Budget{Agents: 2, Tokens: 800})
	if low.Budget.Agents != 2 || low.Budget.Tokens != 800 {
		t.Errorf("the share is %+v", low.Budget)
	}
	low.Depth = 1 // as an operator may allow
	l.must(t, low, "worker", mesh.Budget{})
	l.must(t, low, "worker2", mesh.Budget{})
	_, err := l.dispatches(t, low, "worker3")
	wantTrip(t, err, limit.BudgetAgents, 2, 2)
	res, err := l.add(t.Context(), low, replied(low, 100, 0))
	if err != nil || res.Left == nil || *res.Left != (limit.Left{Calls: 5, Agents: 0, Tokens: 700, Cost: limit.Unlimited}) {
		t.Errorf("what is left of the share is %+v, %v", res.Left, err)
	}
	res, err = l.add(t.Context(), top, replied(top, 100, 0)) // 700 of the share were not used
	if err != nil || res.Left == nil || *res.Left != (limit.Left{Calls: 5, Agents: 1, Tokens: 800, Cost: limit.Unlimited}) {
		t.Errorf("what is left of the parent's is %+v, %v", res.Left, err)
	}
	l.must(t, top, "worker4", mesh.Budget{})
	_, err = l.dispatches(t, top, "worker5")
	wantTrip(t, err, limit.BudgetAgents, 4, 4)
}

// What a turn may use is fresh when the user has said something.
func TestTheUsersWordMakesBudgetsFresh(t *testing.T) {
	l, _ := timed(t, limit.Budgets{})
	turn := mesh.NewExecutionID(l.key.ID)
	if err := l.decide(t.Context(), &mesh.Event{Execution: turn, Body: mesh.TaskOpened{Execution: mesh.Execution{
		ID: turn, Kind: mesh.KindTurn, Agent: "main", User: "ann", Budget: mesh.Budget{Tokens: 100}}}}); err != nil {
		t.Fatal(err)
	}
	main := l.run(t, turn, "main", "*")
	if _, err := l.add(t.Context(), main, replied(main, 120, 0)); err != nil {
		t.Fatal(err)
	}
	_, err := l.add(t.Context(), main, calling(main, "1"))
	wantTrip(t, err, limit.BudgetTokens, 120, 100)
	l.says(t, turn, "yes")
	if _, err := l.add(t.Context(), main, calling(main, "2")); err != nil {
		t.Errorf("after the user's word: %v", err)
	}
}
