package admission

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"agentmesh/mesh"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/thread"
	"agentmesh/mesh/thread/cache/cachetest"
	"agentmesh/mesh/threadlog"
)

// budgeted opens an execution with the budget below the grant's.
func (l *library) budgeted(t *testing.T, parent *mesh.Grant, agent string, b mesh.Budget) (*mesh.Grant, error) {
	t.Helper()
	x := mesh.Execution{ID: mesh.NewExecutionID(l.key.ID), Parent: parent.Execution, Kind: mesh.KindAgent, Agent: agent, User: "ann", Skills: parent.Skills, Budget: b}
	res, err := l.add(t.Context(), parent, &mesh.Event{Execution: parent.Execution, Body: mesh.DispatchIssued{Child: x}})
	if err != nil {
		return nil, err
	}
	return issued(t, res, x.ID), nil
}

func (l *library) must(t *testing.T, parent *mesh.Grant, agent string, b mesh.Budget) *mesh.Grant {
	t.Helper()
	g, err := l.budgeted(t, parent, agent, b)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func replied(g *mesh.Grant, tokens int64, dollars float64) *mesh.Event {
	return &mesh.Event{Execution: g.Execution, Body: mesh.ModelReplied{Usage: mesh.Usage{Prompt: tokens, Cost: dollars}}}
}

func wantTrip(t *testing.T, err error, name string, used, most int64) {
	t.Helper()
	trip := limit.TripOf(err)
	if !mesh.IsCode(err, mesh.Exhausted) || trip == nil || trip.Limit != name || trip.Used != used || trip.Most != most {
		t.Fatalf("error is %v with %+v, want the limit %s, %d of %d", err, trip, name, used, most)
	}
}

// A child gets what it is to have and never more than is left of its parent's, in the
// grant and in the log; what it uses is used of all above it.
func TestABudgetIsAtMostWhatIsLeftOfTheParents(t *testing.T) {
	l, _ := timed(t, limit.Budgets{AgentCalls: limit.Unlimited, TurnCalls: limit.Unlimited})
	main := l.run(t, l.post(t), "main", "*")
	top := l.must(t, main, "orchestrator", mesh.Budget{Calls: 5, Tokens: 1000, Cost: 2_000_000})
	l.calls(t, top, 0, 2)
	if _, err := l.add(t.Context(), top, replied(top, 400, 0.5)); err != nil {
		t.Fatal(err)
	}
	wide := l.must(t, top, "worker", mesh.Budget{Calls: 50, Tokens: 50})
	if diff := cmp.Diff(mesh.Budget{Calls: 3, Tokens: 50, Cost: 1_500_000}, wide.Budget); diff != "" {
		t.Errorf("the child's budget (-want +got):\n%s", diff)
	}
	if err := l.states.With(t.Context(), l.key, func(s *thread.State) error {
		if got := s.Execution(wide.Execution).Budget; got != wide.Budget {
			t.Errorf("the log says %+v, and the grant %+v", got, wide.Budget)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	l.calls(t, wide, 10, 3)
	_, err := l.add(t.Context(), wide, calling(wide, "more"))
	wantTrip(t, err, limit.BudgetCalls, 3, 3)
	_, err = l.add(t.Context(), top, calling(top, "more"))
	wantTrip(t, err, limit.BudgetCalls, 5, 5)
	_, err = l.budgeted(t, top, "mailer", mesh.Budget{})
	wantTrip(t, err, limit.BudgetCalls, 5, 5)
	if _, err := l.add(t.Context(), main, calling(main, "free")); err != nil {
		t.Errorf("who has no budget may go on, and got %v", err)
	}
	_, err = l.budgeted(t, main, "mailer", mesh.Budget{Calls: -1})
	wantCode(t, err, mesh.Invalid, "budget")
}

// What models use counts up the tree, is taken though it is too much, and then nothing
// more begins.
func TestABudgetOfTokensEndsWithWhatWasUsed(t *testing.T) {
	for name, b := range map[string]mesh.Budget{limit.BudgetTokens: {Tokens: 1000}, limit.BudgetCost: {Cost: 1000}} {
		l, _ := timed(t, limit.Budgets{})
		main := l.run(t, l.post(t), "main", "*")
		top := l.must(t, main, "orchestrator", b)
		below := l.must(t, top, "worker", mesh.Budget{})
		if below.Budget != b {
			t.Errorf("%s: without a budget of its own it has %+v", name, below.Budget)
		}
		if _, err := l.add(t.Context(), below, calling(below, "1"), replied(below, 1200, 0.0012)); err != nil {
			t.Fatal(err)
		}
		for _, g := range []*mesh.Grant{below, top} {
			_, err := l.add(t.Context(), g, calling(g, "more"))
			wantTrip(t, err, name, 1200, 1000)
		}
		if _, err := l.add(t.Context(), below, replied(below, 1, 0), &mesh.Event{Execution: below.Execution, Body: mesh.SkillReturned{Call: "1"}}); err != nil {
			t.Errorf("%s: what had begun is not taken: %v", name, err)
		}
		_, err := l.add(t.Context(), below, &mesh.Event{Execution: below.Execution, Body: mesh.LimitTripped{Limit: name}})
		wantCode(t, err, mesh.Denied, "counted and noted by the mesh")
	}
}

// Of many who ask at once for the last calls of one budget, no more get one than there
// are, whoever they are below it.
func TestABudgetIsSharedExactly(t *testing.T) {
	stores(t, func(t *testing.T, s threadlog.Backend) {
		l := over(&cachetest.Store{Backend: s}, WithBudgets(limit.Budgets{AgentCalls: limit.Unlimited, TurnCalls: limit.Unlimited}))
		main := l.run(t, l.post(t), "main", "*")
		top := l.must(t, main, "orchestrator", mesh.Budget{Calls: 7})
		agents := []*mesh.Grant{top, l.must(t, top, "worker", mesh.Budget{}), l.must(t, top, "mailer", mesh.Budget{Calls: 4})}
		var all sync.WaitGroup
		var made atomic.Int32
		for i := range 48 {
			g := agents[i%len(agents)]
			all.Go(func() {
				switch _, err := l.add(t.Context(), g, calling(g, fmt.Sprint("c", i))); {
				case err == nil:
					made.Add(1)
				case limit.TripOf(err) == nil || limit.TripOf(err).Limit != limit.BudgetCalls:
					t.Errorf("refused with %v", err)
				}
			})
		}
		all.Wait()
		if made.Load() != 7 {
			t.Errorf("%d calls were made of 7", made.Load())
		}
	})
}

// What models cost in a conversation counts for it in whichever turn, also what is on its way;
// when that is used up nothing begins any more, no word of the user makes room, and what was
// begun ends.
func TestAConversationHasAPrice(t *testing.T) {
	l, _ := timed(t, limit.Budgets{ThreadCost: 1000})
	first := l.run(t, l.post(t), "main", "*")
	got, err := l.add(t.Context(), first, calling(first, "1"), replied(first, 10, 0.0004))
	if err != nil || got.Left.Cost != 600 {
		t.Fatalf("left is %+v, %v", got.Left, err)
	}
	second := l.run(t, l.post(t), "main", "*")
	below := l.must(t, second, "worker", mesh.Budget{})
	if _, err := l.add(t.Context(), below, replied(below, 10, 0.0007)); err != nil {
		t.Fatal(err)
	}
	for _, g := range []*mesh.Grant{first, second, below} {
		_, err := l.add(t.Context(), g, calling(g, "more"))
		wantTrip(t, err, limit.ThreadCost, 1100, 1000)
		if limit.Renewed(limit.TripOf(err).Limit) {
			t.Error("a word of the user makes room")
		}
	}
	_, err = l.budgeted(t, second, "mailer", mesh.Budget{})
	wantTrip(t, err, limit.ThreadCost, 1100, 1000)
	if _, err := l.add(t.Context(), first, replied(first, 1, 0), &mesh.Event{Execution: first.Execution, Body: mesh.SkillReturned{Call: "1"}}); err != nil {
		t.Errorf("what had begun is not taken: %v", err)
	}
	_, err = l.add(t.Context(), below, &mesh.Event{Execution: below.Execution, Body: mesh.LimitTripped{Limit: limit.ThreadCost}})
	wantCode(t, err, mesh.Denied, "counted and noted by the mesh")
}
