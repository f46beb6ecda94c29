package admission

import (
	"bytes"
	"sync/atomic"
	"testing"
	"time"

	a2apb "github.com/a2aproject/a2a-go/v2/a2apb/v1"

	"agentmesh/mesh"
	"agentmesh/mesh/limit"
	"agentmesh/mesh/quota"
	"agentmesh/mesh/store/mem"
	"agentmesh/mesh/thread/cache"
	"agentmesh/mesh/thread/cache/cachetest"
	"agentmesh/mesh/thread/tasks"
	"agentmesh/mesh/threadlog"
)

// quotaed is a library with the quota for each user, over the store.
func quotaed(t *testing.T, store *cachetest.Store, q limit.Quota) (*library, *tasks.Index) {
	t.Helper()
	log := threadlog.New(store)
	x, err := tasks.New(log, bytes.Repeat([]byte{7}, tasks.KeySize), nil)
	if err != nil {
		t.Fatal(err)
	}
	return &library{
		Controller: New(log, cache.New(log, 0), nil, WithQuotas(quota.New(limit.Quotas{User: q}, x, nil))), store: store,
		key: mesh.ThreadKey{Tenant: "acme", ID: mesh.NewThreadID()},
	}, x
}

// finding T7: a user has so many agents at work that others dispatched, in all
// conversations together, also after a restart; room is when one is done.
func TestAUserHasSoManyAgentsAtWork(t *testing.T) {
	store := &cachetest.Store{Backend: mem.Open()}
	l, _ := quotaed(t, store, limit.Quota{Agents: 2})
	main := l.run(t, l.post(t), "main", "*")
	one := l.must(t, main, "worker", mesh.Budget{})

	key := l.key
	l.key.ID = mesh.NewThreadID()
	other := l.run(t, l.post(t), "main", "*")
	issue := &mesh.Event{Execution: other.Execution, Body: mesh.DispatchIssued{Child: mesh.Execution{
		ID: mesh.NewExecutionID(l.key.ID), Parent: other.Execution, Kind: mesh.KindAgent, Agent: "worker", User: "ann"}}}
	if _, err := l.add(t.Context(), other, issue); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, err := l.budgeted(t, other, "mailer", mesh.Budget{})
		wantTrip(t, err, "user.agents", 2, 2)
		if _, err := l.add(t.Context(), other, issue); err != nil {
			t.Errorf("a dispatch that is sent again is refused: %v", err)
		}
	}
	if got := l.tripped(t); got != "user.agents 2/2" {
		t.Errorf("logged: %s", got)
	}
	bob := *other
	bob.User = "bob"
	x := mesh.Execution{ID: mesh.NewExecutionID(l.key.ID), Parent: bob.Execution, Kind: mesh.KindAgent, Agent: "mailer", User: "bob"}
	if _, err := l.add(t.Context(), &bob, &mesh.Event{Execution: bob.Execution, Body: mesh.DispatchIssued{Child: x}}); err != nil {
		t.Errorf("another user is refused: %v", err)
	}

	again, _ := quotaed(t, store, limit.Quota{Agents: 2}) // after a restart
	again.key = l.key
	_, err := again.budgeted(t, other, "mailer", mesh.Budget{})
	wantTrip(t, err, "user.agents", 2, 2)
	again.key = key
	if _, err := again.add(t.Context(), main, &mesh.Event{Execution: main.Execution, Body: mesh.DispatchSettled{Child: one.Execution, State: a2apb.TaskState_TASK_STATE_COMPLETED}}); err != nil {
		t.Fatal(err)
	}
	again.key = l.key
	again.must(t, other, "mailer", mesh.Budget{})
}

// finding T7: an agent that ends makes room for the one that begins with the same request,
// and for no other one; what may be at work is none of what may still be dispatched.
func TestWhoEndsMakesRoomForWhoBeginsWithTheSameRequest(t *testing.T) {
	l, _ := quotaed(t, &cachetest.Store{Backend: mem.Open()}, limit.Quota{Agents: 1, Dispatches: 9})
	main := l.run(t, l.post(t), "main", "*")
	one := l.must(t, main, "worker", mesh.Budget{})
	ends := &mesh.Event{Execution: main.Execution, Body: mesh.DispatchSettled{Child: one.Execution, State: a2apb.TaskState_TASK_STATE_COMPLETED}}
	next := func() *mesh.Event {
		return &mesh.Event{Execution: main.Execution, Body: mesh.DispatchIssued{Child: mesh.Execution{
			ID: mesh.NewExecutionID(l.key.ID), Parent: main.Execution, Kind: mesh.KindAgent, Agent: "worker", User: "ann"}}}
	}
	_, err := l.add(t.Context(), main, ends, next(), next())
	wantTrip(t, err, "user.agents", 1, 1)
	got, err := l.add(t.Context(), main, ends, next())
	if err != nil || got.Left.Agents != 6 { // of the turn's eight
		t.Errorf("after one ended and one began %+v is left, %v", got.Left, err)
	}
	_, err = l.add(t.Context(), main, next())
	wantTrip(t, err, "user.agents", 1, 1)
}

// Who has used up a day's tokens calls no skill and dispatches nobody, and is told when
// there is room again; what models use is logged all the same.
func TestAUserWhoHasUsedTheDaysTokensBeginsNothing(t *testing.T) {
	l, x := quotaed(t, &cachetest.Store{Backend: mem.Open()}, limit.Quota{Tokens: 100})
	main := l.run(t, l.post(t), "main", "*")
	if _, err := l.add(t.Context(), main, calling(main, "1"), replied(main, 120, 0)); err != nil {
		t.Fatal(err)
	}
	if err := x.Catch(t.Context(), "acme"); err != nil { // as it does by itself
		t.Fatal(err)
	}
	_, err := l.add(t.Context(), main, calling(main, "2"))
	wantTrip(t, err, "user.tokens", 120, 100)
	if free := limit.TripOf(err).Free; free.Before(time.Now()) || free.After(time.Now().Add(25*time.Hour)) {
		t.Errorf("there is room again at %v", free)
	}
	_, err = l.budgeted(t, main, "worker", mesh.Budget{})
	wantTrip(t, err, "user.tokens", 120, 100)
	if _, err := l.add(t.Context(), main, replied(main, 5, 0), &mesh.Event{Execution: main.Execution, Body: mesh.SkillReturned{Call: "1"}}); err != nil {
		t.Errorf("what was begun is not taken: %v", err)
	}
}

// Where no more is kept of a tenant, an agent adds nothing but the ends of what was begun, which
// are always taken; another tenant does as before, and there is room when what is kept is less.
func TestWhatWasBegunEndsWhereNoMoreIsKept(t *testing.T) {
	var kept atomic.Int64
	log := threadlog.New(mem.Open())
	x, err := tasks.New(log, bytes.Repeat([]byte{7}, tasks.KeySize), nil)
	if err != nil {
		t.Fatal(err)
	}
	stock := func(tenant mesh.TenantID) int64 {
		if tenant != "acme" {
			return 0
		}
		return kept.Load()
	}
	keeper := quota.New(limit.Quotas{Tenant: limit.Quota{Bytes: 1000}}, x, nil, stock, func(mesh.TenantID) int64 { return 100 })
	l := &library{Controller: New(log, cache.New(log, 0), nil, WithQuotas(keeper)), store: &cachetest.Store{Backend: mem.Open()},
		key: mesh.ThreadKey{Tenant: "acme", ID: mesh.NewThreadID()}}
	main := l.run(t, l.post(t), "main", "*")
	called := &mesh.Event{Execution: main.Execution, Body: mesh.SkillCalled{Call: "c1", Skill: "tasks.search"}}
	if _, err := l.add(t.Context(), main, called); err != nil {
		t.Fatal(err)
	}
	for _, full := range []int64{699, 700, 5000} {
		kept.Store(full)
		err := keeper.Scarce("acme")
		if (err != nil) != (full >= 700) || keeper.Scarce("other") != nil {
			t.Errorf("with %d: %v", full, err)
		}
	}
	note := func() error {
		_, err := l.add(t.Context(), main, &mesh.Event{Execution: main.Execution, Body: mesh.StateNoted{Agent: "main", Data: []byte("x")}})
		return err
	}
	wantTrip(t, note(), limit.TenantBytes, 5100, 1000)
	if _, err := l.budgeted(t, main, "worker", mesh.Budget{}); !mesh.IsCode(err, mesh.Exhausted) {
		t.Errorf("a dispatch: %v", err)
	}
	if _, err := l.add(t.Context(), main, &mesh.Event{Execution: main.Execution, Body: mesh.SkillReturned{Call: "c1"}}); err != nil {
		t.Errorf("the end of what was begun: %v", err)
	}
	kept.Store(10)
	if err := note(); err != nil {
		t.Errorf("where there is room: %v", err)
	}
}
